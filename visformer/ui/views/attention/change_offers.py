"""What the menus of a head and of a cell offer to change in the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from PySide6.QtWidgets import QInputDialog, QWidget

from visformer.language import _
from visformer.pictures.selection import AttentionCell
from visformer.session.runs import change_run, fixed_words
from visformer.session.state import Session
from visformer.ui.widgets.export import Offer
from visformer.values.changes.cell_weight import CellWeight
from visformer.values.changes.head_cell import HeadCell
from visformer.values.changes.head_only import HeadOnly
from visformer.values.changes.head_scale import HeadScale
from visformer.values.changes.run_change import RunChange
from visformer.values.facts import Kind


def head_offers(session: Session, kind: Kind, at: tuple[int, int]) -> Iterator[Offer]:
    """Yield what can be done with a head: a layer and its number."""
    changes = {
        _("Switch this head &off"): HeadScale(kind, 0.0, *at),
        _("Switch the layer's other &heads off"): HeadOnly(kind, *at),
        _("Halve &what this head adds"): HeadScale(kind, 0.5, *at),
    }
    yield from _offers(session, changes)


def cell_offers(
    session: Session, parent: QWidget, cell: AttentionCell, at: tuple[int, int]
) -> Iterator[Offer]:
    """Yield what can be done with a cell of a head; ``parent`` is asked a weight."""
    changes = {
        _("&Forbid this cell in this head"): HeadCell(*cell, False, *at),
        _("&Allow this cell in this head"): HeadCell(*cell, True, *at),
    }
    yield from _offers(session, changes)
    if not fixed_words(session.state):
        yield (
            _("Set this cell's &weight…"),
            partial(_ask_weight, session, parent, cell, at),
        )


def _offers(session: Session, changes: Mapping[str, RunChange]) -> Iterator[Offer]:
    """Yield the changes that can be made; a change that was made is taken back."""
    before = session.state.intervention
    if fixed_words(session.state):
        return
    for title, change in changes.items():
        after = before.with_change(change)
        if change in before:
            title, after = (
                _("Take back “{change}”", change=change),
                before.without(change),
            )
        yield title, partial(session.do, change_run, after)


def _ask_weight(
    session: Session, parent: QWidget, cell: AttentionCell, at: tuple[int, int]
) -> None:
    asked = QInputDialog(parent)
    asked.setInputMode(QInputDialog.InputMode.DoubleInput)
    asked.setLabelText(_("weight from 0 to 1; the row's others are scaled to match"))
    asked.setDoubleDecimals(3)
    asked.setDoubleRange(0, 1)
    asked.setDoubleValue(1)

    def change(weight: float) -> None:
        made = CellWeight(*cell, "=", weight, False, *at)
        session.do(change_run, session.state.intervention.with_change(made))

    asked.doubleValueSelected.connect(change)
    asked.finished.connect(asked.deleteLater)
    asked.open()
