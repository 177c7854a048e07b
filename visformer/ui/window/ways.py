"""Undo, Redo, Back and Forward: named, and grey where they lead nowhere."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu

from visformer.language import N_, _
from visformer.session import navigation, tree
from visformer.session.run import EditedRun, EditName
from visformer.session.state import Next, State
from visformer.ui.window.window_parts import WindowParts

UNDO: dict[EditName, str] = {
    "sentence": N_("&Undo the new sentence"),
    "reference": N_("&Undo the reference"),
    "token": N_("&Undo the choice of a token"),
    "strategy": N_("&Undo the choice of a strategy"),
    "change": N_("&Undo the change of the run"),
    "run": N_("&Undo the turn to another run"),
    "deletion": N_("&Undo the deletion of a run"),
}
REDO: dict[EditName, str] = {
    "sentence": N_("&Redo the new sentence"),
    "reference": N_("&Redo the reference"),
    "token": N_("&Redo the choice of a token"),
    "strategy": N_("&Redo the choice of a strategy"),
    "change": N_("&Redo the change of the run"),
    "run": N_("&Redo the turn to another run"),
    "deletion": N_("&Redo the deletion of a run"),
}
Key = QKeySequence.StandardKey


class Ways:
    """Four entries of the menus, whose keys are off where they are grey."""

    def __init__(self, window: WindowParts, edit: QMenu) -> None:
        """Add Undo and Redo to a menu; Back and Forward are added by another."""
        self._window = window
        self.undo_entry = _entry(window, Key.Undo, self.undo)
        self.redo_entry = _entry(window, Key.Redo, self.redo)
        keys, usual = self.redo_entry.shortcuts(), QKeySequence("Ctrl+Y")
        if usual not in keys:  # Qt knows it on Windows alone
            self.redo_entry.setShortcuts([*keys, usual])
        edit.addActions([self.undo_entry, self.redo_entry])
        self.back_entry = _entry(window, QKeySequence("Alt+Left"), self.back)
        self.back_entry.setText(_("&Back"))
        self.forward_entry = _entry(window, QKeySequence("Alt+Right"), self.forward)
        self.forward_entry.setText(_("&Forward"))
        self.draw(window.session.state)

    def draw(self, state: State) -> None:
        """Say what would be undone and redone, and grey what leads nowhere."""
        _draw(self.undo_entry, state.history.undo, _("&Undo"), UNDO)
        _draw(self.redo_entry, state.history.redo, _("&Redo"), REDO)
        back, forward = navigation.ways(state)
        self.back_entry.setEnabled(back)
        self.forward_entry.setEnabled(forward)

    def undo(self) -> None:
        self._return(tree.undo)

    def redo(self) -> None:
        self._return(tree.redo)

    def back(self) -> None:
        self._go(navigation.back)

    def forward(self) -> None:
        self._go(navigation.forward)

    def _return(self, to: Callable[[State], Next]) -> None:
        """Undo or redo an edit; what is typed follows where that changes it."""
        window, before = self._window, self._window.session.state.wish
        self._go(to)
        now = window.session.state.wish
        if now.sentence != before.sentence:
            window.source.setText(now.sentence)
        if now.reference != before.reference:
            window.reference.setText(now.reference)

    def _go(self, to: Callable[[State], Next]) -> None:
        self._window.transport.pause()
        self._window.session.do(to)


def _entry(
    window: WindowParts, key: Key | QKeySequence, slot: Callable[[], None]
) -> QAction:
    action = QAction(window)
    keys = [key] if isinstance(key, QKeySequence) else QKeySequence.keyBindings(key)
    action.setShortcuts(keys)
    action.triggered.connect(lambda _checked=False: slot())
    return action


def _draw(
    entry: QAction,
    runs: tuple[EditedRun, ...],
    nothing: str,
    titles: dict[EditName, str],
) -> None:
    entry.setEnabled(bool(runs))
    entry.setText(_(titles[runs[-1].edit]) if runs else nothing)
