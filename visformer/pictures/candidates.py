"""The next-token table: the distribution of the current step, best first."""

from __future__ import annotations

import math
from dataclasses import dataclass

from visformer.language import _
from visformer.pictures.absent import without_steps_words
from visformer.pictures.choices import WHO, is_best, is_fed, model_says, who_chose
from visformer.text import visible
from visformer.values.step import Step
from visformer.values.trace import Trace
from visformer.words import decimals


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
    return CandidateTable(title, _summary(step, choosable=choosable), tuple(rows))


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
    if is_fed(step):
        lines.insert(1, _("the model would say: {best}", best=model_says(step)))
    elif not is_best(step):
        lines.insert(1, _("most probable: {best}", best=model_says(step)))
    return "\n".join(lines)
