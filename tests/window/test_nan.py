"""Rows that may attend to nothing, of a model that makes NaN of them or equal weights.

A batch with a row of nothing but padding is run; what the screen shows is looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from tests.states import ran
from tests.window.parts import view_of
from visformer.core.passes import run
from visformer.formats.loading import build
from visformer.pictures.selection import SCALES, AttentionCell, Scale
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.widgets.colour_bar import NAN_COLOUR
from visformer.ui.window.window import MainWindow
from visformer.values.trace import Trace

SIZES: dict[str, Any] = {
    "d_model": 16,
    "heads": 2,
    "feed_forward": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "source_vocabulary": 20,
    "target_vocabulary": 20,
}


def padded_row(**choices: Any) -> Trace:
    """Return the second row of a batch: a source of pads alone."""
    checkpoint = build("torch", device="cpu", **SIZES, **choices)
    sources = np.array([[5, 6, 7], [checkpoint.tokenizer.pad] * 3])
    return run(checkpoint, sources, np.array([[1, 8, 9], [1, 8, 9]]))[1]


def share(widget: QWidget, colour: str = NAN_COLOUR) -> float:
    """Return how much of a widget has a colour."""
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), -1)
    wanted = QColor(colour).rgb() & 0xFFFFFF
    return float((pixels & 0xFFFFFF == wanted).mean())


@pytest.mark.parametrize("scale", SCALES)
def test_maps_and_overview_show_nan_with_its_word(
    window: MainWindow, scale: Scale
) -> None:
    window.session.set(**ran(padded_row()), step=3, kind="cross", scale=scale)
    QApplication.processEvents()  # all that is seen changes: it is painted later
    view = view_of(window, AttentionView)
    assert share(view.maps["cross"].canvas) > 0.3  # the rest is its crosses
    assert share(view.maps["decoder"].canvas) == 0
    assert "NaN" in dict(view.maps["cross"].bar._keys)
    assert "NaN" not in dict(view.maps["decoder"].bar._keys)
    all_of_it = share(view.overview)
    assert all_of_it > 0.3
    place = view.overview._place().topLeft().toPoint()
    words = view.overview.grab().toImage().copy(0, 0, 10_000, place.y() // 2)
    ends = {words.pixelColor(x, words.height() // 2).name() for x in range(600)}
    assert NAN_COLOUR in ends  # the key beside the overview's title
    window.session.set(kind="decoder")  # its first layer still reads numbers
    assert 0 < share(view.overview) < 0.6 * all_of_it


def test_nan_cells_are_crossed_too(window: MainWindow) -> None:
    window.session.set(**ran(padded_row()), step=3)
    image = view_of(window, AttentionView).maps["cross"].canvas.grab().toImage()
    middle = image.rect().center() - QPoint(30, 20)
    around = image.copy(middle.x() + 5, middle.y() + 5, 20, 20)
    seen = {around.pixelColor(x, y).name() for x in range(20) for y in range(20)}
    assert len(seen) > 1


def test_strips_candidates_and_words_say_nan(window: MainWindow) -> None:
    window.session.set(**ran(padded_row()), step=3, locked=AttentionCell("cross", 1, 2))
    assert share(window.strips.source) > 0.02
    assert share(window.strips.target) == 0
    assert "NaN" in window.strips.source.accessibleDescription()
    assert window.candidates.table.model().index(0, 2).data() == "NaN"
    assert "NaN" in window.candidates.summary.text()
    assert not window.candidates.grab().isNull()  # painted without a bar
    assert "so all its weights are NaN" in window.status.words.text()
    assert "NaN" in view_of(window, AttentionView).maps["cross"].accessibleDescription()


@pytest.mark.parametrize("tab", ["masks", "architecture"])
def test_other_tabs_draw_and_say_it(window: MainWindow, tab: str) -> None:
    trace = padded_row()
    window.session.set(**ran(trace, batch=(trace,)), step=3, tab=tab)
    assert not window.grab().isNull()
    if tab == "masks":
        labels = window.tabs.view(tab).findChildren(QLabel)
        assert "NaN" in " ".join(label.text() for label in labels)
