"""Steps in a file: some dozen per block, their numbers apart from their texts.

A block of numbers holds the arrays of ``_COLUMNS``, one after the other and little
endian; its texts are JSON.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, get_args, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from visformer.errors import InputError
from visformer.trace_file.file_blocks import BlockFile, Payload
from visformer.trace_file.stored_facts import MOST_ID
from visformer.values.step import Candidates, Draw, Origin, Step

ORIGINS: tuple[Origin, ...] = get_args(Origin)


class _StepColumn(NamedTuple):
    """One array of a block: a number for each step, or for each candidate of all."""

    name: str
    dtype: str
    least: float
    most: float
    of_candidates: bool = False


_COLUMNS = (
    _StepColumn("ids", "<i8", 0, MOST_ID),
    _StepColumn("probabilities", "<f8", 0, 1.001),  # as rounding leaves them
    _StepColumn("ranks", "<i8", 1, MOST_ID),
    _StepColumn("entropies", "<f8", -0.001, 64),
    _StepColumn("counts of candidates", "<i4", 0, MOST_ID),
    _StepColumn("ids of candidates", "<i4", 0, MOST_ID, of_candidates=True),
    _StepColumn("probabilities of candidates", "<f4", 0, 1.001, of_candidates=True),
    _StepColumn("origins", "<u1", 0, len(ORIGINS) - 1),
)
_COUNTS = 4  # the column of how many candidates each step has


class StepTexts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The texts of some steps, one entry each, and how they were drawn."""

    candidates: tuple[tuple[str, ...], ...]
    common: tuple[int, ...]  # characters that a text shares with the run's last text
    rest: tuple[str, ...]  # what follows them
    drawn: tuple[Draw | None, ...] = ()  # () where none was


def numbers_of(steps: Sequence[Step]) -> bytes:
    """Return the numbers of some steps as a block holds them."""
    ids, shares = zip(*(step.candidates.numbers for step in steps), strict=True)
    values: list[Any] = [
        [step.id for step in steps],
        [step.probability for step in steps],
        [step.rank for step in steps],
        [step.entropy for step in steps],
        [len(step.candidates) for step in steps],
        np.concatenate(ids),
        np.concatenate(shares),
        [ORIGINS.index(step.origin) for step in steps],
    ]
    pairs = zip(_COLUMNS, values, strict=True)
    return b"".join(np.asarray(one, column.dtype).tobytes() for column, one in pairs)


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
    words = msgspec.json.decode(texts, type=StepTexts)
    ids, shares, ranks, entropies, counts, best, best_shares, origins = _columns(
        numbers, len(chosen)
    )
    if counts.tolist() != [*map(len, words.candidates)]:
        raise ValueError("candidates do not fit")
    ends = np.cumsum(counts)[:-1]
    candidates = zip(
        np.split(best, ends), words.candidates, np.split(best_shares, ends), strict=True
    )
    fields = zip(
        ids.tolist(),
        chosen,
        shares.tolist(),
        ranks.tolist(),
        (Candidates(*values) for values in candidates),
        entropies.tolist(),
        (ORIGINS[at] for at in origins.tolist()),
        _texts(words, text),
        words.drawn or (None,) * len(chosen),
        strict=True,
    )
    return [Step(*values) for values in fields]


def _columns(data: Payload, steps: int) -> list[NDArray[Any]]:
    """Return the arrays of a block; ValueError for a wrong size or number. NaN fits."""
    found: list[NDArray[Any]] = []
    start = 0
    for name, dtype, least, most, of_candidates in _COLUMNS:
        count = int(found[_COUNTS].sum(dtype=np.int64)) if of_candidates else steps
        stop = start + count * np.dtype(dtype).itemsize
        if stop > len(data):
            raise ValueError("numbers are missing")
        values = np.frombuffer(data[start:stop], dtype)
        if bool(((values < least) | (values > most)).any()):
            raise ValueError(f"{name} are out of range")
        found.append(values)
        start = stop
    if start != len(data):
        raise ValueError("there are more numbers than steps")
    return found


def _texts(words: StepTexts, text: str) -> Iterator[str]:
    for common, rest in zip(words.common, words.rest, strict=True):
        if not 0 <= common <= len(text):
            raise ValueError("texts are out of range")
        yield text[:common] + rest


class StoredSteps(Sequence[Step]):
    """The first steps of a run in a file, read block by block when asked."""

    def __init__(
        self, file: BlockFile, run: int, chosen: tuple[str, ...], height: int, text: str
    ) -> None:
        """``height``: steps per block; ``text``: of the last step."""
        self._file, self._run, self._height, self._text = file, run, height, text
        self._chosen, self._length = chosen, len(chosen)
        self._blocks: dict[int, list[Step]] = {}
        self._origins: dict[int, tuple[Origin, ...]] = {}

    def whole(self) -> int:
        """Return how many steps, from the first on, have their blocks in the file."""
        for first in range(0, self._length, self._height):
            if not self._file.places.keys() >= {*self._names(first // self._height)}:
                return first
        return self._length

    @property
    def chosen(self) -> tuple[str, ...]:
        """The token of each step; no block is read."""
        return self._chosen[: self._length]

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Who chose at each step; only the numbers of the blocks are read.

        "model" where a block is damaged: the damage is named when one of its steps is
        read.
        """
        blocks = range(-(-self._length // self._height))
        found = [origin for at in blocks for origin in self._block_origins(at)]
        return tuple(found[: self._length])

    def _block_origins(self, block: int) -> tuple[Origin, ...]:
        if block in self._blocks:
            return tuple(step.origin for step in self._blocks[block])
        if block not in self._origins:
            count = len(self._chosen_in(block))
            try:
                last = bytes(self._file.read(self._names(block)[0])[-count:])
                self._origins[block] = tuple(ORIGINS[number] for number in last)
            except (InputError, IndexError):
                self._origins[block] = (ORIGINS[0],) * count
        return self._origins[block]

    def _names(self, block: int) -> tuple[str, str]:
        return f"{self._run}/steps/{block}", f"{self._run}/texts/{block}"

    def _chosen_in(self, block: int) -> tuple[str, ...]:
        return self._chosen[block * self._height : (block + 1) * self._height]

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
                first = object.__new__(StoredSteps)  # shares what was read
                vars(first).update({**vars(self), "_length": len(places)})
                return first
            return tuple(self[place] for place in places)
        block, place = divmod(range(self._length)[at], self._height)
        if block not in self._blocks:
            self._blocks[block] = self._read(block)
        return self._blocks[block][place]

    def _read(self, block: int) -> list[Step]:
        numbers, texts = self._names(block)
        data = self._file.read(numbers), self._file.read(texts)
        try:
            return steps_from(*data, self._chosen_in(block), self._text)
        except (ValueError, RecursionError) as error:
            raise InputError(
                "{file} is damaged: the numbers in its block “{block}” do not fit "
                "together. Copy or download the file again.",
                file=self._file.file.name,
                block=numbers,
            ) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        """Pickle the steps themselves."""
        return tuple, (list(self),)
