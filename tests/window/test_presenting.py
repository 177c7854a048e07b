"""One picture alone for an audience, and back to what was there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QFontMetrics, QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.tiny_models import tiny_checkpoint
from tests.window.painted import painted
from tests.window.parts import settle, unwrap, view_of
from tests.window.pseudo_reader import Reader
from tests.window.windows import Pair, answer, decoded, places, translate
from visformer.pictures.computation.stages import STAGES
from visformer.pictures.selection import AttentionCell
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.views.computation.computation import ComputationView
from visformer.ui.views.masks.mask_lab import MaskLab
from visformer.ui.views.masks.masks import MaskMaps, MasksView
from visformer.ui.views.output.output import NextToken, OutputView
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.window import presenting
from visformer.ui.window.window import MainWindow
from visformer.values.changes.mask_changes import Causal
from visformer.values.intervention import Intervention

TABS = ("architecture", "positions", "attention", "masks", "output")


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    return decoded(pair)


def test_presenting_shows_one_picture_and_goes_back_to_what_was_there(
    window: MainWindow, qtbot: QtBot
) -> None:
    view = view_of(window, AttentionView)
    window.session.set(kind="cross", locked=AttentionCell("cross", 1, 1))
    size, text = window.size(), view.panels["cross"].fontMetrics().height()
    before = places(window)
    qtbot.keyClick(window.tabs, Qt.Key.Key_F5)
    presentation = window.presentation
    assert window.large.picture is view.panels["cross"]
    assert not window.header.isVisible()
    assert not window.status.isVisible()
    assert view.panels["cross"].fontMetrics().height() >= 1.5 * text
    strips, aside = presentation.strips, presentation.aside
    shown = unwrap(window.session.state.visible)
    chips = [chip for chip in strips.target.row.chips if not chip.later]
    assert [chip.current for chip in chips] == [False] * 3 + [True]
    assert "▁" + chips[-1].token == shown.steps[-1].token
    assert strips.isVisible()
    assert "reads" in aside.text()
    window.session.set(locked=None)
    best = shown.steps[-1].candidates[0]
    assert aside.text().startswith(f"{best.token[1:]} {best.probability:.4f}")
    window.session.set(locked=AttentionCell("cross", 1, 1))
    qtbot.keyClick(window, Qt.Key.Key_PageDown)  # the clicker goes on
    assert window.session.state.step == 4
    qtbot.keyClick(window, Qt.Key.Key_2)
    assert window.large.picture is view.panels["decoder"]
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.large.picture is None
    assert window.header.isVisible()
    assert window.status.isVisible()
    assert window.session.state.locked is not None
    window.resize(size)
    window.session.set(kind="cross", step=3)
    assert places(window) == before


def test_both_sentences_stand_above_and_the_next_tokens_where_there_is_room(
    window: MainWindow,
) -> None:
    presentation, large = window.presentation, window.large
    strips, candidates = presentation.strips, presentation.candidates
    for tab in ("computation", "attention"):
        window.session.set(tab=tab)
        presentation.begin()
        window.showNormal()  # no screen of a test is wide enough
        for width, beside in ((1280, False), (1900, True), (1280, False)):
            window.resize(width, 1000)
            settle(3)
            shown = unwrap(large.picture).geometry()
            assert strips.isVisible()
            assert strips.geometry().bottom() < shown.top()
            assert candidates.isVisible() == beside
            assert (shown.width() > 0.9 * large.width()) == (not beside)
            assert shown.width() * shown.height() > 0.5 * width * 1000
        bars, best = candidates.table, candidates.shown.best()
        presentation.end()
    assert len(best) == bars.model().rowCount() > 3
    assert not strips.isVisible()


class _Hasty(QObject):
    """Has all drawn whenever a font changes, as what the mouse is over may."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        window.large.alone.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.FontChange:
            self._window.session.set()
        return False


def test_what_is_drawn_while_a_picture_goes_back_does_not_lose_it(
    window: MainWindow,
) -> None:
    window.session.set(tab="computation", stage="softmax")
    before, large = places(window), window.large
    _Hasty(window)
    window.presentation.begin()
    for _time in range(2):
        large.restore()  # with two clicks
        window.session.set()
        assert large.picture is not None
        assert large.alone.isAncestorOf(large.picture)
    window.presentation.end()
    QApplication.processEvents()
    assert places(window) == before


def test_a_large_picture_is_presented_and_stays_large(window: MainWindow) -> None:
    window.session.set(tab="computation")
    table = next(t for t in window.tabs.findChildren(NumberTable) if t.isVisible())
    window.large.enlarge(table)
    window.presentation.begin()
    assert window.large.picture is table
    window.presentation.end()
    assert window.large.picture is table
    window.large.restore()


