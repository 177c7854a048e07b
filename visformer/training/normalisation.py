"""How a trained tokenizer normalises text: NFKC, and a gap after each apostrophe.

French "l'animal" is rare where "un animal" is common. With a gap after the apostrophe
both end in the same piece, so that the model knows the word in either place. Decoding
closes the gap. An apostrophe that a blank follows in the text becomes the typographic
one, or it would lose its blank.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache
from pathlib import Path

import sentencepiece

APOSTROPHES = {"'": "' ", "’": "' ", "' ": "’ ", "’ ": "’  "}
CLOSING = "’"
GAP_CLOSED = {"' ": "'"}
RULES, BACK = "normalise.tsv", "denormalise.tsv"


def write_rules(folder: Path) -> tuple[Path, Path]:
    """Write the tables for encoding and for decoding into ``folder``.

    The lines are those of sentencepiece's ``--normalization_rule_tsv``: code points in
    hexadecimal, a tab, and what they become.
    """
    (folder / RULES).write_text(_lines(_nfkc() | APOSTROPHES), "ascii")
    (folder / BACK).write_text(_lines(GAP_CLOSED), "ascii")
    return folder / RULES, folder / BACK


@cache
def _nfkc() -> dict[str, str]:
    """Return sentencepiece's own default, nmt_nfkc, as rules.

    Custom rules stand instead of the default ones, whose source the package lacks.
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
            continue  # halves of surrogate pairs are no characters
        letter = chr(point)
        forms = {letter, *(unicodedata.normalize(n, letter) for n in ("NFD", "NFKD"))}
        for form in forms:
            made = normaliser.normalize(form)
            if made != form:
                rules[form] = made
    return rules


def _lines(rules: dict[str, str]) -> str:
    return "".join(f"{_points(a)}\t{_points(b)}\n" for a, b in sorted(rules.items()))


def _points(text: str) -> str:
    return " ".join(f"{ord(letter):X}" for letter in text)
