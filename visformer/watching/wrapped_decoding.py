"""WrappedDecoding: a sentence decoded by a wrapped model, each step a watched pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from visformer.arguments import whole_number
from visformer.core.modified import as_intervention
from visformer.core.rows import Distribution
from visformer.core.sampling import as_strategy
from visformer.core.stepping import Pairs, Stepping, as_choices
from visformer.errors import InputError
from visformer.values.intervention import Intervention
from visformer.values.step import Choice, Step
from visformer.values.strategy import Strategy, StrategyName
from visformer.values.trace import Trace
from visformer.watching.stepped import SteppedModel
from visformer.watching.traces import layers_of, with_own_weights
from visformer.watching.watcher import Watched


class WrappedDecoding(Stepping):
    """What ``Decoding`` is for a checkpoint, and used like it.

    Every Trace is of a pass of the model over all tokens so far, since what it does
    with a cache is its own. Passes are kept, so that going back and forth computes
    nothing; of a causal model the longest one, which holds the shorter ones.
    """

    def __init__(
        self,
        model: SteppedModel,
        source: str | Sequence[int],
        *,
        strategy: Strategy | StrategyName | None = None,
        limit: int | None = None,
        intervention: Intervention | str | None = None,
    ) -> None:
        """Begin with a source, or, of a model without an encoder, with a prompt.

        ``limit`` is the largest number of chosen tokens (default: 2 S + 50, or the
        model's own rule). Raises InputError for an ``intervention`` that is out of
        reach.
        """
        self.checkpoint, self.strategy = model, as_strategy(strategy)
        self.intervention = as_intervention(intervention)
        self.restart(source, limit=limit)

    def restart(self, source: str | Sequence[int], *, limit: int | None = None) -> None:
        """Start again with another sentence."""
        model = self.checkpoint
        if limit is not None:
            limit = whole_number("limit", limit, least=1)
        self._source = model.read(source)
        model.check(self.intervention, self._source)
        self._source_text = source if isinstance(source, str) else ""
        self._given = model.given(self._source)
        self.limit = model.most_tokens(self._source, limit)
        self._unwatched = model.unwatched(self.intervention)
        self._made: list[Choice] = []
        self._not_numbers: set[tuple[int, ...]] = set()  # what led to NaN
        self._position = 0
        self._passes: dict[tuple[int, ...], tuple[Watched, Tensor]] = {}
        self._traces: dict[tuple[Choice, ...], Trace] = {}
        self._steps: dict[tuple[Choice, ...], Step] = {}

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
        kept = next(iter(self._passes.values()), None)
        return (kept or self._pass(self._consumed(1)))[1].shape[-1]

    @property
    def ended(self) -> bool:
        """Whether the current step ended the sentence, or no step can follow it.

        None follows at the limit, nor where the logits are not numbers.
        """
        made = self._made[: self._position]
        ended = bool(made) and made[-1].id in self.checkpoint.ends
        broken = bool(made) and self._consumed(len(made)) in self._not_numbers
        return ended or broken or len(made) == self.limit

    def feed(self, reference: str | Sequence[int]) -> Trace:
        """Teacher forcing: make ``reference`` the choices of all steps, in one pass.

        A text ends with the end-of-sentence token.
        """
        return self.follow(self.reference(reference))

    def reference(self, reference: str | Sequence[int]) -> list[Choice]:
        """Return the choices of a reference; a text includes the end of sentence."""
        return [Choice(id, "reference") for id in self.checkpoint.reference(reference)]

    def follow(self, choices: Pairs) -> Trace:
        """Make exactly these choices; InputError for ids that there are not."""
        made = as_choices(choices)
        self._check_limit(made)
        for choice in made:
            whole_number("id", choice.id, most=self.vocabulary - 1)
        self._made, self._position = made, len(made)
        return self.trace

    def after_prompt(self, choices: Sequence[Choice]) -> list[Choice]:
        """Return the choices of a Trace's steps without those of a prompt."""
        prompt = self._given[1:]
        given = [choice.id for choice in choices[: len(prompt)]] == prompt
        return [*choices[len(prompt) :]] if given else [*choices]

    @property
    def settled(self) -> bool:
        """Whether no later step changes the rows of an earlier one."""
        return self.checkpoint.causal and not self.intervention.reaches_back

    def _computed(self) -> int:
        return len(self._made)

    def _compute_next(self) -> None:
        model, consumed = self.checkpoint, self._consumed(self._position + 1)
        if self._unwatched is None or self._kept(consumed) is not None:
            logits = self._pass(consumed)[1][-1]
        else:
            logits = self._unwatched(self._source.ids, consumed)
        if bool(logits.float().softmax(-1).isnan().any()):
            self._not_numbers.add(consumed)
        step = self._position
        last = step + 1 == self.limit
        chosen = model.choose(logits, self.strategy, consumed, step=step, last=last)
        self._made.append(chosen)

    def _choices(self, count: int) -> list[Choice]:
        return self._made[:count]

    def _target_id(self, token: str | int) -> int:
        return self.checkpoint.target_id(token)

    def _consumed(self, steps: int) -> tuple[int, ...]:
        """Return what the decoder reads to choose this many tokens."""
        chosen = [choice.id for choice in self._made[: steps - 1]]
        return (*self._given, *chosen)

    def _pass(self, consumed: tuple[int, ...]) -> tuple[Watched, Tensor]:
        """Watch one pass; returns it and the logits [T, V] of what is consumed."""
        kept = self._kept(consumed)
        if kept is None:
            if self.settled:  # it holds all that the others told
                self._passes.clear()
                self._traces.clear()
            kept = self.checkpoint.watched_pass(
                self._source, consumed, self.intervention
            )
            self._passes[consumed] = kept
        watched, logits = kept
        return watched, logits[: len(consumed)]

    def _kept(self, consumed: tuple[int, ...]) -> tuple[Watched, Tensor] | None:
        """Return a pass that holds the rows of what is consumed; None without one."""
        if consumed in self._passes or not self.settled:
            return self._passes.get(consumed)
        longer = (key for key in self._passes if key[: len(consumed)] == consumed)
        return next((self._passes[key] for key in longer), None)

    def _trace(self, choices: tuple[Choice, ...]) -> Trace:
        """Return the Trace after some choices: rows of all that was read for them."""
        consumed = self._consumed(max(1, len(choices)))
        watched, logits = self._pass(consumed)
        if not watched.traces:
            raise InputError(watched.certificate.sentence)
        prompt: list[Choice] = [Choice(id, "reference") for id in self._given[1:]]
        made = (*prompt, *choices)
        steps = [self._step(logits, made[: at + 1]) for at in range(len(made))]
        (trace,) = watched.traces
        trace = replace(
            trace,
            model=self.checkpoint.described(trace.model),
            source_text=self._source_text or trace.source_text,
            source_spans=self._source.spans if trace.source else (),
            truncated_from=self._source.cut_from,
            intervention=self.intervention,
            steps=tuple(steps),
            own_lens=partial(self.checkpoint.lens, temperature=1.0),
            prompt=len(self._given) if self.checkpoint.alone else 0,
        )
        if self.intervention:  # what it says of the model is of the unchanged one
            trace = with_own_weights(trace, layers_of(watched.last_run), 0)
        cut = trace.until(len(made))
        return cut if self.settled else replace(cut, cut_from=None)

    def _step(self, logits: Tensor, made: tuple[Choice, ...]) -> Step:
        """Return the step that made the last choice; of a causal model only once."""
        if made in self._steps:
            return self._steps[made]
        chosen = [choice.id for choice in made[len(self._given) - 1 :]]
        text = self.checkpoint.text(chosen)
        at = len(made) - 1
        row = Distribution(logits[at : at + 1], self._piece)
        step = row.step(0, made[-1], text)
        if self.settled:
            self._steps[made] = step
        return step

    def _piece(self, id: int) -> str:
        return self.checkpoint.pieces([id])[0]
