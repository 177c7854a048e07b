"""Copies and files of a picture and its numbers, as they are on screen."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import (
    QBuffer,
    QEvent,
    QMarginsF,
    QObject,
    QPoint,
    QRect,
    QSize,
    QSizeF,
    Qt,
)
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QGuiApplication,
    QImage,
    QImageWriter,
    QPageLayout,
    QPageSize,
    QPainter,
    QPalette,
    QPdfWriter,
)
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QApplication,
    QFileDialog,
    QMenu,
    QWidget,
)

from visformer.errors import InputError
from visformer.files import check_suffix, exists, save_result, short
from visformer.language import N_, _, clauses
from visformer.pictures.picture import Table, csv_text, json_text, npz
from visformer.ui.layout import SingleShot, paint_later
from visformer.ui.look.theme import BASE_SIZE, THEME, apply_theme
from visformer.ui.widgets.controls import Offer, add_offers
from visformer.ui.widgets.vector import svg
from visformer.ui.window.large import CornerButton, can_be_large, place_of, report

CM = 2.54  # in an inch
MARGIN = 8  # around a figure
UNITS = 96  # of a drawing in an inch
DOTS = 300  # pixels in an inch of a figure that has a width
SHARPNESS = 2  # pixels of a picture per pixel on screen, in each direction
FRAME_MS, LAST_MS = 1000, 3000  # of an animation
PRINTED = ".svg", ".pdf"
PRESSED = 70  # quality of a PNG, all without loss: in half the time of Qt's default
DRESSING = 5  # turns of the event loop until a window is seen in another theme
DIRECT = Qt.FindChildOption.FindDirectChildrenOnly
MODIFIED = "modified"  # a window's property: what is changed in the run it shows


class Format(NamedTuple):
    """One form in which a picture or its numbers leave the window."""

    copy: str  # as named in the menu, marked for the catalogue
    save: str
    files: tuple[str, ...]  # names that can be given; the first is offered
    make: Callable[[QWidget, Table], QImage | str]  # for the clipboard
    write: Callable[[Path, QWidget, Table], None]


class Export(QObject):
    """The context menu of a picture, which can also be made large."""

    def __init__(self, widget: QWidget, table: Callable[[], Table | None]) -> None:
        """``table`` gives the numbers; None while there are none."""
        super().__init__(widget)
        self._widget, self._table = widget, table
        # more entries for a point of the screen, above the others
        self.offers: Callable[[QPoint], Iterable[Offer]] = lambda _place: ()
        can_be_large(widget)
        widget.installEventFilter(self)
        if isinstance(widget, QAbstractScrollArea):
            widget.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QContextMenuEvent):
            self.popup(event.globalPos())
            return True
        return False

    def table(self) -> Table | None:
        """Return the numbers; what they are is followed by what modified the run."""
        table, words = self._table(), modification(self._widget)
        if table is None or not words:
            return table
        return replace(table, about=clauses((table.about, words)))

    def popup(self, place: QPoint) -> None:
        """Show the menu at a point of the screen; nothing is pointed at meanwhile."""
        menu = self.menu(place)
        menu.aboutToHide.connect(menu.deleteLater)
        self._point_at_nothing(place)
        menu.popup(place)

    def _point_at_nothing(self, place: QPoint) -> None:
        """End what the mouse on its way to the menu has marked: it is not exported."""
        whole = self._widget
        part: QWidget | None = whole.childAt(whole.mapFromGlobal(place)) or whole
        while part is not None and part is not whole.parentWidget():
            part.leaveEvent(QEvent(QEvent.Type.Leave))
            part = part.parentWidget()

    def menu(self, place: QPoint | None = None) -> QMenu:
        """Build the menu; disabled while there is nothing to copy."""
        menu = QMenu(self._widget)
        add_offers(menu, () if place is None else self.offers(place))
        self._offer_size(menu)
        there = self._table() is not None
        for form in FORMATS:
            for title, action in ((form.copy, self.copy), (form.save, self.save)):
                entry = menu.addAction(_(title))
                entry.setEnabled(there)
                entry.triggered.connect(lambda _=False, do=action, of=form: do(of))
        return menu

    def _offer_size(self, menu: QMenu) -> None:
        place = place_of(self._widget)
        if place is None:
            return
        title = (
            _("Make it &large") if place.picture is None else _("&Back to its place")
        )
        entry = menu.addAction(title)
        entry.triggered.connect(lambda: place.toggle(self._widget))
        menu.addSeparator()

    def copy(self, form: Format) -> None:
        """Put the picture or its numbers on the clipboard."""
        table = self.table()
        if table is None:
            return
        content = form.make(self._widget, table)
        if isinstance(content, QImage):
            QGuiApplication.clipboard().setImage(content)
        else:
            QGuiApplication.clipboard().setText(content)

    def save(self, form: Format) -> None:
        """Ask for a name and write the picture or its numbers."""
        table = self.table()
        name, *others = form.files
        try:
            path = ask_where(self._widget, _("Save {name}", name=name), name, *others)
            if path and table is not None:
                form.write(Path(path), self._widget, table)
        except InputError as error:
            report(self._widget, str(error))


def modification(widget: QWidget) -> str:
    """Say what is changed in the run that a widget shows; "" if nothing is."""
    return str(widget.window().property(MODIFIED) or "")


class Drawn(NamedTuple):
    """A picture apart from what it is drawn on."""

    size: QSize
    paint: Callable[[QPainter], None]
    title: str = ""


def drawing(widget: QWidget) -> Drawn:
    """Return a widget as it is drawn; changes of the run are written below it.

    A window says by itself what is changed.
    """
    words = "" if widget.isWindow() else modification(widget)
    return _noted(_plain(widget), words, widget)


def figure(widget: QWidget, caption: str) -> Drawn:
    """Return a picture without the empty room around it, with a caption."""
    shown = _noted(_trimmed(_plain(widget), widget), caption, widget)
    return _noted(shown, modification(widget), widget)


def _plain(widget: QWidget) -> Drawn:
    CornerButton.leave(widget)

    def paint(painter: QPainter) -> None:
        painter.fillRect(widget.rect(), _page(widget))
        with _on_page(widget):
            widget.render(painter, QPoint())

    title = widget.accessibleName() or widget.windowTitle()
    return Drawn(widget.size(), paint, title)


def _page(widget: QWidget) -> QColor:
    """Return the ground of a drawing: white, but for a window and a dark look."""
    ground = widget.palette().color(QPalette.ColorRole.Window)
    light = ground.lightness() > 127 and not widget.isWindow()
    return QColor(Qt.GlobalColor.white) if light else ground


@contextmanager
def _on_page(widget: QWidget) -> Iterator[None]:
    """Give a picture the ground of its page for a moment, and no frame of the focus."""
    if widget.isWindow():
        yield
        return
    look, focused = QPalette(), widget.window().focusWidget()
    look.setColor(QPalette.ColorRole.Window, _page(widget))
    inside = focused is widget or (focused and widget.isAncestorOf(focused))
    if inside:
        focused.clearFocus()
    widget.setPalette(look)
    try:
        yield
    finally:
        widget.setPalette(QPalette())
        if inside:
            focused.setFocus()


def _noted(drawn: Drawn, words: str, widget: QWidget) -> Drawn:
    """Return a drawing with words below it, in a widget's font."""
    if not words:
        return drawn
    wide, metrics = drawn.size.width(), widget.fontMetrics()
    room = QRect(0, drawn.size.height(), wide, 10 * metrics.height())
    wrap = Qt.TextFlag.TextWordWrap
    high = metrics.boundingRect(room, wrap, words).height()

    def paint(painter: QPainter) -> None:
        painter.fillRect(room, _page(widget))
        painter.save()
        drawn.paint(painter)
        painter.restore()
        painter.setFont(widget.font())
        painter.setPen(widget.palette().color(QPalette.ColorRole.WindowText))
        painter.drawText(room, wrap, words)

    return Drawn(drawn.size + QSize(0, high), paint, drawn.title)


