"""Teacher forcing in the window: in sight, switched, ended."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QFont, QGuiApplication, QImage, QPainter, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.states import ran
from tests.traces import fed, make_trace
from tests.window.painted import pixels
from tests.window.parts import click, put_up
from tests.window.windows import Pair, answer, translate
from visformer.engine.messages import Decode
from visformer.pictures.attention.strips import Chip, source_strip, target_strip
from visformer.pictures.selection import Look
from visformer.pictures.words.modified_run import score_words
from visformer.pictures.words.scene import telling_head
from visformer.session.state import Session
from visformer.ui.bars.chip_painter import TINTS, WIDEST, ChipPainter, look_of
from visformer.ui.bars.strips import TokenStrip, chip_words
from visformer.ui.widgets.export import CSV
from visformer.ui.widgets.table_view import Role
from visformer.values.trace import Trace
from visformer.words import probability

Taught = tuple[Pair, Trace]


@pytest.fixture
def taught(pair: Pair) -> Taught:
    window, engine = pair
    translate(window, engine, "one two")
    window.reference.setText("un deux")
    window.reference.submit()
    trace = fed(make_trace(target=5), dict.fromkeys(range(5), "reference"), wrong=(1,))
    return pair, answer(window, engine, trace)


def test_the_mode_and_its_score_are_in_sight(taught: Taught) -> None:
    (window, _engine), trace = taught
    bar = window.candidates.teaching
    assert bar.isVisible()
    assert bar.tag.text() == "teacher forcing"
    assert bar.words.text() == score_words(trace)
    assert (bar.fed.isChecked(), bar.free.isChecked()) == (True, False)
    assert window.session.state.step == telling_head(trace).step
    assert window.strategy.taught.isVisible()  # in the strategy's place
    assert not window.strategy.name.isVisible()
    window.session.set(step=2)
    panel = window.candidates
    own = next(row for row, found in enumerate(panel.rows) if found.chosen)
    tip = panel.table.model().index(own, 1).data(Role.ToolTipRole)
    assert isinstance(tip, str)
    assert "fed: “w” 0.0300; the model would say: “t1”" in tip


def test_the_reference_is_named_once_beside_the_tokens(taught: Taught) -> None:
    """By the mode, or by the drawer while the model runs free."""
    (window, _engine), _trace = taught
    assert window.drawer.button.text() == ""
    window.session.set(**ran(make_trace(target=5)))
    assert window.drawer.button.text() == "reference"


@pytest.mark.parametrize("size", range(11, 28))
def test_what_the_model_says_stands_whole_on_the_colour_of_the_loss(
    size: int, qtbot: QtBot
) -> None:
    strip = TokenStrip("target", "")
    qtbot.addWidget(strip)
    font = QFont("DejaVu Sans")
    font.setPixelSize(size)
    strip.setFont(font)
    strip.resize(300, 10)
    empty = Chip("abandonna", 1, 0.0, False, False, below=" ")
    coloured = empty._replace(loss=2.0)
    seen = []
    for chip in (empty, coloured, coloured._replace(below="▁ég")):
        strip.draw((chip,))
        seen.append(pixels(strip))
    ground, ink = ((a != b).any(-1) for a, b in itertools.pairwise(seen))
    assert ink.any()
    assert not (ink & ~ground).any()


def test_the_mode_pushes_no_picture(pair: Pair) -> None:
    window, engine = pair
    translate(window, engine, "one two")
    QApplication.processEvents()
    before = window.large.geometry(), window.tabs.middle.sizes()
    window.reference.setText("un deux")
    window.reference.submit()
    answer(
        window, engine, fed(make_trace(target=5), dict.fromkeys(range(5), "reference"))
    )
    QApplication.processEvents()
    assert window.candidates.teaching.isVisible()
    assert (window.large.geometry(), window.tabs.middle.sizes()) == before


def test_the_next_tokens_can_be_copied(taught: Taught) -> None:
    (window, _engine), trace = taught
    window.session.set(step=1)
    window.candidates.export.copy(CSV)
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0].endswith('"rank","id","probability"')
    best = trace.steps[0].candidates[0]
    assert lines[1].startswith(f'"{best.token}",1.0,{best.id}.0,')
    assert "teacher forcing" in lines[0]


def test_fed_and_free_are_one_click_apart(taught: Taught, qtbot: QtBot) -> None:
    (window, engine), trace = taught
    bar = window.candidates.teaching
    click(qtbot, bar.free)
    assert engine.decodes[-1] == Decode(source="one two")
    answer(window, engine)
    assert bar.isVisible()
    assert bar.tag.text() == "free running"
    assert window.reference.text() == "un deux"
    assert not bar.legend.isVisible()
    click(qtbot, bar.fed)
    assert engine.decodes[-1].reference == "un deux"
    answer(window, engine, trace)
    assert bar.tag.text() == "teacher forcing"


@pytest.mark.parametrize("way", ["button", "key"])
def test_the_drawer_is_ready_to_type_in_and_closes(
    way: str, pair: Pair, qtbot: QtBot
) -> None:
    window, engine = pair
    translate(window, engine, "one two")
    window.tabs.setFocus()
    if way == "button":
        click(qtbot, window.drawer.button)
    else:
        qtbot.keyClick(window, Qt.Key.Key_D, Qt.KeyboardModifier.ControlModifier)
    typed = QApplication.focusWidget()
    assert typed is window.reference
    qtbot.keyClicks(typed, "un fatal")  # letters that are keys elsewhere
    qtbot.keyClick(typed, Qt.Key.Key_Return)
    assert engine.decodes[-1].reference == "un fatal"
    assert not window.drawer.isVisible()
    assert QApplication.focusWidget() is window.tabs.bar


@pytest.mark.parametrize("way", ["end", "box"])
def test_the_cross_ends_it_at_once(way: str, taught: Taught, qtbot: QtBot) -> None:
    (window, engine), _trace = taught
    if way == "end":
        click(qtbot, window.candidates.teaching.end)
    else:
        window.reference.selectAll()
        qtbot.keyClick(window.reference, Qt.Key.Key_Delete)
    assert window.reference.text() == ""
    assert engine.decodes[-1] == Decode(source="one two")
    answer(window, engine)
    assert not window.candidates.teaching.isVisible()


def test_a_chip_says_who_fed_it_and_its_loss() -> None:
    words = chip_words(Chip("a", 7, 0.0, False, False, fed="fed: “a”", loss=2.0))
    assert words == "piece a, id 7\nfed: “a”\nloss = −ln p = 2 nats"


def test_only_a_chip_that_is_read_has_a_weight() -> None:
    trace = make_trace()
    session = Session()
    session.set(**ran(trace), step=3)
    shown = session.state.visible, session.state.selection, Look()
    source, target = source_strip(*shown), target_strip(*shown)
    for chip, weight in zip(source, trace.attention("cross", 0, 0)[2], strict=True):
        first, _rest = chip_words(chip).split(" (")
        assert (
            first
            == f"piece ▁{chip.token}, id {chip.id}, weight {probability(float(weight))}"
        )
    for chip, piece in zip(target[:-1], trace.target, strict=False):
        words = f"piece {piece}, id {chip.id}\nnot read by cross · layer 1, head 1"
        assert chip_words(chip) == words
    assert (
        chip_words(target[-1])
        == f"piece ▁t2, id {target[-1].id}\nno row has read it yet"
    )


def test_only_changed_chips_are_painted_again(qtbot: QtBot) -> None:
    strip = put_up(qtbot, TokenStrip("strip", "empty"), 600, 60)
    chips = tuple(Chip(f"t{at}", at, 0.0, False, False) for at in range(8))
    strip.draw(chips)
    qtbot.waitExposed(strip)
    row, painted = strip.row, []
    row._painter.paint = lambda painter, look, *_: painted.append(look.token)  # type: ignore[method-assign]
    row.repaint()
    QApplication.processEvents()
    painted.clear()
    strip.draw((*chips[:3], Chip("t3", 3, 0.9, False, False), *chips[4:]))
    qtbot.waitUntil(lambda: bool(painted))
    assert painted == ["t3"]


@pytest.mark.parametrize("joins", [*itertools.product((False, True), repeat=2)])
def test_a_chip_is_whole_at_every_height(
    qapp: QApplication, joins: tuple[bool, bool]
) -> None:
    palette = QPalette(Qt.GlobalColor.lightGray)
    palette.setColor(QPalette.ColorRole.Base, Qt.GlobalColor.white)
    chips = ChipPainter(qapp.font(), palette)
    look = look_of(Chip("", 1, 0.0, False, False), None)._replace(joins=joins)
    for high in range(30, 90):
        box, image = QRect(10, 5, 40, high), QImage(60, 100, QImage.Format.Format_RGB32)
        image.fill(palette.window().color())
        with QPainter(image) as painter:
            chips.paint(painter, look, box, 0)
        for x, inwards, joined in ((10, 3, joins[0]), (49, -3, joins[1])):
            assert image.pixelColor(x + inwards, box.center().y()) == QColor("white")
            for y in (box.top(), box.bottom()):  # a round corner leaves its tip free
                tip = image.pixelColor(x, y)
                assert (tip == palette.window().color()) is not joined, (high, x, y)


def test_the_current_token_is_scrolled_to_whole(qtbot: QtBot) -> None:
    strip = put_up(qtbot, TokenStrip("strip", "empty"), 300, 60)
    qtbot.waitExposed(strip)
    chips = [Chip(f"token {at}", at, 0.0, False, False) for at in range(12)]
    strip.draw((*chips, Chip("the last", 12, 0.0, True, False)))
    row = strip.row
    right = row.boxes[-1].right()
    qtbot.waitUntil(lambda: strip.horizontalScrollBar().value() > 0)
    assert row.mapTo(strip, row.boxes[-1].topRight()).x() <= strip.viewport().width()
    assert right <= row.width()


def test_what_the_model_would_have_said_finds_its_room(qtbot: QtBot) -> None:
    strip = TokenStrip("target", "")
    qtbot.addWidget(strip)
    chip = Chip("▁a", 3, 0.0, current=True, marked=False)
    strip.draw((chip,))
    high = strip.height()
    strip.draw((chip._replace(below="model: ▁b"), chip._replace(current=False)))
    assert strip.height() == high


@pytest.mark.parametrize("tint", [-np.inf, np.inf, np.nan, -1.0])
def test_a_weight_that_is_none_is_painted(tint: float) -> None:
    """A stranger's trace may hold any number."""
    shade = look_of(Chip("a", 1, tint, False, False), None).shade
    assert shade is None or 0 <= shade <= TINTS


def test_a_token_of_very_many_letters_takes_no_picture_as_wide(qtbot: QtBot) -> None:
    """A stranger's trace would take a gigabyte for it."""
    strip = TokenStrip("strip", "empty")
    qtbot.addWidget(strip)
    strip.resize(400, 60)
    strip.draw((Chip("x" * 20_000, 1, 0.0, False, False),))
    strip.show()
    qtbot.waitExposed(strip)
    strip.grab()
    kept = strip.row._painter._kept.values()
    assert max((picture.width() for picture in kept), default=0) <= WIDEST + 2
