"""The next-token table: the distribution of the current step, best first."""

from __future__ import annotations

from dataclasses import dataclass

from visformer.state.state import State
from visformer.text import visible


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


_ORIGINS = {
    "model": "the model's choice",
    "forced": "forced by you",
    "reference": "the reference",
}


def candidate_table(state: State) -> CandidateTable:
    """Describe the current step's distribution."""
    trace = state.shown
    if trace is None or not len(trace):
        return CandidateTable("next token", "nothing decoded yet: step forwards", ())
    step = trace.steps[-1]
    rows = [
        CandidateRow(c.id, rank, visible(c.token), c.probability, c.id == step.id)
        for rank, c in enumerate(step.candidates, 1)
    ]
    if all(not row.chosen for row in rows):
        rows.append(
            CandidateRow(
                step.id, step.rank, visible(step.token), step.probability, True
            )
        )
    read = visible(trace.target[-1])
    summary = (
        f"{_ORIGINS[step.origin]}: {visible(step.token)}, rank {step.rank}\n"
        f"entropy {step.entropy:.2f} bits\nclick a row to choose it instead"
    )
    return CandidateTable(f"after {read}", summary, tuple(rows))
