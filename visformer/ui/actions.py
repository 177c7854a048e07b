"""Menus and keys of the window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence, QShortcut
from PySide6.QtWidgets import QFileDialog, QMenu, QMessageBox

from visformer import paths
from visformer.session.openings import ask_again
from visformer.ui import theme
from visformer.ui.bars.choosing import choose_files, choose_folder, choose_tokenizer
from visformer.values.facts import KINDS
from visformer.values.intervention import NO_CHANGES

if TYPE_CHECKING:
    from visformer.ui.window import MainWindow

RECENT = 10
KEYS = """Enter in the source line: translate
Space: play or pause
Left, Right, Page Up, Page Down: one step back or on
Home, End: before the first step, to the last
1, 2, 3: encoder self, decoder self, cross attention
Ctrl+arrows: walk the heads and layers
Alt+arrows: move the locked cell
[ and ]: walk the stages of the Computation tab
Esc: free the locked cell
Up, Down in the source line: earlier sentences
Ctrl+O: open a checkpoint, Ctrl+S: save the trace
Ctrl+Z, Ctrl+Shift+Z: take a change of the run back, make it again
Ctrl+plus, Ctrl+minus, Ctrl+0: size of the text
F11: full screen, F1: these keys

A clicked cell stays marked; a click on a next-token row makes it the current choice."""
ABOUT = """Visformer shows every number of an encoder-decoder Transformer at work.

All numbers are the model's own. Attention tells which values are mixed into a token,
and how much of each; it does not tell why the model chose a word. Values also pass
through projections, feed-forward layers and residuals: attention is not an attribution.

