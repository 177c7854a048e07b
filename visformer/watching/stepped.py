"""SteppedModel: a model of anybody's whose runs are watched passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from visformer.analysis.checks.observation import ModelState
from visformer.core.all_tokens import whole_distribution
from visformer.core.check import module_state
from visformer.core.generation import Generation
from visformer.core.models import (
    BatchRow,
    BeamRows,
    Extras,
    Reached,
    SourceTokens,
    Vocabulary,
)
from visformer.core.next_tokens import NextTokens
from visformer.core.sampling import most_probable
from visformer.core.search import exhausted, search_run
from visformer.errors import InputError
from visformer.values.arrays import Floats, Ids
from visformer.values.beam_search import BeamSearch
from visformer.values.facts import ModelFacts, SentenceSide
from visformer.values.finding import Finding
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.measured import WholeDistribution
from visformer.values.step import CANDIDATES, Candidates, LensRow, Step
from visformer.values.trace import Trace
from visformer.watching.pass_changes import AttentionPlace, ChangePlaces, PassChanges
from visformer.watching.streams import Readout, readout_of, streams_of
from visformer.watching.traces import layers_of, with_own_weights
from visformer.watching.watcher import Watched

# target -> logits [n, V] of what follows each of its last n tokens
NextLogits = Callable[[Sequence[int]], Tensor]


class SteppedModel(ABC):
    """A Model: how it reads, and how one pass of it is watched."""

    bos: int  # what the decoder is given before the first choice
    eos: int
    alone: bool  # a decoder without an encoder: the source is its prompt
    causal = False  # whether what follows a token changes nothing of its row
    model: nn.Module
    generation = Generation()
    assumed: tuple[str, ...]  # what nothing said, or no pass has shown, one line each

    @property
    @abstractmethod
    def name(self) -> str:
        """What to call it."""

    @property
    @abstractmethod
    def facts(self) -> ModelFacts:
        """What a Trace says about it."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """Its source and target tokens."""

    @property
    @abstractmethod
    def findings(self) -> tuple[Finding, ...]:
        """What is unusual or wrong."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The ids that end a sentence."""
        return (self.eos,)

    @property
    def extras(self) -> Extras:
        """What it can answer beyond runs."""
        return Extras(
            lens=self.lens, distribution=self._distribution, state=self._state
        )

    def can(self, change: Intervention, source: SourceTokens) -> None:
        """Raise InputError for a change that does not fit, or is out of reach."""
        if change:
            self._places.check(change, len(source.ids))

    def changes(self, change: Intervention) -> PassChanges | None:
        """Return what makes a change in one pass; None for no change."""
        if not change:
            return None
        find = self.id_of
        own = Intervention(*(one.looked_up(find) for one in change))
        return PassChanges(self._places, own)

    @abstractmethod
    def id_of(self, side: SentenceSide, word: str) -> int:
        """Return the id of a side's word; InputError if it is not one token."""

    @cached_property
    def _places(self) -> ChangePlaces:
        """Where its runs can be changed."""
        watched = self.shown[0]
        attention: dict[str, list[AttentionPlace | None]] = {}
        layers = layers_of(watched.last_run)
        places = {
            id(one): (kind, at)
            for kind, several in layers.items()
            for at, one in enumerate(several)
        }
        for one in watched.last_run:
            head = 0
            for path, count in one.parts:
                place = (
                    (*places[id(one)], head) if count and id(one) in places else None
                )
                attention.setdefault(path, []).append(place)
                head += count
        streams = streams_of(watched.streams, layers, watched.shown[0])
        read = {one.mark: one.side for one in watched.inputs}
        return ChangePlaces(
            facts=self.facts,
            attention={
                path: several
                for path, several in attention.items()
                if len(several) == watched.parts[path]
            },
            formulas=frozenset(
                places[id(one)]
                for one in watched.last_run
                if id(one) in places
                and one.linear
                and one.over == "keys"
                and not one.mixed
            ),
            stacks={
                path: (name, found.time_first)
                for name, found in streams.items()
                for path, several in watched.streams.items()
                if several[0].layers is found.layers
            },
            sides=frozenset(
                side
                for one in watched.read
                for mark, side in read.items()
                if one.marks & mark and not one.aside
            ),
        )

    def begin(
        self, source: SourceTokens, change: Intervention, limit: int | None
    ) -> WatchedRun:
        """Begin a run; nothing is computed yet."""
        return WatchedRun(self, source, change, limit)

    def batch(
        self, rows: Sequence[BatchRow], changes: Sequence[Intervention] = ()
    ) -> list[Trace]:
        """Refuse a batch: only the model knows how its padding would be masked."""
        raise InputError("“{name}” takes one text at a time.", name=self.name)

    def search(
        self,
        sources: Sequence[SourceTokens],
        beams: int | None,
        *,
        scored: bool = True,
    ) -> list[BeamSearch]:
        """Search the target of each source, one after the other."""
        count = beams or self.generation.beams
        runs = (self.begin(source, NO_CHANGES, None) for source in sources)
        return [exhausted(search_run(run, count, self.ends)) for run in runs]

    def beam_rows(
        self, source: SourceTokens, change: Intervention, beams: int
    ) -> BeamRows:
        """Return rows of so many hypotheses: here each is a pass of its own."""
        return _PassRows(self, source, change)

    def lens(
        self, hidden: Floats, chosen: Ids, temperature: float = 1.0
    ) -> tuple[LensRow, ...]:
        """Read streams [N, L + 1, D] of rows that chose some ids; () if it cannot."""
        if self._readout is None:
            return ()
        pieces = self.vocabulary.pieces
        return self._readout.rows(
            lambda id: pieces([id])[0], hidden, chosen, temperature
        )

    @cached_property
    def shown(self) -> tuple[Watched, Tensor]:
        """A pass over a few tokens, and its logits."""
        return self.watched_pass(*self._few_tokens, NO_CHANGES)

    @cached_property
    def _readout(self) -> Readout | None:
        watched, logits = self.shown
        layers = layers_of(watched.last_run)
        found = streams_of(watched.streams, layers, watched.shown[0])
        return readout_of(watched.watcher.model, found.get("decoder"), logits[None])

    @property
    def _few_tokens(self) -> tuple[SourceTokens, list[int]]:
        return SourceTokens([max(self.bos, 0)] * 3), [max(self.bos, 0)] * 2

    def _state(self) -> ModelState:
        """Return what is known of the module; a library says what is tied."""
        model: Any = self.model
        ask = getattr(model, "get_output_embeddings", None)
        output = ask() if callable(ask) else None
        ties = []
        if output is not None and model.config.tie_word_embeddings:
            table = model.get_input_embeddings().weight
            ties.append(("input embedding", table, "output embedding", output.weight))
        return module_state(self.model, ties)

    def _distribution(
        self,
        _stream: Floats,
        source: Sequence[int],
        target: Sequence[int],
        change: Intervention,
        row: int,
    ) -> WholeDistribution:
        """Return every token with its probability at a row of one pass over ids."""
        read = SourceTokens([*source])
        _watched, logits = self.watched_pass(read, target, change)
        p, ids, _entropy = most_probable(logits[row : row + 1], logits.shape[-1])
        pieces = self.vocabulary.pieces(range(p.shape[-1]))
        return whole_distribution(p[0], ids[0], pieces.__getitem__)

    @abstractmethod
    def watched_pass(
        self, source: SourceTokens, target: Sequence[int], change: Intervention
    ) -> tuple[Watched, Tensor]:
        """Watch one pass; returns it and the logits [T, V]."""

    @abstractmethod
    def watched_batch(self, ids: Sequence[Tensor], change: Intervention) -> Watched:
        """Watch one pass over int64 [B, S] and [B, T], or of one side alone."""

    def unwatched(self, source: SourceTokens) -> NextLogits | None:
        """Return what computes next logits without watching; None: passes do."""
        return None

    def most_tokens(self, source: SourceTokens, limit: int | None) -> int:
        """Return how many tokens are chosen at most, where ``limit`` is asked for."""
        return 2 * len(source.ids) + 50 if limit is None else limit

    def described(self, facts: ModelFacts) -> ModelFacts:
        """Return what a Trace says of the model, from what its pass has shown."""
        return replace(facts, name=self.name, bos=self.bos, eos=self.eos)

    def given(self, source: SourceTokens) -> tuple[int, ...]:
        """Return what the decoder reads before the first choice; () without one."""
        return tuple(source.ids) if self.alone else (self.bos,)

    def rules(self, source: SourceTokens) -> Generation:
        """Return what restricts the choices after a source."""
        return self.generation

    @property
    def masked(self) -> int:
        """The id of the token that stands for a masked one; -1 where there is none."""
        return -1


