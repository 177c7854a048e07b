"""The Search page: the tree and the list on screen, and what a click does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.tiny_models import tiny_checkpoint
from tests.unit.session.sessions import Engine, answer, take
from visformer.core.decoding import Decoding
from visformer.core.search import named
from visformer.engine.messages import Decode, Done, Refused, SearchBeams
from visformer.pictures.beam_tree import Node, node_words
from visformer.session import runs
from visformer.session.side_requests import needed
from visformer.session.state import Session
from visformer.ui.views.output.search_page import SearchPage
from visformer.values.step import Strategy

CHECKPOINT = tiny_checkpoint(12, norm_first=True, final_norm=True)


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def page(qtbot: QtBot, engine: Engine) -> SearchPage:
    """Return the page on a greedy run, whose search is on its way."""
    page: SearchPage
    session = Session(lambda state: page.draw(state), engine, needed)
    page = SearchPage(session)
    qtbot.addWidget(page)
    page.resize(1200, 700)
    page.show()
    take(session, opened_model(CHECKPOINT.facts))
    session.do(runs.translate, "abcdef")
    answer(session, engine, Decoding(CHECKPOINT, "abcdef", limit=8).finish())
    session.go(replace(session.state, tab="output").turned("output", "search"))
    return page


def found(page: SearchPage, engine: Engine) -> None:
    """Answer the search, and step to 3."""
    asked = engine.last
    assert isinstance(asked, SearchBeams)
    strategy = Strategy("beam", beams=asked.beams)
    decoding = Decoding(CHECKPOINT, asked.source, strategy=strategy, limit=8)
    decoding.finish()
    assert decoding.search is not None
    search = named(decoding.search, CHECKPOINT.vocabulary)
    take(page.session, Done(number=len(engine.asked), value=search))
    page.session.set(step=3)


def picture(page: SearchPage) -> QImage:
    return page.canvas.grab().toImage()


def inked(image: QImage, page: SearchPage, column: int) -> int:
    """Count the colours in a column's boxes."""
    box = page.canvas.grid.box(column, 0).toAlignedRect()
    pixels = [
        image.pixel(x, y)
        for x in range(box.left(), box.right())
        for y in range(box.top(), page.canvas.height() - 1)
    ]
    return len(set(pixels))


def click(page: SearchPage, qtbot: QtBot, node: Node) -> None:
    at = page.canvas.grid.box(node.step, node.line).center().toPoint()
    qtbot.mouseClick(page.canvas, Qt.MouseButton.LeftButton, pos=at)


def test_until_it_is_known_a_sentence_stands_there(
    page: SearchPage, engine: Engine
) -> None:
    assert page.about.text() == "Searching…"
    assert page.main_picture() is None
    assert not page.again.isVisible()
    take(page.session, Refused(number=len(engine.asked), reason="It cannot."))
    assert page.about.text() == "It cannot."
    assert page.again.isVisible()
    page.again.click()
    assert isinstance(engine.last, SearchBeams)
    page.session.do(runs.stop)
    assert page.about.text() == "The search was stopped."


def test_the_tree_and_the_list_are_of_the_search(
    page: SearchPage, engine: Engine
) -> None:
    found(page, engine)
    tree = page.canvas.tree
    assert tree is not None
    assert page.main_picture() is page.area
    assert len(page.list.items) == len(tree.search.finished)
    assert page.list.items[0].text == tree.search.texts[0] or len(page.list.items) > 1
    ids = [step.id for step in page.session.state.trace.steps]  # type: ignore[union-attr]
    assert [node.id for node in page.canvas.own] == ids[: len(page.canvas.own)]
    assert len(page.canvas.own) > 2


def test_the_current_step_is_marked_and_steps_move_it(
    page: SearchPage, engine: Engine
) -> None:
    found(page, engine)
    plain, marked = picture(page), page.canvas.grid.box(2, 0).left() - 2
    at = QPoint(round(marked), 2)
    background = plain.pixel(QPoint(page.canvas.width() - 2, 2))
    assert plain.pixel(at) != background
    page.session.set(step=2)
    after = picture(page)
    assert after.pixel(at) == background
    assert (
        after.pixel(QPoint(round(page.canvas.grid.box(1, 0).left() - 2), 2))
        != background
    )


def test_later_columns_are_hidden_where_nothing_is_shown_ahead(
    page: SearchPage, engine: Engine
) -> None:
    found(page, engine)
    assert inked(picture(page), page, 4) > 9
    look = replace(page.session.state.look, ahead=False)
    page.session.set(look=look)
    assert inked(picture(page), page, 4) <= 3  # the line below the beams
    assert inked(picture(page), page, 2) > 9
    page.session.set(step=8)
    assert inked(picture(page), page, 4) > 9


def test_a_node_is_described_and_a_click_runs_its_history(
    page: SearchPage, engine: Engine, qtbot: QtBot
) -> None:
    found(page, engine)
    tree = page.canvas.tree
    assert tree is not None
    node = next(n for n in tree.columns[2] if n.fate == "dropped")
    page.canvas.hovered.emit(node)
    assert "behind the last kept" in page.about.text()
    center = page.canvas.grid.box(node.step, node.line).center()
    assert page.canvas.node_at(center) == node
    assert page.canvas.node_at(QPointF(0, 0)) is None
    click(page, qtbot, node)
    asked = engine.last
    assert isinstance(asked, Decode)
    assert [choice.id for choice in asked.prefix] == tree.history(node)
    decoding = Decoding(CHECKPOINT, asked.source, limit=8)
    decoding.follow(asked.prefix)
    answer(page.session, engine, decoding.finish())
    assert page.session.state.step == 3
    assert page.canvas.own[-1] == node


def test_a_hypothesis_of_the_list_is_run(
    page: SearchPage, engine: Engine, qtbot: QtBot
) -> None:
    found(page, engine)
    line = page.list.items[-1]
    page.list.setFocus()
    page.list.setCurrentIndex(page.list.model().index(len(page.list.items) - 1, 0))
    qtbot.keyClick(page.list, Qt.Key.Key_Return)
    search = page.found_search()
    assert search is not None
    ids = tuple(choice.id for choice in engine.last.prefix)
    assert ids == search.line_of(line.one).ids


def test_another_number_of_beams_is_searched(page: SearchPage, engine: Engine) -> None:
    found(page, engine)
    page.beams.setValue(2)
    assert isinstance(engine.last, SearchBeams)
    assert engine.last.beams == 2
    found(page, engine)
    assert page.canvas.tree is not None
    assert page.canvas.tree.search.beams == 2


def test_keys_walk_along_the_tokens_of_the_step_and_go_there(
    page: SearchPage, engine: Engine, qtbot: QtBot
) -> None:
    found(page, engine)
    canvas = page.canvas
    assert canvas.tree is not None
    nodes = sorted(canvas.tree.columns[2], key=lambda node: node.line)
    canvas.setFocus()
    qtbot.waitUntil(canvas.hasFocus)
    words = []
    for _press in range(3):
        qtbot.keyClick(canvas, Qt.Key.Key_Down)
        words.append(page.about.text())
    assert words == [node_words(canvas.tree, node) for node in nodes[:3]]
    before = picture(page)
    qtbot.keyClick(canvas, Qt.Key.Key_Up)
    assert page.about.text() == words[1]
    assert picture(page) != before  # it is framed
    node, asked = nodes[1], len(engine.asked)
    history = canvas.tree.history(node)
    qtbot.keyClick(canvas, Qt.Key.Key_Return)
    assert len(engine.asked) > asked
    request = engine.last
    assert isinstance(request, Decode)
    assert [choice.id for choice in request.prefix] == [*history]
