"""Questions about a checkpoint that its file leaves open, and answers: plain values."""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Value = str | int | float | bool
Overrides = tuple[tuple[str, Value], ...]  # keywords of ``load``, and the extras below
OTHER = "other"  # the second file of a model saved in two: d2l's other half
TARGET_TOKENIZER = "target_tokenizer"  # if it differs from the source's
NAMES = "names."  # prefix of a part around a Transformer: which tensor it is
RENAME = "rename."  # prefix of a pattern of names: its replacement
PLACE = "place."  # prefix of a module of a layout: which one of the file it is
IGNORE = "ignore."  # prefix of a pattern of names to leave out: whether to
GUESSED = "guessed."  # prefix of a question whose default was accepted
PAIRS = "pairs"  # a file of reference pairs, by which heads are chosen
BY_PAIRS = 0  # heads: the number under which the references are likeliest
SOURCE_LANGUAGE, TARGET_LANGUAGE = "source_language", "target_language"  # its codes
WEIGHTS = "weights"  # one of several sets of weights in a file
TARGET_PAD = "target_pad"  # if it differs from the source's
# what commands take as options of their own; any other is --set NAME=VALUE
PLAIN = ("layout", "heads", "pad", "bos", "eos", PAIRS, WEIGHTS)
OPTIONS = "VISFORMER_OPTIONS"  # set by commands, and inherited by their engines

AnswerKind = Literal["integer", "number", "choice", "file"]
WhenToAsk = Literal[
    "never", "open", "always"
]  # "open": if the file leaves something open


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that a file does not say."""

    name: str  # a name of ``Overrides``
    label: str
    kind: AnswerKind
    why: str  # what it is, in plain words
    default: Value | None = None  # what ``load`` assumes
    choices: tuple[tuple[Value, str], ...] = ()  # value and words, of a choice
    most: int = 0  # of an integer, which is not negative
    nothing: str = ""  # what no answer means, in words; "": an answer is needed
    mandatory: bool = False  # whether ``load`` assumes nothing
    guess: bool = False  # whether the default offered is only the usual one


@dataclass(frozen=True, slots=True, kw_only=True)
class Questionnaire:
    """What was recognised in a file, and what is left to ask."""

    layout: str  # in words
    sizes: str  # in words; "" where there is nothing to say of them
    introduction: str  # how to answer, and where the defaults come from
    questions: tuple[Question, ...]


def location_and_keywords(
    path: str, overrides: Overrides
) -> tuple[str | tuple[str, str], dict[str, Any]]:
    """Return the location and the keywords of ``load`` for a path and its overrides."""
    words: dict[str, Any] = dict(overrides)
    other = words.pop(OTHER, None)
    target = words.pop(TARGET_TOKENIZER, None)
    if target is not None:
        words["tokenizer"] = (words.get("tokenizer", target), target)
    for prefix in (NAMES, RENAME, PLACE, IGNORE, GUESSED):
        found = {key: words.pop(key) for key in [*words] if key.startswith(prefix)}
        given = {key.removeprefix(prefix): value for key, value in found.items()}
        if prefix != RENAME:  # whose replacement may be nothing
            given = {key: value for key, value in given.items() if value}
        if found:
            listed = prefix in (IGNORE, GUESSED)
            words[prefix.removesuffix(".")] = [*given] if listed else given
    if TARGET_PAD in words:
        words["tgt_pad_idx"] = words.pop(TARGET_PAD)
    return (path, str(other)) if other else path, words


def options_of(path: str, overrides: Overrides) -> list[str]:
    """Return the words by which a command opens a checkpoint with its overrides."""
    known = dict(overrides)
    names = "tokenizer", TARGET_TOKENIZER
    files = [str(known.pop(name)) for name in names if name in known]
    words = ["--checkpoint", path]
    words += [str(known.pop(OTHER))] if OTHER in known else []
    words += ["--tokenizer", *files] if files else []
    for name, value in known.items():
        prefix, dot, rest = name.partition(".")
        if f"{prefix}." in (NAMES, RENAME):
            words += [f"--{prefix}", rest, str(value)]
        elif f"{prefix}." == IGNORE:
            words += [f"--{prefix}", rest] if value else []
        elif name in PLAIN:
            words += [f"--{name}", str(value)]
        elif not dot:
            text = value if isinstance(value, str) else json.dumps(value)
            words += ["--set", f"{name}={text}"]
    return words


def merged(overrides: Overrides, more: Mapping[str, Value | None]) -> Overrides:
    """Return both; ``more`` wins, and None in it removes an override."""
    both = {**dict(overrides), **more}
    return tuple((name, value) for name, value in both.items() if value is not None)


def keyword(name: str, value: Mapping[str, str] | Sequence[str] = "…") -> str:
    """Write a keyword of ``load`` as who reads the sentence gives it.

    In Python ``heads=…``, a dict or a list; to a command --heads …, once for each pair
    of a dict and each part of a list.
    """
    if OPTIONS not in os.environ:
        written = json.dumps(value, ensure_ascii=False)
        return f"{name}={written}".replace('"…"', "…")
    several = [value] if isinstance(value, str) else value
    groups = several.items() if isinstance(several, Mapping) else zip(several)
    return " ".join(
        shlex.join((f"--{name}", *words)).replace("'…'", "…") for words in groups
    )
