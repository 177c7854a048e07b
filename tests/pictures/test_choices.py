"""A token that was forced or fed is called so wherever it is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.pictures.test_maps import looked
from tests.traces import fed, make_trace
from visformer.api import open_trace
from visformer.pictures.attention.attention import attention_map
from visformer.pictures.attention.maps import all_numbers
from visformer.pictures.candidates import candidate_table
from visformer.pictures.choices import (
    choice_sentence,
    marked_token,
    pairs_axis,
    short_choice,
)
from visformer.pictures.diagram.architecture import architecture
from visformer.pictures.logit_lens import SHOWS
from visformer.pictures.modified_run import export_words
from visformer.pictures.output import flow_words, output_picture, output_words
from visformer.pictures.picture import csv_text
from visformer.pictures.selection import Selection
from visformer.session.state import Session
from visformer.values.step import Origin, step_origins
from visformer.values.trace import Trace
from visformer.words import probability

SELECTION = Selection(kind="cross", layer=0, head=0)
OWN = ("predict", "chosen", "chose ")


def run(origin: Origin, *, wrong: bool) -> Trace:
    """Return a run of three steps whose last token is of ``origin``."""
    trace = make_trace(target=3)
    return fed(trace, {2: origin}, wrong=(2,) if wrong else ())


@pytest.mark.parametrize("origin", ["forced", "reference"])
@pytest.mark.parametrize("wrong", [False, True])
def test_nothing_claims_that_the_model_chose_what_it_was_fed(
    origin: Origin, wrong: bool
) -> None:
    trace = run(origin, wrong=wrong)
    step, best = trace.steps[2], trace.steps[2].candidates[0].token
    drawing = architecture(trace, None, SELECTION, chosen="softmax")
    assert drawing is not None
    picture = output_picture(trace)
    assert picture is not None
    prediction = drawing.box("prediction")
    assert prediction is not None
    rows = [box.title for box in drawing.boxes if box.title.startswith("row 3 “")]
    said = [
        short_choice(step),
        candidate_table(trace).summary.partition("click")[0],
        flow_words(trace).rpartition("→ ")[2],
        picture.row_names[2],
        *rows,
    ]
    assert len(rows) == 1
    assert "rank" not in flow_words(trace)  # of two tokens it would be anybody's
    for words in said:
        assert any(word in words for word in ("forced", "fed"))
        assert not any(word in words for word in OWN), words
        assert (f"“{best}”" in words) == wrong or not wrong
    assert prediction.title.startswith("forced: “" if origin == "forced" else "fed: “")
    for words in (output_words(trace, 2), drawing.sentence, prediction.words):
        assert ("forced by you" if origin == "forced" else "fed from the") in words
        assert f"predicts “{step.token}”" not in words
        assert ("predicts “▁t2”" in words) == wrong
        assert ("predicts it too" in words) != wrong
    assert marked_token(step) in (
        "▁t2 (forced)",
        "▁t2 (fed)",
        "▁w (forced)",
        "▁w (fed)",
    )


def test_the_models_own_choice_is_said_to_be_predicted() -> None:
    trace = make_trace(target=3)
    assert choice_sentence(trace.steps[2]).startswith(
        "The softmax of the row's logits predicts “▁t2” ("
    )
    assert short_choice(trace.steps[2]).startswith("“▁t2” 0.")
    assert export_words(trace) == ""
    assert not any("chosen" in title for title in SHOWS.values())


def test_a_drawn_token_is_no_prediction() -> None:
    step = replace(make_trace().steps[0], id=49, token="▁w", rank=7, probability=0.03)
    assert "was drawn" in choice_sentence(step)
    assert "predicts" not in choice_sentence(step)
    assert short_choice(step).startswith("drawn: “▁w” 0.0300; most probable: “▁t0”")


def test_labels_and_exports_of_the_maps_name_what_was_fed() -> None:
    trace = fed(make_trace(target=3), {1: "forced"}, wrong=(1,))
    session = Session()
    session.set(trace=trace, step=3)
    picture = attention_map(*looked(session.state), "cross")
    assert picture is not None
    assert picture.rows == ("<s> → ▁t0", "▁t0 ⇢ ▁w", "▁w → ▁t2")
    assert picture.row_axis == "query: target read → chosen, ⇢ fed"
    said = "▁t0 → forced: “▁w” 0.0300; the model would say: “▁t1”"
    assert said in picture.row_names[1]
    assert said in csv_text(picture.table)
    every = all_numbers(trace, "cross")
    assert every is not None
    assert any(said in row for row in every.rows)
    best = probability(trace.steps[1].candidates[0].probability)
    told = f"▁w (forced; the model would say: “▁t1” {best})"
    assert export_words(trace) == f"by step, 2: {told}"
    all_fed = fed(trace, dict.fromkeys(range(3), "reference"))
    assert pairs_axis(all_fed.steps) == "query: target read ⇢ fed"
    p = probability(all_fed.steps[2].probability)
    assert export_words(all_fed) == (
        "teacher forcing: 3 tokens are fed from the reference; "
        f"step 3, fed: “▁t2” {p}; the model would say the same"
    )


def test_who_chose_is_read_from_a_file_without_its_texts(tmp_path: Path) -> None:
    origins: dict[int, Origin] = {0: "forced", 3: "reference", 29: "rule"}
    trace = fed(make_trace(source=2, target=30, layers=1), origins)
    trace.save(tmp_path / "run.vis")
    read = open_trace(tmp_path / "run.vis")
    assert step_origins(read.steps) == step_origins(trace.steps)
    assert step_origins(read.until(7).steps) == step_origins(trace.steps[:7])
    assert step_origins(read.steps[:30]) == tuple(step.origin for step in read.steps)
