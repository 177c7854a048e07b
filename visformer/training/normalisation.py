"""How a trained tokenizer normalises text: NFKC, and a space after each apostrophe.

Characters that people type are kept: … ² ³ and a few more, which NFKC would rewrite. A
no-break space is kept between digits, where French groups thousands by it; before and
inside other signs it becomes a space, which is as common there in the pairs.

French "l'animal" is rare while "un animal" is common. With a space after the apostrophe
both end in the same piece, so the model knows the word in either place. Decoding
removes the space. An apostrophe that is followed by a space in the text becomes the
typographic one, or it would lose its space.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache
from pathlib import Path

import sentencepiece

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
    del rules[NO_BREAK]  # it is kept
    return rules


@cache
def _nfkc() -> dict[str, str]:
    """Return sentencepiece's default, nmt_nfkc, as rules.

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
