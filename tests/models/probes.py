"""Does a model carry figures and names across? A hundred sentences a language pair.

Run it on a checkpoint: ``python -m tests.models.probes CHECKPOINT en-fr``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from tests.models.probe_sentences import CHINESE, ENGLISH
from visformer.core.checkpoint import Checkpoint
from visformer.core.translation import translate
from visformer.formats.layouts.native import read_native

PROBES = {"en-fr": ENGLISH, "zh-en": CHINESE}
_SPACES = re.compile(r"\s+")
_BETWEEN = re.compile(r"[\s.()/-]")
_UNITS = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze "
    "quinze seize dix-sept dix-huit dix-neuf",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen",
)
_TENS = (
    "vingt trente quarante cinquante soixante",
    "twenty thirty forty fifty sixty seventy eighty ninety",
)


class Result(NamedTuple):
    """What became of one sentence."""

    category: str
    source: str
    translation: str
    missing: tuple[str, ...]  # what should stand in it and does not


def probe(checkpoint: Checkpoint, pair: str, *, beam: int = 4) -> list[Result]:
    """Translate every probe sentence of a language pair."""
    cases = [(c, s, w) for c, them in PROBES[pair].items() for s, *w in them]
    made = translate(checkpoint, [source for _, source, _ in cases], beam=beam)
    target = pair.split("-")[1]
    return [
        Result(category, source, text, missing(text, wanted, target))
        for (category, source, wanted), text in zip(cases, made, strict=True)
    ]


def missing(text: str, wanted: list[str], language: str) -> tuple[str, ...]:
    """Return what a translation lacks of what it should have.

    Accepted writings of one thing stand side by side with ``|`` between them; a whole
    number below 100 may be written in words, and blanks of any kind or none separate
    groups of three digits.
    """
    plain = _SPACES.sub(" ", text.replace("’", "'"))
    lacking = [w for w in wanted if not any(_has(plain, v, language) for v in forms(w))]
    if any(sign in text for sign in ("⁇", "\ufffd", "<unk")):
        lacking.append("no unknown sign")
    return tuple(lacking)


def forms(wanted: str) -> list[str]:
    """Return the accepted writings of one thing."""
    return wanted.split("|")


def _has(text: str, wanted: str, language: str) -> bool:
    wanted = _SPACES.sub(" ", wanted)
    if wanted.isdecimal() and int(wanted) < 100:
        words = rf"\b{in_words(int(wanted), language)}\b"
        if re.search(words, text, re.IGNORECASE):
            return True
    if re.fullmatch(r"[+\d\s().-]{7,}", wanted):  # a telephone number
        return _BETWEEN.sub("", wanted) in _BETWEEN.sub("", text)
    pattern = re.escape(wanted)
    if wanted[0].isdigit():
        pattern = rf"(?<!\d)(?<!\d[.,  ])(?<!-){pattern}"
    if wanted[-1].isdigit():
        pattern += r"(?!\d)(?![.,  ]\d)"
    return re.search(pattern, text) is not None


def in_words(number: int, language: str) -> str:
    """Write a whole number below 100 in French or English."""
    units, tens = (row[language == "en"].split() for row in (_UNITS, _TENS))
    if number < 20:
        return units[number]
    ten, unit = divmod(number, 10)
    if language == "en":
        return tens[ten - 2] + (f"-{units[unit]}" if unit else "")
    if ten >= 7:
        first = "quatre-vingt" if ten >= 8 else "soixante"
        rest = number - (80 if ten >= 8 else 60)
        if not rest:
            return "quatre-vingts?"
        joint = "(?:-| )et(?:-| )" if rest == 11 and ten == 7 else "-"
        return f"{first}{joint}{units[rest]}"
    joint = "(?:-| )et(?:-| )" if unit == 1 else "-"
    return tens[ten - 2] + (f"{joint}{units[unit]}" if unit else "")


def by_category(results: list[Result]) -> Mapping[str, tuple[int, int]]:
    """Return for each category how many are right, and how many there are."""
    counts: dict[str, tuple[int, int]] = {}
    for result in results:
        right, all_ = counts.get(result.category, (0, 0))
        counts[result.category] = right + (not result.missing), all_ + 1
    return counts


def main(folder: str, pair: str) -> None:
    """Print what is wrong, and the score of each category."""
    results = probe(read_native(Path(folder), torch.device("cpu")), pair)
    for result in results:
        if result.missing:
            print(f"{result.source}\n   {result.translation}\n   {result.missing}")
    counts = by_category(results)
    for category, (right, all_) in counts.items():
        print(f"{category:24} {right:3} of {all_}")
    print(f"{'together':24} {sum(r for r, _ in counts.values()):3} of {len(results)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
