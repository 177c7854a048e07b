"""The kept image of a diagram, against one that is painted from nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from visformer.pictures.diagram.columns import Arrow, Box, Drawing
from visformer.ui.look.theme import THEMES, palette
from visformer.ui.views.architecture.architecture import DiagramImage
from visformer.ui.views.architecture.diagram_canvas import Painting

UNITS = 7.3, 16.6  # pixels: a character, a line
BOXES = (
    Box(x=1, y=1, width=30, height=8, style="frame"),
    Box(x=2, y=2, width=20, title="Norm", detail="512", style="norm", id="norm"),
    Box(x=2, y=4, width=20, title="Linear W_Q", id="linear"),
    Box(x=2, y=6, width=9, title="▁chat", style="token"),
    Box(x=12, y=6, width=12, style="row", id="row"),
    Box(x=34, y=2, width=20, title="with K and V", style="text"),
)
ARROWS = (Arrow(points=((10, 4), (10, 3.3))),)
DRAWING = Drawing(width=60, height=12, boxes=BOXES, arrows=ARROWS)


@pytest.fixture
def widget(qtbot: QtBot) -> QWidget:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.resize(460, 220)
    return widget


def of(image: DiagramImage, drawing: Drawing, widget: QWidget) -> QImage:
    return image.of(drawing, widget, widget.font(), UNITS).toImage()


def with_box(at: int, **changes: Any) -> Drawing:
    changed = replace(BOXES[at], **changes)
    return replace(DRAWING, boxes=(*BOXES[:at], changed, *BOXES[at + 1 :]))


DIFFERENT = {
    "title": with_box(1, title="Final norm"),
    "detail": with_box(1, detail="shared"),
    "token": with_box(3, width=12, title="▁chien", strong=True),
    "words": with_box(5, title="with Q"),
    "x": with_box(1, x=3),
    "y": with_box(1, y=2.2),
    "width": with_box(1, width=22),
    "height": with_box(1, height=1.1),
    "style": with_box(2, style="outside"),
    "strong": with_box(2, strong=True),
    "role": with_box(2, role="query"),
    "stack": with_box(2, stack=3),
    "row": with_box(4, title="no tokens"),
    "chosen": replace(DRAWING, chosen="linear"),
    "chosen row": replace(DRAWING, chosen="row"),
    "one box less": replace(DRAWING, boxes=BOXES[:2] + BOXES[3:]),
    "arrow": replace(DRAWING, arrows=(replace(ARROWS[0], strong=True),)),
    "no arrow": replace(DRAWING, arrows=()),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_is_painted_and_nothing_is_left_behind(
    widget: QWidget, name: str
) -> None:
    image = DiagramImage()
    before = of(image, DRAWING, widget)
    after = of(image, DIFFERENT[name], widget)
    assert after != before
    assert after == of(DiagramImage(), DIFFERENT[name], widget)
    assert of(image, DRAWING, widget) == before


def test_another_size_font_or_theme_paints_everything(
    widget: QWidget,
) -> None:
    image = DiagramImage()
    seen = [of(image, DRAWING, widget)]
    widget.resize(400, 180)
    seen.append(of(image, DRAWING, widget))
    font = widget.font()
    font.setPointSizeF(0.8 * font.pointSizeF())
    widget.setFont(font)
    seen.append(of(image, DRAWING, widget))
    widget.setPalette(palette(THEMES["dark"]))
    seen.append(of(image, DRAWING, widget))
    assert seen[-1] == of(DiagramImage(), DRAWING, widget)
    for at, one in enumerate(seen):
        assert one not in seen[at + 1 :]


@pytest.mark.parametrize(
    ("name", "painted"),
    [("title", "words"), ("token", "words"), ("strong", "boxes and words")],
)
def test_boxes_are_painted_only_where_one_changes(
    widget: QWidget, name: str, painted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = DiagramImage()
    of(image, DRAWING, widget)
    calls: list[str] = []
    monkeypatch.setattr(Painting, "draw", lambda *_drawn: calls.append("boxes"))
    monkeypatch.setattr(Painting, "write", lambda *_drawn: calls.append("words"))
    of(image, DIFFERENT[name], widget)
    of(image, replace(DIFFERENT[name]), widget)  # an equal one: nothing is painted
    assert " and ".join(calls) == painted


def test_boxes_gone_back_to_are_not_painted_again(
    widget: QWidget, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, other = DiagramImage(), DIFFERENT["strong"]
    seen = of(image, DRAWING, widget), of(image, other, widget)
    monkeypatch.setattr(Painting, "draw", lambda *_drawn: pytest.fail("boxes"))
    assert (of(image, DRAWING, widget), of(image, other, widget)) == seen
