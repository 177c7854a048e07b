"""Questions about a checkpoint that its file leaves open, and answers: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Value = str | int | float | bool
Told = tuple[tuple[str, Value], ...]  # keywords of ``load``, and the extras below
OTHER = "other"  # the second file of a model saved in two: d2l's other half
TARGET_TOKENIZER = "target_tokenizer"  # where it is not the source's
NAMES = "names."  # before a part around a Transformer, told by the tensor's name
TARGET_PAD = "target_pad"  # where it is not the source's

Kind = Literal["integer", "number", "choice", "file"]
Asking = Literal["never", "open", "always"]  # "open": where the file leaves something


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that a file does not tell."""

    name: str  # a name of ``Told``
    label: str
    kind: Kind
    why: str  # what it is, in plain words
    default: Value | None = None  # what ``load`` takes for granted
    choices: tuple[tuple[Value, str], ...] = ()  # value and words, of a choice
    most: int = 0  # of an integer, which is not negative
    nothing: str = ""  # what no answer means, in words; "": an answer is needed
    mandatory: bool = False  # whether ``load`` takes nothing for granted


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What was recognised in a file, and what is left to ask."""

    layout: str  # in words
    sizes: str  # in words
    introduction: str  # how to answer, and whose the defaults are
    questions: tuple[Question, ...]


def merged(told: Told, more: Mapping[str, Value | None]) -> Told:
    """Return both; ``more`` wins, and None in it takes back what was told."""
    both = {**dict(told), **more}
    return tuple((name, value) for name, value in both.items() if value is not None)
