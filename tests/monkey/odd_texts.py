"""Texts that nobody types and somebody pastes."""

from __future__ import annotations

from random import Random

MARKUP = (
    '<b style="background:#f00">x</b>',
    "<s>",
    "</s>",
    "<pad>",
    "&amp;",
    "%1 %s {n}",
)
CONTROLS = (
    "\x00",
    "a\x00b",
    "\x1b[31mred",
    "\r\n",
    "\t\t",
    "\x7f",
    "a\u2028b",
    "\ufeffa",
)
BIDI = "\u202eabc", "\u2066a\u2069", "\u200fא", "\u061cا", "שלום", "مرحبا بالعالم"
WIDE = (
    "我有一只猫",
    "ｆｕｌｌ",
    "𝔘𝔫𝔦",
    "한국어",
    "ไทย",
    "देवनागरी",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "é" * 9,
)
MARKS = "e" + "\u0301" * 500, "Z" + "\u0336\u0353" * 200, "\u0301", "\ud800", "\udfff x"
SPACES = "", " ", "\u00a0", "\u3000 ", "  a   b  ", "\u200b", "\n", "\u00ad"
LONG = "a" * 5_000, "word " * 2_000, "?" * 900, "ab" * 40
PLAIN = (
    "abc",
    "I have a cat.",
    "The animal didn't cross.",
    "1,234.5",
    "O'Brien",
    "x" * 30,
)
NOT_CHARACTERS = "\ufffe", "\uffff", "\U0010ffff", "\ufdd0", "\ue000"
TEXTS = MARKUP + CONTROLS + BIDI + WIDE + MARKS + SPACES + LONG + PLAIN + NOT_CHARACTERS


def odd_text(chance: Random) -> str:
    """Return one of them, two of them, or characters from anywhere."""
    way = chance.random()
    if way < 0.5:
        return chance.choice(TEXTS)
    if way < 0.7:
        return chance.choice(TEXTS) + chance.choice(TEXTS)
    if way < 0.9:
        letters = "abcdefghijklmnopqrstuvwxyz"
        return "".join(chance.choices(letters, k=chance.randint(1, 20)))
    points = (chance.randrange(0x110000) for _number in range(chance.randint(1, 30)))
    return "".join(map(chr, points))
