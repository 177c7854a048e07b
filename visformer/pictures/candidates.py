"""The next-token table: the distribution of the current step, best first."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np

from visformer.language import _, ngettext
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.attention.weights import query_weights
from visformer.pictures.picture import Table, saved_labels
from visformer.pictures.selection import AttentionCell, Selection
from visformer.pictures.token_names import candidate, chosen_name, marks, placed, word
from visformer.pictures.words.absent import has_target, without_steps_words
from visformer.pictures.words.choices import (
    WHO,
    choice_sentence,
    is_best,
    is_fed,
    model_says,
    short_choice,
)
from visformer.values.measured import WholeDistribution
from visformer.values.pieces import WordMarks, marks_of
from visformer.values.step import CANDIDATES
from visformer.values.trace import Trace
from visformer.words import decimals, probability


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One row of the table."""

    id: int
    rank: int
    token: str
    probability: float
    chosen: bool


class AllRows(Sequence[CandidateRow]):
    """Every token of a distribution as a row, created on access."""

    def __init__(
        self,
        best: Sequence[CandidateRow],
        whole: WholeDistribution,
        *,
        chosen: int | None,
    ) -> None:
        """``best`` are the step's rows; ``chosen`` is the id of its token."""
        self._best, self._whole, self.chosen = tuple(best), whole, chosen
        self._marks = marks_of(whole.tokens)
        known = [row.id for row in self._best]
        self._places = np.flatnonzero(~np.isin(whole.ids, known))

    def __eq__(self, other: object) -> bool:
        """Whether both list the same distribution."""
        return (
            isinstance(other, AllRows)
            and self._whole is other._whole
            and (self._best, self.chosen) == (other._best, other.chosen)
        )

    def __hash__(self) -> int:
        """Return a hash that equal sequences share."""
        return hash((id(self._whole), self.chosen))

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self._best) + len(self._places)

    @overload
    def __getitem__(self, at: int) -> CandidateRow: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[CandidateRow, ...]: ...
    def __getitem__(self, at: int | slice) -> CandidateRow | tuple[CandidateRow, ...]:
        """Return a row, or a slice of rows."""
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        at = range(len(self))[at]
        if at < len(self._best):
            return self._best[at]
        place, whole = int(self._places[at - len(self._best)]), self._whole
        token, id = candidate(whole.tokens[place], self._marks), int(whole.ids[place])
        share = float(whole.probabilities[place])
        return CandidateRow(id, at + 1, token, share, id == self.chosen)

    def place_of(self, id: int) -> int | None:
        """Return the index of a token."""
        best = next((at for at, row in enumerate(self._best) if row.id == id), None)
        if best is not None:
            return best
        further = np.flatnonzero(self._whole.ids[self._places] == id)
        return len(self._best) + int(further[0]) if further.size else None


@dataclass(frozen=True, slots=True)
class CandidateTable:
    """The table, its title and the text below it."""

    title: str
    summary: str
    rows: Sequence[CandidateRow]
    vocabulary: int = 0  # size of the distribution; 0 if unknown
    choice: str = ""  # the step's token and who chose it
    marks: WordMarks = ""  # how the vocabulary marks words

    def best(self) -> tuple[CandidateRow, ...]:
        """Return the best rows, and the chosen one."""
        place = chosen_place(self.rows)
        further = () if place is None or place < BEST else (self.rows[place],)
        return (*self.rows[:BEST], *further)


BEST = 8  # rows shown at first


def place_of(rows: Sequence[CandidateRow], id: int) -> int | None:
    """Return the index of a token among some rows."""
    if isinstance(rows, AllRows):
        return rows.place_of(id)
    return next((at for at, row in enumerate(rows) if row.id == id), None)


def chosen_place(rows: Sequence[CandidateRow]) -> int | None:
    """Return the index of the chosen token among some rows."""
    if isinstance(rows, AllRows):
        return None if rows.chosen is None else rows.place_of(rows.chosen)
    return next((at for at, row in enumerate(rows) if row.chosen), None)


def rest_of(listed: float) -> float:
    """Return the probability not covered by ``listed``; NaN if that is NaN."""
    return 1 - min(listed, 1.0)  # min(NaN, 1.0) is NaN


def others_words(table: CandidateTable, shown: int) -> str:
    """Say how many tokens are not among the first rows, and their total probability.

    "" if that is unknown.
    """
    count = table.vocabulary - shown
    if count <= 0 or not table.rows:
        return ""
    listed = math.fsum(row.probability for row in table.rows[:shown])
    return ngettext(
        "{n:,} other  {probability}",
        "{n:,} others  {probability}",
        count,
        probability=probability(rest_of(listed)),
    )


