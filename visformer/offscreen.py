"""The window drawn without a screen, or its web page: ``visformer render``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

os.environ["QT_QPA_PLATFORM"] = "offscreen"

from PySide6.QtCore import (
    QCoreApplication,
    QEventLoop,
    QPoint,
    QSettings,
    QSize,
    QTemporaryDir,
    QTimer,
)
from PySide6.QtGui import QCursor, QImage
from PySide6.QtWidgets import QApplication, QWidget

from visformer.app import App, NoEngine, log_qt
from visformer.arguments import place
from visformer.errors import InputError
from visformer.files import check_suffix, real_path, save_result, short
from visformer.pictures.web_page import web_page
from visformer.session import corpus, scans, side_requests, training
from visformer.session.lesson import Lesson
from visformer.session.looked import Looked, check_choice
from visformer.session.runs import force, look_at_telling_head
from visformer.session.state import State
from visformer.trace_file.trace_file import trace_bytes
from visformer.ui.lesson_pages import lesson_page, lesson_pdf
from visformer.ui.look import theme
from visformer.ui.views.view import View
from visformer.ui.widgets.export import (
    DIRECT,
    PICTURES,
    Drawn,
    Extent,
    animation_file,
    drawing,
    figure,
    image_of,
    picture_file,
)
from visformer.ui.window.window import MainWindow
from visformer.values.facts import Kind
from visformer.values.intervention import Intervention, parse
from visformer.values.questions import Overrides

PAGE = ".html"
LESSON_SIZE = QSize(1280, 800)  # of the window whose pictures a hand-out has
MOVING_PICTURES = ".gif", ".webp"
LONGEST_SIDE = 8192
SECONDS = 300  # to wait for the model; then the window is drawn as it is
BESIDE = QPoint(2 * LONGEST_SIDE, 2 * LONGEST_SIDE)  # the mouse points at nothing
OVER = {  # pages that measure more than one run, and how they are asked
    "sentences": scans.scan,
    "importance": side_requests.measure_pairs,
    "heads": corpus.measure,
    "training": training.follow,
}
MOVING = 10  # turns of the event loop in which parts find their places


class Studio:
    """A window without a screen, which draws one picture after the other."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Dress it as ``options`` say; with a text, a model is opened and asked."""
        log_qt()
        self._folder = QTemporaryDir()
        ini = self._folder.filePath("render.ini")
        settings = QSettings(ini, QSettings.Format.IniFormat)
        settings.setValue("theme", options.theme)
        settings.setValue("zoom", options.zoom)
        settings.setValue("motion", "off")
        self._app = App(["visformer"], settings=settings) if options.text else None
        if self._app is not None:
            self.window = self._app.window
        else:
            self._qt = QApplication.instance() or QApplication(["visformer"])
            self.window = MainWindow(NoEngine(), settings)
        self._empty = self.window.session.state

    def close(self) -> None:
        """End the window, and the engine."""
        if self._app is not None:
            self._app.close()
        else:
            self.window.close()

    def draw(self, options: argparse.Namespace, path: str, given: Overrides) -> None:
        """Draw the window, a figure of it or a web page; InputError for bad options.

        ``path``: a checkpoint that reads the text, or without a text a recorded run;
        ``given``: what the checkpoint does not say.
        """
        size, width, window = _size(options.size), _width(options.width), self.window
        page = Path(options.output).suffix.lower() == PAGE
        change, forced = parse(options.change).filled(), [*map(_forced, options.force)]
        _show(window, size, options)
        self._paints(False)  # nobody sees what comes before
        if self._app is not None:
            self._app.start(path, options.text, given)
        else:
            window.open(path)
        _wait(lambda: _finished(window.session.state))
        _change(window, options.reference, change, forced)
        run = window.session.state.run
        if options.text or (page and run is not None and run.selection is None):
            window.session.do(look_at_telling_head)  # as the window opens
        looked = Looked.of(options)
        if options.first == 0:
            looked = _counted_from_one(looked, window.session.state)
        looked.fit(window.session.state, "--")
        view = window.tabs.view(options.view)
        window.session.go(looked.on(window.session.state))
        if options.over:
            window.session.do(OVER[options.page], os.path.abspath(options.over))
            _wait(lambda: _finished(window.session.state))
        if page:
            _save_page(Path(options.output), window.session.state, options.attach)
            return
        window.resize(size)
        whole, to = width is None and not options.figure, Path(options.output)
        extent = Extent(width, options.scale)
        self._paints(True)
        self._settle(view)  # axes find their places as they are painted
        if not _moves(options):
            picture_file(to, drawing(window) if whole else _figure(window), extent)
            return
        if not whole:
            _enlarged(window)
        frames = [image_of(drawing(window), options.scale) for _at in self._steps(view)]
        if not frames:
            raise InputError("This run has no steps to draw: name a .png instead.")
        animation_file(to, frames)

    def _paints(self, on: bool) -> None:
        """Let what is in the window be painted; the window itself must always be."""
        for part in self.window.findChildren(QWidget, options=DIRECT):
            part.setUpdatesEnabled(on)

    def _settle(self, view: View) -> None:
        """Wait until all is drawn and in its place."""
        _wait(lambda: _has_all(self.window.session.state))
        _wait(lambda: not view.drawing)
        _settle()

    def _steps(self, view: View) -> Iterator[int]:
        """Go to every step up to the one that is shown."""
        for step in range(1, self.window.session.state.step + 1):
            self.window.session.set(step=step)
            self._settle(view)
            yield step

    def stops(self, lesson: Lesson) -> Iterator[QImage]:
        """Draw each stop's view, or its large picture; its question is answered."""
        window, walk = self.window, self.window.lessons
        window.resize(LESSON_SIZE)
        QCursor.setPos(BESIDE)
        window.show()
        for at, stop in enumerate(lesson.stops):
            walk.begin(lesson, at)
            _wait(lambda: walk.is_settled and _finished(window.session.state))
            if stop.ask:
                walk.forward()
            view = window.tabs.view(window.session.state.tab)
            self._settle(view)
            alone = window.large.picture
            words = window.large.words.text()
            yield image_of(figure(alone, words) if alone else drawing(view), 1.5)

    def clear(self) -> None:
        """Empty the window for the next picture."""
        window = self.window
        window.large.restore()
        window.tabs.setFocus()  # which what is large took
        for line in (window.source, window.reference):
            line.clear()
        window.session.go(self._empty)