def test_what_is_presented_later_looks_as_if_it_had_been_first(
    window: MainWindow,
) -> None:
    pictures = []
    for first in ("encoder", "cross"):
        window.session.set(tab="attention", kind=first)
        window.presentation.begin()
        QApplication.processEvents()
        window.session.set(kind="encoder")
        QApplication.processEvents()
        pictures.append(unwrap(window.large.picture).grab().toImage())
        window.presentation.end()
    assert pictures[0] == pictures[1]


def test_whatever_is_presented_is_in_large_text_and_alone_so(
    window: MainWindow,
) -> None:
    view = view_of(window, AttentionView)
    small = window.font().pointSizeF()
    window.session.set(tab="attention", kind="cross")
    window.presentation.begin()
    for kind in ("encoder", "decoder", "cross"):
        window.session.set(kind=kind)
        sizes = {name: map.font().pointSizeF() for name, map in view.maps.items()}
        assert sizes.pop(kind) >= presenting.TEXT * small
        assert set(sizes.values()) == {small}
    for name in ("positions", "computation", "masks", "output"):
        window.session.set(tab=name)
        picture = unwrap(window.large.picture)
        assert picture.font().pointSizeF() >= presenting.TEXT * small
        assert view.maps["cross"].font().pointSizeF() == small
    window.presentation.end()


