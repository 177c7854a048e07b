"""What stands where a picture was taken out to be large, and how it comes back."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLayout, QScrollArea, QSplitter, QWidget

from visformer.language import _
from visformer.ui.widgets.plain_label import plain_label


def taken_out(picture: QWidget) -> Callable[[], None] | None:
    """Put a stand-in where a picture stands; return what puts the picture back.

    None where nothing that is known here arranges it.
    """
    parent = picture.parentWidget()
    # seen only where there are two screens
    stand_in = plain_label(_("This picture is on the other screen."), faint=True)
    stand_in.setAlignment(Qt.AlignmentFlag.AlignCenter)
    stand_in.setWordWrap(True)
    stand_in.setSizePolicy(picture.sizePolicy())
    stand_in.setMinimumSize(picture.minimumSizeHint().expandedTo(picture.minimumSize()))
    stand_in.setMaximumSize(picture.maximumSize())
    area = parent.parentWidget() if parent is not None else None
    layout = parent.layout() if parent is not None else None
    if isinstance(parent, QSplitter):
        put_back = _out_of_splitter(parent, picture, stand_in)
    elif isinstance(area, QScrollArea) and area.widget() is picture:
        put_back = _out_of_area(area, stand_in)
    elif layout is not None:
        put_back = _out_of_layout(layout, picture, stand_in)
    else:
        return None

    def restored() -> None:
        hidden = picture.isHidden()  # as its view wants it by now
        put_back()
        picture.setHidden(hidden)
        stand_in.hide()
        stand_in.deleteLater()

    return restored


def _out_of_splitter(
    splitter: QSplitter, picture: QWidget, stand_in: QWidget
) -> Callable[[], None]:
    sizes = splitter.sizes()
    splitter.replaceWidget(splitter.indexOf(picture), stand_in)

    def put_back() -> None:
        splitter.replaceWidget(splitter.indexOf(stand_in), picture)
        splitter.setSizes(sizes)

    return put_back


def _out_of_area(area: QScrollArea, stand_in: QWidget) -> Callable[[], None]:
    picture = area.takeWidget()
    area.setWidget(stand_in)

    def put_back() -> None:
        area.takeWidget()
        area.setWidget(picture)

    return put_back


def _out_of_layout(
    layout: QLayout, picture: QWidget, stand_in: QWidget
) -> Callable[[], None]:
    layout.replaceWidget(picture, stand_in)  # in the layouts inside it too

    def put_back() -> None:
        layout.replaceWidget(stand_in, picture)

    return put_back