def kept_words(table: CandidateTable) -> str:
    """Say how many of the vocabulary's tokens the run stores; "" if it stores all."""
    kept = len(table.rows)
    if not kept or kept >= table.vocabulary:
        return ""
    kept -= table.rows[-1].rank != kept  # the step's token, if not one of the best
    return _(
        "The run keeps the best {kept} of {vocabulary:,} tokens of each step. Type any "
        "other one to force it.",
        kept=kept,
        vocabulary=table.vocabulary,
    )


def named_rows(
    table: CandidateTable, text: str, found: Sequence[tuple[int, str]]
) -> tuple[CandidateRow, ...]:
    """Return the rows that match a typed text: among the best, then those in ``found``.

    A token that is not among the best has rank 0 and probability NaN.
    """
    wanted, known = text.strip().casefold(), table.rows[:CANDIDATES]
    near = [row for row in known if wanted in row.token.casefold()]
    places = [(place_of(table.rows, id), id, token) for id, token in found]
    rows = [
        CandidateRow(id, 0, candidate(token, table.marks), math.nan, chosen=False)
        if place is None
        else table.rows[place]
        for place, id, token in places
    ]
    ids = {row.id for row in rows}
    return (*rows, *(row for row in near if row.id not in ids))


def candidate_table(
    trace: Trace | None,
    *,
    choosable: bool = True,
    whole: WholeDistribution | None = None,
) -> CandidateTable:
    """Return the distribution of a Trace's last step, or ``whole``: all its tokens.

    ``choosable`` means that another token can be chosen instead.
    """
    if trace is None or not len(trace):
        hint = _("nothing decoded yet: step forward")
        return CandidateTable(_("next token"), hint, ())
    if not trace.steps:
        return CandidateTable(_("next token"), without_steps_words(trace), ())
    step, how = trace.steps[-1], marks(trace, "target")
    rows: Sequence[CandidateRow] = tuple(
        CandidateRow(
            c.id, rank, candidate(c.token, how), c.probability, c.id == step.id
        )
        for rank, c in enumerate(step.candidates, 1)
    )
    if whole is not None:
        rows = AllRows(rows, whole, chosen=step.id)
    elif place_of(rows, step.id) is None:
        token = candidate(step.token, how)
        last = CandidateRow(step.id, step.rank, token, step.probability, True)
        rows = (*rows, last)
    title = _("next token, after “{token}”", token=word(trace, "target", -1))
    words = _summary(trace, choosable=choosable)
    size = trace.model.config.target_vocabulary if trace.model.known is not None else 0
    return CandidateTable(title, words, rows, size, short_choice(trace), how)


def _summary(trace: Trace, *, choosable: bool) -> str:
    step = trace.steps[-1]
    origin = _(WHO[step.origin])
    token = chosen_name(trace)
    if not step.computed:
        return choice_sentence(trace)
    if math.isnan(step.probability):
        return _(
            "{origin}: “{token}”\nall probabilities are NaN:\nno rank, no entropy",
            origin=origin,
            token=token,
        )
    choice = {"origin": origin, "token": token, "rank": step.rank}
    lines = [
        _("{origin}: “{token}”, rank {rank}", **choice),
        _("entropy {entropy} bits", entropy=decimals(step.entropy, 2)),
    ]
    if choosable:
        lines.append(_("click a row to choose it instead"))
    if is_fed(step) and is_best(step):
        lines.insert(1, _("the model would say the same"))
    elif is_fed(step):
        lines.insert(1, _("the model would say: {best}", best=model_says(trace)))
    elif not is_best(step):
        lines.insert(1, _("most probable: {best}", best=model_says(trace)))
    return "\n".join(lines)


def candidates_numbers(rows: Sequence[CandidateRow], title: str) -> Table | None:
    """Return rows of the table for export; None if there are none."""
    if not rows:
        return None
    names = saved_labels(tuple(row.token for row in rows))
    values = np.array([(row.rank, row.id, row.probability) for row in rows])
    return Table(names, (_("rank"), _("id"), _("probability")), values, title)


# ---- an encoder's masked tokens --------------------------------------------------


def masked_token(trace: Trace | None, locked: AttentionCell | None) -> int | None:
    """Return the masked source token to show; None if there is none.

    It is the locked encoder cell's query, or the first one if no such cell is locked.
    """
    if trace is None or not trace.fills:
        return None
    if locked is None or locked.kind != "encoder":
        return min(trace.fills)
    return locked.query if locked.query in trace.fills else None


