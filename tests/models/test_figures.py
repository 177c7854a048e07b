"""Pairs made by rule: figures and names in sentences of two languages."""

from __future__ import annotations

import re
from random import Random

import pytest

from tests.models.figures import (
    LANGUAGES,
    VALUES,
    Figures,
    Translations,
    sentences,
    whole,
)
from tests.models.probe_sentences import CHINESE, ENGLISH
from visformer.files import Pair

REAL = [
    Pair("I know Tom.", "Je connais Tom."),
    Pair("The end of Tom.", "La fin de Tom."),
    Pair("He is 42 years old.", "Il a 42 ans."),
    Pair("It begins at 2:30.", "Ça commence à 14 h 30."),
]


def places(text: str) -> list[str]:
    return sorted(set(re.findall(r"\{\w+\}", text)))


def values(kind: str, count: int = 300) -> list[Translations]:
    return [VALUES[kind](Random(i)) for i in range(count)]


def test_every_sentence_has_the_same_places_in_each_language() -> None:
    assert len(sentences()) > 150
    for sentence in sentences():
        assert len(sentence) == len(LANGUAGES)
        assert len({tuple(places(text)) for text in sentence if text}) == 1
        for place in places(sentence[0]):
            assert place.strip("{}0123456789") in VALUES


def test_pairs_repeat_with_the_seed_and_differ_between_epochs() -> None:
    made = Figures("en", "fr", REAL, seed=1).pairs(50, 3)
    assert made == Figures("en", "fr", REAL, seed=1).pairs(50, 3)
    assert made != Figures("en", "fr", REAL, seed=2).pairs(50, 3)
    assert made != Figures("en", "fr", REAL, seed=1).pairs(50, 4)
    assert not any("{" in text and "}" in text for p in made for text in p)


@pytest.mark.parametrize(
    ("source", "target"), [("en", "de"), ("", "fr"), ("en", ""), ("fr", "fr")]
)
def test_other_languages_are_refused(source: str, target: str) -> None:
    with pytest.raises(ValueError, match="en, fr, zh"):
        Figures(source, target, REAL, seed=1)


def test_names_and_figures_of_real_pairs_are_exchanged_on_both_sides() -> None:
    made = Figures("en", "fr", REAL, seed=1).pairs(400)
    known = re.compile(r"I know ([^.]+)\.")
    names = [(m[1], p.target) for p in made if (m := known.fullmatch(p.source))]
    assert len({name for name, _ in names}) > 10
    assert all(target == f"Je connais {name}." for name, target in names)
    ages = [re.findall(r"\d+", text) for p in made if "years old" in p[0] for text in p]
    assert ages
    assert not any(p.source == REAL[3].source for p in made)  # 2:30 is not 14 h 30
    of_vowel = [p for p in made if re.match(r"The end of [AEIOU]", p.source)]
    assert of_vowel
    assert all(p.target.startswith("La fin d'") for p in of_vowel)


def test_numbers_as_each_language_writes_them() -> None:
    grouped = whole(Random(0), 34_600)
    assert grouped[:2] == ("34,600", "34\u00a0600")
    for price in values("price"):
        figures = [re.sub(r"[^\d.,]", "", text).strip(".,") for text in price]
        assert figures[1].replace(",", ".") == figures[0].replace(",", "")
    assert any(v.en[0] == "$" and v.fr.endswith(" $") for v in values("price"))
    for share in values("percentage"):
        assert share.fr == share.en.replace(" percent", "%").replace(".", ",").replace(
            "%", " %"
        )


def test_afternoons_are_of_24_hours_in_french() -> None:
    for time in values("time"):
        match = re.fullmatch(r"(\d+)(?::(\d\d))? (a|p)\.m\.", time.en)
        if match:
            hour = int(match[1]) % 12 + (12 if match[3] == "p" else 0)
            assert time.fr.split()[0] == str(hour)
            assert (match[2] or "") in time.fr
            assert str(int(match[1])) + "点" in time.zh


def test_sums_are_right() -> None:
    for total in values("total"):
        match = re.fullmatch(r"(\d+) ?([+×*-]) ?(\d+) ?= ?(\d+)", total.en)
        if match:
            a, b, made = int(match[1]), int(match[3]), int(match[4])
            assert {"+": a + b, "-": a - b}.get(match[2], a * b) == made


def test_no_probe_is_a_sentence_of_the_training() -> None:
    for probes, language in ((ENGLISH, "en"), (CHINESE, "zh")):
        at = LANGUAGES.index(language)
        known = [_pattern(s[at]) for s in sentences() if len(_words(s[at])) > 3]
        cases = [case[0] for them in probes.values() for case in them]
        assert len(cases) == len(set(cases)) == 100
        assert {len(them) for them in probes.values()} == {10}
        assert not [case for case in cases if any(p.fullmatch(case) for p in known)]
    assert _pattern("It is {time} now.").fullmatch("It is 7:30 now.")


def _words(sentence: str) -> str:
    return re.sub(r"\{\w+\}|\W", "", sentence)


def _pattern(sentence: str) -> re.Pattern[str]:
    """Return what a sentence is with anything in its places."""
    return re.compile("[^ ].*".join(map(re.escape, re.split(r"\{\w+\}", sentence))))