Tatoeba sentences: CC BY 2.0 FR. Visformer: MIT licence. Qt: LGPL 3."""


def build_menus(window: MainWindow) -> None:
    """Fill the menu bar."""
    bar = window.menuBar()
    keys = QKeySequence.StandardKey
    file = bar.addMenu("&File")
    _add(file, "&Open checkpoint folder…", partial(choose_folder, window), keys.Open)
    _add(file, "Open checkpoint &file…", partial(choose_files, window), "Ctrl+Shift+O")
    window.recent_menu = file.addMenu("Open &recent")
    bundled = file.addMenu("Open &bundled model")
    for path in paths.bundled_checkpoints():
        _add(bundled, path.name, partial(window.open, str(path)))
    file.addSeparator()
    foreign = (
        _add(file, "Change the &answers…", lambda: window.session.do(ask_again)),
        _add(file, "Choose a &tokenizer…", partial(choose_tokenizer, window)),
    )
    file.aboutToShow.connect(lambda: _enable(foreign, _asks(window)))
    file.addSeparator()
    _add(file, "&Save trace…", lambda: _save_trace(window), keys.Save)
    _add(file, "Save &window as PNG…", lambda: _save_window(window), "Ctrl+Shift+S")
    file.addSeparator()
    _add(file, "&Quit", window.close, "Ctrl+Q").setMenuRole(QAction.MenuRole.QuitRole)
    edit = bar.addMenu("&Edit")
    _add(edit, "&Undo change of the run", window.undo, keys.Undo)
    _add(edit, "&Redo change of the run", window.redo, keys.Redo)
    restore = partial(window.change_run, NO_CHANGES)
    _add(edit, "Restore the &model's own run", restore)
    view = bar.addMenu("&View")
    for name, title in theme.NAMES.items():
        _add(view, title, partial(window.set_theme, name))
    view.addSeparator()
    _add(view, "&Larger text", lambda: window.zoom_by(10), keys.ZoomIn)
    _add(view, "&Smaller text", lambda: window.zoom_by(-10), keys.ZoomOut)
    _add(view, "&Normal text", lambda: window.zoom_by(0), "Ctrl+0")
    view.addSeparator()
    _add(view, "&Full screen", lambda: _full_screen(window), "F11")
    _add(view, "&Reset layout", window.reset_layout)
    help_menu = bar.addMenu("&Help")
    about = _add(help_menu, "About this &model…", window.about.click)
    help_menu.aboutToShow.connect(
        lambda: _enable((about,), window.session.state.about is not None)
    )
    _add(help_menu, "&Keys", lambda: _tell(window, "Keys", KEYS), "F1")
    _add(help_menu, "&About and limits", lambda: _tell(window, "Visformer", ABOUT))
    show_recent(window, [])


def _add(
    menu: QMenu,
    title: str,
    slot: Callable[..., object],
    key: QKeySequence.StandardKey | str | None = None,
) -> QAction:
    action = QAction(title, menu)
    action.triggered.connect(lambda _checked=False: slot())
    if key is not None:
        action.setShortcuts(
            QKeySequence.keyBindings(key)
            if not isinstance(key, str)
            else [QKeySequence(key)]
        )
    menu.addAction(action)
    return action


def _enable(actions: tuple[QAction, ...], enabled: bool) -> None:
    for action in actions:
        action.setEnabled(enabled)


def _asks(window: MainWindow) -> bool:
    """Tell whether the model on screen is of a file that is asked about."""
    about = window.session.state.about
    return about is not None and about.asks


def show_recent(window: MainWindow, recent: list[str]) -> None:
    """List recently opened checkpoints; those that are gone are greyed."""
    menu = window.recent_menu
    menu.clear()
    menu.setEnabled(bool(recent))
    for path in recent:
        action = _add(menu, path, partial(window.open, path))
        action.setEnabled(Path(path).exists())


def build_keys(window: MainWindow) -> None:
    """Bind the keys that are no menu entries; text fields keep those they type with."""
    transport = window.transport
    key = Qt.Key
    bind: dict[object, Callable[[], object]] = {
        key.Key_Space: transport.toggle,
        key.Key_Left: transport.back,
        key.Key_Right: transport.forward,
        key.Key_PageUp: transport.back,
        key.Key_PageDown: transport.forward,
        key.Key_Home: transport.first,
        key.Key_End: transport.last,
        key.Key_Escape: window.free_cell,
        "Ctrl+Left": lambda: window.walk_heads(0, -1),
        "Ctrl+Right": lambda: window.walk_heads(0, 1),
        "Ctrl+Up": lambda: window.walk_heads(-1, 0),
        "Ctrl+Down": lambda: window.walk_heads(1, 0),
        "Alt+Left": lambda: window.move_cell(0, -1),
        "Alt+Right": lambda: window.move_cell(0, 1),
        "Alt+Up": lambda: window.move_cell(-1, 0),
        "Alt+Down": lambda: window.move_cell(1, 0),
        "?": lambda: _tell(window, "Keys", KEYS),
    }
    for number, kind in enumerate(KINDS, 1):
        bind[str(number)] = partial(window.choose_kind, kind)
    for keys, slot in bind.items():
        QShortcut(QKeySequence(keys), window, activated=slot)  # type: ignore[call-overload]


def _tell(window: MainWindow, title: str, text: str) -> None:
    box = QMessageBox(window)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setWindowTitle(title)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(text)
    box.open()


def _save_trace(window: MainWindow) -> None:
    trace = window.session.state.shown
    if trace is None:
        window.session.set(error="There is nothing to save yet: translate a sentence.")
        return
    path, _ = QFileDialog.getSaveFileName(window, "Save trace", "trace.vis", "*.vis")
    if path:
        window.guarded(lambda: trace.save(path))


def _save_window(window: MainWindow) -> None:
    path, _ = QFileDialog.getSaveFileName(window, "Save window", "window.png", "*.png")
    if path and not window.grab().save(path, "PNG"):
        window.session.set(error=f"{path} cannot be written: choose another folder.")


def _full_screen(window: MainWindow) -> None:
    window.showNormal() if window.isFullScreen() else window.showFullScreen()