def _trimmed(drawn: Drawn, widget: QWidget) -> Drawn:
    """Return a drawing without most of the empty room around what is drawn."""
    image = image_of(drawn, 1).convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), np.uint32)
    pixels = pixels.reshape(image.height(), -1)[:, : image.width()]  # [H, W]
    drawn_on = pixels != pixels[0, 0]
    rows, columns = (np.flatnonzero(drawn_on.any(axis)) for axis in (1, 0))
    if not rows.size:
        return drawn
    box = QRect(
        QPoint(int(columns[0]), int(rows[0])), QPoint(int(columns[-1]), int(rows[-1]))
    )
    box = box.adjusted(-MARGIN, -MARGIN, MARGIN, MARGIN)

    def paint(painter: QPainter) -> None:
        painter.translate(-box.topLeft())
        painter.fillRect(box, _page(widget))
        painter.setClipRect(box)
        drawn.paint(painter)

    return Drawn(box.size(), paint, drawn.title)


class Extent(NamedTuple):
    """How large a picture becomes in a file."""

    width: float | None = None  # in cm; None: as on screen
    scale: float = SHARPNESS  # pixels per unit, in each direction, without a width


def image_of(drawn: Drawn, scale: float = SHARPNESS) -> QImage:
    """Return a drawing as pixels, ``scale`` of them per unit in each direction."""
    image = QImage(drawn.size * scale, QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(scale)
    painter = QPainter(image)
    drawn.paint(painter)
    painter.end()
    return image


def picture(widget: QWidget) -> QImage:
    """Return a widget as an image, sharper than the screen."""
    return image_of(drawing(widget))


def raster(image: QImage, form: str = "png") -> bytes:
    """Return an opaque image as a file of pixels: "png", or "webp" without loss."""
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    writer = QImageWriter(buffer, form.encode())
    writer.setQuality(100 if form == "webp" else PRESSED)
    writer.write(image.convertToFormat(QImage.Format.Format_RGB888))
    return bytes(buffer.data().data())


def _raster(drawn: Drawn, extent: Extent, form: str) -> bytes:
    width, scale = extent
    if width is None:
        return raster(image_of(drawn, scale), form)
    image = image_of(drawn, DOTS * width / CM / drawn.size.width())
    for measure in (image.setDotsPerMeterX, image.setDotsPerMeterY):
        measure(round(100 * DOTS / CM))
    return raster(image, form)


def _pdf(drawn: Drawn, extent: Extent) -> bytes:
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    writer, size = QPdfWriter(buffer), drawn.size
    writer.setTitle(drawn.title)
    width = extent.width
    scale = 1.0 if width is None else UNITS * width / CM / size.width()
    points = QSizeF(size) * (scale * 72 / UNITS)
    page = QPageSize(
        points, QPageSize.Unit.Point, "", QPageSize.SizeMatchPolicy.ExactMatch
    )
    writer.setPageLayout(
        QPageLayout(page, QPageLayout.Orientation.Portrait, QMarginsF())
    )
    writer.setResolution(UNITS)  # else fonts in points are larger than the rest
    painter = QPainter(writer)
    painter.scale(scale, scale)
    drawn.paint(painter)
    painter.end()
    return bytes(buffer.data().data())


def _svg(drawn: Drawn, extent: Extent) -> bytes:
    sized = "" if extent.width is None else f"{extent.width:g}cm"
    return svg(drawn.size, drawn.paint, drawn.title, sized)


AS_SHOWN = Extent()
PICTURES: dict[str, Callable[[Drawn, Extent], bytes]] = {  # by suffix
    ".png": partial(_raster, form="png"),
    ".svg": _svg,
    ".pdf": _pdf,
    ".webp": partial(_raster, form="webp"),
}
NUMBERS: dict[str, Callable[[Table], bytes]] = {
    ".csv": lambda table: csv_text(table).encode(),
    ".json": lambda table: json_text(table).encode(),
    ".npz": npz,
}


def picture_file(path: Path, drawn: Drawn, extent: Extent = AS_SHOWN) -> None:
    """Write a drawing in the format that a name ends with; without one, as PNG."""
    check_suffix(path, *PICTURES)
    save_result(path, PICTURES[path.suffix.lower() or ".png"](drawn, extent))


def animation_file(path: Path, frames: Sequence[QImage]) -> None:
    """Write pictures one after the other, .gif or .webp; the last one stays longest.

    InputError without Pillow.
    """
    try:
        from PIL.Image import frombytes
    except ImportError as error:
        raise InputError(
            "Animations need Pillow: {command}",
            command='pip install "visformer[export]"',
        ) from error
    images = []
    for frame in frames:
        plain = frame.convertToFormat(QImage.Format.Format_RGBX8888)
        size, data = plain.size().toTuple(), bytes(plain.constBits())
        images.append(frombytes("RGBX", size, data).convert("RGB"))
    made, first = io.BytesIO(), images[0]
    times = [FRAME_MS] * (len(images) - 1) + [LAST_MS]
    form = path.suffix.lower().removeprefix(".")
    first.save(
        *(made, form), save_all=True, append_images=images[1:], duration=times, loop=0
    )
    save_result(path, made.getvalue())


def _numbers_file(path: Path, table: Table) -> None:
    check_suffix(path, *NUMBERS)
    save_result(path, NUMBERS[path.suffix.lower() or ".csv"](table))


def save_picture(path: Path, widget: QWidget, report: Callable[[str], object]) -> None:
    """Write a widget as it is drawn; .svg and .pdf, which are for print, in light.

    ``report`` is given the sentence about what went wrong.
    """

    def write() -> None:
        try:
            picture_file(path, drawing(widget))
        except InputError as error:
            report(str(error))

    if path.suffix.lower() in PRINTED:
        in_light(widget.window(), write)
    else:
        write()


def in_light(window: QWidget, act: Callable[[], object]) -> None:
    """Do something while a window is in the light theme, which nobody sees."""
    app, own = QApplication.instance(), window.property(THEME)
    if not isinstance(app, QApplication) or own in (None, "light"):
        act()
        return
    zoom = round(100 * app.font().pointSizeF() / app.property(BASE_SIZE))
    for part in window.findChildren(QWidget, options=DIRECT):
        paint_later(part, 2 * DRESSING)
    apply_theme(app, "light", zoom)
    left = iter(range(DRESSING))  # turns in which parts find their places

    def turn() -> None:
        if next(left, None) is not None:
            turns.start()
            return
        try:
            act()
        finally:
            apply_theme(app, own, zoom)

    turns = SingleShot(window, turn)
    turns.start()


PNG = Format(
    N_("Copy &picture"),
    N_("&Save picture…"),
    tuple(f"picture{suffix}" for suffix in PICTURES),
    lambda widget, _: picture(widget),
    lambda path, widget, _: save_picture(path, widget, partial(report, widget)),
)
CSV = Format(
    N_("Copy &numbers (CSV)"),
    N_("Save n&umbers…"),
    tuple(f"numbers{suffix}" for suffix in NUMBERS),
    lambda _, table: csv_text(table),
    lambda path, _, table: _numbers_file(path, table),
)
FORMATS = (PNG, CSV)


def ask_where(parent: QWidget, title: str, near: str, *others: str) -> str:
    """Return the path that was chosen, with the suffix of ``near``; "" for none.

    ``others`` are names with other suffixes that are offered, too.

    InputError where a name without a suffix would replace a file: the dialog asked
    about another name.
    """
    suffix = Path(near).suffix
    every = " ".join(f"*{Path(name).suffix}" for name in (near, *others))
    path, _kind = QFileDialog.getSaveFileName(parent, title, near, every)
    if not path or Path(path).suffix:
        return path
    whole = path + suffix
    if exists(Path(whole)):
        raise InputError(
            "{file} exists: type the whole name to replace it.",
            file=short(Path(whole).name),
        )
    return whole
