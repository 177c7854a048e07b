"""The next-token table: the distribution of the current step, best first."""

from __future__ import annotations

import math
from dataclasses import dataclass

from visformer.language import _
from visformer.pictures.absent import without_steps_words
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
    """The table and what stands around it."""

    title: str
    summary: str
    rows: tuple[CandidateRow, ...]


ORIGINS = {  # who chose a step's token
    "model": "chosen",
    "rule": "by its generation rules",
    "forced": "forced by you",
    "reference": "the reference",
}


def candidate_table(trace: Trace | None, *, choosable: bool = True) -> CandidateTable:
    """Describe the distribution of a Trace's last step.

    ``choosable``: another token can be chosen instead.
    """
    if trace is None or not len(trace):
        return CandidateTable("next token", "nothing decoded yet: step forwards", ())
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
    title = f"next token, after “{visible(trace.target[-1])}”"
    return CandidateTable(title, _summary(step, choosable=choosable), tuple(rows))


def _summary(step: Step, *, choosable: bool) -> str:
    if math.isnan(step.probability):
        return (
            f"{ORIGINS[step.origin]}: “{visible(step.token)}”\n"
            "all probabilities are NaN:\nno rank, no entropy"
        )
    lines = [
        f"{ORIGINS[step.origin]}: “{visible(step.token)}”, rank {step.rank}",
        f"entropy {decimals(step.entropy, 2)} bits",
    ]
    if choosable:
        lines.append("click a row to choose it instead")
    if step.origin != "model":
        best = step.candidates[0]
        lines.insert(1, f"most probable: “{visible(best.token)}”")
    return "\n".join(lines)
