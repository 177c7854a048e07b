"""Steps in a file: some dozen per block, their numbers apart from their texts.

A block of numbers holds, one array after the other and little endian: ids (int64),
probabilities (float64), ranks (int64), entropies (float64), how many candidates each
step has (int32), the candidates' ids (int32) and probabilities (float32) of all steps,
and the index in ``ORIGINS`` (uint8). Its texts are JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, get_args, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from visformer.errors import InputError
from visformer.language import _
from visformer.trace_file.file_blocks import BlockFile, Payload
from visformer.values.step import Candidates, Draw, Origin, Step

ORIGINS: tuple[Origin, ...] = get_args(Origin)
MOST_ID = (1 << 31) - 1
_OF_STEPS = ("<i8", "<f8", "<i8", "<f8", "<i4")  # ids ... how many candidates
_OF_CANDIDATES = ("<i4", "<f4")


class StepTexts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The texts of some steps, one entry each, and how they were drawn."""

    candidates: tuple[tuple[str, ...], ...]
    # what a step's text begins with: so many characters of the run's last text
    common: tuple[int, ...]
    rest: tuple[str, ...]  # what follows them
    drawn: tuple[Draw | None, ...] = ()  # where any was


def numbers_of(steps: Sequence[Step]) -> bytes:
    """Return the numbers of some steps as a block holds them."""
    ids, shares = zip(*(step.candidates.numbers for step in steps), strict=True)
    arrays: list[tuple[str, Any]] = [
        ("<i8", [step.id for step in steps]),
        ("<f8", [step.probability for step in steps]),
        ("<i8", [step.rank for step in steps]),
        ("<f8", [step.entropy for step in steps]),
        ("<i4", [len(step.candidates) for step in steps]),
        ("<i4", np.concatenate(ids)),
        ("<f4", np.concatenate(shares)),
        ("<u1", [ORIGINS.index(step.origin) for step in steps]),
    ]
    return b"".join(np.asarray(values, dtype).tobytes() for dtype, values in arrays)


def texts_of(steps: Sequence[Step], text: str) -> StepTexts:
    """Return the texts of some steps; ``text`` is what they share beginnings with."""
    common = tuple(_common(step.text, text) for step in steps)
    pairs, drawn = zip(steps, common, strict=True), tuple(step.drawn for step in steps)
    return StepTexts(
        candidates=tuple(step.candidates.tokens for step in steps),
        common=common,
        rest=tuple(step.text[length:] for step, length in pairs),
        drawn=drawn if any(drawn) else (),
    )


