"""The vocabularies of a checkpoint without a config: given, or found with the file.

A vocabulary that was found is used only if its size equals the number of rows of the
model's embedding; every one found is reported, whether used or not.
"""

import contextlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from visformer.errors import CheckpointError
from visformer.files import is_file, short
from visformer.formats.given_options import NO_TOKENIZER
from visformer.formats.inert_pickle import CodeInFileError, read_inert
from visformer.formats.tutorial_files import TutorialFiles
from visformer.formats.weight_file import check_archive
from visformer.formats.whole_model import MAGIC, plain_value, read_whole
from visformer.language import N_, _
from visformer.tokenizers.sides import NumberSide, WordSide
from visformer.tokenizers.tokenizer import MAX_TOKENIZER, TokenizerSide, read_tokenizer
from visformer.tokenizers.vocabularies import (
    TokenIds,
    fitting,
    open_side,
    side_of,
    vocabularies_in,
    vocabulary_in,
)

VOCABULARY = re.compile(
    r"vocab|tokenizer|spm|sentencepiece|word2i|w2i|stoi|itos|dict|bpe|idx",
    re.IGNORECASE,
)
_TARGET = re.compile(r"tgt|trg|target|dec|output|_out|fra|_fr|_de|_zh", re.IGNORECASE)
_SOURCE = re.compile(r"src|source|enc|input|_in|eng|_en", re.IGNORECASE)
_PICKLES = (".pkl", ".pickle", ".pt", ".pth")
_ENDINGS = (".json", ".txt", ".vocab", ".dict", ".tsv", ".model", ".spm", *_PICKLES)
_MOST_FILES = 40


class FoundSides(NamedTuple):
    """The two sides of a tokenizer, and a report of their origin."""

    source: TokenizerSide
    target: TokenizerSide
    said: tuple[str, ...]
    given: bool  # whether there is a vocabulary


class _FoundVocabulary(NamedTuple):
    name: str
    source: TokenizerSide | None  # None if its size is wrong
    target: TokenizerSide | None


def sides_of(read: TutorialFiles, rows: tuple[int, int]) -> FoundSides:
    """Return the sides of a file's tokenizer; numeric tokens without a vocabulary.

    Raises CheckpointError for a given one that cannot be used.
    """
    paths = read.options.tokenizer
    if paths is not None and paths[0] != NO_TOKENIZER:
        source = _opened(paths[0], rows[0])
        same = paths[0] == paths[1] and rows[0] == rows[1]
        target = source if same else _opened(paths[1], rows[1])
        return FoundSides(source, target, (), True)
    numbers = NumberSide(rows[0]), NumberSide(rows[1])
    if paths is not None:
        return FoundSides(*numbers, (), False)
    said: tuple[str, ...] = ()
    for find, (used, unused) in _WHERE.items():
        candidates = list(find(read, rows))
        pair = _chosen(candidates)
        taken = dict.fromkeys(short(candidate.name) for candidate in pair or ())
        said += tuple(
            _(unused, name=short(candidate.name))
            for candidate in candidates
            if short(candidate.name) not in taken
        )
        if pair is not None:
            first = _(used, names=", ".join(taken))
            sides = pair[0].source or numbers[0], pair[1].target or numbers[1]
            return FoundSides(*sides, (first, *said), True)
    unknown = _("tokenizer = numbers (the file does not say)")
    return FoundSides(*numbers, (unknown, *said), False)


def _chosen(
    candidates: Sequence[_FoundVocabulary],
) -> tuple[_FoundVocabulary, _FoundVocabulary] | None:
    """Assign vocabularies to both sides by name, else by order; None if none."""
    sources = [c for c in candidates if c.source is not None]
    targets = [c for c in candidates if c.target is not None]
    if not sources or not targets:
        return None
    source = next((c for c in sources if _side(c.name) == "source"), None)
    target = next((c for c in targets if _side(c.name) == "target"), None)
    source = source or next((c for c in sources if c is not target), sources[0])
    target = target or next((c for c in targets if c is not source), targets[0])
    return source, target


