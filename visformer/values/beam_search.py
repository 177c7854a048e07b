"""BeamSearch: what a beam search kept, dropped and finished at each step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visformer.values.arrays import Floats

EarlyStopping = Literal[True, False, "never"]


def score(logprob: float, length: int, penalty: float) -> float:
    """Return sum log p / length ** penalty; the length counts what ends a sentence.

    The scores of transformers and CTranslate2 are the same.
    """
    return logprob / math.pow(length, penalty)


class EndedBeam(NamedTuple):
    """A hypothesis that ended: ``id`` was chosen after a beam of the step before."""

    step: int  # from 0, of its last token
    beam: int  # by rank from 0, whose history it has
    id: int
    logprob: float  # the sum of natural logarithms
    score: float


class Lineage(NamedTuple):
    """Tokens from the first step on, each with the logarithm of its probability."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BeamSearch:
    """The steps of one sentence's search: three arrays [step, candidate].

    At each step the first ``beams`` candidates are the beams, by rank; the others were
    dropped. ``sums`` is -inf where there is none: it ended, or nothing may follow.
    Logarithms are those that were searched by: of one beam the model's own, of several
    as the rules of generation have changed them.
    """

    beams: int
    given: tuple[int, ...]  # consumed before the first step
    prompt: int = 1  # how many of them are a start or a prompt; the others were forced
    ids: NDArray[np.int32]
    parents: NDArray[np.int32]  # beams of the step before; 0 at the first step
    sums: Floats  # of natural logarithms, so far
    finished: tuple[EndedBeam, ...]  # as they came
    length_penalty: float
    early_stopping: EarlyStopping
    limit: int  # steps at most
    ends: tuple[int, ...]  # ids that end a sentence
    pieces: Mapping[int, str] = field(default_factory=dict)  # tokens by id, if asked
    texts: tuple[str, ...] = ()  # of the finished ones, if asked

    def __len__(self) -> int:
        return len(self.ids)

    def ranked(self) -> list[EndedBeam]:
        """Return the finished hypotheses, best first; of equals the earlier first."""
        return sorted(self.finished, key=lambda one: -one.score)

    @property
    def best(self) -> list[int]:
        """The ids with the highest score; none if all numbers were NaN."""
        return [*self.line_of(self.ranked()[0]).ids] if self.finished else []

    def path(self, step: int, beam: int) -> list[int]:
        """Return the ranks of the beams that led to one, itself included."""
        ranks = [beam]
        for at in range(step, 0, -1):
            ranks.append(int(self.parents[at, ranks[-1]]))
        return ranks[::-1]

    def line(self, step: int, candidate: int) -> Lineage:
        """Return the history of a candidate, itself included; none before step 0."""
        if step < 0:
            return Lineage((), ())
        at = np.arange(step + 1), np.array(self.path(step, candidate))
        sums: NDArray[Any] = np.diff(self.sums[at].astype(np.float64), prepend=0.0)
        return Lineage(tuple(self.ids[at].tolist()), tuple(sums.tolist()))

    def line_of(self, hypothesis: EndedBeam) -> Lineage:
        """Return the tokens of a finished hypothesis, what ended it included."""
        ids, logprobs = self.line(hypothesis.step - 1, hypothesis.beam)
        last = hypothesis.logprob - sum(logprobs)
        return Lineage((*ids, hypothesis.id), (*logprobs, last))
