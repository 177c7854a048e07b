"""Model: what ``Decoding``, the engine and the commands ask of a model.

Native checkpoints, folders of transformers and wrapped modules are Models. The guide
(developing.md, "A model of your own") says how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from torch import Tensor

from visformer.analysis.checks.observation import ModelState
from visformer.arguments import wrong_type
from visformer.core.generation import Generation
from visformer.core.next_tokens import NextTokens
from visformer.language import _
from visformer.values.arrays import Floats, Ids
from visformer.values.beam_search import BeamSearch
from visformer.values.facts import ModelFacts, SentenceSide, StackName
from visformer.values.finding import Finding
from visformer.values.intervention import Intervention
from visformer.values.layer_weights import LayerParameters
from visformer.values.measured import NearWords, WholeDistribution
from visformer.values.step import LensRow, Step
from visformer.values.trace import Trace


class SourceTokens(NamedTuple):
    """What a model is given to read."""

    ids: list[int]
    tokens: tuple[str, ...] = ()  # as shown; (): the names of the ids
    spans: tuple[tuple[int, int], ...] = ()  # of the text; () where ids were given
    cut_from: int = 0  # how many there were, where the model takes fewer; else 0
    text: str = ""


class BatchRow(NamedTuple):
    """A source, and the target ids that the decoder consumes."""

    source: SourceTokens
    target: Sequence[int]


class WorkDone(NamedTuple):
    """How far long work has come; where it is reported, the work may be stopped."""

    done: int
    of: int
    part: str  # what is counted, as words on screen


class Vocabulary(Protocol):
    """How a model's texts become ids, and its ids text."""

    @property
    def size(self) -> int:
        """The number of target tokens."""

    @property
    def numbers(self) -> int:
        """How many source tokens there are if they are typed as numbers; else 0."""

    def read(self, source: str | Sequence[int]) -> SourceTokens:
        """Return a source, cut to the model's positions.

        Raises TypeError or InputError for what is none.
        """

    def reference(self, target: str | Sequence[int]) -> list[int]:
        """Return the ids of a target; those of a text include what ends it."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the target token of each id."""

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of target ids, without special tokens."""

    def find(self, text: str) -> tuple[tuple[int, str], ...]:
        """Return the ids and target tokens that a text names, the likest first."""

    def one(self, token: str | int) -> int:
        """Return the id of exactly one target token; InputError otherwise."""


class Reached(NamedTuple):
    """Decoder rows of a run, [T]."""

    # given the steps of all rows, makes the Trace of the first so many
    trace: Callable[[Sequence[Step], int], Trace]
    kept: int  # rows that no later token changes: T of a causal run, else fewer


class BeamRows(Protocol):
    """The decoder rows of N hypotheses: as many of each of B sentences."""

    def next(self, consumed: Tensor) -> Tensor:
        """Return the logits [N, V] of what follows these ids [N, t].

        They go on with those of the call before, as they were kept since.
        """

    def keep(self, rows: Tensor, sentences: Tensor | None) -> None:
        """Keep (and repeat) these rows int [N'], of these sentences; None: of all."""


class ModelRun(Protocol):
    """One source under one change: its decoder rows, as far as they are asked for."""

    @property
    def given(self) -> Sequence[int]:
        """What the decoder consumes before the first choice: a start or a prompt."""

    @property
    def limit(self) -> int:
        """The largest number of choices."""

    @property
    def rules(self) -> Generation:
        """What restricts the choices."""

    @property
    def start(self) -> Trace:
        """The Trace before any decoder row (T = 0)."""

    def to(
        self, consumed: Sequence[int], *, since: int = 0, fed: bool = False
    ) -> tuple[Reached, NextTokens]:
        """Compute the rows that consume these ids [T], T > 0, and what follows them.

        What follows is that of the rows from ``since`` on, or of more. ``fed`` gives
        rows the positions of one whole pass, where steps have others.
        """

    def release(self) -> None:
        """Let go of what is no longer read, if it can be computed again."""

    def beam_rows(self, beams: int) -> BeamRows:
        """Return rows of so many hypotheses, none of which is computed yet.

        Raises InputError where the model chooses no tokens.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What only some models can answer; None where they cannot."""

    # streams [N, L + 1, D], ids [N] that those rows chose, temperature
    lens: Callable[[Floats, Ids, float], tuple[LensRow, ...]] | None = None
    # the stream [D] that leaves the last layer, or a pass (source, target, change) and
    # its row: what that row predicts
    distribution: (
        Callable[
            [Floats, Sequence[int], Sequence[int], Intervention, int], WholeDistribution
        ]
        | None
    ) = None
    weights: Callable[[StackName, int], LayerParameters] | None = None
    # source, target, change, seed: the order, and both Traces
    shuffle: (
        Callable[
            [str, Sequence[int], Intervention, int],
            tuple[tuple[int, ...], Trace, Trace],
        ]
        | None
    ) = None
    positions: Callable[[], Floats] | None = None  # of the source, [P, D]
    # a side, and a token by its id or as a text names it: the nearest by embeddings
    nearest: Callable[[SentenceSide, int | str], NearWords] | None = None
    state: Callable[[], ModelState] | None = None  # of its parameters, for the checks
    warm_up: Callable[[], None] | None = None  # makes the first step as fast as others
    languages: bool = False  # whether source and target language can be chosen


class Model(Protocol):
    """A model that texts can be run through, whoever computes it."""

    @property
    def name(self) -> str:
        """What to call it."""

    @property
    def facts(self) -> ModelFacts:
        """What a Trace says about it."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Its source and target tokens."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The ids that end a sentence."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is unusual or wrong."""

    @property
    def assumed(self) -> tuple[str, ...]:
        """What nothing said and was assumed, one line each."""

    @property
    def extras(self) -> Extras:
        """What it can answer beyond runs."""

    def can(self, change: Intervention, source: SourceTokens) -> None:
        """Raise InputError, in one sentence, for a change that is out of reach."""

    def begin(
        self, source: SourceTokens, change: Intervention, limit: int | None
    ) -> ModelRun:
        """Begin a run; ``limit`` is the largest number of choices, None its own."""

    def batch(
        self, rows: Sequence[BatchRow], changes: Sequence[Intervention] = ()
    ) -> list[Trace]:
        """Run padded rows, each with its change if there are any: a Trace per row.

        Raises InputError where that cannot be.
        """

    def search(
        self,
        sources: Sequence[SourceTokens],
        beams: int | None,
        *,
        scored: bool = True,
    ) -> list[BeamSearch]:
        """Search the target of each source.

        ``beams`` 1 is greedy search, None the model's own number. Only the ids count
        of greedy search that need not be ``scored``.
        """


Opener = Callable[[str | Path | None], Model]  # None: the bundled one
_openers: list[Opener] = []  # none until paths are accepted


def accept_paths(opener: Opener) -> None:
    """Let ``opened`` take the path of a checkpoint, which ``opener`` reads."""
    _openers[:] = [opener]


def bundled() -> Model:
    """Return the bundled checkpoint; TypeError until paths are accepted."""
    return _openers[0](None) if _openers else opened(None)


def opened(model: Model | str | Path | None) -> Model:
    """Return a Model, read from its path where that is given.

    Raises TypeError for anything else, and what reading it raises.
    """
    if isinstance(model, str | Path) and _openers:
        return _openers[0](model)
    if model is None or isinstance(model, str | Path) or not hasattr(model, "begin"):
        raise wrong_type(
            "checkpoint", model, _("what visformer.load returns, or its path")
        )
    return model
