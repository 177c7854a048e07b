"""From a file of pairs, or a toy task, to a tokenizer and examples.

A trained tokenizer normalises text by NFKC, but keeps some characters that people type:
… ² ³ and a few more. A no-break space is kept between digits, where French groups
thousands by it; elsewhere it becomes a space, as is common in the pairs. French
"l'animal" is rare while "un animal" is common: with a space after the apostrophe both
end in the same piece, so the model knows the word in either context. Decoding removes
the space. An apostrophe followed by a space becomes the typographic one, or it would
lose its space.
"""

import io
import json
import random
import string
import sys
import tempfile
import unicodedata
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import sentencepiece

from visformer.errors import InputError
from visformer.files import Pair
from visformer.formats.layouts.native import TokenizerFiles
from visformer.language import N_
from visformer.tokenizers.tokenizer import SentencePieceSide, Tokenizer, VocabularySide
from visformer.training.loop import Data, Example, Split, split_pairs

TaskName = Literal["copy", "reverse", "sort"]
SplitName = Literal["train", "valid", "test"]
TASKS: Mapping[str, Callable[[str], str]] = {
    "copy": str,
    "reverse": lambda text: text[::-1],
    "sort": lambda text: "".join(sorted(text)),
}
SPECIAL = {"pad": 0, "unk": 1, "bos": 2, "eos": 3}
_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")  # by id
_SLOTS: dict[int, SplitName] = {
    0: "test",
    1: "valid",
}  # of 16; the rest is for training
_TRIES = 50  # draws per wanted string before giving up
_FEWEST_TRIES = 5000  # minimum: there may be only few short strings
_TOO_FEW: Mapping[SplitName, str] = {
    "train": N_(
        "There are fewer than {n:,} different strings for training. Ask for fewer, or "
        "allow longer ones or more letters."
    ),
    "valid": N_(
        "There are fewer than {n:,} different strings for validation. Ask for fewer, "
        "or allow longer ones or more letters."
    ),
    "test": N_(
        "There are fewer than {n:,} different strings for the test. Ask for fewer, or "
        "allow longer ones or more letters."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Random strings and their transformation.

    The checksum of a string determines its part of the data, so the parts are disjoint
    however many strings are drawn.
    """

    name: TaskName
    alphabet: str = string.ascii_lowercase
    shortest: int = 1
    longest: int = 12
    seed: int = 0

    def __post_init__(self) -> None:
        if self.name not in TASKS:
            raise InputError(
                "There is no task “{task}”. Choose from {choices}.",
                task=self.name,
                choices=", ".join(TASKS),
            )
        if not 1 <= self.shortest <= self.longest:
            raise InputError(
                "{shortest} to {longest} is not a valid range of lengths: the "
                "shortest must be at least 1 and at most the longest.",
                shortest=self.shortest,
                longest=self.longest,
            )
        unfit = "".join(c for c in self.alphabet if c.isspace() or c == "<")
        if unfit or len(set(self.alphabet)) < max(2, len(self.alphabet)):
            raise InputError(
                "The alphabet is “{letters}”, but must be at least two different "
                "characters, without spaces and “<”.",
                letters=self.alphabet,
            )

    def pairs(self, part: SplitName, count: int, draw: int = 0) -> list[Pair]:
        """Return ``count`` distinct pairs of a part, with every length equally often.

        Another ``draw`` gives other strings of the same part. Raises InputError if the
        alphabet and the lengths do not allow that many.
        """
        generator = random.Random(f"{self.seed} {part} {draw}")
        texts: dict[str, None] = {}
        for _try in range(max(_FEWEST_TRIES, count * _TRIES)):
            if len(texts) == count:
                break
            text = self._text(generator)
            if self.part(text) == part:
                texts[text] = None
        if len(texts) < count:
            raise InputError(_TOO_FEW[part], n=count)
        return [Pair(text, TASKS[self.name](text)) for text in texts]

    def part(self, text: str) -> SplitName:
        """Return the part that a string belongs to."""
        slot = zlib.crc32(f"{self.seed} {text}".encode()) % 16
        return _SLOTS.get(slot, "train")

    def vocabulary(self) -> dict[str, int]:
        """Return the ids of the special tokens and of the alphabet."""
        return {token: id for id, token in enumerate((*_TOKENS, *self.alphabet))}

    def vocabulary_file(self) -> bytes:
        """Return the ``vocab.json`` of the task."""
        return json.dumps(self.vocabulary(), ensure_ascii=False, indent=1).encode()

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the task's characters."""
        side = VocabularySide(self.vocabulary(), SPECIAL["unk"])
        pad, bos, eos = (SPECIAL[key] for key in ("pad", "bos", "eos"))
        return Tokenizer(side, side, pad=pad, bos=bos, eos=eos)

    def _text(self, generator: random.Random) -> str:
        length = generator.randint(self.shortest, self.longest)
        return "".join(generator.choices(self.alphabet, k=length))


SENTENCEPIECE, VOCABULARY = "tokenizer.model", "vocab.json"


class Prepared(NamedTuple):
    """Everything that training and the checkpoint need from the data."""

    tokenizer: Tokenizer
    files: TokenizerFiles
    data: Data
    trained_on: int  # number of pairs; per epoch, if they are generated
    valid: list[Pair]
    test: list[Pair]
    dropped: int = 0  # training pairs that were too long


GeneratedPairs = Callable[[int], Sequence[Pair]]  # by epoch


def no_pairs(epoch: int) -> Sequence[Pair]:
    """Generate no pairs."""
    return ()


class SubwordData:
    """Pairs split by sentencepiece, randomly in each epoch if ``alpha`` is not 0.

    ``generate`` returns additional pairs for an epoch.
    """

    def __init__(
        self,
        side: SentencePieceSide,
        split: Split,
        *,
        longest: int,
        alpha: float,
        seed: int,
        generate: GeneratedPairs = no_pairs,
        ends_source: bool = True,
    ) -> None:
        self.pad = SPECIAL["pad"]
        self._ends_source = ends_source
        self._generate = generate
        self._side, self._train, self._longest = side, split.train, longest
        self._alpha, self._seed = alpha, seed
        self.valid = self._fitting(self._encoded(split.valid))
        self._kept = self._fitting(self._encoded(split.train))
        self.dropped = len(split.train) - len(self._kept)

    def epoch(self, number: int) -> Sequence[Example]:
        """Return the training examples of this epoch, the same each time."""
        generated = self._generate(number)
        if not self._alpha:
            return [*self._kept, *self._fitting(self._encoded(generated))]
        sentencepiece.set_random_generator_seed(
            (self._seed * 1_000_003 + number + 1) % 2**32
        )
        return self._fitting(
            [self._sampled(pair) for pair in (*self._train, *generated)]
        )

    def _encoded(self, pairs: Sequence[Pair]) -> list[Example]:
        sources = self._side.ids([pair.source for pair in pairs])
        targets = self._side.ids([pair.target for pair in pairs])
        return [self._example(s, t) for s, t in zip(sources, targets, strict=True)]

    def _sampled(self, pair: Pair) -> Example:
        source, target = (self._side.sample(text, self._alpha) for text in pair)
        return self._example(source, target)

    def _example(self, source: list[int], target: list[int]) -> Example:
        return example(source, target, ends_source=self._ends_source)

    def _fitting(self, examples: list[Example]) -> list[Example]:
        return [e for e in examples if max(map(len, e)) <= self._longest]


class ToyData:
    """Strings of a task, new ones in each epoch."""

    def __init__(
        self, task: Task, *, count: int, valid: Sequence[Pair], ends_source: bool = True
    ) -> None:
        self.pad = SPECIAL["pad"]
        self._task, self._count, self._ends_source = task, count, ends_source
        self._tokenizer = task.tokenizer()
        self.valid = self._examples(valid)

    def epoch(self, number: int) -> Sequence[Example]:
        """Return the training examples of this epoch, the same each time."""
        return self._examples(self._task.pairs("train", self._count, number))

    def _examples(self, pairs: Sequence[Pair]) -> list[Example]:
        encode = self._tokenizer.encode_target  # the sides are the same
        return [
            example(encode(s), encode(t), ends_source=self._ends_source)
            for s, t in pairs
        ]


def example(source: list[int], target: list[int], *, ends_source: bool) -> Example:
    """Add the special tokens to a pair's ids."""
    bos, eos = SPECIAL["bos"], SPECIAL["eos"]
    return Example([*source, *[eos] * ends_source], [bos, *target, eos])


def split(
    pairs: Sequence[Pair], *, valid: int | None, test: int | None, seed: int
) -> Split:
    """Split the pairs; None holds out a fiftieth, at most 2,000 and 3,000 pairs."""
    share = max(1, len(pairs) // 50)
    parts = split_pairs(
        pairs,
        valid=min(2000, share) if valid is None else valid,
        test=min(3000, share) if test is None else test,
        seed=seed,
    )
    if not all(parts):
        raise InputError(
            "There are too few pairs ({n:,}) to split into training ({train:,}), "
            "validation ({valid:,}) and test ({test:,}). Use more pairs, or hold out "
            "fewer.",
            n=len(pairs),
            train=len(parts.train),
            valid=len(parts.valid),
            test=len(parts.test),
        )
    return parts


def train_sentencepiece(pairs: Sequence[Pair], size: int) -> bytes:
    """Return a joint unigram model (Kudo 2018) of at most ``size`` pieces.

    It can encode every text: digits are split one by one, the usual characters are
    pieces, and everything else is split into bytes.
    """
    writer = io.BytesIO()
    try:
        with tempfile.TemporaryDirectory() as folder:
            rules, back = write_rules(Path(folder))
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(text for pair in pairs for text in pair),
                model_writer=writer,
                vocab_size=size,
                hard_vocab_limit=False,  # short texts have fewer pieces
                model_type="unigram",
                character_coverage=0.9999,
                required_chars=required_signs(),
                split_digits=True,
                byte_fallback=True,
                num_threads=4,  # sums, and therefore pieces, depend on this number
                minloglevel=2,
                pad_id=SPECIAL["pad"],
                unk_id=SPECIAL["unk"],
                bos_id=SPECIAL["bos"],
                eos_id=SPECIAL["eos"],
                normalization_rule_tsv=str(rules),
                denormalization_rule_tsv=str(back),
            )
    except RuntimeError as error:
        raise InputError(
            "sentencepiece cannot make {size:,} pieces from {n:,} pairs. Choose "
            "another --vocabulary, or use more pairs.",
            size=size,
            n=len(pairs),
        ) from error
    return writer.getvalue()


def subword(
    model: bytes,
    parts: Split,
    *,
    longest: int,
    alpha: float,
    seed: int,
    generate: GeneratedPairs = no_pairs,
    ends_source: bool = True,
) -> Prepared:
    """Prepare pairs for a sentencepiece model; drops those over ``longest`` tokens."""
    side = SentencePieceSide(model, SENTENCEPIECE)
    data = SubwordData(
        side,
        parts,
        longest=longest,
        alpha=alpha,
        seed=seed,
        generate=generate,
        ends_source=ends_source,
    )
    pad, bos, eos = (SPECIAL[key] for key in ("pad", "bos", "eos"))
    return Prepared(
        Tokenizer(side, side, pad=pad, bos=bos, eos=eos),
        TokenizerFiles(
            "sentencepiece", SENTENCEPIECE, SENTENCEPIECE, {SENTENCEPIECE: model}
        ),
        data,
        len(parts.train) - data.dropped,
        parts.valid,
        parts.test,
        data.dropped,
    )


def toy(
    task: Task,
    *,
    count: int,
    valid: int | None,
    test: int | None,
    ends_source: bool = True,
) -> Prepared:
    """Prepare a task with ``count`` training strings per epoch."""
    held_out = task.pairs("valid", 500 if valid is None else valid)
    data = ToyData(task, count=count, valid=held_out, ends_source=ends_source)
    contents = {VOCABULARY: task.vocabulary_file()}
    return Prepared(
        task.tokenizer(),
        TokenizerFiles("vocabulary", VOCABULARY, VOCABULARY, contents),
        data,
        count,
        held_out,
        task.pairs("test", 5000 if test is None else test),
    )


def pairs_file(pairs: Sequence[Pair]) -> bytes:
    """Return pairs as tab-separated lines."""
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def parts(folder: Path, prepared: Prepared) -> dict[Path, bytes]:
    """Return the files of the held-out parts, so that the test can be repeated."""
    return {
        folder / "valid.tsv": pairs_file(prepared.valid),
        folder / "test.tsv": pairs_file(prepared.test),
    }


_ASCII = range(0x21, 0x7F)
_LATIN = range(0xA1, 0x180)  # with every letter and sign of French
APOSTROPHES = {"'": "' ", "’": "' ", "' ": "’ ", "’ ": "’  "}
CLOSING = "’"
NO_BREAK = "\u00a0"
KEPT = "…²³½¼¾ªº" + NO_BREAK
NARROW_AND_WIDE = ("\u202f", NO_BREAK)
AFTER_BLANK, BEFORE_BLANK = "?!:;»%€$£¥…—–", "«—–"
GAP_CLOSED = {"' ": "'", "’  ": "’ "}  # a rule must not map “’ ” to itself
RULES, BACK = "normalise.tsv", "denormalise.tsv"


def write_rules(folder: Path) -> tuple[Path, Path]:
    """Write the tables for encoding and for decoding into ``folder``.

    The lines are those of sentencepiece's ``--normalization_rule_tsv``: code points in
    hexadecimal, a tab, and their replacement.
    """
    (folder / RULES).write_text(_lines(encoding_rules()), "ascii")
    (folder / BACK).write_text(_lines(GAP_CLOSED), "ascii")
    return folder / RULES, folder / BACK


def encoding_rules() -> dict[str, str]:
    """Return what the tokenizer rewrites before it splits a text."""
    nfkc = {
        form: normalised for form, normalised in _nfkc().items() if form not in KEPT
    }
    return nfkc | APOSTROPHES | _no_breaks()


def _no_breaks() -> dict[str, str]:
    """Return rules that keep a no-break space only between digits."""
    rules = {}
    for space in NARROW_AND_WIDE:
        rules[space] = NO_BREAK
        rules |= {space + sign: " " + sign for sign in AFTER_BLANK}
        rules |= {sign + space: sign + " " for sign in BEFORE_BLANK}
    del rules[NO_BREAK]
    return rules


@cache
def _nfkc() -> dict[str, str]:
    """Return sentencepiece's default normalisation, nmt_nfkc, as rules.

    Custom rules replace the default ones, whose source is not in the package.
    """
    normaliser = sentencepiece.SentencePieceNormalizer(
        rule_name="nmt_nfkc",
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )
    rules = {}
    for point in range(1, sys.maxunicode + 1):
        if 0xD800 <= point < 0xE000:
            continue  # halves of surrogate pairs are not characters
        letter = chr(point)
        forms = {letter, *(unicodedata.normalize(n, letter) for n in ("NFD", "NFKD"))}
        for form in forms:
            normalised = normaliser.normalize(form)
            if normalised != form:
                rules[form] = normalised
    return rules


def _lines(rules: dict[str, str]) -> str:
    return "".join(f"{_points(a)}\t{_points(b)}\n" for a, b in sorted(rules.items()))


def _points(text: str) -> str:
    return " ".join(f"{ord(letter):X}" for letter in text)


_MORE = CLOSING + KEPT + "‘“”‚„–—−€₹×÷≤≥•→ȘșȚț"


def required_signs() -> str:
    """Return the characters that become pieces even if the pairs lack them.

    Those that the normaliser replaces are left out, as the model never sees them. Other
    rare characters are split into bytes.
    """
    rewritten = encoding_rules().keys() - set(CLOSING + "'")
    signs = dict.fromkeys([*map(chr, [*_ASCII, *_LATIN]), *_MORE])
    return "".join(sign for sign in signs if sign not in rewritten)
