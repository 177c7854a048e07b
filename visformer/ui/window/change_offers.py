"""What the menus of a head, a cell and a token offer to change in the run."""

from collections.abc import Iterator, Mapping
from functools import partial

from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget

from visformer.language import _
from visformer.pictures.attention.strips import first_chip
from visformer.pictures.selection import AttentionCell
from visformer.pictures.words.absent import has_source
from visformer.session.runs import change_run, fixed_words
from visformer.session.state import Session
from visformer.ui.widgets.controls import Offer
from visformer.values.changes.head_changes import (
    HeadFrom,
    HeadMean,
    HeadMeanOf,
    HeadOnly,
    ValueOff,
)
from visformer.values.changes.mask_changes import HeadCell
from visformer.values.changes.run_change import RunChange
from visformer.values.changes.stream_changes import Embedding
from visformer.values.changes.weight_changes import CellWeight, HeadScale
from visformer.values.facts import SIDES, Kind, SentenceSide

MOST_RUNS = 6  # that a head can be taken from, the newest


def head_offers(
    session: Session, parent: QWidget, kind: Kind, at: tuple[int, int]
) -> Iterator[Offer]:
    """Yield what can be done with a head: a layer and its number.

    ``parent`` is asked for a file.
    """
    changes = {
        _("Switch this head &off"): HeadScale(kind, 0.0, *at),
        _("Switch the layer's other &heads off"): HeadOnly(kind, *at),
        _("Halve &what this head adds"): HeadScale(kind, 0.5, *at),
        _("Replace what it adds by its &mean"): HeadMean(kind, *at),
    }
    yield from _offers(session, changes)
    model = session.state.model
    if not fixed_words(session.state) and model is not None and model.known is not None:
        asked = partial(_ask_file, session, parent, kind, at)
        yield _("Replace what it adds by its mean over a file of &pairs…"), asked
    yield from _runs_offered(session, HeadFrom(kind, *at, run=""))


def _ask_file(
    session: Session, parent: QWidget, kind: Kind, at: tuple[int, int]
) -> None:
    if path := asked_pairs(parent):
        _add(session, HeadMeanOf(kind, *at, run=path))


def asked_pairs(parent: QWidget) -> str:
    """Ask for a file of pairs; "" for none."""
    title, kinds = _("A file of pairs"), _("Pairs of sentences (*.tsv *.txt *.gz)")
    return QFileDialog.getOpenFileName(parent, title, "", f"{kinds};;*")[0]


def _runs_offered(session: Session, head: HeadFrom) -> Iterator[Offer]:
    """Yield the newest runs that a head can be taken from."""
    state = session.state
    if fixed_words(state) or state.trace is None:
        return
    own, facts = [*state.intervention.of(HeadFrom)], state.trace.model.attention
    for run in state.tree[:-MOST_RUNS:-1]:
        change = HeadFrom(head.kind, head.layer, head.head, run=run.name)
        taken = [one for one in own if str(one) == str(change)]
        if taken:
            yield from _offers(session, {"": taken[0]})
        elif run.key != state.shown and run.trace is not None:
            title = _("&Take this head from “{run}”", run=run.name)
            if run.trace.model.attention == facts:
                yield title, partial(_take, session, change, run.key)


def _take(session: Session, change: HeadFrom, key: int) -> None:
    run = session.state.find(key)
    if run is not None and run.trace is not None:
        _add(session, change.filled({run.name: run.trace}))


def cell_offers(
    session: Session, parent: QWidget, cell: AttentionCell, at: tuple[int, int]
) -> Iterator[Offer]:
    """Yield what can be done with a cell of a head; ``parent`` is asked a weight."""
    changes = {
        _("&Forbid this cell in this head"): HeadCell(*cell, False, *at),
        _("&Allow this cell in this head"): HeadCell(*cell, True, *at),
        _("&Let this row read this cell alone, in every head"): CellWeight(
            *cell, "=", 1.0, False, None, None
        ),
    }
    yield from _offers(session, changes)
    if not fixed_words(session.state):
        yield (
            _("Set this cell's &weight… (or drag it with Shift)"),
            partial(_ask_weight, session, parent, cell, at),
        )


def token_offers(
    session: Session, parent: QWidget, side: SentenceSide, chip: int
) -> Iterator[Offer]:
    """Yield what can be done with a token, by its place in a strip."""
    state, trace = session.state, session.state.visible
    if trace is None or fixed_words(state):
        return
    row = chip if side == "source" else chip + first_chip(trace)
    side = side if has_source(trace) else "target"  # a prompt
    titles: dict[Kind, str] = {
        "cross": _("Zero this token's &values in cross-attention"),
        "encoder": _("Zero this token's values in the &encoder"),
        "decoder": _("Zero this token's &values in the decoder"),
    }
    kinds = [kind for kind in titles if kind in trace.kinds and SIDES[kind][1] == side]
    yield from _offers(session, {titles[k]: ValueOff(k, row) for k in kinds})
    replaced = state.intervention.one(Embedding, side=side, row=row)
    if replaced is not None:
        yield from _offers(session, {"": replaced})
    yield _("&Replace this token by…"), partial(_ask_word, session, parent, side, row)


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


def _add(session: Session, change: RunChange) -> None:
    session.do(change_run, session.state.intervention.with_change(change))


def pin(
    session: Session, cell: AttentionCell, at: tuple[int, int], weight: float
) -> None:
    """Set the weight of a head's cell."""
    _add(session, CellWeight(*cell, "=", weight, False, *at))


def _ask_weight(
    session: Session, parent: QWidget, cell: AttentionCell, at: tuple[int, int]
) -> None:
    asked = QInputDialog(parent)
    asked.setInputMode(QInputDialog.InputMode.DoubleInput)
    asked.setLabelText(_("weight from 0 to 1; the row's others are scaled to match"))
    asked.setDoubleDecimals(3)
    asked.setDoubleRange(0, 1)
    asked.setDoubleValue(1)
    asked.doubleValueSelected.connect(partial(pin, session, cell, at))
    _open(asked)


def _ask_word(session: Session, parent: QWidget, side: SentenceSide, row: int) -> None:
    asked = QInputDialog(parent)
    asked.setLabelText(_("one token of the vocabulary; the position stays"))

    def replace_by(word: str) -> None:
        if word:
            _add(session, Embedding(side, row, word))

    asked.textValueSelected.connect(replace_by)
    _open(asked)


def _open(asked: QInputDialog) -> None:
    asked.finished.connect(asked.deleteLater)
    asked.open()
