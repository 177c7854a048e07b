"""Pairs made by rule, so that a model learns to carry figures and names across.

Of real pairs few hold a figure, or a name that is not one of a handful. The pairs made
here are sentences with drawn values, and real pairs whose names or figures are
exchanged for others on both sides. They repeat with the seed and the epoch.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random

from visformer.errors import InputError
from visformer.paths import resource
from visformer.training.data import Pair
from visformer.training.figure_names import any_name
from visformer.training.figure_values import VALUES, Translations

LANGUAGES = Translations._fields
NAMES: Mapping[str, Sequence[str]] = {  # frequent in Tatoeba; in the same order
    "en": ("Tom", "Mary", "Boston", "Alice", "Ken", "Jim", "Bob", "Bill"),
    "fr": ("Tom", "Mary", "Boston", "Alice", "Ken", "Jim", "Bob", "Bill"),
    "zh": ("汤姆", "玛丽", "波士顿", "Alice", "Ken", "Jim", "Bob", "Bill"),
}
NAMED, COUNTED = 0.3, 0.15  # shares of real pairs with other names, other figures
JOINED = 0.3  # share of the sentences with a real pair before or after them
SHORT = 60  # characters of a real pair that is joined
_PLACE = re.compile(r"\{([a-z]+)\d?\}")
_APART = r"[A-Za-z0-9.,:/'-]"  # what may not stand beside a figure that is exchanged
_FIGURE = re.compile(rf"(?<!{_APART})(?!1\b)[1-9]\d{{0,3}}(?![A-Za-z0-9:/'-]|[.,]\d)")
_ELIDED = re.compile(r"\b([Dd]|[Qq]u|[Jj]usqu)e $")


class Figures:
    """Makes pairs of one language and another, both of them among ``LANGUAGES``."""

    def __init__(
        self, source: str, target: str, pairs: Sequence[Pair], *, seed: int
    ) -> None:
        """Take the ``pairs`` trained on; InputError for other languages."""
        if not {source, target} <= set(LANGUAGES) or source == target:
            raise InputError(
                f"figures are made between two of {', '.join(LANGUAGES)}, not from "
                f"“{source}” to “{target}”: name the languages."
            )
        self._languages, self._seed = (source, target), seed
        self._names = tuple(zip(NAMES[source], NAMES[target], strict=True))
        at = [LANGUAGES.index(language) for language in self._languages]
        self._sentences = [s for s in sentences() if all(s[i] for i in at)]
        shared = [(pair, self._shared(pair)) for pair in pairs]
        self._named = [p for p, them in shared if them and not them[-1][0].isdecimal()]
        self._counted = [p for p, them in shared if them and them[-1][0].isdecimal()]
        self._short = [pair for pair in pairs if max(map(len, pair)) < SHORT]

    def pairs(self, count: int, epoch: int = 0) -> list[Pair]:
        """Return ``count`` pairs, others in another ``epoch``."""
        draw = Random(f"{self._seed} figures {epoch}")
        return [self._pair(draw) for _ in range(count)]

    def _pair(self, draw: Random) -> Pair:
        kind = draw.random()
        if self._named and kind < NAMED:
            return self._exchanged(draw, draw.choice(self._named))
        if self._counted and NAMED <= kind < NAMED + COUNTED:
            return self._exchanged(draw, draw.choice(self._counted))
        pair = self._sentence(draw)
        if self._short and draw.random() < JOINED:
            both = [pair, draw.choice(self._short)]
            draw.shuffle(both)
            return self._joined(*both)
        return pair

    def _sentence(self, draw: Random) -> Pair:
        """Draw a sentence and what stands in its places."""
        sentence = draw.choice(self._sentences)
        places = dict.fromkeys(m[0] for m in _PLACE.finditer(sentence[0]))
        values = {place: VALUES[place.strip("{}0123456789")](draw) for place in places}
        texts = []
        for language in self._languages:
            at = LANGUAGES.index(language)
            text = sentence[at]
            for place, value in values.items():
                text = _put(text, place, value[at], language)
            texts.append(text)
        return Pair(*texts)

    def _joined(self, first: Pair, second: Pair) -> Pair:
        gaps = ("" if language == "zh" else " " for language in self._languages)
        return Pair(
            *(
                gap.join(texts)
                for gap, texts in zip(
                    gaps, zip(first, second, strict=True), strict=True
                )
            )
        )

    def _exchanged(self, draw: Random, pair: Pair) -> Pair:
        """Give another name or figure to each that both sides share."""
        source, target = pair
        for ours, theirs in self._shared(pair):
            new = _digits(draw, len(ours)) if ours.isdecimal() else any_name(draw)
            source = _put(source, ours, new, self._languages[0])
            target = _put(target, theirs, new, self._languages[1])
        return Pair(source, target)

    def _shared(self, pair: Pair) -> list[tuple[str, str]]:
        """Return the names and figures that stand once in each side."""
        shared = [
            names
            for names in self._names
            if all(_stands_once(n, t) for n, t in zip(names, pair, strict=True))
        ]
        ours, theirs = map(_FIGURE.findall, pair)
        shared += [
            (figure, figure)
            for figure in ours
            if ours.count(figure) == theirs.count(figure) == 1
            and all(text.count(figure) == 1 for text in pair)
        ]
        return shared


@cache
def sentences() -> list[tuple[str, ...]]:
    """Return the sentences with places, each as all ``LANGUAGES`` have it.

    A place is a name of ``VALUES`` in braces; a digit after it makes another draw. A
    sentence that a language has no use for is empty there.
    """
    lines = resource("figures/sentences.tsv").read_text("utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines[1:]]


def _stands_once(name: str, text: str) -> bool:
    if name.isascii():
        return text.count(name) == 1 and bool(
            re.search(rf"(?<![\w'-]){name}(?![\w'-])", text)
        )
    return text.count(name) == 1


def _put(text: str, place: str, value: str, language: str) -> str:
    """Put a value into its place; French "de" loses its vowel before another."""
    parts = text.split(place)
    if language == "fr" and unicodedata.normalize("NFD", value)[0] in "AEIOUŒÆaeiouœæ":
        parts[:-1] = [_ELIDED.sub(r"\1'", part) for part in parts[:-1]]
    return value.join(parts).replace(".m..", ".m.")


def _digits(draw: Random, count: int) -> str:
    """Draw a whole number above 1 of ``count`` digits; of four, a year mostly."""
    if count == 4 and draw.random() < 0.7:
        return str(draw.randint(1000, 2099))
    return str(draw.randint(max(2, 10 ** (count - 1)), 10**count - 1))
