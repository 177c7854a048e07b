"""The translation as a sentence, with what differs from another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.traces import make_trace
from visformer.pictures.words.translation_text import (
    MOST_COMPARED,
    TextPart,
    differences,
    translation_text,
)
from visformer.values.trace import Trace


def saying(*texts: str) -> Trace:
    """Return a run whose steps have these texts."""
    trace = make_trace(target=len(texts))
    pairs = zip(trace.steps, texts, strict=True)
    return replace(trace, steps=tuple(replace(step, text=text) for step, text in pairs))


def marked(parts: tuple[TextPart, ...]) -> str:
    return "".join(f"[{part.text}]" if part.differs else part.text for part in parts)


@pytest.mark.parametrize(
    ("text", "other", "mine", "theirs"),
    [
        ("Elle a dit oui.", "Elle a dit oui.", "Elle a dit oui.", "Elle a dit oui."),
        ("Elle donna le livre.", "Elle a donné le livre.", "Elle[ donna] le livre.",
         "Elle[ a donné] le livre."),
        ("Il a un chat.", "Il a un chat", "Il a un chat[.]", "Il a un chat"),
        ("我有一只猫。", "我有两只猫。", "我有[一]只猫。", "我有[两]只猫。"),
        ("a b", "", "[a b]", ""),
    ],
)  # fmt: skip
def test_what_is_not_in_the_other_is_marked(
    text: str, other: str, mine: str, theirs: str
) -> None:
    parts, rest = differences(text, other)
    assert (marked(parts), marked(rest)) == (mine, theirs)
    assert "".join(part.text for part in parts) == text


def test_what_has_not_been_written_yet_does_not_differ() -> None:
    parts, rest = differences("Elle don", "Elle donna le livre", ended=False)
    assert marked(parts) == "Elle don"
    assert marked(rest) == "Elle donna le livre"
    parts, rest = differences("Elle a don", "Elle le donna hier", ended=False)
    assert marked(parts) == "Elle[ a] don"
    assert marked(rest) == "Elle[ le] donna hier"


def test_the_sentence_goes_to_the_current_step() -> None:
    trace = saying("Elle", "Elle a", "Elle a ri")
    assert translation_text(trace.until(2)).text == "Elle a"
    assert translation_text(trace.until(0)).parts == ()
    assert translation_text(None).parts == ()
    made = translation_text(trace.until(2), "Elle rit", "reference")
    assert made.against == "reference"
    assert marked(made.parts) == "Elle[ a]"
    assert (
        marked(translation_text(trace, "Elle rit", "reference").other) == "Elle[ rit]"
    )


def test_controls_are_spelt_out_and_very_long_texts_are_not_compared() -> None:
    assert translation_text(saying("a\u202eb")).text == "a[U+202E]b"
    long = "a " * MOST_COMPARED
    parts, rest = differences(long, "b")
    assert not any(part.differs for part in (*parts, *rest))
