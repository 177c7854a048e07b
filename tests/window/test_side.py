"""The next token beside the pictures: as wide as there is room, or folded."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication, QSplitter

from tests.states import ran
from tests.traces import make_trace
from tests.window.windows import Pair
from visformer.ui.window.window import MainWindow


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    window, _engine = pair
    window.session.set(**ran(make_trace(6, 5)), step=2)
    return window


def zoomed(window: MainWindow, zoom: int, size: tuple[int, int] = (1280, 800)) -> None:
    window.appearance.zoom_by(zoom - window.appearance.zoom or 0)
    window.resize(*size)
    QApplication.processEvents()


def test_it_is_folded_where_the_pictures_need_the_width(window: MainWindow) -> None:
    side, panel = window.side, window.candidates
    assert panel.isVisible()
    assert side.button.isHidden()
    zoomed(window, 200)
    assert panel.isHidden()
    assert side.button.isVisible()
    side.button.click()  # it is wanted all the same
    assert panel.isVisible()
    assert side.button.isHidden()
    side.show(False)
    assert panel.isHidden()
    zoomed(window, 130)
    assert panel.isVisible()  # to fold it where it is folded anyway was no wish


def test_it_is_folded_where_the_view_names_the_next_token(window: MainWindow) -> None:
    zoomed(window, 150)
    for tab, shown in (("attention", True), ("architecture", False), ("masks", True)):
        window.session.set(tab=tab)
        assert window.candidates.isVisible() == shown
    zoomed(window, 150, (1920, 1080))
    for tab, shown in (("architecture", False), ("output", False), ("masks", True)):
        window.session.set(tab=tab)
        assert window.candidates.isVisible() == shown
    window.session.set(tab="output")
    window.side.button.click()  # it is wanted all the same
    assert window.candidates.isVisible()


def test_its_width_follows_the_window_and_what_the_user_made_it(
    window: MainWindow,
) -> None:
    middle = window.tabs.middle
    wide = middle.sizes()[1]
    window.resize(800, 600)
    QApplication.processEvents()
    assert middle.sizes()[1] < 0.75 * wide
    assert middle.sizes()[0] > 600
    middle.moveSplitter(500, 1)
    chosen = middle.sizes()[1]
    assert chosen > wide
    zoomed(window, 110, (1280, 800))
    assert middle.sizes()[1] > chosen
    window.appearance.zoom_by(0)
    window.side.reset()
    QApplication.processEvents()
    assert middle.sizes()[1] == wide
    middle.moveSplitter(500, 1)
    assert middle.sizes()[1] > wide
    window.side.reset()
    assert middle.sizes()[1] == wide


def test_another_theme_lays_out_nothing(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out = QSplitter.setSizes
    in_vain = []

    def watched(splitter: QSplitter, sizes: list[int]) -> None:
        """Note a call that changes nothing; opening the window may still call it."""
        before = splitter.sizes()
        laid_out(splitter, sizes)
        if splitter.sizes() == before:
            in_vain.append(sizes)

    monkeypatch.setattr(QSplitter, "setSizes", watched)
    for name in ("dark", "light"):
        window.appearance.set_theme(name)
        QApplication.processEvents()
    assert window.candidates.isVisible()
    assert in_vain == []
