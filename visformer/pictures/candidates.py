"""The next-token table: the distribution of the current step, best first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from visformer.language import _, ngettext
from visformer.pictures.absent import without_steps_words
from visformer.pictures.choices import (
    WHO,
    is_best,
    is_fed,
    model_says,
    short_choice,
    who_chose,
)
from visformer.pictures.picture import Table
from visformer.text import visible
from visformer.values.step import Step
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


@dataclass(frozen=True, slots=True)
class CandidateTable:
    """The table, its title and the words below it."""

    title: str
    summary: str
    rows: tuple[CandidateRow, ...]
    vocabulary: int = 0  # tokens that the distribution is over; 0: not known
    choice: str = ""  # the step's token and who chose it, in words

    def best(self) -> tuple[CandidateRow, ...]:
        """Return the best rows, and the chosen one."""
        return tuple(row for at, row in enumerate(self.rows) if at < BEST or row.chosen)


BEST = 8  # rows that are shown at first


def others_words(table: CandidateTable, shown: int) -> str:
    """Say how many tokens are in none of the first rows, and how probable they are.

    "" where that is not known.
    """
    count = table.vocabulary - shown
    if count <= 0 or not table.rows:
        return ""
    rest = 1 - math.fsum(row.probability for row in table.rows[:shown])
    return ngettext(
        "{n:,} other  {probability}",
        "{n:,} others  {probability}",
        count,
        probability=probability(max(0.0, rest)),
    )


def kept_words(table: CandidateTable) -> str:
    """Say how many of the vocabulary's tokens the run keeps; "" where it keeps all."""
    kept = len(table.rows)
    if not kept or kept >= table.vocabulary:
        return ""
    return _(
        "The run keeps the best {kept} of {vocabulary:,} tokens of each step. Type any "
        "other one to force it.",
        kept=kept,
        vocabulary=table.vocabulary,
    )


def named_rows(
    table: CandidateTable, text: str, found: Sequence[tuple[int, str]]
) -> tuple[CandidateRow, ...]:
    """Return the rows that a typed text names: best ones, then ``found`` elsewhere.

    The rank of one that is not among the best is 0, its probability NaN.
    """
    wanted = text.strip().casefold()
    near = [row for row in table.rows if wanted in row.token.casefold()]
    known = {row.id: row for row in table.rows}
    rows = [
        known.get(id, CandidateRow(id, 0, visible(token), math.nan, chosen=False))
        for id, token in found
    ]
    ids = {row.id for row in rows}
    return (*rows, *(row for row in near if row.id not in ids))


def candidate_table(trace: Trace | None, *, choosable: bool = True) -> CandidateTable:
    """Describe the distribution of a Trace's last step.

    ``choosable``: another token can be chosen instead.
    """
    if trace is None or not len(trace):
        hint = _("nothing decoded yet: step forward")
        return CandidateTable(_("next token"), hint, ())
    if not trace.steps:
        return CandidateTable(_("next token"), without_steps_words(trace), ())
    step = trace.steps[-1]
    rows = [
        CandidateRow(c.id, rank, visible(c.token), c.probability, c.id == step.id)
        for rank, c in enumerate(step.candidates, 1)
    ]
    if all(not row.chosen for row in rows):
        token = visible(step.token)
        rows.append(CandidateRow(step.id, step.rank, token, step.probability, True))
    title = _("next token, after “{token}”", token=visible(trace.target[-1]))
    words = _summary(step, choosable=choosable)
    size = trace.model.config.target_vocabulary if trace.model.known is not None else 0
    return CandidateTable(title, words, tuple(rows), size, short_choice(step))


def _summary(step: Step, *, choosable: bool) -> str:
    origin, token = _(WHO[who_chose(step)]), visible(step.token)
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
        lines.insert(1, _("the model would say: {best}", best=model_says(step)))
    elif not is_best(step):
        lines.insert(1, _("most probable: {best}", best=model_says(step)))
    return "\n".join(lines)


def candidates_numbers(rows: Sequence[CandidateRow], title: str) -> Table | None:
    """Return rows of the table for export; None where there are none."""
    if not rows:
        return None
    names = tuple(row.token for row in rows)
    values = np.array([(row.rank, row.id, row.probability) for row in rows])
    return Table(names, (_("rank"), _("id"), _("probability")), values, title)
