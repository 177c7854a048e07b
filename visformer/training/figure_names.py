"""Random names, addresses and codes, which are copied letter by letter."""

from __future__ import annotations

import json
import string
import unicodedata
from functools import cache
from random import Random
from typing import Any

from visformer.paths import resource


@cache
def _lists() -> dict[str, list[Any]]:
    lists: dict[str, list[Any]] = json.loads(
        resource("figures/words.json").read_bytes()
    )
    return lists


def word(draw: Random, kind: str) -> str:
    """Draw a word from a list: "places", "vowels" and so on."""
    return str(draw.choice(_lists()[kind]))


def words(draw: Random, kind: str) -> list[str]:
    """Draw a row from a list that has one word per language or script."""
    return list(draw.choice(_lists()[kind]))


def many_words(draw: Random, kind: str, count: int) -> list[list[str]]:
    """Draw several rows from such a list, possibly with repetitions."""
    return [list(row) for row in draw.choices(_lists()[kind], k=count)]


def any_name(draw: Random) -> str:
    """Draw a name: a real one, one with rare letters, or an invented one."""
    form = draw.randrange(9)
    if form == 0:
        return word(draw, "places")
    if form == 1:
        return word(draw, "first")
    if form == 2:
        return f"{word(draw, 'first')} {word(draw, 'last')}"
    if form == 3:
        return f"{word(draw, 'first')} {invented(draw)}"
    if form == 4:
        return f"{invented(draw)} {invented(draw)}"
    if form == 5:
        return f"{invented(draw)}-{invented(draw)}"
    if form == 6:
        return letters(draw)
    if form == 7 and draw.random() < 0.5:
        return foreign(draw)
    return invented(draw)


def invented(draw: Random) -> str:
    """Draw one to four syllables, often with an accent or a rare letter."""
    rare = draw.random() < 0.6
    text = ""
    for _ in range(draw.choice((1, 2, 2, 3, 3, 4))):
        syllable = word(draw, "onsets") + word(draw, "vowels") + word(draw, "codas")
        text += syllable if rare else bare(syllable)
    return text[:1].upper() + text[1:]


def letters(draw: Random) -> str:
    """Draw a word of random letters, mostly capitalised."""
    text = "".join(draw.choices(string.ascii_lowercase, k=draw.randint(3, 9)))
    return text.upper() if draw.random() < 0.2 else text.capitalize()


def foreign(draw: Random) -> str:
    """Draw a word of letters that are split into bytes: Greek, Cyrillic and others."""
    blocks = ((0x3B1, 0x3C9), (0x430, 0x44F), (0x1EA0, 0x1EF9), (0x3042, 0x3093))
    low, high = draw.choice((*blocks, (0xAC00, 0xD7A3)))
    text = "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(2, 6)))
    return text.replace("ς", "σ").capitalize()


def bare(text: str) -> str:
    """Return ``text`` in ASCII, without the letters that have no ASCII form."""
    apart = unicodedata.normalize("NFD", text)
    return "".join(letter for letter in apart if letter.isascii())


def _login(draw: Random) -> str:
    people, form = [*_lists()["first"], *_lists()["last"]], draw.randrange(3)
    login = (draw.choice(people), invented(draw), letters(draw))[form]
    return bare(login).replace("'", "").lower() or "info"


def mail(draw: Random) -> str:
    """Draw an email address."""
    user = _login(draw)
    if draw.random() < 0.5:
        user += draw.choice("._-") + _login(draw)
    if draw.random() < 0.4:
        user += str(draw.randint(1, 2030))
    return f"{user}@{_host(draw)}"


def _host(draw: Random) -> str:
    name = word(draw, "hosts") if draw.random() < 0.5 else _login(draw)
    if draw.random() < 0.2:
        name += f"-{word(draw, 'hosts')}"
    return f"{name}.{word(draw, 'domains')}"


def web(draw: Random) -> str:
    """Draw the address of a web page."""
    front = draw.choice(("www.", "https://", "https://www.", "http://"))
    end = f"/{_login(draw)}" if draw.random() < 0.5 else ""
    if draw.random() < 0.2:
        end += draw.choice((".html", "_2", "?id=42", "#top", "/~home"))
    return front + _host(draw) + end


def code(draw: Random) -> str:
    """Draw a code of letters, digits and signs."""
    form = draw.choice(
        ("AA-###", "A##", "#A", "AAA ####", "##-AA-##", "A#A #A#", "#.#.##")
    )
    form = draw.choice(
        (form, "AA####", "a#_a##", "#aa#", "[##]", "#{##}", "A&A", "<aaa>")
    )
    kinds = {
        "A": string.ascii_uppercase,
        "a": string.ascii_lowercase,
        "#": string.digits,
    }
    return "".join(draw.choice(kinds.get(sign, sign)) for sign in form)
