"""A token that was forced or fed is called so wherever it is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.existing import existing
from tests.states import showing
from tests.tiny_models import tiny_checkpoint
from tests.traces import fed, make_trace
from tests.unit.pictures.test_maps import looked
from visformer.api import open_trace
from visformer.core.decoding import Decoding
from visformer.core.next_tokens import NextTokens
from visformer.core.sampling import choose
from visformer.errors import InputError
from visformer.pictures.attention.maps import all_numbers
from visformer.pictures.attention.reading import attention_map
from visformer.pictures.candidates import candidate_table
from visformer.pictures.diagram.architecture import architecture
from visformer.pictures.output import SHOWS, flow_words, output_picture, output_words
from visformer.pictures.picture import csv_text
from visformer.pictures.selection import Selection
from visformer.pictures.words.choices import choice_sentence, marked_token, short_choice
from visformer.pictures.words.modified_run import export_words
from visformer.values.step import Draw, Origin, Strategy
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
    best = trace.steps[2].candidates[0].token
    drawing = existing(architecture(trace, None, SELECTION, chosen="softmax"))
    picture = existing(output_picture(trace))
    prediction = existing(drawing.box("prediction"))
    rows = [box.title for box in drawing.boxes if box.title.startswith("row 3 “")]
    said = [
        short_choice(trace),
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
        assert (f"“{best.removeprefix('▁')}”" in words) == wrong or not wrong
    assert prediction.title.startswith("forced: “" if origin == "forced" else "fed: “")
    for words in (output_words(trace, 2), drawing.sentence, prediction.words):
        assert ("forced by you" if origin == "forced" else "fed from the") in words
        assert "predicts “w”" not in words
        assert ("predicts “t2”" in words) == wrong
        assert ("predicts it too" in words) != wrong
    assert marked_token(trace, 2) in (
        "t2 (forced)",
        "t2 (fed)",
        "w (forced)",
        "w (fed)",
    )


def test_the_models_own_choice_is_said_to_be_predicted() -> None:
    trace = make_trace(target=3)
    assert choice_sentence(trace, 2).startswith(
        "The softmax of the row's logits predicts “t2” ("
    )
    assert short_choice(trace, 2).startswith("“t2” 0.")
    assert export_words(trace) == ""
    assert not any("chosen" in title for title in SHOWS.values())


def test_a_drawn_token_is_no_prediction() -> None:
    trace = make_trace(target=1)
    step = replace(trace.steps[0], id=49, token="▁w", rank=7, probability=0.03)
    step = replace(step, origin="drawn")  # from what is not known
    trace = replace(trace, steps=(step,))
    said = choice_sentence(trace)
    assert said.startswith("“w” was drawn; the softmax of the row's logits gives it ")
    assert "predicts" not in said
    assert "drawn with" not in said
    assert short_choice(trace).startswith("drawn: “w”, softmax 0.0300; most probable: ")
    draw = Draw(0.2, temperature=1.0, top_k=0, top_p=0.9)
    said = choice_sentence(replace(trace, steps=(replace(step, drawn=draw),)))
    assert said.endswith(" It was drawn with 0.2000 (temperature 1, top-p 0.9).")


def test_what_follows_changes_a_row_whose_token_was_the_best_when_it_was_chosen(
    tmp_path: Path,
) -> None:
    """Greedy: nothing is drawn, whatever its rank is once later tokens are read."""
    checkpoint = tiny_checkpoint(12, norm_first=True, final_norm=True)
    decoding = Decoding(checkpoint, "abcdef", limit=6, intervention="causal off")
    trace = decoding.finish()
    trace.save(tmp_path / "ahead.vis")
    opened = open_trace(tmp_path / "ahead.vis")
    left = [at for at, step in enumerate(trace.steps) if step.rank > 1]
    assert left
    for at in left:
        step = trace.steps[at]
        said = choice_sentence(trace, at)
        assert said == choice_sentence(opened, at)
        assert "drawn" not in said + short_choice(trace, at)
        assert said.startswith(f"“{step.token}” was chosen with the tokens that were")
        assert f"now it has {probability(step.probability)}, rank {step.rank}" in said
        assert decoding.back(len(trace) - 1 - at).steps[at].rank == 1  # as it was made
        decoding.finish()


def test_a_token_is_drawn_from_the_tempered_and_cut_distribution(
    tmp_path: Path,
) -> None:
    """Logits ln 8, ln 4, ln 2, ln 1 and two alike, at 0.7 with top-k 3.

    The three best weigh 8, 4 and 2 to the power of 1 / 0.7.
    """
    logits = torch.tensor([8.0, 4.0, 2.0, 1.0, 0.5, 0.5]).log()
    weights = [n ** (1 / 0.7) for n in (8, 4, 2)]
    hot = Strategy("sample", temperature=0.7, top_k=3)
    made = [choose(logits, hot, step) for step in range(40)]
    assert {one.id for one in made} == {0, 1, 2}
    for id, origin, draw in made:
        assert origin == "drawn"
        assert draw is not None
        assert draw[1:] == (0.7, 3, 1.0)
        assert draw.probability == pytest.approx(weights[id] / sum(weights), rel=1e-5)
    drawn = next(one for one in made if one.id == 1)
    step = NextTokens(logits[None]).step(0, drawn, "b", "abcdef".__getitem__)
    trace = replace(make_trace(target=1), steps=(step,))
    assert choice_sentence(trace) == (
        "“b” was drawn; the softmax of the row's logits gives it 0.2500, rank 2; the "
        "most probable token is “a” (0.5000). It was drawn with 0.2461 (temperature "
        "0.7, top-k 3)."
    )
    trace.save(tmp_path / "drawn.vis")
    assert open_trace(tmp_path / "drawn.vis").steps[0] == step


@pytest.mark.parametrize("draw", [[0, 0.7, 3, 1], [0.2, 0, 3, 1], [0.2, 1, -1, 1]])
def test_a_file_with_a_draw_that_cannot_be_is_damaged(
    tmp_path: Path, draw: list[float]
) -> None:
    trace, path = make_trace(target=1), tmp_path / "a.vis"
    step = replace(trace.steps[0], origin="drawn", drawn=Draw(*draw))  # type: ignore[arg-type]
    replace(trace, steps=(step,)).save(path)
    with pytest.raises(InputError, match="is damaged"):
        open_trace(path).steps[0]


def test_a_draw_is_kept_when_its_row_changes_and_when_it_is_followed() -> None:
    hot = Strategy("sample", temperature=0.7, top_k=3, seed=1)
    checkpoint = tiny_checkpoint()
    decoding = Decoding(
        checkpoint, "abcdef", limit=6, strategy=hot, intervention="causal off"
    )
    as_made = []
    while not decoding.ended:
        as_made.append(decoding.step().steps[-1].choice)
    assert len(as_made) > 2
    assert all(one.origin == "drawn" for one in as_made)
    assert [step.choice for step in decoding.trace.steps] == as_made
    assert [step.choice for step in decoding.back(2).steps] == as_made[:-2]
    other = Decoding(checkpoint, "abcdef", limit=6).follow(as_made)
    assert [step.choice for step in other.steps] == as_made


def test_labels_and_exports_of_the_maps_name_what_was_fed() -> None:
    trace = fed(make_trace(target=3), {1: "forced"}, wrong=(1,))
    picture = existing(attention_map(*looked(showing(trace)), "cross"))
    assert picture.rows == ("t0", "⇢ w", "t2")
    assert picture.row_axis == "query: word being written, ⇢ fed"
    said = "w (forced; the model would say: “t1” 0."
    assert picture.row_names[1].startswith(said)
    assert picture.row_names[1].endswith(", after “t0”")
    said = "▁t0 → ▁w (forced; the model would say: “t1” 0."
    assert said in csv_text(picture.table)
    every = existing(all_numbers(trace, "cross"))
    assert any(said in row for row in every.rows)
    best = probability(trace.steps[1].candidates[0].probability)
    told = f"w (forced; the model would say: “t1” {best})"
    assert export_words(trace) == f"by step, 2: {told}"
    all_fed = fed(trace, dict.fromkeys(range(3), "reference"))
    p = probability(all_fed.steps[2].probability)
    assert export_words(all_fed) == (
        "teacher forcing: 3 tokens are fed from the reference; "
        f"step 3, fed: “t2” {p}; the model would say the same"
    )