class _PassRows:
    """Rows of hypotheses, which passes compute one after the other."""

    def __init__(
        self, model: SteppedModel, source: SourceTokens, change: Intervention
    ) -> None:
        self._model, self._given = model, (source, change)

    def next(self, consumed: Tensor) -> Tensor:
        """Return the logits [N, V] of what follows these ids [N, t]."""
        (source, change), step = self._given, self._model.watched_pass
        passes = (step(source, ids, change) for ids in consumed.tolist())
        return torch.stack([logits[-1] for _watched, logits in passes])

    def keep(self, rows: Tensor, sentences: Tensor | None) -> None:
        """Do nothing: each pass begins anew."""


class WatchedRun:
    """One source under one change; its Traces are of passes over all tokens so far.

    What the model does with a cache is its own, so a Trace is of a pass. Passes are
    kept; of a causal model the longest one, which holds the shorter ones.
    """

    def __init__(
        self,
        model: SteppedModel,
        source: SourceTokens,
        change: Intervention,
        limit: int | None,
    ) -> None:
        self._model, self._source, self._change = model, source, change
        self.given, self.rules = model.given(source), model.rules(source)
        self.limit = model.most_tokens(source, limit)
        self._weights = _state_of(model.model)
        self._steady = model.causal and not change.reaches_back
        # a changed run has no steps of its own: the cache is of the unchanged one
        alone = self._steady and not change
        self._unwatched = model.unwatched(source) if alone else None
        self._passes: dict[tuple[int, ...], tuple[Watched, Tensor]] = {}
        self._traces: dict[tuple[int, ...], Trace] = {}

    @property
    def start(self) -> Trace:
        """The Trace before any decoder row (T = 0), with what would fill masks."""
        made = self._made(self.given, (), 0)
        return made if self.given else made.whole

    def to(
        self, consumed: Sequence[int], *, since: int = 0, fed: bool = False
    ) -> tuple[Reached, NextTokens]:
        """Compute the logits of the rows that consume these ids; a Trace if asked.

        Without a cache, and if a change lets earlier rows read later tokens, by a pass.
        """
        ids = tuple(consumed)
        if self._unwatched is None or self._kept(ids) is not None:
            logits = self._pass(ids)[1][since if self._steady else 0 :]
        else:
            logits = self._unwatched(ids)
            if len(logits) < len(ids) - since:  # rows before them were not described
                logits = self._pass(ids)[1][since:]
        reached = Reached(partial(self._later, ids), self._steady * len(ids))
        return reached, NextTokens(logits)

    def release(self) -> None:
        """Keep what is kept: another pass need not give the same."""

    def beam_rows(self, beams: int) -> BeamRows:
        """Return rows of so many hypotheses, none of which is computed yet."""
        return self._model.beam_rows(self._source, self._change, beams)

    def _later(self, ids: tuple[int, ...], steps: Sequence[Step], rows: int) -> Trace:
        return _UnmadeTrace(partial(self._made, ids, tuple(steps), rows))

    def _pass(self, consumed: tuple[int, ...]) -> tuple[Watched, Tensor]:
        """Watch one pass; returns it and the logits [T, V] of what is consumed."""
        kept = self._kept(consumed)
        if kept is None:
            if _state_of(self._model.model) != self._weights:
                raise InputError(
                    "The model's weights have changed since this sentence was "
                    "started. Call restart, or make a new Decoding."
                )
            if self._steady:  # the longer pass holds all that the others held
                self._passes.clear()
                self._traces.clear()
            kept = self._model.watched_pass(self._source, consumed, self._change)
            self._passes[consumed] = kept
        watched, logits = kept
        return watched, logits[: len(consumed) or None]

    def _kept(self, consumed: tuple[int, ...]) -> tuple[Watched, Tensor] | None:
        """Return a pass that holds the rows of what is consumed; None without one."""
        if consumed in self._passes or not self._steady:
            return self._passes.get(consumed)
        longer = (key for key in self._passes if key[: len(consumed)] == consumed)
        return next((self._passes[key] for key in longer), None)

    def _made(
        self, consumed: tuple[int, ...], steps: tuple[Step, ...], rows: int
    ) -> Trace:
        """Return the Trace of the first rows of what is consumed."""
        if consumed not in self._traces:
            self._traces[consumed] = self._trace(consumed)
        made = replace(self._traces[consumed], steps=steps).until(rows)
        return made if self._steady else replace(made, cut_from=None)

    def _trace(self, consumed: tuple[int, ...]) -> Trace:
        """Return the Trace of all that is consumed, without steps."""
        watched, logits = self._pass(consumed)
        if not watched.traces:
            raise InputError(watched.certificate.sentence)
        (trace,) = watched.traces
        model, source = self._model, self._source
        trace = replace(
            trace,
            model=model.described(trace.model),
            source_text=source.text or trace.source_text,
            source_spans=source.spans if trace.source else (),
            truncated_from=source.cut_from,
            intervention=self._change,
            steps=(),
            own_lens=model.lens,
            prompt=len(self.given) if model.alone else 0,
            fills=self._fills(logits),
        )
        if self._change or not self.given:  # what it says is of the unchanged model
            trace = with_own_weights(trace, layers_of(watched.last_run), 0)
        return trace

    def _fills(self, logits: Tensor) -> Mapping[int, Candidates]:
        """Return what would fill the masked tokens, by logits [S, V]."""
        fills, masked = {}, self._model.masked
        for at, id in enumerate(self._source.ids if masked >= 0 else ()):
            if id == masked:
                p, best, _entropy = most_probable(logits[at : at + 1], CANDIDATES)
                named = self._model.vocabulary.pieces(best[0].tolist())
                fills[at] = Candidates(best[0].numpy(), named, p[0, best[0]].numpy())
        return fills


def _state_of(model: nn.Module) -> list[tuple[int, int]]:
    """Return what shows later whether a model's parameters were written to."""
    return [(id(one), one._version) for one in model.parameters()]


class _UnmadeTrace(Trace):
    """A Trace that is made when it is first used: then it is one like any other."""

    def __init__(self, make: Callable[[], Trace]) -> None:
        object.__getattribute__(self, "__dict__")["make"] = make

    def __getattribute__(self, name: str) -> Any:
        own: dict[str, Any] = object.__getattribute__(self, "__dict__")
        if make := own.get("make"):
            made = vars(make())
            own.clear()
            own.update(made)
            object.__setattr__(self, "__class__", Trace)
        return object.__getattribute__(self, name)
