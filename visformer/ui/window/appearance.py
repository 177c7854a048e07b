"""How the window looks: theme, size of text, what is folded; remembered, and reset."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, Qt, QTranslator
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from visformer.language import tag
from visformer.program.memory import first_size
from visformer.ui.layout import paint_later
from visformer.ui.look import theme
from visformer.ui.look.theme import set_motion
from visformer.ui.window.window_parts import WindowParts

DARK = Qt.ColorScheme.Dark
MOVING = 2  # turns of the event loop in which parts move for text of another size


def translate_qt() -> None:
    """Let Qt say its own words, such as those of its dialogs, in our language.

    Every window that there is hears of it with all of its parts.
    """
    app = QCoreApplication.instance()
    if app is None:
        return
    for old in app.findChildren(QTranslator):
        app.removeTranslator(old)
        old.deleteLater()
    new, folder = QTranslator(app), QLibraryInfo.LibraryPath.TranslationsPath
    if new.load(QLocale(tag()), "qtbase", "_", QLibraryInfo.path(folder)):
        app.installTranslator(new)


class Appearance:
    """Changes how a window looks."""

    def __init__(self, window: WindowParts, zoomed: Callable[[], object]) -> None:
        """Dress the program before the window has parts, which is fastest.

        Until a theme is chosen it is the system's. ``zoomed`` is called when the size
        of the text has changed.
        """
        self._window, self._memory = window, window.memory
        self._zoomed = zoomed
        zoom = self._memory.number("zoom", 100)
        self.zoom = max(theme.MIN_ZOOM, min(theme.MAX_ZOOM, zoom))  # percent
        dark = QGuiApplication.styleHints().colorScheme() == DARK
        self.theme = self._memory.text("theme", "dark" if dark else "light")
        if self.theme not in theme.THEMES:
            self.theme = "light"
        self._apply(self.theme)

    def restore(self) -> None:
        """Take up the size that was remembered, and what was folded."""
        window, memory = self._window, self._memory
        window.resize(first_size(window))
        geometry = memory.data("geometry")
        if geometry is not None:
            window.restoreGeometry(geometry)
        self.explain(memory.text("explanations", "shown") == "shown")
        set_motion(memory.text("motion", "on") == "on")
        self.show_ahead(memory.text("ahead", "shown") == "shown")
        self.show_pieces(memory.text("pieces", "words") == "raw")
        self.show_tokens(memory.text("tokens", "shown") == "shown")

    def remember(self) -> None:
        """Remember the size at the window's end."""
        self._memory.keep("geometry", self._window.saveGeometry())

    def reset(self) -> None:
        """Return to the sizes of a first start, and unfold everything."""
        self._memory.keep("geometry", None)
        self._window.resize(first_size(self._window))
        self._window.side.reset()
        self.explain(True)
        self.show_ahead(True)
        self.show_pieces(False)
        self.show_tokens(True)
        self._window.tabs.reset_sizes()

    def set_theme(self, name: str) -> None:
        """Use the light, dark or high-contrast theme."""
        self._memory.keep("theme", name)
        self._apply(name)

    def zoom_by(self, percent: int) -> None:
        """Make all text larger or smaller; 0 resets its size."""
        zoom = self.zoom + percent if percent else 100
        self.zoom = max(theme.MIN_ZOOM, min(theme.MAX_ZOOM, zoom))
        self._memory.keep("zoom", self.zoom)
        self._apply(self.theme)
        self._zoomed()

    def explain(self, shown: bool) -> None:
        """Show or hide the sentences on what is seen."""
        self._memory.keep("explanations", "shown" if shown else "hidden")
        self._window.tabs.explain(shown)

    def move(self, wanted: bool) -> None:
        """Let pictures move after a step, or stand still."""
        self._memory.keep("motion", "on" if wanted else "off")
        set_motion(wanted)

    def show_ahead(self, shown: bool) -> None:
        """Show or hide what is not yet stepped to, which an audience is to guess."""
        self._memory.keep("ahead", "shown" if shown else "hidden")
        session = self._window.session
        session.set(look=replace(session.state.look, ahead=shown))

    def show_pieces(self, shown: bool) -> None:
        """Show tokens as their vocabulary has them, or as a person reads them."""
        self._memory.keep("pieces", "raw" if shown else "words")
        session = self._window.session
        session.set(look=replace(session.state.look, pieces=shown))

    def show_tokens(self, shown: bool) -> None:
        """Show or fold the source and target tokens."""
        self._memory.keep("tokens", "shown" if shown else "hidden")
        self._window.strips.folded = not shown
        self._window.session.set()

    def _apply(self, name: str) -> None:
        if self._window.isVisible():
            paint_later(self._window.body, MOVING)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            theme.apply_theme(app, name, self.zoom)
        self.theme = name
