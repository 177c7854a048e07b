"""The Checks page of the Diagnosis tab."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.windows import FakeEngine, answer, make_window, number_of, reply
from visformer.engine.messages import CheckRun, Refused
from visformer.pictures.selection import AttentionCell
from visformer.ui.views.diagnosis.checks_page import ChecksPage
from visformer.ui.views.diagnosis.diagnosis import DiagnosisView
from visformer.ui.window.window import MainWindow
from visformer.values.finding import CheckResult, EvidencePlace

LEFT = Qt.MouseButton.LeftButton
TRACE = make_trace(source=6, target=5)
FAULT = CheckResult(
    *("not-causal", "No row reads what comes after it", "fault", "decoder layer 2"),
    *("Row 2 reads key 4.", "Mask it."),
    EvidencePlace("decoder", 1, 1, 1, 3),
)
NOTE = FAULT._replace(
    id="uniform-head", verdict="note", at=EvidencePlace("cross", 1, 1)
)
STEP = FAULT._replace(id="ended-by-limit", verdict="note", at=EvidencePlace(row=2))
PASSED = CheckResult("rows-not-one", "Each row sums to 1", "passed", what="Within 0.")
NONE = CheckResult("not-tied", "Tied tables are one", "not applicable", what="None.")


def turned(qtbot: QtBot, folder: Path) -> tuple[MainWindow, FakeEngine, ChecksPage]:
    window, engine = make_window(qtbot, folder)
    window.receive(opened_model(TRACE.model))
    window.translate("one two")
    answer(window, engine, TRACE)
    window.session.go(window.session.state.turned("diagnosis", "checks"))
    window.session.set(tab="diagnosis")
    view = window.tabs.view("diagnosis")
    assert isinstance(view, DiagnosisView)
    return window, engine, view.page(ChecksPage)


def click(qtbot: QtBot, page: ChecksPage, row: int) -> None:
    where = page.table.visualRect(page.table.model().index(row, 3)).center()
    qtbot.mouseClick(page.table.viewport(), LEFT, pos=where)


def test_all_checks_are_listed_what_is_wrong_first(
    qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine, page = turned(qtbot, tmp_path)
    assert len(engine.of(CheckRun)) == 1
    assert "in several ways" in page.words.text()
    results = (PASSED, NONE, NOTE, FAULT)
    reply(window, CheckRun, results)
    assert page.words.text().startswith("Faults: 1; notes: 1; passed: 1; not applicab")
    model = page.table.model()
    assert [model.index(row, 0).data() for row in range(model.rowCount())] == [
        *("✗ fault", "! note", "✓ passed", "– not applicable"),
    ]
    assert model.index(0, 3).data() == "Row 2 reads key 4.\nMask it."
    window.session.set(step=2)
    assert len(engine.of(CheckRun)) == 1  # the same run


@pytest.mark.parametrize(
    ("result", "tab", "place"),
    [
        (FAULT, "masks", ("decoder", 1, 1)),
        (NOTE, "attention", ("cross", 1, 1)),
        (STEP, "output", None),
        (PASSED, "diagnosis", None),
    ],
)
def test_a_click_goes_to_the_evidence(
    qtbot: QtBot,
    tmp_path: Path,
    result: CheckResult,
    tab: str,
    place: tuple[str, int, int] | None,
) -> None:
    window, _engine, page = turned(qtbot, tmp_path)
    reply(window, CheckRun, (result,))
    # who has nothing to click is not told to
    assert ("underlined" in page.words.text()) == (result is not PASSED)
    click(qtbot, page, 0)
    state = window.session.state
    assert state.tab == tab
    if place is not None:
        assert (state.kind, state.layer, state.head) == place
    if result is FAULT:
        assert state.locked == AttentionCell("decoder", 1, 3)
    if result is STEP:
        assert state.step == 3


def test_a_refusal_is_said(qtbot: QtBot, tmp_path: Path) -> None:
    window, _engine, page = turned(qtbot, tmp_path)
    window.receive(
        Refused(number=number_of(window, CheckRun), reason="It cannot be run so.")
    )
    assert page.words.text() == "It cannot be run so."
    assert not page.table.isVisible()


@pytest.mark.parametrize("width", [969, 1130, 1280])
def test_evidence_of_several_lines_is_whole(
    qtbot: QtBot, tmp_path: Path, width: int
) -> None:
    """Some just fit into a line until there is a scroll bar."""
    window, _engine, page = turned(qtbot, tmp_path)
    window.resize(width, 800)
    window.show()
    QApplication.processEvents()
    results = [PASSED._replace(what="i" * 3 * n + " end.") for n in range(10, 90)]
    reply(window, CheckRun, tuple(results))
    QApplication.processEvents()
    table = page.table
    assert table.verticalScrollBar().isVisible()
    rows = range(table.model().rowCount())
    assert len({table.rowHeight(row) for row in rows}) > 1
    assert [x for x in rows if table.rowHeight(x) < table.sizeHintForRow(x)] == []
