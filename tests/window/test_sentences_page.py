"""The page Sentences: pairs as they are scanned, sorted, filtered, tinted, opened."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.unit.core.test_scanning import USUAL, pair
from tests.window.windows import FakeEngine, answer, make_window
from visformer.engine.messages import Done, Portion, ScanPairs
from visformer.pictures.words.modified_run import loss_share
from visformer.session import scans
from visformer.ui.look.theme import loss_colour
from visformer.ui.views.diagnosis.diagnosis import DiagnosisView
from visformer.ui.views.diagnosis.sentences_page import FAULT, REFERENCE, SentencesPage
from visformer.ui.window.actions import open_together
from visformer.ui.window.window import MainWindow
from visformer.values.scanned import ScannedPair, ScannedPart, Uncovered

OWN = make_trace(seed=9)
PAIRS = (
    pair((0.1, 0.1), fault=0.2, mean=0.1, source="fine", line=1, rarest=3),
    pair(
        (0.2, 9.0), fault=9.0, mean=4.6, source="cut", line=2, kind="left out",
        uncovered=(Uncovered(0, 3, "cut"),), worst_token=1, tokens=("▁b", "</s>"),
    ),
    pair((5.0, 4.0), fault=4.5, mean=4.5, source="odd", line=3, length_ratio=3.0),
)  # fmt: skip
Window = tuple[MainWindow, FakeEngine]


@pytest.fixture
def scanned(qtbot: QtBot, tmp_path: Path) -> Window:
    """A window that has asked for the scan of a file."""
    window, engine = make_window(qtbot, tmp_path)
    window.receive(opened_model(OWN.model, path="/m"))
    window.translate("one two")
    answer(window, engine, OWN)
    window.session.set(tab="diagnosis")
    window.session.do(scans.scan, "/data/pairs.tsv")
    assert [one.path for one in engine.of(ScanPairs)] == ["/data/pairs.tsv"]
    return window, engine


def send(window: MainWindow, *pairs: ScannedPair, **more: Any) -> None:
    sent = window.session.state.awaiting.newest(ScanPairs)
    assert sent is not None
    made = ScannedPart(pairs=pairs, **more)
    kind = Done if "usual" in more else Portion
    window.receive(kind(number=sent.number, value=made))


def page(window: MainWindow) -> SentencesPage:
    view = window.tabs.view("diagnosis")
    assert isinstance(view, DiagnosisView)
    return view.page(SentencesPage)


def lines(shown: SentencesPage) -> list[int]:
    model = shown.table.model()
    return [int(model.index(at, 0).data()) for at in range(model.rowCount())]


def test_pairs_are_listed_as_they_come_the_worst_first(scanned: Window) -> None:
    window, _engine = scanned
    shown = page(window)
    assert not shown.table.isVisible()
    send(window, *PAIRS[:2], left_out=("Line 4 of pairs.tsv is not a pair.",))
    assert lines(shown) == [2, 1]
    shown.table.selectRow(1)
    send(window, PAIRS[2])
    assert lines(shown) == [2, 3, 1]
    assert shown.table.currentIndex().row() == 2  # the same pair
    assert window.session.state.busy
    fails = "Line 2 fails the check “Each row sums to 1”: a row sums to 2."
    send(window, usual=USUAL, checked=(fails,))
    assert not window.session.state.busy
    assert shown.words.text().endswith(fails)
    assert window.session.state.trace is not None  # nothing on screen is lost
    said = shown.words.text()
    assert said.startswith("3 pairs of pairs.tsv. 1 line is left out: Line 4")
    assert "Layer 1 of 1 of the cross-attention" in said
    shown.table.sortByColumn(0, Qt.SortOrder.AscendingOrder)
    assert lines(shown) == [1, 2, 3]
    shown.table.sortByColumn(FAULT, Qt.SortOrder.AscendingOrder)
    assert lines(shown) == [1, 3, 2]


def test_kinds_and_groups_let_some_pairs_through(scanned: Window) -> None:
    window, _engine = scanned
    send(window, *PAIRS, usual=USUAL)
    shown = page(window)
    offered = [shown.kinds.itemText(at) for at in range(shown.kinds.count())]
    assert offered == [
        *("all pairs", "left out (1; loss 4.60)"),
        "no fault was found (2; loss 2.30)",
    ]
    shown.kinds.setCurrentIndex(2)
    shown.kinds.activated.emit(2)
    assert lines(shown) == [3, 1]
    at = shown.buckets.findData("target by source tokens: 2 to below ∞")
    assert shown.buckets.itemText(at).endswith("(1; loss 4.50)")
    shown.buckets.setCurrentIndex(at)
    shown.buckets.activated.emit(at)
    assert lines(shown) == [3]


def test_a_token_is_tinted_by_its_loss(scanned: Window) -> None:
    window, _engine = scanned
    send(window, *PAIRS, usual=USUAL)
    table = page(window).table
    box = table.visualRect(table.model().index(0, REFERENCE))
    drawn = table.viewport().grab(box).toImage()
    colours = {
        QColor(drawn.pixel(x, drawn.height() // 2)).name() for x in range(drawn.width())
    }
    for loss in PAIRS[1].loss:
        assert loss_colour(table.palette(), loss_share(loss)).name() in colours


def test_a_double_click_feeds_the_reference_and_goes_to_its_worst_token(
    scanned: Window, qtbot: QtBot
) -> None:
    window, engine = scanned
    send(window, *PAIRS, usual=USUAL)
    table = page(window).table
    table.setFocus()
    table.selectRow(0)
    table.doubleClicked.emit(table.model().index(0, 1))
    asked = engine.decodes[-1]
    assert (asked.source, asked.reference) == ("cut", "b")
    answer(window, engine, OWN)
    state = window.session.state
    assert (state.tab, state.step) == ("attention", 2)
    assert window.reference.text() == "b"
    alone = replace(PAIRS[0], source="own", reference="", translation="c", line=9)
    window.turn_to(scans.show_pair, alone)
    assert engine.decodes[-1].reference == "c"


def test_the_listed_pairs_are_saved_as_json_lines(
    scanned: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    window, _engine = scanned
    send(window, *PAIRS, usual=USUAL)
    path = tmp_path / "pairs.jsonl"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_given: (str(path), ""))
    page(window).save.click()
    qtbot.waitUntil(path.exists)
    written = path.read_text("utf-8").splitlines()
    assert [json.loads(line) for line in written] == [
        json.loads(json.dumps(PAIRS[at].to_dict())) for at in (1, 2, 0)
    ]


def test_a_scan_that_is_stopped_keeps_what_is_done(scanned: Window) -> None:
    window, engine = scanned
    send(window, *PAIRS[:2])
    number = window.session.state.awaiting.newest(ScanPairs)
    assert number is not None
    window.stop()
    assert engine.stopped == 1
    late = ScannedPart(pairs=PAIRS[2:])
    window.receive(Portion(number=number.number, value=late))
    assert lines(page(window)) == [2, 1]
    assert not window.session.state.busy


def test_a_file_of_pairs_that_is_opened_is_scanned(
    qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = make_window(qtbot, tmp_path)
    path = tmp_path / "dropped.txt"
    path.write_text("I see.\tJe vois.\nHe is here.\tIl est ici.\n", "utf-8")
    open_together(window, [str(path)])  # as a drop does
    assert not engine.of(ScanPairs)
    assert "holds pairs of sentences" in window.session.state.error
    window.receive(opened_model(OWN.model, path="/m"))
    open_together(window, [str(path)])
    assert [one.path for one in engine.of(ScanPairs)] == [str(path)]
    state = window.session.state
    assert (state.tab, state.views.pages["diagnosis"]) == ("diagnosis", "sentences")


def test_a_group_begins_at_its_lower_end() -> None:
    one = pair((1.0,) * 6, rarest=2, length_ratio=0.8)
    assert [name for name, contains in scans.buckets().items() if contains(one)] == [
        "target tokens: 6 to below 11",
        "rarest source token: 2 to below 5 times",
        "target by source tokens: 0.8 to below 1.25",
    ]
