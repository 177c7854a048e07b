"""SteppedModel: a model of anybody's that is decoded with by watched passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor

from visformer.core.all_tokens import whole_distribution
from visformer.core.sampling import choose, most_probable
from visformer.errors import InputError
from visformer.language import _
from visformer.values.arrays import Floats, Ids
from visformer.values.distribution import WholeDistribution
from visformer.values.facts import ModelFacts
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.lens import LensRow
from visformer.values.step import Choice
from visformer.values.strategy import Strategy
from visformer.values.trace import Trace
from visformer.watching.streams import Readout, readout_of, streams_of
from visformer.watching.traces import layers_of
from visformer.watching.watcher import Watched

# a source and a target -> the logits [V] of what follows
NextLogits = Callable[[Sequence[int], Sequence[int]], Tensor]


class SourceTokens(NamedTuple):
    """What a model is given to read, as ids."""

    ids: list[int]
    tokens: tuple[str, ...] = ()  # as shown; (): what the ids are called
    spans: tuple[tuple[int, int], ...] = ()  # of the text
    cut_from: int = 0  # how many there were, where the model takes fewer


class SteppedModel(ABC):
    """What a ``WrappedDecoding`` steps: how it reads, runs and chooses."""

    bos: int  # what the decoder is given before the first choice
    eos: int
    alone: bool  # a decoder without an encoder: the source is its prompt
    causal = False  # whether what follows a token changes nothing of its row

    @property
    @abstractmethod
    def name(self) -> str:
        """What to call it."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The ids that end a sentence."""
        return (self.eos,)

    def begin_decoding(self, source: str | Sequence[int], **settings: Any) -> Any:
        """Return what ``visformer.Decoding`` is for a checkpoint, and errs as it."""
        from visformer.watching.wrapped_decoding import WrappedDecoding

        return WrappedDecoding(self, source, **settings)

    @abstractmethod
    def read(self, source: str | Sequence[int]) -> SourceTokens:
        """Return a source; TypeError or InputError where there is none."""

    @abstractmethod
    def reference(self, target: str | Sequence[int]) -> list[int]:
        """Return the ids of a target; those of a text include what ends it."""

    @abstractmethod
    def target_id(self, token: str | int) -> int:
        """Return the id of exactly one target token; InputError otherwise."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the target token of each id."""

    @abstractmethod
    def text(self, ids: Sequence[int]) -> str:
        """Return the text of target ids, without what ends it."""

    def batch(self, texts: Sequence[str]) -> list[Trace]:
        """Refuse a batch: only the model knows how its padding would be masked."""
        raise InputError(_("“{name}” takes one text at a time.", name=self.name))

    def lens(
        self, hidden: Floats, chosen: Ids, *, temperature: float
    ) -> tuple[LensRow, ...]:
        """Read streams [N, L + 1, D] of rows that chose some ids; () if it cannot."""
        if self._readout is None:
            return ()
        return self._readout.rows(
            lambda id: self.pieces([id])[0], hidden, chosen, temperature
        )

    @cached_property
    def _readout(self) -> Readout | None:
        source, begun = SourceTokens([max(self.bos, 0)] * 3), [max(self.bos, 0)] * 2
        watched, logits = self.watched_pass(source, begun, NO_CHANGES)
        layers = layers_of(watched.last_run)
        found = streams_of(watched.streams, layers, watched.shown[0])
        return readout_of(watched.watcher.model, found.get("decoder"), logits[None])

    def differences(self) -> dict[str, object]:
        """Return how far what is watched is from the model's own, in a short pass."""
        source, begun = SourceTokens([max(self.bos, 0)] * 3), [max(self.bos, 0)] * 2
        watched, logits = self.watched_pass(source, begun, NO_CHANGES)
        made: dict[str, object] = {
            "weights computed again, and the model's own": watched.certificate.worst
        }
        if step := self.unwatched(NO_CHANGES):
            step(source.ids, begun[:1])
            apart = (step(source.ids, begun) - logits[-1]).abs().max()
            made["cached step against the watched pass"] = float(
                apart / logits[-1].abs().max().clamp(min=1)
            )
        return made

    def translate(self, texts: Sequence[str], beam: int | None) -> list[str]:
        """Return what the model makes of each text; blank ones stay empty."""
        if beam not in (None, 1):
            raise InputError(
                _("“{name}” is decoded by single steps: without beams.", name=self.name)
            )
        return [
            self.begin_decoding(text).finish().text if text.strip() else ""
            for text in texts
        ]

    @abstractmethod
    def watched_pass(
        self, source: SourceTokens, target: Sequence[int], change: Intervention
    ) -> tuple[Watched, Tensor]:
        """Watch one pass; returns it and the logits [T, V]."""

    def distribution(
        self,
        source: Sequence[int],
        target: Sequence[int],
        change: Intervention,
        row: int,
    ) -> WholeDistribution:
        """Return every token with its probability at a row of one pass over ids."""
        read = SourceTokens([*source])
        _watched, logits = self.watched_pass(read, target, change)
        p, ids, _entropy = most_probable(logits[row : row + 1], logits.shape[-1])
        pieces = self.pieces(range(p.shape[-1]))
        return whole_distribution(p[0], ids[0], pieces.__getitem__)

    @abstractmethod
    def watched_batch(self, ids: Sequence[Tensor], change: Intervention) -> Watched:
        """Watch one pass over int64 [B, S] and [B, T], or of one side alone."""

    @abstractmethod
    def check(self, change: Intervention, source: SourceTokens) -> None:
        """Raise InputError for a change that cannot be made of the model's run."""

    def unwatched(self, change: Intervention) -> NextLogits | None:
        """Return what computes next logits without watching; None: passes do."""
        return None

    def choose(
        self,
        logits: Tensor,
        strategy: Strategy,
        consumed: Sequence[int],
        *,
        step: int,
        last: bool,
    ) -> Choice:
        """Choose the token of a step, which may be the last one, from logits [V]."""
        return choose(logits, strategy, step)

    def most_tokens(self, source: SourceTokens, limit: int | None) -> int:
        """Return how many tokens are chosen at most, where ``limit`` is asked for."""
        return 2 * len(source.ids) + 50 if limit is None else limit

    def described(self, facts: ModelFacts) -> ModelFacts:
        """Return what a Trace says of the model, from what its pass has shown."""
        return replace(facts, name=self.name, bos=self.bos, eos=self.eos)

    def given(self, source: SourceTokens) -> list[int]:
        """Return what the decoder reads before the first choice."""
        return [*source.ids] if self.alone else [self.bos]
