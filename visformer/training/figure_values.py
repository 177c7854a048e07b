"""Random figures and names as written in English, French and Chinese.

Each function draws one value and writes it in every language: "7:30 p.m.", "19 h 30",
"晚上7点30分". French groups thousands by a no-break space and uses a decimal comma.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from visformer.training.figure_names import any_name, code, mail, many_words, web, words
from visformer.training.prepare import NO_BREAK


class Translations(NamedTuple):
    """One value as written in three languages."""

    en: str
    fr: str
    zh: str


SIGNS = "$€£¥"  # of currencies, the same in every language


def size(draw: Random, most_digits: int = 6) -> int:
    """Draw a whole number above 1 with at most ``most_digits`` digits."""
    digits = draw.randint(1, most_digits)
    low = max(2, 10 ** (digits - 1))
    number = draw.randint(low, 10**digits - 1)
    if digits > 2 and draw.random() < 0.4:
        rounding = 10 ** draw.randint(1, digits - 1)
        number -= number % rounding
    return number


def whole(draw: Random, number: int) -> Translations:
    """Write a whole number, with thousands grouped in English and French.

    In Chinese grouping is optional, and with four digits in every language.
    """
    bare, grouped = str(number), f"{number:,}"
    if len(bare) == 4 and draw.random() < 0.3:
        return Translations(bare, bare, bare)
    chinese = draw.choice((bare, grouped))
    return Translations(grouped, grouped.replace(",", NO_BREAK), chinese)


def decimal(draw: Random, digits: int = 2) -> Translations:
    """Draw a number with one or two decimal places."""
    places = draw.choice((1, 1, 2))
    units, rest = size(draw, digits), draw.randint(1, 10**places - 1)
    text = f"{rest:0{places}}"
    first = whole(draw, units if draw.random() < 0.9 else draw.randint(0, 1))
    return Translations(
        *(f"{first[i]}{',' if i == 1 else '.'}{text}" for i in range(3))
    )


def amount(draw: Random) -> Translations:
    """Draw a whole number or one with decimal places."""
    return decimal(draw) if draw.random() < 0.3 else whole(draw, size(draw))


def time(draw: Random) -> Translations:
    """Draw a time of day: in 24 hours, with a.m. or p.m., or on the hour."""
    hour, minute = draw.randint(0, 23), draw.choice((draw.randint(0, 59), 30, 15, 45))
    clock, half = hour % 12 or 12, "a.m." if hour < 12 else "p.m."
    french, form = f"{hour} h {minute:02}", draw.randrange(5)
    if form < 2:
        return Translations(f"{hour}:{minute:02}", french, f"{hour}:{minute:02}")
    if form == 2:
        hours = "heure" if hour < 2 else "heures"
        return Translations(
            f"{clock} {half}", f"{hour} {hours}", f"{_half_day(draw, hour)}{clock}点"
        )
    if form == 3:
        minutes = "半" if minute == 30 else f"{minute}分" if minute else ""
        return Translations(
            f"{clock}:{minute:02} {half}",
            french,
            f"{_half_day(draw, hour)}{clock}点{minutes}",
        )
    clock = draw.randint(2, 12)
    return Translations(f"{clock} o'clock", f"{clock} heures", f"{clock}点")


def _half_day(draw: Random, hour: int) -> str:
    """Return the Chinese words for a.m. or p.m."""
    if hour < 12:
        return draw.choice(("早上", "上午")) if hour > 5 else "凌晨"
    return "晚上" if hour > 18 or (hour == 18 and draw.random() < 0.5) else "下午"


def year(draw: Random) -> Translations:
    """Draw a year, mostly of the last centuries."""
    low, high = draw.choice(((1000, 1799), (1800, 1999), (1900, 2035), (1900, 2035)))
    text = str(draw.randint(low, high))
    return Translations(text, text, text + "年")


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def date(draw: Random) -> Translations:
    """Draw a date, with or without a year."""
    english, french, chinese = words(draw, "months")
    day, form = draw.randint(1, 31), draw.randrange(6)
    numbered = _ordinal(day) if form % 2 else str(day)
    first = "1er" if day == 1 else str(day)
    if form < 3:
        return Translations(
            f"{english} {numbered}", f"{first} {french}", f"{chinese}{day}日"
        )
    number = year(draw).en
    text = (f"{english} {numbered}, {number}", f"{day} {english} {number}")[form == 5]
    return Translations(
        text, f"{first} {french} {number}", f"{number}年{chinese}{day}日"
    )


def written_date(draw: Random) -> Translations:
    """Draw a numeric date, which is copied."""
    day, month, number = draw.randint(13, 31), draw.randint(1, 12), year(draw).en
    text = draw.choice(
        (f"{number}-{month:02}-{day:02}", f"{day:02}/{month:02}/{number}")
    )
    return Translations(text, text, text)


def weekday(draw: Random) -> Translations:
    """Draw a day of the week with a date: "Monday, March 3"."""
    name, month = words(draw, "weekdays"), words(draw, "months")
    day = draw.randint(2, 31)
    return Translations(
        f"{name[0]}, {month[0]} {day}",
        f"{name[1]} {day} {month[1]}",
        f"{month[2]}{day}日{name[2]}",
    )


def price(draw: Random) -> Translations:
    """Draw a sum of money, with a sign or a word."""
    if draw.random() < 0.35:
        number, unit = amount(draw), words(draw, "money")
        return Translations(
            *(f"{number[i]}{' ' if i < 2 else ''}{unit[i]}" for i in range(3))
        )
    cents = draw.random() < 0.4
    number = whole(draw, size(draw, 5))
    if cents:
        rest = f"{draw.randint(1, 99):02}"
        number = Translations(
            f"{number.en}.{rest}", f"{number.fr},{rest}", f"{number.zh}.{rest}"
        )
    sign = draw.choice(SIGNS)
    return Translations(
        f"{sign}{number.en}", f"{number.fr} {sign}", f"{sign}{number.zh}"
    )


def quantity(draw: Random) -> Translations:
    """Draw a number with a unit."""
    number, unit = amount(draw), words(draw, "units")
    if unit[0] == unit[1] and draw.random() < 0.3:  # 12km
        return Translations(
            f"{number.en}{unit[0]}", f"{number.fr} {unit[1]}", number.zh + unit[2]
        )
    return Translations(
        f"{number.en} {unit[0]}", f"{number.fr} {unit[1]}", number.zh + unit[2]
    )


def count(draw: Random) -> Translations:
    """Draw a number of things or people."""
    number, thing = whole(draw, size(draw, 5)), words(draw, "counted")
    return Translations(
        f"{number.en} {thing[0]}", f"{number.fr} {thing[1]}", number.zh + thing[2]
    )


def span(draw: Random) -> Translations:
    """Draw a duration."""
    number, unit = str(size(draw, 3)), words(draw, "stretches")
    return Translations(f"{number} {unit[0]}", f"{number} {unit[1]}", number + unit[2])


def percentage(draw: Random) -> Translations:
    """Draw a percentage."""
    number = decimal(draw) if draw.random() < 0.4 else whole(draw, draw.randint(0, 100))
    sign = "%" if draw.random() < 0.8 else " percent"
    return Translations(number.en + sign, f"{number.fr} %", f"{number.zh}%")


def degrees(draw: Random) -> Translations:
    """Draw a temperature."""
    minus = "-" if draw.random() < 0.25 else ""
    number = (
        decimal(draw, 1) if draw.random() < 0.3 else whole(draw, draw.randint(2, 45))
    )
    return Translations(
        f"{minus}{number.en}°C", f"{minus}{number.fr} °C", f"{minus}{number.zh}°C"
    )


def phone(draw: Random) -> Translations:
    """Draw a telephone number, which is copied."""
    form = draw.choice(
        (
            *("###-####", "(###) ###-####", "###-###-####", "+33 # ## ## ## ##"),
            *(
                "## ## ## ## ##",
                "+1 ### ### ####",
                "+86 ### #### ####",
                "+44 ## #### ####",
            ),
            *("##########", "####", "### ## ##", "+49 ## ########", "0# ## ## ## ##"),
        )
    )
    text = "".join(draw.choice(string.digits) if c == "#" else c for c in form)
    return Translations(text, text, text)


def total(draw: Random) -> Translations:
    """Draw a calculation: "3.5 + 2 = 5.5"."""
    a, b = size(draw, 3), size(draw, 3)
    sign = draw.choice("+-×*/÷+-")
    if sign == "-":
        a, b = a + b, b
    if sign in "/÷":
        a = a * b
    result = {"+": a + b, "-": a - b, "×": a * b, "*": a * b}.get(sign, a // b)
    if draw.random() < 0.2:  # tenths
        a, b, result = 10 * a + 5, 10 * b, 10 * (a + b) + 5
        parts = [
            f"{n // 10}.{n % 10}" if n % 10 else str(n // 10) for n in (a, b, result)
        ]
        sign = "+"
    else:
        parts = [str(n) for n in (a, b, result)]
    gap = draw.choice((" ", " ", " ", ""))
    text = f"{parts[0]}{gap}{sign}{gap}{parts[1]}"
    if draw.random() < 0.7:
        text += f"{gap}={gap}{parts[2]}"
    return Translations(text, text.replace(".", ","), text)


def plain(draw: Random) -> Translations:
    """Draw a number of a room, a page or a bus, which is copied."""
    text = str(size(draw, 4))
    return Translations(text, text, text)


def number(draw: Random) -> Translations:
    """Draw a whole number with grouped thousands, or one with decimal places."""
    if draw.random() < 0.15:
        myriads = draw.randint(2, 99)
        return whole(draw, myriads * 10_000)._replace(zh=f"{myriads}万")
    return amount(draw)


def ordinal(draw: Random) -> Translations:
    """Draw a rank, from the second."""
    rank = size(draw, 2)
    return Translations(_ordinal(rank), f"{rank}e", f"第{rank}")


def score(draw: Random) -> Translations:
    """Draw a score, which is copied: "3-1"."""
    text = f"{draw.randint(0, 9)}{draw.choice(('-', '-', ':'))}{draw.randint(0, 9)}"
    return Translations(text, text, text)


def fraction(draw: Random) -> Translations:
    """Draw a fraction, which is copied."""
    text = draw.choice(("½", "¼", "¾", "1/2", "1/3", "2/3", "3/4", "1/4", "5/8"))
    return Translations(text, text, text)


def name(draw: Random) -> Translations:
    """Draw a name, sometimes a Chinese one, written in characters only in Chinese."""
    if draw.random() > 0.15:
        return _copied(any_name)(draw)
    family = words(draw, "chinese families")
    given = many_words(draw, "chinese names", draw.choice((1, 2)))
    latin = f"{family[0]} {''.join(sound for sound, _ in given).capitalize()}"
    return Translations(latin, latin, family[1] + "".join(sign for _, sign in given))


def _copied(make: Callable[[Random], str]) -> Callable[[Random], Translations]:
    def value(draw: Random) -> Translations:
        text = make(draw)
        return Translations(text, text, text)

    return value


def emoji(draw: Random) -> str:
    """Draw one or two emoji."""
    blocks = ((0x1F600, 0x1F64F), (0x1F300, 0x1F5FF), (0x1F900, 0x1F9FF))
    low, high = draw.choice((*blocks, (0x2600, 0x26FF), (0x1F680, 0x1F6C5)))
    return "".join(chr(draw.randint(low, high)) for _ in range(draw.choice((1, 1, 2))))


def hanzi(draw: Random) -> str:
    """Draw one to three Chinese characters, for languages that copy them."""
    return "".join(chr(draw.randint(0x4E00, 0x9FA5)) for _ in range(draw.randint(1, 3)))


VALUES: Mapping[str, Callable[[Random], Translations]] = {
    "time": time,
    "year": year,
    "date": date,
    "written": written_date,
    "weekday": weekday,
    "price": price,
    "quantity": quantity,
    "count": count,
    "span": span,
    "percentage": percentage,
    "degrees": degrees,
    "phone": phone,
    "total": total,
    "plain": plain,
    "number": number,
    "ordinal": ordinal,
    "score": score,
    "fraction": fraction,
    "name": name,
    "mail": _copied(mail),
    "web": _copied(web),
    "code": _copied(code),
    "emoji": _copied(emoji),
    "hanzi": _copied(hanzi),
}
