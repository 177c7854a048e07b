"""Whatever a stranger's text is shown in draws its letters, never what its markup says.

The markup asks for a red ground; no part of the window has that red.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QMenu, QTableView, QWidget

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.parts import pages
from tests.window.windows import Pair
from visformer.engine.messages import Asked
from visformer.session import runs
from visformer.session.kept import KeptWork, WorkFacts
from visformer.session.recipe import Recipe, WantedRun
from visformer.ui.widgets.plain_label import plain_tip
from visformer.ui.window.actions import show_recent
from visformer.ui.window.window import MainWindow
from visformer.values.finding import Finding
from visformer.values.questions import Question, Questionnaire
from visformer.values.step import Candidates, Step

RED = '<table bgcolor="#ff0000"><tr><td>r</td></tr></table><b style="background:#f00">r'
TRACE = make_trace(source=4, target=4, layers=2)


def reds(image: QImage) -> int:
    """Count the pixels of the markup's red."""
    if image.isNull():
        return 0  # an empty menu
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    shape = image.height(), image.bytesPerLine() // 4, 4
    bgr = np.frombuffer(image.constBits(), np.uint8).reshape(shape)[..., :3]
    return int(np.all(bgr == (0, 0, 255), axis=-1).sum())


def drawn(widget: QWidget) -> int:
    widget.ensurePolished()
    QApplication.processEvents()
    return reds(widget.grab().toImage())


def tip_reds(root: QWidget) -> int:
    """Count those of all tips, drawn as Qt draws them: by a label that may guess."""
    tips = {widget.toolTip() for widget in root.findChildren(QWidget)}
    return sum(map(tip_red, tips))


@functools.cache
def tip_red(tip: str) -> int:
    return reds(QLabel(tip).grab().toImage())


def strange_names(step: Step) -> Candidates:
    ids = np.array([one.id for one in step.candidates])
    chances = np.array([one.probability for one in step.candidates])
    return Candidates(ids, [RED] * len(ids), chances)


@pytest.fixture
def strange(window: MainWindow) -> MainWindow:
    """Show a run all of whose texts are the stranger's."""
    model = replace(TRACE.model, name=RED)
    four = (RED,) * 4
    steps = [
        replace(step, token=RED, candidates=strange_names(step)) for step in TRACE.steps
    ]
    trace = replace(
        TRACE, source=four, target=four, source_text=RED, model=model, steps=steps
    )
    window.session.do(runs.show_trace, trace)
    window.session.set(step=2)
    window.source.setText(RED)
    window.reference.setText(RED)
    return window


def test_the_check_finds_what_is_read_as_markup(pair: Pair) -> None:
    assert drawn(QLabel(RED)) > 50
    assert drawn(pair[0]) == 0


def test_no_page_reads_markup(strange: MainWindow) -> None:
    for _page in pages(strange):
        assert drawn(strange) == 0
        assert tip_reds(strange) == 0


def test_no_message_reads_markup(strange: MainWindow) -> None:
    change: Any = strange.session.set
    for field in ("error", "notice", "busy", "silence"):
        change(**{field: RED})
        assert drawn(strange) == 0
    recipe = Recipe(wanted=WantedRun(sentence=RED))
    facts = WorkFacts(recipe=msgspec.Raw(b"{}"), saved=1.0, file=RED)
    work = KeptWork(folder=Path("/kept"), recipe=recipe, facts=facts)
    strange.restore.offer(work)
    strange.files.path = RED
    strange.files.earlier = [work]
    strange.files.draw(strange.session.state)
    assert drawn(strange) == 0
    assert tip_reds(strange) == 0


def test_no_menu_reads_markup(strange: MainWindow) -> None:
    show_recent(strange, [RED, "/tmp/R&D"])
    recipe = Recipe(wanted=WantedRun(sentence=RED))
    facts = WorkFacts(recipe=msgspec.Raw(b"{}"), saved=1.0)
    strange.files.earlier = [KeptWork(folder=Path("/a"), recipe=recipe, facts=facts)]
    for menu in strange.findChildren(QMenu):
        menu.aboutToShow.emit()
        assert drawn(menu) == 0
    entries = [action.text() for action in strange.recent_menu.actions()]
    assert entries[1] == "/tmp/R&&D"  # a single one is the mark of a key


def dialogs(window: MainWindow) -> Iterator[QDialog]:
    for dialog in window.findChildren(QDialog):
        if dialog.isVisible():
            yield dialog
            dialog.close()


def test_no_dialog_reads_markup(strange: MainWindow) -> None:
    finding = Finding(id=RED, where=RED, what=RED, remedy=RED)
    model = replace(TRACE.model, name=RED)
    strange.receive(opened_model(model, path=RED, findings=(finding,), assumed=(RED,)))
    strange.about.click()
    assert [drawn(dialog) for dialog in dialogs(strange)] == [0]


def test_no_question_reads_markup(strange: MainWindow) -> None:
    questions = (
        Question(name="pad", label=RED, kind="integer", why=RED, nothing=RED, most=9),
        Question(
            name="heads",
            label=RED,
            kind="choice",
            why=RED,
            choices=((1, RED), (2, RED)),
        ),
        Question(name="tokenizer", label=RED, kind="file", why=RED, nothing=RED),
    )
    form = Questionnaire(layout=RED, sizes=RED, introduction=RED, questions=questions)
    strange.open("/x/<b>m.pt")
    strange.receive(Asked(number=-1, path=f"/x/{RED}", form=form))
    assert drawn(strange) == 0
    assert tip_reds(strange) == 0


# ---- tips, and labels that may read markup ----------------------------------------


MARKUP = '<img src="file:///dev/null">x'


def tips(window: MainWindow) -> Iterator[str]:
    """Yield the tips of all widgets, and labels that may read markup."""
    for widget in window.findChildren(QWidget):
        yield widget.toolTip()
        plain = Qt.TextFormat.PlainText
        if isinstance(widget, QLabel) and widget.textFormat() != plain:
            yield widget.text()
        if isinstance(widget, QTableView) and widget.model() is not None:
            model, role = widget.model(), Qt.ItemDataRole.ToolTipRole
            cells = [(r, c) for r in range(4) for c in range(4)]
            yield from (str(model.index(*cell).data(role)) for cell in cells)
            for way in (Qt.Orientation.Horizontal, Qt.Orientation.Vertical):
                yield str(model.headerData(0, way, role))


def test_what_looks_like_markup_is_shown_as_it_is(window: MainWindow) -> None:
    made = make_trace(source=4, target=4, layers=2)
    four = (MARKUP,) * 4
    model = replace(made.model, name=MARKUP)
    trace = replace(made, source=four, target=four, source_text=MARKUP, model=model)
    window.session.do(runs.show_trace, trace)
    window.session.set(step=2)
    found: set[str] = set()
    for _page in pages(window):
        QApplication.processEvents()
        found |= {*tips(window)}
    assert any("&lt;img" in tip for tip in found)
    assert [tip for tip in found if "<img" in tip] == []


def test_only_tips_that_need_it_are_changed() -> None:
    assert plain_tip("one\ntwo") == "one\ntwo"
    assert plain_tip("<s>\na & b") == "<qt>&lt;s&gt;<br>a &amp; b</qt>"
