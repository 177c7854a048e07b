"""WrappedDecoding: a sentence decoded by a wrapped model, each step a watched pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from visformer.arguments import whole_number, wrong_value
from visformer.core.sampling import as_strategy, choose
from visformer.core.stepping import Choice, Stepping
from visformer.errors import InputError
from visformer.language import _
from visformer.values.strategy import Strategy, StrategyName
from visformer.values.trace import Trace
from visformer.watching.watched_steps import probabilities_of, step_of
from visformer.watching.watcher import Watched, watch

if TYPE_CHECKING:
    from visformer.watching.wrapped import WrappedModel


class WrappedDecoding(Stepping):
    """What ``Decoding`` is for a checkpoint, and used like it.

    Every step is a pass of the model over all tokens so far, since what it does with a
    cache is its own. Passes are kept, so that going back and forth computes nothing.
    """

    def __init__(
        self,
        wrapped: WrappedModel,
        source: str | Sequence[int],
        *,
        strategy: Strategy | StrategyName | None = None,
        limit: int | None = None,
    ) -> None:
        """Begin with a source, or, of a model without an encoder, with a prompt.

        ``limit`` is the largest number of chosen tokens (default: 2 S + 50).
        """
        self.checkpoint, self.strategy = wrapped, as_strategy(strategy)
        self.restart(source, limit=limit)

    def restart(self, source: str | Sequence[int], *, limit: int | None = None) -> None:
        """Start again with another sentence."""
        wrapped = self.checkpoint
        self._source = wrapped.ids(source)
        self._source_text = source if isinstance(source, str) else ""
        # what the decoder is given before the first choice
        self._given = self._source if wrapped.alone else [wrapped.bos]
        most = 2 * len(self._source) + 50
        self.limit = most if limit is None else whole_number("limit", limit, least=1)
        self._made: list[Choice] = []
        self._position = 0
        self._passes: dict[tuple[int, ...], tuple[Watched, Tensor]] = {}
        self._traces: dict[tuple[Choice, ...], Trace] = {}

    def __repr__(self) -> str:
        """Name the sentence, the step and what was decoded."""
        return f"<WrappedDecoding at step {self._position}: {self.trace!r}>"

    @property
    def trace(self) -> Trace:
        """Everything up to the current step."""
        made = tuple(self._made[: self._position])
        if made not in self._traces:
            self._traces[made] = self._trace(made)
        return self._traces[made]

    @property
    def watched(self) -> Watched:
        """What was seen of the current step's pass: attention and certificate."""
        return self._pass(self._consumed(max(1, self._position)))[0]

    @property
    def vocabulary(self) -> int:
        """How many target tokens there are."""
        return self._pass(self._consumed(1))[1].shape[-1]

    @property
    def ended(self) -> bool:
        """Whether the current step ended the sentence or reached the limit."""
        made = self._made[: self._position]
        return len(made) == self.limit or bool(made and made[-1][0] == self._eos)

    def feed(self, reference: str | Sequence[int]) -> Trace:
        """Teacher forcing: make ``reference`` the choices of all steps, in one pass.

        A text ends with the end-of-sentence token.
        """
        return self.follow(self.reference(reference))

    def reference(self, reference: str | Sequence[int]) -> list[Choice]:
        """Return the choices of a reference; a text includes the end of sentence."""
        ids = self.checkpoint.ids(reference)
        if isinstance(reference, str) and ids[-1] != self._eos:
            ids = [*ids, self._eos]
        return [(id, "reference") for id in ids]

    def follow(self, choices: Sequence[Choice]) -> Trace:
        """Make exactly these choices; InputError for ids that there are not."""
        self._check_limit(choices)
        if choices:
            for id, _origin in choices:
                whole_number("id", id, most=self.vocabulary - 1)
        self._made, self._position = list(choices), len(choices)
        return self.trace

    @property
    def _eos(self) -> int:
        return self.checkpoint.eos

    def _computed(self) -> int:
        return len(self._made)

    def _compute_next(self) -> None:
        logits = self._pass(self._consumed(self._position + 1))[1][-1]
        self._made.append((choose(logits, self.strategy, self._position), "model"))

    def _choices(self, count: int) -> list[Choice]:
        return self._made[:count]

    def _target_id(self, token: str | int) -> int:
        ids = [token] if isinstance(token, int) else self.checkpoint.ids(token)
        if len(ids) != 1:
            raise wrong_value("token", token, _("exactly one token"))
        return ids[0]

    def _consumed(self, steps: int) -> tuple[int, ...]:
        """Return what the decoder reads to choose so many tokens."""
        chosen = [id for id, _origin in self._made[: steps - 1]]
        return (*self._given, *chosen)

    def _pass(self, consumed: tuple[int, ...]) -> tuple[Watched, Tensor]:
        """Watch one pass; returns it and the logits [T, V]."""
        if consumed not in self._passes:
            wrapped = self.checkpoint
            model = wrapped.model
            first = next(model.parameters(), None)
            device = None if first is None else first.device
            target = torch.tensor([consumed], device=device)
            source = torch.tensor([self._source], device=device)
            inputs = [target] if wrapped.alone else [source, target]
            watcher = watch(
                model,
                pad=wrapped.pad,
                tokenizer=lambda id: wrapped.pieces([id])[0],
                sources=None if wrapped.alone else 0,
                targets=0 if wrapped.alone else 1,
            )
            with torch.no_grad(), watcher as watched:
                watched.output = model(*inputs)
            logits = watched.output[0].detach().float().cpu()
            self._passes[consumed] = watched, logits
        return self._passes[consumed]

    def _trace(self, choices: tuple[Choice, ...]) -> Trace:
        """Return the Trace after some choices: rows of all that was read for them."""
        consumed = self._consumed(max(1, len(choices)))
        watched, logits = self._pass(consumed)
        if not watched.traces:
            raise InputError(watched.certificate.sentence)
        prompt: list[Choice] = [(id, "reference") for id in self._given[1:]]
        made = [*prompt, *choices]
        probabilities, steps = probabilities_of(logits), []
        for at, choice in enumerate(made):
            chosen = [id for id, _origin in made[: at + 1]][len(prompt) :]
            text = self.checkpoint.text(chosen)
            steps.append(step_of(probabilities[at], choice, self._piece, text))
        (trace,) = watched.traces
        trace = replace(
            trace,
            model=replace(
                trace.model,
                name=self.checkpoint.name,
                bos=self.checkpoint.bos,
                eos=self.checkpoint.eos,
            ),
            source_text=self._source_text or trace.source_text,
            steps=tuple(steps),
            prompt=len(self._given) if self.checkpoint.alone else 0,
        )
        return trace if len(made) == len(trace) else _cut(trace, len(made))

    def _piece(self, id: int) -> str:
        return self.checkpoint.pieces([id])[0]


def _cut(trace: Trace, length: int) -> Trace:
    """Return a Trace's first rows alone: its passes share nothing with later ones."""
    return replace(trace.until(length), cut_from=None)
