"""The page Heads: points as they come, the head looked at, and its sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QGraphicsSimpleTextItem
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.windows import FakeEngine, answer, make_window
from visformer.engine.messages import Done, MeasureHeads, Portion
from visformer.ui.views.diagnosis import heads_page
from visformer.ui.views.diagnosis.diagnosis import DiagnosisView
from visformer.ui.views.diagnosis.heads_page import HeadsPage
from visformer.ui.window.window import MainWindow
from visformer.values.arrays import Floats
from visformer.values.heads_of_pairs import AT, HeadsOfSome
from visformer.values.scanned import PairLine

OWN = make_trace(seed=9)
LEFT = Qt.MouseButton.LeftButton
PAIRS = tuple(PairLine(at, f"source {at}", f"target {at}") for at in range(1, 13))


def some(first: int, last: int, *left_out: str) -> HeadsOfSome:
    """Numbers of pairs: confidence grows with the line; a head has no data."""
    pairs, sums, counts = PAIRS[first:last], dict[str, Floats](), dict[str, Floats]()
    for kind in OWN.kinds:
        shape = len(pairs), len(AT), OWN.layers(kind), OWN.heads(kind)
        sums[kind] = np.zeros(shape, np.float32)
        counts[kind] = np.full(shape, 4, np.float32)
        counts[kind][:, AT["awi"] :] = 0
        for at, pair in enumerate(pairs):
            sums[kind][at, AT["confidence"]] = pair.line / 4
        sums[kind][:, AT["importance"], -1, 0] = -2
    sums["encoder"][:, AT["previous"], 0, 1] = 3.8
    counts["encoder"][:, :, 0, 0] = 0
    return HeadsOfSome(pairs=pairs, sums=sums, counts=counts, left_out=left_out)


@pytest.fixture
def asked(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[MainWindow, FakeEngine, HeadsPage]:
    """A window that has asked for the heads of a file."""
    window, engine = make_window(qtbot, tmp_path)
    window.receive(opened_model(OWN.model, path="/m"))
    window.translate("one two")
    answer(window, engine, OWN)
    window.session.go(window.session.state.turned("diagnosis", "heads"))
    window.session.set(tab="diagnosis", kind="cross", layer=0, head=0)
    view = window.tabs.view("diagnosis")
    assert isinstance(view, DiagnosisView)
    page = view.page(HeadsPage)
    assert not page.plot.isVisible()
    assert "becomes a point" in page.words.text()
    monkeypatch.setattr(heads_page, "asked_pairs", lambda _page: "/data/refs.tsv")
    page.choose.click()
    assert [one.path for one in engine.of(MeasureHeads)] == ["/data/refs.tsv"]
    return window, engine, page


def send(window: MainWindow, part: HeadsOfSome | None) -> None:
    sent = window.session.state.awaiting.newest(MeasureHeads)
    assert sent is not None
    kind = Done if part is None else Portion
    window.receive(kind(number=sent.number, value=part))


Asked = tuple[MainWindow, FakeEngine, HeadsPage]


def names(page: HeadsPage) -> list[str]:
    model = page.heads.model()
    return [str(model.index(at, 1).data()) for at in range(model.rowCount())]


def test_heads_are_points_and_rows_as_pairs_come(asked: Asked) -> None:
    window, _engine, page = asked
    send(window, some(0, 2))
    assert page.plot.isVisible()
    assert window.session.state.busy
    assert page.words.text().startswith("2 pairs of refs.tsv, read by “")
    send(window, some(2, 12, "Line 13 of refs.tsv is not a pair."))
    send(window, None)
    assert not window.session.state.busy
    assert "1 line is left out: Line 13" in page.words.text()
    heads = sum(OWN.layers(kind) * OWN.heads(kind) for kind in OWN.kinds)
    assert len(names(page)) == heads
    drawn = [spot for cloud in page.plot._clouds for spot in cloud.points()]
    assert len(drawn) == heads - 1  # one has no data
    labels = [
        (one.text(), *one.pos().toTuple())
        for one in page.plot._plot.box.childItems()
        if isinstance(one, QGraphicsSimpleTextItem)
    ]
    assert labels
    assert len(set(labels)) == len(labels)  # none is drawn twice
    table = page.plot.table()
    assert table is not None
    assert np.isnan(np.asarray(table.values)[table.rows.index("encoder L1 H1")]).all()
    row = np.asarray(table.values)[table.rows.index("cross L1 H1")]
    assert row[AT["confidence"]] == pytest.approx(sum(range(1, 13)) / 4 / 48)
    titles = [page.axes[0].itemData(at) for at in range(page.axes[0].count())]
    assert "confidence" in titles


def test_a_role_is_named_with_its_share(asked: Asked) -> None:
    window, _engine, page = asked
    send(window, some(0, 12))
    window.session.set(kind="encoder", layer=0, head=1)
    assert "encoder self, L1 H2: positional, −1: 95.0%; " in page.head.text()
    index = page.heads.currentIndex()
    assert index.siblingAtColumn(1).data() == "L1 H2"
    assert index.siblingAtColumn(4).data() == "positional, −1: 95.0%"
    window.session.set(kind="encoder", layer=0, head=0)
    assert page.head.text() == "encoder self, L1 H1: no data."
    assert not page.examples.items


def test_a_click_on_a_point_looks_at_the_head(asked: Asked, qtbot: QtBot) -> None:
    window, _engine, page = asked
    send(window, some(0, 12))
    last = OWN.layers("cross") - 1
    (spot,) = (
        spot
        for spot in page.plot._clouds[2].points()
        if spot.data().place == ("cross", last, 0)
    )
    qtbot.wait(1)
    widget = page.plot._plot.widget
    at = page.plot._plot.box.mapViewToScene(QPointF(spot.pos()))
    place = widget.mapFromScene(at)
    qtbot.mouseMove(widget.viewport(), place)
    qtbot.mouseClick(widget.viewport(), LEFT, pos=place)
    state = window.session.state
    assert (state.layer, state.head, state.tab) == (last, 0, "diagnosis")
    page.heads.setFocus()
    before = page.heads.currentIndex().row()
    key = Qt.Key.Key_Up if before else Qt.Key.Key_Down
    qtbot.keyClick(page.heads, key)
    state = window.session.state
    assert page.heads.currentIndex().row() != before
    one = page.heads.currentIndex().data(Qt.ItemDataRole.UserRole)
    assert (state.kind, state.layer, state.head) == one.place
    qtbot.keyClick(page.heads, Qt.Key.Key_Return)
    assert window.session.state.tab == "attention"


def test_sentences_are_the_extremes_of_the_axis_and_open_at_the_head(
    asked: Asked,
) -> None:
    window, engine, page = asked
    send(window, some(0, 12))
    box = page.axes[1]
    box.setCurrentIndex(box.findData("confidence"))
    box.activated.emit(box.currentIndex())
    assert "“confidence”" in page.caption.text()
    lines = [one.pair.line for one in page.examples.items]
    assert lines == [12, 11, 10, 9, 8, 5, 4, 3, 2, 1]
    page.examples.opened.emit(page.examples.items[0])
    assert (engine.decodes[-1].source, engine.decodes[-1].reference) == (
        *("source 12", "target 12"),
    )
    answer(window, engine, OWN)
    state = window.session.state
    assert (state.tab, state.kind, state.layer, state.head) == (
        "attention",
        "cross",
        0,
        0,
    )


def test_what_was_measured_before_a_stop_stays(asked: Asked) -> None:
    window, engine, page = asked
    send(window, some(0, 2))
    number = window.session.state.awaiting.newest(MeasureHeads)
    assert number is not None
    window.stop()
    assert engine.stopped == 1
    window.receive(Portion(number=number.number, value=some(2, 3)))  # late
    assert page.words.text().startswith("2 pairs of")
    assert not window.session.state.busy