@pytest.mark.parametrize("lost", [False, True])
def test_the_second_screen_is_used_where_there_is_one(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    here = window.screen()
    monkeypatch.setattr(presenting, "other_screen", lambda *_: here)
    before = places(window)
    window.presentation.begin()
    assert window.large.alone.isWindow()
    keyless = Qt.WindowType.WindowDoesNotAcceptFocus  # a click takes no keys from here
    assert window.large.alone.windowFlags() & keyless
    assert window.header.isVisible()  # on the first screen everything else stays
    window.session.set(step=4)
    if lost:  # the projector is unplugged
        QGuiApplication.instance().screenRemoved.emit(here)  # type: ignore[union-attr]
        assert not window.presentation.on
    else:
        window.presentation.end()
    assert not window.large.alone.isWindow()
    assert window.large.alone.windowHandle() is None  # the window paints it
    window.session.set(step=3)
    assert places(window) == before


def test_a_mask_of_one_colour_is_presented_as_words(pair: Pair) -> None:
    window, engine = pair
    translate(window, engine, "one two")
    window.session.set(tab="masks", kind="cross")
    maps = window.tabs.view("masks").findChildren(MaskMaps)[0]
    maps.enlarge(("cross", "combined"))
    assert (maps.map.isVisible(), maps.solid.isVisible()) == (False, True)
    small = maps.solid.fontMetrics().height()
    window.presentation.toggle()
    for step in (1, 2):
        window.session.set(step=step)
        assert maps.picture.isVisible()
        assert (maps.map.isVisible(), maps.solid.isVisible()) == (False, True)
    assert maps.solid.fontMetrics().height() > 1.3 * small
    window.presentation.toggle()
    assert (maps.map.isVisible(), maps.solid.isVisible()) == (False, True)


def test_matrices_of_a_later_stage_have_the_large_text_too(pair: Pair) -> None:
    window, engine = pair
    translate(window, engine, "one two")
    window.session.set(tab="computation", stage="softmax", kind="decoder")
    view = view_of(window, ComputationView)
    small = window.font().pointSizeF()
    window.presentation.begin()
    first = len(view.maps.maps)
    window.session.set(stage="scale")
    assert len(view.maps.maps) > first
    (large,) = {one.font().pointSizeF() for one in view.maps.maps}
    assert large >= presenting.TEXT * small
    QApplication.processEvents()
    for width, count in ((800, 2), (1900, 4)):
        window.resize(width, 800)
        QApplication.processEvents()
        seen = [one for one in view.maps.maps if one.isVisible()]
        named = [painted(one, one.row_labels).words != [] for one in seen]
        assert len(seen) == count
        assert named == [True] + [False] * (count - 1)  # they have the same rows
        wide = [one.canvas.width() for one in seen]  # and are compared
        assert max(wide) - min(wide) <= 2
    window.presentation.end()
    QApplication.processEvents()
    assert all(painted(one, one.row_labels).words for one in view.maps.maps)
    assert {one.font().pointSizeF() for one in view.maps.maps} == {small}


def test_comparisons_are_presented_as_comparisons(pair: Pair) -> None:
    window = decoded(pair)
    window.session.set(tab="masks")
    lab = view_of(window, MasksView)
    lab.turn("lab")
    page, trace, change = (
        lab.page(MaskLab),
        unwrap(window.session.state.trace),
        Causal(None),
    )
    window.change_run(Intervention(masks=(change,)))
    answer(window, pair[1], replace(trace, intervention=Intervention(masks=(change,))))
    window.presentation.begin()
    QApplication.processEvents()
    assert all(one.isVisible() for one in page.attention)
    assert not page.mask_map.isVisible()
    window.session.set(tab="output")
    QApplication.processEvents()
    assert view_of(window, OutputView).page(NextToken).bars.isVisible()
    window.session.set(tab="masks")
    window.presentation.end()
    assert page.mask_map.isVisible()


def test_black_stays_black_whatever_picture_comes(
    window: MainWindow, qtbot: QtBot
) -> None:
    def colours() -> set[str]:
        QApplication.processEvents()
        image = window.large.alone.grab().toImage()
        columns, rows = range(0, image.width(), 7), range(0, image.height(), 7)
        return {image.pixelColor(x, y).name() for x in columns for y in rows}

    window.session.set(tab="attention", kind="cross")
    window.presentation.begin()
    assert len(colours()) > 1
    qtbot.keyClick(window, Qt.Key.Key_B)
    assert colours() == {"#000000"}
    for key in (Qt.Key.Key_1, Qt.Key.Key_T, Qt.Key.Key_PageDown):
        qtbot.keyClick(window, key)
        assert colours() == {"#000000"}
    window.session.set(tab="computation")
    assert colours() == {"#000000"}
    window.resize(window.width() + 100, window.height() + 100)
    assert colours() == {"#000000"}
    qtbot.keyClick(window, Qt.Key.Key_Period)
    assert len(colours()) > 1
    window.presentation.end()


@pytest.mark.parametrize(
    ("zoom", "size"),
    [
        (100, (1280, 800)),
        pytest.param(130, (1920, 1080), marks=pytest.mark.slow),
        pytest.param(150, (1280, 800), marks=pytest.mark.slow),
        pytest.param(200, (1280, 800), marks=pytest.mark.slow),
    ],
)
def test_the_window_has_its_size_again_whatever_was_presented(
    pair: Pair, zoom: int, size: tuple[int, int]
) -> None:
    window, _engine = pair
    reader = Reader(*pair, tiny_checkpoint())
    reader.run()
    window.appearance.zoom_by(zoom - 100)
    window.resize(*size)
    # at the usual size ``managed_window`` presents them all
    stages = STAGES if zoom > 100 else STAGES[::2]
    shown = [("computation", stage.name) for stage in stages]
    for tab, stage in [*shown, *((tab, "scores") for tab in TABS)]:
        window.session.set(tab=tab, stage=stage)
        reader.answer()
        QApplication.processEvents()
        before = window.geometry()
        window.large.toggle_focused()
        QApplication.processEvents()
        window.large.restore()
        window.presentation.begin()
        assert window.presentation.on, (tab, stage)
        QApplication.processEvents()
        window.presentation.end()
        settle(3)
        assert window.geometry() == before, (tab, stage)


@pytest.mark.parametrize("zoom", [100, 130, 150, 200])
def test_what_is_presented_has_text_of_at_least_this_size(
    window: MainWindow, zoom: int
) -> None:
    usual = QApplication.font().pointSizeF()
    window.appearance.zoom_by(zoom - 100)
    usually = QFontMetrics(QApplication.font()).capHeight()
    window.presentation.begin()
    presented = window.large.alone.font()
    window.presentation.end()
    window.appearance.zoom_by(0)
    factor, capitals = (
        presented.pointSizeF() / usual,
        QFontMetrics(presented).capHeight(),
    )
    assert factor >= max(1.6, zoom / 100) - 0.01
    assert capitals >= 16  # pixels
    assert factor <= max(2, zoom / 100)  # the larger of both, not their product
    assert zoom < 150 or usually >= 12


def test_forms_and_stages_have_their_keys_while_presenting(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.presentation.begin()
    for key, form in ((Qt.Key.Key_A, "arcs"), (Qt.Key.Key_T, "text")):
        qtbot.keyClick(window, key)
        assert window.session.state.look.form == form
    qtbot.keyClick(window, Qt.Key.Key_BracketRight)  # there is no stage here
    assert window.session.state.stage == "softmax"
    window.session.set(tab="computation")
    qtbot.keyClick(window, Qt.Key.Key_BracketRight)
    assert window.session.state.stage == "weighted"
    qtbot.keyClick(window, Qt.Key.Key_BracketLeft)
    assert window.session.state.stage == "softmax"
    qtbot.keyClick(window, Qt.Key.Key_M)  # no form of attention is shown here
    assert window.session.state.look.form == "text"
    window.presentation.end()