_studios: dict[tuple[object, ...], Studio] = {}  # one, by how it is dressed


def render(options: argparse.Namespace, path: str, given: Overrides) -> None:
    """Draw one picture; see ``Studio.draw``. The next one is drawn sooner.

    A window of another size or look is made anew: its parts would find places that
    depend on where they were before.
    """
    _check(options)
    how = bool(options.text), options.theme, options.zoom, options.size
    if how in _studios:
        _studios[how].clear()
    else:
        close()
        _studios[how] = Studio(options)
    _studios[how].draw(options, path, given)


def close() -> None:
    """End the window."""
    while _studios:
        _studios.popitem()[1].close()


def print_lesson(lesson: Lesson, *, pdf: bool) -> bytes:
    """Return a lesson as a PDF file or a web page, with the picture of each stop.

    Raises InputError for a stop whose run cannot be made.
    """
    dress = argparse.Namespace(theme="light", zoom=100, text=lesson.title)
    studio = Studio(dress)
    try:
        pictures = [*studio.stops(lesson)]
    finally:
        studio.close()
    return (
        lesson_pdf(lesson, pictures) if pdf else lesson_page(lesson, pictures).encode()
    )


def _save_page(path: Path, state: State, attach: bool) -> None:
    assert state.trace is not None
    page = web_page(
        state.trace,
        selection=state.selection,
        look=state.look,
        step=state.step,
        attached=trace_bytes(state.trace) if attach else None,
    )
    save_result(path, page.encode())


def _show(window: MainWindow, size: QSize, options: argparse.Namespace) -> None:
    least = window.minimumSizeHint()
    if least.width() > size.width() or least.height() > size.height():
        raise InputError(
            "--size {size} is too small for text at {zoom}%: it must be at least "
            "{width}x{height}.",
            size=options.size,
            zoom=options.zoom,
            width=least.width(),
            height=least.height(),
        )
    window.resize(size)
    QCursor.setPos(BESIDE)
    window.show()


def _change(
    window: MainWindow,
    reference: str,
    change: Intervention,
    forced: Iterable[tuple[int, int]],
) -> None:
    """Make the run that is asked for, one edit after the other."""
    if reference:
        window.reference.take(reference)
        window.reference.submit()
        _wait(lambda: _finished(window.session.state))
    if change:
        window.change_run(change)
        _wait(lambda: _finished(window.session.state))
    for step, id in forced:
        window.session.set(step=step)
        window.session.do(force, id)
        _wait(lambda: _finished(window.session.state))


def _counted_from_one(looked: Looked, state: State) -> Looked:
    """Return it with layer and head from 1, which count from 0 or from the end."""
    assert state.trace is not None
    kind, layer, head = (
        cast("Kind", looked.kind or state.kind),
        looked.layer,
        looked.head,
    )
    if layer is not None:
        layer = place("layer", layer, state.trace.layers(kind)) + 1
    if head is not None:
        head = place("head", head, state.trace.heads(kind)) + 1
    return replace(looked, layer=layer, head=head)


def _settle() -> None:
    for _at in range(MOVING):
        QCoreApplication.processEvents()