def _common(one: str, other: str) -> int:
    """Return how many characters two texts begin with together."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(at for at in range(most) if one[at] != other[at])


def steps_from(
    numbers: Payload, texts: Payload, chosen: Sequence[str], text: str
) -> list[Step]:
    """Return the steps that chose some tokens; ValueError where the rest does not fit.

    ``text`` is what their texts share beginnings with.
    """
    count = len(chosen)
    words = msgspec.json.decode(texts, type=StepTexts)
    reader = _NumberReader(numbers)
    ids, shares, ranks, entropies, amounts = (
        reader.take(dtype, count) for dtype in _OF_STEPS
    )
    if (amounts < 0).any() or len(words.candidates) != count:
        raise ValueError("candidates")
    stops = np.cumsum(amounts, dtype=np.int64)
    total = int(stops[-1]) if count else 0
    best, best_shares = (reader.take(dtype, total) for dtype in _OF_CANDIDATES)
    origins = reader.take("<u1", count)
    reader.end()
    check_steps(ids, shares, ranks, entropies)
    _within("origins", origins, 0, len(ORIGINS) - 1)
    _check_candidates(best, best_shares)
    fields = zip(
        ids.tolist(),
        chosen,
        shares.tolist(),
        ranks.tolist(),
        _parts(best, best_shares, stops - amounts, stops, words.candidates),
        entropies.tolist(),
        (ORIGINS[at] for at in origins.tolist()),
        _texts(words, text),
        words.drawn or (None,) * count,
        strict=True,
    )
    return [Step(*values) for values in fields]


class _NumberReader:
    """Takes arrays off some bytes."""

    def __init__(self, data: Payload) -> None:
        self._data, self._at = memoryview(data), 0

    def take(self, dtype: str, count: int) -> NDArray[Any]:
        """Return the next ``count`` numbers; ValueError where there are fewer."""
        at, kind = self._at, np.dtype(dtype)
        self._at += count * kind.itemsize
        if self._at > len(self._data):
            raise ValueError("numbers are missing")
        return np.frombuffer(self._data[at : self._at], kind)

    def end(self) -> None:
        """Raise ValueError where something is left."""
        if self._at != len(self._data):
            raise ValueError("there are more numbers than steps")


def check_steps(
    ids: NDArray[Any],
    shares: NDArray[Any],
    ranks: NDArray[Any],
    entropies: NDArray[Any],
) -> None:
    """Raise ValueError where the numbers of steps are out of range; NaN may stand."""
    _within("ids", ids, 0, MOST_ID)
    _within("probabilities", shares, 0, 1.001)  # as rounding leaves them
    _within("ranks", ranks, 1, MOST_ID)
    _within("entropies", entropies, -0.001, 64)


def _check_candidates(ids: NDArray[Any], shares: NDArray[Any]) -> None:
    _within("candidates", ids, 0, MOST_ID)
    _within("candidates", shares, 0, 1.001)


def _within(what: str, values: NDArray[Any], low: float, high: float) -> None:
    """Raise ValueError unless all lie in a range; NaN does."""
    if bool(((values < low) | (values > high)).any()):
        raise ValueError(f"{what} are out of range")


def _parts(
    ids: NDArray[Any],
    shares: NDArray[Any],
    starts: NDArray[Any],
    stops: NDArray[Any],
    tokens: tuple[tuple[str, ...], ...],
) -> Iterator[Candidates]:
    for start, stop, words in zip(starts, stops, tokens, strict=True):
        yield candidates_from(ids[start:stop], words, shares[start:stop])


def candidates_from(
    ids: NDArray[Any], tokens: Sequence[str], shares: NDArray[Any]
) -> Candidates:
    """Return candidates; ValueError where there are not as many of each or no such."""
    if not len(ids) == len(tokens) == len(shares):
        raise ValueError("candidates do not fit")
    _check_candidates(ids, shares)
    return Candidates(ids, tokens, shares)


def _texts(words: StepTexts, text: str) -> Iterator[str]:
    for common, rest in zip(words.common, words.rest, strict=True):
        if not 0 <= common <= len(text):
            raise ValueError("texts are out of range")
        yield text[:common] + rest


class StoredSteps(Sequence[Step]):
    """The first steps of a run in a file, read block by block when asked."""

    def __init__(
        self,
        file: BlockFile,
        prefix: str,
        chosen: tuple[str, ...],
        height: int,
        text: str,
    ) -> None:
        """Take ``prefix`` of the blocks' names, ``height`` steps per block."""
        self._of = file, prefix, chosen, height, text
        self._blocks: dict[int, list[Step]] = {}
        self._origins: dict[int, tuple[Origin, ...]] = {}
        self._length = len(chosen)

    def whole(self) -> int:
        """Return how many steps, from the first on, have their blocks in the file."""
        file, prefix, chosen, height, _text = self._of
        for at, first in enumerate(range(0, len(chosen), height)):
            names = f"{prefix}/steps/{at}", f"{prefix}/texts/{at}"
            if not all(name in file.places for name in names):
                return first
        return len(chosen)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The token of each step, of which no block is read."""
        return self._of[2][: self._length]

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Who chose at each step; of the blocks only the numbers are read.

        Where a block is damaged it is the model: the damage is named when a step of
        the block is read.
        """
        height = self._of[3]
        blocks = range(-(-self._length // height))
        found = [origin for at in blocks for origin in self._block_origins(at)]
        return tuple(found[: self._length])

    def _block_origins(self, at: int) -> tuple[Origin, ...]:
        kept = self._blocks.get(at)
        if kept is not None:
            return tuple(step.origin for step in kept)
        if at not in self._origins:
            file, prefix, chosen, height, _text = self._of
            count = len(chosen[at * height : (at + 1) * height])
            try:
                last = bytes(memoryview(file.read(f"{prefix}/steps/{at}"))[-count:])
                self._origins[at] = tuple(ORIGINS[number] for number in last)
            except (InputError, IndexError):
                self._origins[at] = (ORIGINS[0],) * count
        return self._origins[at]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> Step: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Step]: ...
    def __getitem__(self, at: int | slice) -> Step | Sequence[Step]:
        """Return one, or some: the first ones unread."""
        if isinstance(at, slice):
            places = range(self._length)[at]
            if places == range(len(places)):
                return self._first(len(places))
            return tuple(self[place] for place in places)
        place = range(self._length)[at]
        height = self._of[3]
        return self._block(place // height)[place % height]

    def _first(self, length: int) -> StoredSteps:
        cut = StoredSteps(*self._of)
        cut._blocks, cut._origins = self._blocks, self._origins
        cut._length = length
        return cut

    def _block(self, at: int) -> list[Step]:
        kept = self._blocks.get(at)
        if kept is None:
            file, prefix, chosen, height, text = self._of
            steps, texts = f"{prefix}/steps/{at}", f"{prefix}/texts/{at}"
            here = chosen[at * height : (at + 1) * height]
            try:
                kept = steps_from(file.read(steps), file.read(texts), here, text)
            except (ValueError, RecursionError) as error:
                _refuse(file, steps, error)
            self._blocks[at] = kept
        return kept

    def __eq__(self, other: object) -> bool:
        """Tell whether the other holds the same, in the same order."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Return what equal ones have in common."""
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        """Pickle the steps themselves."""
        return tuple, (list(self),)


def _refuse(file: BlockFile, block: str, error: Exception) -> NoReturn:
    raise InputError(
        _(
            "{file} is damaged: the numbers in its block “{block}” do not fit "
            "together. Copy or download the file again.",
            file=file.file.name,
            block=block,
        )
    ) from error
