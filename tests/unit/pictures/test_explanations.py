"""Every tab, page and stage says in one sentence what is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.traces import fed, make_trace
from visformer.pictures.computation.stages import stage_names
from visformer.pictures.selection import SUMMARIES, AttentionCell, Look, Selection
from visformer.pictures.words.explanations import EXPLAINED, START, STRONG, explanation
from visformer.pictures.words.scene import Scene
from visformer.ui.views import VIEWS
from visformer.values.facts import KINDS, Kind
from visformer.values.trace import Trace
from visformer.words import probability

LONGEST = 170  # characters
PAGES = {view.name: [page.name for page in view.pages] for view in VIEWS}
PLACES: list[tuple[str, ...]] = [
    (tab, page) if page else (tab,)
    for tab, pages in PAGES.items()
    for page in pages or [""]
]


def scene(trace: Trace | None = None, kind: Kind = "cross", **fields: object) -> Scene:
    trace = make_trace() if trace is None else trace
    selection = Selection(kind=kind, layer=1, head=1)
    made = Scene(trace=trace, model=trace.model, selection=selection)
    return replace(made, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", PLACES)
def test_every_place_has_its_sentence(place: tuple[str, ...]) -> None:
    for looked in (scene(stage="softmax"), scene(stage="softmax", kind="encoder")):
        said = explanation(place, looked)
        assert 20 < len(said) <= LONGEST, said
        assert said.endswith(".")
    nothing = scene(trace=make_trace().until(0), stage="softmax")
    assert explanation(place, nothing)
    assert explanation(place, replace(nothing, trace=None, model=None))
    assert place in EXPLAINED


@pytest.mark.parametrize("stage", stage_names())
@pytest.mark.parametrize("kind", KINDS)
def test_every_stage_has_its_sentence(stage: str, kind: Kind) -> None:
    said = explanation(("computation",), scene(kind=kind, stage=stage))
    assert 20 < len(said) <= LONGEST
    others = set(stage_names()) - {stage}
    looked = scene(kind=kind)
    assert all(
        explanation(("computation",), replace(looked, stage=other)) != said
        for other in others
    )


def test_a_cell_in_focus_is_what_is_spoken_of() -> None:
    cell = AttentionCell("cross", 1, 3)
    selection = Selection(kind="cross", layer=1, head=1, cell=cell)
    looked = scene(selection=selection, stage="softmax")
    assert looked.trace is not None
    assert "Writing “t1”, this head looks at “" in explanation(("attention",), looked)
    weight = probability(float(looked.trace.attention("cross", 1, 1)[1, 3]))
    expected = f"“t1” gives “s3” {weight}."
    assert explanation(("computation",), looked).endswith(expected)


@pytest.mark.parametrize("summary", sorted({*SUMMARIES} - {"head"}))
def test_a_summary_is_not_called_a_head(summary: str) -> None:
    looked = scene(look=Look(summary=summary))  # type: ignore[arg-type]
    said = explanation(("attention",), looked)
    assert "(0." not in said
    assert said != explanation(("attention",), scene())


def test_each_form_names_what_is_strong() -> None:
    for form, strong in STRONG.items():
        looked = scene(look=Look(form=form))
        assert strong in explanation(("attention",), looked)


def test_what_was_fed_is_not_said_to_come_out() -> None:
    trace = fed(make_trace(), {3: "reference"}, wrong=(3,))
    for place in (("output", "next"), ("architecture",)):
        said = explanation(place, scene(trace))
        assert "fed: “w” 0.0300; the model would say: “t3”" in said


def test_before_a_sentence_the_way_in_is_named() -> None:
    empty = scene(trace=None, model=None)
    assert explanation(("attention",), replace(empty, trace=None)) == START