def _size(text: str) -> QSize:
    width, _by, height = text.partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise InputError("--size is {text}: it must look like 1280x800.", text=text)
    if not all(100 <= int(side) <= LONGEST_SIDE for side in (width, height)):
        raise InputError(
            "--size is {text}: each side must be 100 to {most}.",
            text=text,
            most=LONGEST_SIDE,
        )
    return QSize(int(width), int(height))


def _width(text: str | None) -> float | None:
    """Return a width in cm."""
    if text is None:
        return None
    number = text.removesuffix("cm").strip()
    try:
        width = float(number)
    except ValueError:
        width = 0.0
    if not 1 <= width <= 100:
        raise InputError(
            "--width is {text}: give it in centimetres, such as 8.5cm.",
            text=short(text),
        )
    return width


def _figure(window: MainWindow) -> Drawn:
    """Return the largest picture with its title, and what the window says of it."""
    return figure(_enlarged(window), window.large.words.text())


def _enlarged(window: MainWindow) -> QWidget:
    """Make the largest picture large, and return it."""
    place = window.large
    pictures = place.pictures()
    if not pictures:
        raise InputError("This view has no picture to draw alone: leave --figure out.")
    place.enlarge(pictures[0])
    _settle()
    return pictures[0]


def _check(options: argparse.Namespace) -> None:
    Looked.of(options).check("--")
    check_choice("--theme", options.theme, theme.THEMES)
    if not theme.MIN_ZOOM <= options.zoom <= theme.MAX_ZOOM:
        raise InputError(
            "--zoom is {zoom}: choose {least} to {most}.",
            zoom=options.zoom,
            least=theme.MIN_ZOOM,
            most=theme.MAX_ZOOM,
        )
    if not 1 <= options.scale <= 4:
        raise InputError("--scale is {scale}: choose 1 to 4.", scale=options.scale)
    if options.over and options.page not in OVER:
        raise InputError(
            "--over is for a page of the diagnosis view: choose one with --page, "
            "{pages}.",
            pages=", ".join(OVER),
        )
    if options.over and not options.text:
        raise InputError("--over needs a checkpoint, and a sentence: add --text.")
    if any(not change.strip() for change in options.change):
        raise InputError("--change is empty: say, for example, “causal off”.")
    _check_output(options)


def _check_output(options: argparse.Namespace) -> None:
    """Refuse a file that cannot be written, or not as the options say."""
    check_suffix(Path(options.output), *PICTURES, PAGE, ".gif")
    if options.animate and Path(options.output).suffix.lower() not in MOVING_PICTURES:
        raise InputError(
            "{path} cannot be an animation: it must end with {suffixes}.",
            path=short(options.output),
            suffixes=", ".join(MOVING_PICTURES),
        )
    if _moves(options) and options.width:
        raise InputError("--width is for a figure that stands still: leave it out.")
    page = Path(options.output).suffix.lower() == PAGE
    if page and (options.figure or options.width or options.scale != 1):
        raise InputError(
            "--figure, --width and --scale are for pictures: leave them out for a web "
            "page."
        )
    if options.attach and not page:
        raise InputError(
            "--attach is for a web page: give -o a name that ends in .html, or leave "
            "it out."
        )
    if not real_path(Path(options.output)).parent.is_dir():
        raise InputError(
            "{path} cannot be written: no such folder.", path=options.output
        )


def _moves(options: argparse.Namespace) -> bool:
    """Tell whether every step is drawn."""
    return options.animate or Path(options.output).suffix.lower() == ".gif"


def _forced(text: str) -> tuple[int, int]:
    """Read STEP=ID; InputError if it is none."""
    step, _equals, id = text.partition("=")
    if not (step.isdigit() and id.isdigit() and int(step)):
        raise InputError(
            "--force is {text}: it must be STEP=ID, such as 4=1234.", text=text
        )
    return int(step), int(id)


def _finished(state: State) -> bool:
    if state.error:
        raise InputError(state.error)
    return state.trace is not None and not state.busy


def _has_all(state: State) -> bool:
    return not state.busy and not state.awaiting.side_requests


def _wait(done: Callable[[], bool], limit_ms: int = SECONDS * 1000) -> None:
    """Run the event loop until ``done()`` or the limit; raise what ``done`` raises."""
    loop, timer, left = QEventLoop(), QTimer(), QTimer()
    faults: list[InputError] = []

    def look() -> None:
        try:
            if done():
                loop.quit()
        except InputError as error:
            faults.append(error)
            loop.quit()

    timer.timeout.connect(look)
    timer.start(1)
    left.setSingleShot(True)
    left.timeout.connect(loop.quit)
    left.start(limit_ms)
    loop.exec()
    if faults:
        raise faults[0]
