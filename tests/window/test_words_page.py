"""The Words page: what is asked for, what is listed and drawn, and walking there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.general_traces import Shape, any_trace
from tests.opened import opened_model
from tests.tiny_models import tiny_checkpoint
from tests.window.any_traces import show_in
from tests.window.parts import unwrap, view_of
from tests.window.windows import Pair, make_window, reply, translate
from visformer.core.decoding import Decoding
from visformer.engine.messages import Nearest, Refused
from visformer.session.kept import recipe_of
from visformer.session.recipe import read_recipe, written
from visformer.ui.views.positions.positions import PositionsView
from visformer.ui.views.positions.words_page import WordsPage
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.window.window import MainWindow

CHECKPOINT = tiny_checkpoint(3)


@pytest.fixture
def pair(qtbot: QtBot, tmp_path: Path) -> Pair:
    window, engine = make_window(qtbot, tmp_path)
    positions = CHECKPOINT.model.position_table("source").numpy()
    window.receive(opened_model(CHECKPOINT.facts, positions, path="/m"))
    translate(window, engine, "a b", Decoding(CHECKPOINT, "abcde", limit=6).finish())
    window.resize(1280, 800)
    window.show()
    return window, engine


def page_of(window: MainWindow) -> WordsPage:
    window.session.set(tab="positions")
    view = view_of(window, PositionsView)
    view.turn("words")
    return view.page(WordsPage)


def asked(window: MainWindow) -> Nearest:
    sent = unwrap(window.session.state.awaiting.newest(Nearest))
    assert isinstance(sent.request, Nearest)
    return sent.request


def give(window: MainWindow) -> None:
    """Answer what was asked last."""
    request = asked(window)
    near = unwrap(CHECKPOINT.extras.nearest)(request.side, request.asked)
    reply(window, Nearest, near)
    QApplication.processEvents()


def test_the_sentences_longest_token_comes_first(pair: Pair) -> None:
    window, _engine = pair
    page = page_of(window)
    assert asked(window).asked in window.session.state.visible.source_ids  # type: ignore[union-attr]
    give(window)
    near = unwrap(window.session.state.scene.near)
    assert page.about.text().startswith(
        f"“{near.tokens[0]}” (id {near.ids[0]}): the 20"
    )
    assert len(unwrap(page.table.numbers).rows) == 20


def test_typing_and_clicking_walk(pair: Pair, qtbot: QtBot) -> None:
    window, _engine = pair
    page = page_of(window)
    give(window)
    page.field.setText(CHECKPOINT.tokenizer.source.token(9))
    qtbot.keyClick(page.field, Qt.Key.Key_Return)
    assert asked(window).asked == CHECKPOINT.tokenizer.source.token(9)
    give(window)
    near = unwrap(window.session.state.scene.near)
    assert near.ids[0] == 9
    page.table.picked.emit(MapCell(4, 0))
    assert asked(window).asked == near.ids[5]
    page.sentence.activated.emit(0)
    assert asked(window).asked == page.sentence.itemData(0)


def test_a_text_that_names_nothing_is_refused(pair: Pair, qtbot: QtBot) -> None:
    window, _engine = pair
    page = page_of(window)
    give(window)
    page.field.setText("no such token")
    qtbot.keyClick(page.field, Qt.Key.Key_Return)
    assert asked(window).asked == "no such token"
    sent = unwrap(window.session.state.awaiting.newest(Nearest))
    window.receive(Refused(number=sent.number, reason="There is none."))
    assert window.session.state.error == "There is none."
    assert page.table.isVisible()  # what was found before stays
    page.draw(window.session.state)
    again = unwrap(window.session.state.awaiting.newest(Nearest))
    assert again.number == sent.number  # it is not asked for again


def test_what_is_looked_up_is_kept_in_places_and_sessions(pair: Pair) -> None:
    window, _engine = pair
    page = page_of(window)
    give(window)
    window.session.set(views=replace(window.session.state.views, token=9))
    page.side.activated.emit(1)
    give(window)
    kept = read_recipe(written(unwrap(recipe_of(window.session.state)))).views
    assert (kept.token, kept.embedding) == (9, "target")
    assert window.session.state.place.views == kept
    assert page.side.currentData() == "target"
    near = unwrap(window.session.state.scene.near)
    assert (near.side, near.ids[0]) == ("target", 9)
    window.receive(opened_model(CHECKPOINT.facts, path="/other", number=77))
    assert window.session.state.views.token == ""  # another model's ids are others


def test_a_run_of_another_model_has_one_sentence(pair: Pair) -> None:
    window, _engine = pair
    page = page_of(window)
    show_in(window, any_trace(Shape(kinds=("decoder",))))
    assert page.about.text() == (
        "Embeddings are looked up in an open checkpoint; those of this run's model are "
        "not known."
    )
    assert page.main_picture() is None
    assert not page.field.isVisible()
