"""What is said about an open model: hand-made values, and every finding there is."""

from __future__ import annotations

from dataclasses import replace

from tests.opened import opened_model
from tests.traces import make_trace
from visformer.engine.messages import Opened
from visformer.pictures.words.about import (
    about_text,
    count_words,
    opened_words,
    readable,
    source_hint,
    watched_text,
)
from visformer.values.facts import WATCHED
from visformer.values.finding import Certificate, Finding

NAN = Finding(
    "not-finite",
    "output.weight",
    "3 of 9 numbers are NaN, which spreads to everything that reads them.",
    "Load an earlier file.",
)


def opened(*findings: Finding, numbers: int = 0) -> Opened:
    return opened_model(
        replace(make_trace().model, digest="ab", source_pad=7),
        path="/x/m.pt",
        findings=findings,
        assumed=("eos = 2 (the file does not say)",),
        numbers=numbers,
    )


def test_a_finding_is_shown_in_its_parts() -> None:
    assert str(NAN) == (
        "not-finite: output.weight: 3 of 9 numbers are NaN, which spreads to "
        "everything that reads them. Load an earlier file."
    )
    assert about_text(opened(NAN)).endswith(
        "UNUSUAL OR WRONG\n\nnot-finite  output.weight\n3 of 9 numbers are NaN, "
        "which spreads to everything that reads them.\nLoad an earlier file.\n"
    )
    assert about_text(opened()).endswith("UNUSUAL OR WRONG\n\nNothing.\n")


def test_a_note_says_that_it_is_one_and_comes_after_faults() -> None:
    note = replace(NAN, id="copied", severity="note")
    assert str(note).startswith("copied (note): output.weight: ")
    assert "\n\ncopied (note)  output.weight\n" in about_text(opened(note))
    assert opened_words(opened(note, NAN)).startswith("not-finite: ")


def test_facts_and_assumptions_are_listed() -> None:
    lines = about_text(opened(numbers=30)).splitlines()
    assert "eos = 2 (the file does not say)" in lines
    assert "SHA-256 of the weights ab" in lines
    assert any(line.startswith("pad 7 in the source and ") for line in lines)
    assert any("numbers, because no tokenizer was given" in line for line in lines)


def test_what_is_said_right_after_opening() -> None:
    assert opened_words(opened()) == ""
    assert opened_words(opened(NAN)) == str(NAN)
    assert opened_words(opened(NAN, NAN)) == f"{NAN} More under “2 findings”."
    assert opened_words(opened(numbers=1200)) == (
        "There is no tokenizer: type token ids from 0 to 1,199, separated by spaces, "
        "or choose a tokenizer in the File menu."
    )
    own = opened(numbers=1200)
    own = replace(own, model=replace(own.model, layout=WATCHED))
    assert opened_words(own).endswith("or give encode= and decode= to visformer.wrap.")
    assert opened_words(opened(), changed=True).startswith("m.pt has changed")
    names = [count_words(findings) for findings in ((), (NAN,), (NAN, NAN))]
    assert names == ["About", "1 finding", "2 findings"]


def test_only_numbers_are_read_where_tokens_are_numbers() -> None:
    numbers, text = opened(numbers=10), opened()
    assert source_hint(None) == source_hint(text) == "Type a sentence and press Enter"
    assert readable("5  17 3", numbers)
    assert readable("", numbers)
    for sentence in ("a cat", "5 x", "٣", "-1", "²"):
        assert not readable(sentence, numbers)
        assert readable(sentence, text)


def test_a_watched_model_says_what_is_its_own() -> None:
    certificate = Certificate(
        worst=1e-7,
        output_difference=0.0,
        tolerance=2e-5,
        attentions=6,
        missed=("“router”: a softmax over 3 choices: no product after it.",),
        findings=(NAN,),
        checks=("Length 12: 6 attentions, within 1.0e-07.",),
    )
    text = watched_text(replace(make_trace(), certificate=certificate))
    for part in (certificate.sentence, NAN.what, *certificate.missed, "Length 12"):
        assert part in text
    assert "within 1e−07" in certificate.sentence
    assert watched_text(make_trace()) == ""
