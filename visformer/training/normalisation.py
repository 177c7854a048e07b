"""How a trained tokenizer normalises text: NFKC, and a gap after each apostrophe.

Signs that people type stay as they are: … ² ³ and a few more, which NFKC would rewrite.
A no-break space stays between figures, where French groups thousands by it; before and
inside other signs it becomes a blank, which the pairs have there as often.

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
NO_BREAK = "\u00a0"
KEPT = "…²³½¼¾ªº" + NO_BREAK
NARROW_AND_WIDE = ("\u202f", NO_BREAK)
AFTER_BLANK, BEFORE_BLANK = "?!:;»%€$£¥…—–", "«—–"
GAP_CLOSED = {"' ": "'", "’  ": "’ "}  # a rule may not leave “’ ” as it is
RULES, BACK = "normalise.tsv", "denormalise.tsv"


def write_rules(folder: Path) -> tuple[Path, Path]:
    """Write the tables for encoding and for decoding into ``folder``.

    The lines are those of sentencepiece's ``--normalization_rule_tsv``: code points in
    hexadecimal, a tab, and what they become.
    """
    (folder / RULES).write_text(_lines(encoding_rules()), "ascii")
    (folder / BACK).write_text(_lines(GAP_CLOSED), "ascii")
    return folder / RULES, folder / BACK


def encoding_rules() -> dict[str, str]:
    """Return what the tokenizer rewrites before it cuts a text."""
    nfkc = {
        form: normalised for form, normalised in _nfkc().items() if form not in KEPT
    }
    return nfkc | APOSTROPHES | _no_breaks()


def _no_breaks() -> dict[str, str]:
    """Return rules that leave a no-break space between figures alone."""
    rules = {}
    for space in NARROW_AND_WIDE:
        rules[space] = NO_BREAK
        rules |= {space + sign: " " + sign for sign in AFTER_BLANK}
        rules |= {sign + space: sign + " " for sign in BEFORE_BLANK}
    del rules[NO_BREAK]  # it stays
    return rules


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
            normalised = normaliser.normalize(form)
            if normalised != form:
                rules[form] = normalised
    return rules


def _lines(rules: dict[str, str]) -> str:
    return "".join(f"{_points(a)}\t{_points(b)}\n" for a, b in sorted(rules.items()))


def _points(text: str) -> str:
    return " ".join(f"{ord(letter):X}" for letter in text)
