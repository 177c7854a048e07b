"""The Cache page: maps with the new row framed, its choices, and what is exported."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from tests.general_traces import Shape, any_trace
from tests.tiny_models import tiny_checkpoint
from tests.window.parts import unwrap
from tests.window.windows import make_view
from visformer.core.decoding import Decoding
from visformer.pictures.picture import Matrix
from visformer.session.runs import show_trace
from visformer.ui.views.output.cache import CachePage
from visformer.values.facts import Kind


@pytest.fixture
def page(qtbot: QtBot) -> CachePage:
    trace = Decoding(tiny_checkpoint(), "abcde", limit=6).finish()
    page = make_view(qtbot, CachePage, 1200, 700)
    page.session.do(show_trace, trace)
    page.session.set(tab="output", step=3, kind="encoder")
    return page


def test_the_newest_row_is_framed(page: CachePage) -> None:
    for step in (3, 2):
        page.session.set(step=step)
        assert len(_shown(page, "decoder").values) == step
        assert _framed(page, "decoder") == (step - 1,)
        assert _framed(page, "cross") == ()


def _shown(page: CachePage, kind: Kind, letter: str = "K") -> Matrix:
    return unwrap(page.maps[kind, letter].matrix)


def _framed(page: CachePage, kind: Kind) -> object:
    return page.maps[kind, "K"].marks.rows


def test_another_layer_and_another_head(page: CachePage) -> None:
    trace = unwrap(page.session.state.visible)
    page.layer.activated.emit(0)
    page.head.activated.emit(1)
    state = page.session.state
    assert (state.kind, state.layer, state.head) == ("decoder", 0, 1)
    assert (_shown(page, "decoder", "V").values == trace.values("decoder", 0, 1)).all()


def test_counts_are_written_and_saved_in_full(page: CachePage) -> None:
    table = unwrap(page.sizes.table())
    assert page.sizes.model().index(1, 4).data() == f"{int(table.values[1][4]):,}"
    assert "multiply" in page.costs.accessibleName()


def test_a_model_without_decoder_has_one_sentence(page: CachePage) -> None:
    page.session.do(show_trace, any_trace(Shape(kinds=("encoder",))))
    assert page.about.text() == (
        "This model has no decoder: nothing is kept between steps."
    )
    assert page.main_picture() is None
    assert not page.sizes.isVisible()


def test_without_cross_attention_its_maps_are_gone(page: CachePage) -> None:
    page.session.do(show_trace, any_trace(Shape(kinds=("decoder",))))
    visible = [at for at, heat_map in page.maps.items() if heat_map.isVisible()]
    assert visible == [("decoder", "K"), ("decoder", "V")]
    assert not page.costs.isVisible()
