"""A sentence that the model can hardly read, and a run without an end, are noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.traces import fed, make_trace
from visformer.pictures.words.run_notices import end_notice, source_notice
from visformer.values.trace import Trace


def reading(text: str, *tokens: str, name: str = "toy") -> Trace:
    trace = make_trace(source=max(1, len(tokens)))
    model = replace(trace.model, name=name)
    source = tokens or trace.source
    return replace(trace, model=model, source_text=text, source=source)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "I have a cat.",
            "It is 3.5 m. long",
            "What?!",
            "A. B. C.",
            "我有一只猫。",
            "",
        ),
        *(
            "Mrs. Smith is here.",
            "Ask Prof. Miller",
            "See Fig. 3.",
            "cats, etc. and so",
        ),
        *("It is approx. 5 km.", "On Dec. 24 it snows.", "Wait... I come."),
    ],
)
def test_a_plain_sentence_is_not_noticed(text: str) -> None:
    assert source_notice(reading(text)) == ""


def test_unknown_tokens_are_counted() -> None:
    trace = reading("The an", "<unk:T>", "h", "e", "<unk: >")
    assert source_notice(trace) == (
        "2 of 4 source tokens (50.0%) are unknown to this model."
    )


@pytest.mark.parametrize(
    ("name", "text", "strange"),
    [
        ("tatoeba zh>en", "The animal", True),
        ("tatoeba zh>en", "Tom喜欢吃苹果", False),
        ("tatoeba en>fr", "我有一只猫。", True),
        ("tatoeba en>fr", "Déjà vu", False),
        ("opus-mt-ru-en", "Привет", False),
        ("opus-mt-ru-en", "Hello you", True),
        ("opus-mt-hi-en", "मेरे पास एक बिल्ली है।", False),
        ("opus-mt-hi-en", "I have a cat", True),
        ("opus-mt-th-en", "ผมมีแมวหนึ่งตัว", False),
        ("opus-mt-ka-en", "მე მყავს კატა", False),
        ("opus-mt-am-en", "ድመት አለኝ", False),
        ("opus-mt-ja-en", "ラーメンと猫がいる", False),
        ("opus-mt-en-hi", "मेरे पास एक बिल्ली है।", True),
        ("opus-mt-sr-en", "Имам мачку", False),  # it is written in two scripts
        ("opus-mt-sr-en", "Imam mačku", False),
        ("opus-mt-xx-en", "我有一只猫。", False),  # who knows what it reads
        ("my-lm", "I have a cat", False),  # “my” is Burmese where “lm” is a language
        ("toy", "我有一只猫。", False),
        ("tatoeba zh>en", "24 + 3", False),
    ],
)
def test_another_script_is_noticed(name: str, text: str, strange: bool) -> None:
    said = source_notice(reading(text, name=name))
    assert ("is in another script" in said) == strange
    assert strange or not said


def test_a_text_of_bytes_is_noticed_where_the_language_is_not_known() -> None:
    trace = reading("вё", "▁", "<0xD0>", "<0xB2>", "</s>")
    assert source_notice(trace).startswith(
        "50.0% of the source tokens are single bytes"
    )


@pytest.mark.parametrize(
    "text",
    [
        "He left. She stayed.",
        "Really?! Yes. No",
        "我有一只猫。你是学生吗？",
        "Paris. He",
    ],
)
def test_several_sentences_are_noticed(text: str) -> None:
    assert source_notice(reading(text)).startswith("The source looks like several")


def test_a_run_without_an_end_is_noticed() -> None:
    trace = make_trace(target=4)
    assert "ended at its limit of 4 tokens, without" in end_notice(trace, 4)
    assert end_notice(trace, 5) == ""
    last = replace(trace.steps[-1], id=trace.model.eos)
    assert end_notice(replace(trace, steps=(*trace.steps[:-1], last)), 4) == ""
    taught = fed(trace, dict.fromkeys(range(4), "reference"))
    assert end_notice(taught, 4) == ""
    assert end_notice(replace(trace, model=replace(trace.model, eos=-1)), 4) == ""
