"""Toy tasks with generated data: copy, reverse or sort a string of letters."""

from __future__ import annotations

import json
import random
import string
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from visformer.errors import InputError
from visformer.files import Pair
from visformer.language import N_
from visformer.tokenizers.tokenizer import Tokenizer, VocabularySide

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