def _side(name: str) -> str:
    source, target = _SOURCE.search(name), _TARGET.search(name)
    if bool(source) == bool(target):
        return ""
    return "source" if source else "target"


def _inside(read: TutorialFiles, rows: tuple[int, int]) -> Iterator[_FoundVocabulary]:
    for part in read.weights:
        for name, ids in part.vocabularies.items():
            sides = (_fits(ids, size) for size in rows)
            yield _FoundVocabulary(name, *sides)


def _fits(ids: Mapping[str, int], rows: int) -> TokenizerSide | None:
    if max(ids.values()) + 1 != rows:
        return None
    try:
        return fitting(side_of({**ids}, rows), rows, "")
    except CheckpointError:
        return None


def _beside(read: TutorialFiles, rows: tuple[int, int]) -> Iterator[_FoundVocabulary]:
    """Open the files whose names suggest a vocabulary."""
    if read.folder is None:
        return
    try:
        names = sorted(path for path in read.folder.iterdir() if _may_hold_one(path))
    except OSError:
        return
    own = {path.name for path in read.paths}
    for path in names[:_MOST_FILES]:
        if path.name in own:
            continue
        sides: list[TokenizerSide | None] = []
        for size in rows:
            side: TokenizerSide | None = None
            with contextlib.suppress(CheckpointError):
                side = _opened(path, size)
            short_of = isinstance(side, WordSide) and side.known < size
            sides.append(None if short_of else side)
        yield _FoundVocabulary(path.name, *sides)


def _may_hold_one(path: Path) -> bool:
    known = path.suffix.lower() in _ENDINGS and VOCABULARY.search(path.stem)
    pieces = path.suffix.lower() in (".model", ".spm")
    doubled = path.suffix == ".vocab" and path.with_suffix(".model").exists()
    if "config" in path.stem or doubled or not (known or pieces):
        return False
    try:
        return is_file(path) and path.stat().st_size <= MAX_TOKENIZER
    except OSError:
        return False


def _opened(path: Path, rows: int) -> TokenizerSide:
    """Open one side from any supported file."""
    if path.suffix.lower() not in _PICKLES:
        return open_side(path, rows)
    name = short(path.name)
    ids = _pickled(path)
    if ids is None:
        raise CheckpointError(
            "{file} holds no vocabulary that is understood. Save it as JSON: "
            "json.dump(dict, file).",
            file=name,
        )
    return fitting(side_of(ids, rows), rows, name)


def _pickled(path: Path) -> TokenIds | None:
    """Read a pickled vocabulary without running its code; None if it is not one."""
    data, name = read_tokenizer(path), short(path.name)
    try:
        if data.startswith(b"PK"):
            check_archive(data, name)
            value = read_whole(data).value
        else:
            value, _storages = read_inert(io.BytesIO(data))
            # a plain pickle, or a file from torch before 1.6, which contains several
            value = read_whole(data).value if value == MAGIC else plain_value(value)
    except CodeInFileError as error:
        raise CheckpointError(
            "{file} was not opened because it would run code ({names}). Save the "
            "vocabulary as JSON.",
            file=name,
            names=short(str(error), 40),
        ) from error
    except CheckpointError:
        raise
    except Exception:  # an untrusted pickle may fail in any way
        return None
    found = vocabulary_in(value)
    if found is None and isinstance(value, Mapping):
        found = next(iter(vocabularies_in(value).values()), None)
    return found


_WHERE = {  # where vocabularies are found -> reports of used and unused ones
    _inside: (
        N_("tokenizer = {names} (found in the file)"),
        N_(
            "{name}, a vocabulary in the file, is not used: its size differs from the "
            "embedding's, or another fits better."
        ),
    ),
    _beside: (
        N_("tokenizer = {names} (found beside the file)"),
        N_(
            "{name}, beside the file, is not used: its size differs from the "
            "embedding's, or another fits better."
        ),
    ),
}