def listed_row(trace: Trace | None, locked: AttentionCell | None) -> int | None:
    """Return the row whose next token, or fill, is listed; None if there is none.

    It is the last decoder row, or the masked token that is shown.
    """
    if trace is not None and has_target(trace):
        return len(trace) - 1 if trace.steps else None
    return masked_token(trace, locked)


def fill_table(
    trace: Trace, masked: int | None, whole: WholeDistribution | None = None
) -> CandidateTable:
    """Return the best tokens in place of a masked one, or ``whole``: all tokens."""
    if masked is None:
        words = _("Click a masked token in the source strip to see what would fill it.")
        return CandidateTable(_("masked token"), words, ())
    how = marks(trace, "source")
    rows = tuple(
        CandidateRow(c.id, rank, candidate(c.token, how), c.probability, False)
        for rank, c in enumerate(trace.fills[masked], 1)
    )
    token = placed(trace, "source", masked)
    others = sorted(set(trace.fills) - {masked})
    words = (
        _(
            "The model's best tokens in this place. Click another masked token in the "
            "source strip to see those in its place."
        )
        if others
        else _("The model's best tokens in this place.")
    )
    title = _("in place of {token}", token=token)
    if whole is None:
        return CandidateTable(title, words, rows, marks=how)
    every = AllRows(rows, whole, chosen=None)
    return CandidateTable(title, words, every, len(whole.ids), marks=how)


def cell_of(trace: Trace, selection: Selection, token: int) -> AttentionCell:
    """Return the cell of a query of the selected kind and the key it reads most."""
    kind = selection.kind
    layer, head = layer_and_head(trace, selection, kind)
    row = query_weights(trace, kind, layer, head, token)
    best = 0 if np.isnan(row).all() else int(np.nanargmax(row))
    return AttentionCell(kind, token, best)


# ---- bars ------------------------------------------------------------------------


class TokenBar(NamedTuple):
    """One bar: a token, or the sum of the remaining tokens."""

    name: str
    p: float  # in [0, 1], or NaN
    rank: int  # from 1; 0 for the remaining tokens
    own: bool = False  # the step's token
    fed: bool = False  # teacher-forced

    @property
    def words(self) -> str:
        """The bar in words."""
        if not self.rank:
            return _("{tokens}: {p} together", tokens=self.name, p=probability(self.p))
        if math.isnan(self.p):
            return _("“{token}”, p = NaN", token=self.name)
        return _(
            "rank {rank:,}: “{token}”, p = {p}",
            rank=self.rank,
            token=self.name,
            p=probability(self.p),
        )


def predicts(trace: Trace | None) -> bool:
    """Whether a run has bars at any step, so that step 0 reserves space for them."""
    if trace is None:
        return True
    return has_target(trace) and (not len(trace.whole) or bool(trace.whole.steps))


def token_bars(trace: Trace | None) -> tuple[TokenBar, ...]:
    """Return the bars of a Trace's last step; none if nothing is predicted."""
    if trace is None or not trace.steps:
        return ()
    step = trace.steps[-1]
    fed, how = is_fed(step), marks(trace, "target")
    bars = [
        TokenBar(candidate(c.token, how), c.probability, rank, c.id == step.id, fed)
        for rank, c in enumerate(step.candidates[:BEST], 1)
    ]
    if not any(bar.own for bar in bars):
        own = candidate(step.token, how)
        bars.append(TokenBar(own, step.probability, step.rank, own=True, fed=fed))
    known = trace.model.known
    others = 0 if known is None else known.target_vocabulary - len(bars)
    if others > 0:
        rest = rest_of(sum(bar.p for bar in bars))
        name = ngettext("{n:,} other", "{n:,} others", others)
        bars.append(TokenBar(name, rest, 0))
    return tuple(bars)


def bars_table(bars: tuple[TokenBar, ...]) -> Table | None:
    """Return the bars for export."""
    if not bars:
        return None
    rows = saved_labels(tuple(bar.name for bar in bars))
    values = tuple((bar.rank, bar.p) for bar in bars)
    return Table(rows, (_("rank"), _("probability")), values)  # type: ignore[arg-type]


def headline(trace: Trace | None) -> str:
    """Say what the last step's token is, and after which; "" if there is none."""
    if trace is None or not trace.steps:
        return ""
    step = trace.steps[-1]
    if math.isnan(step.probability):
        return choice_sentence(trace)
    return _(
        "Step {step}, after “{read}”: {choice}",
        step=len(trace),
        read=word(trace, "target", -1),
        choice=short_choice(trace),
    )
