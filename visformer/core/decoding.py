"""Decoding: one sentence translated token by token, forwards and backwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from visformer.core.checkpoint import Checkpoint
from visformer.core.incremental import DecoderState
from visformer.core.recording import (
    Distribution,
    check_ids,
    empty_trace,
    host,
    source_pieces,
    stack_rows,
)
from visformer.core.strategy import check_strategy, choose
from visformer.errors import InputError
from visformer.messages import Strategy
from visformer.recorder import Recording, Row
from visformer.trace import Bools, Floats, Origin, Step, Trace

Choice = tuple[int, Origin]  # a token id, and who chose it


class Decoding:
    """One sentence on its way through a model.

    ``trace`` is always the part up to the current step; what was decoded beyond it is
    kept, so that stepping on again after ``back`` computes and draws nothing.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        source: str | Sequence[int],
        *,
        strategy: Strategy | None = None,
        limit: int | None = None,
    ) -> None:
        """Encode ``source``; nothing is decoded yet.

        ``limit`` is the greatest number of target tokens (default: 2 S + 50, and never
        more than the model's positions). Raises InputError for an empty source, ids
        outside the vocabulary, or a limit below 1.
        """
        self.checkpoint = checkpoint
        self.strategy = strategy or Strategy()
        check_strategy(self.strategy)
        self.restart(source, limit=limit)

    @torch.inference_mode()
    def restart(self, source: str | Sequence[int], *, limit: int | None = None) -> None:
        """Begin anew with another sentence."""
        config, model = self.checkpoint.config, self.checkpoint.model
        pieces, cut = source_pieces(self.checkpoint, source)
        if limit is not None and limit < 1:
            raise InputError(f"the limit is {limit}: at least 1 token must be allowed.")
        wanted = 2 * len(pieces) + 50 if limit is None else limit
        self.limit = min(wanted, config.max_positions)
        ids = torch.tensor([[p.id for p in pieces]], device=self.checkpoint.device)
        readable = ids != self.checkpoint.tokenizer.pad
        record = model.encode(ids, readable[:, None])
        packed = self.checkpoint.packed
        self._state = DecoderState(packed, record.output, readable, self.limit)
        start = empty_trace(
            self.checkpoint,
            source,
            pieces,
            cut,
            encoder=stack_rows(record, final_norm=config.final_norm)[0],
            memory=self._state.memory_rows[0],
        )
        self._readable: Bools = start.masks["encoder"][0]
        self.start = start
        self._recording = Recording(start, self.limit)
        self._position = 0

    @property
    def trace(self) -> Trace:
        """Everything up to the current step."""
        return self._recording.trace().until(self._position)

    @property
    def text(self) -> str:
        """The translation up to the current step."""
        return self.trace.text

    @property
    def ended(self) -> bool:
        """Whether the current step chose the end of the sentence, or is the last."""
        return self._position == self.limit or self._ends_at(self._position)

    def _ends_at(self, position: int) -> bool:
        choices = self._recording.choices
        return position > 0 and choices[position - 1] == self.checkpoint.tokenizer.eos

    def step(self, count: int = 1) -> Trace:
        """Go ``count`` tokens on, fewer where the sentence or the limit ends."""
        for _ in range(count):
            if self.ended:
                break
            if self._position == len(self._recording):
                self._extend([None])
            self._position += 1
        return self.trace

    def back(self, count: int = 1) -> Trace:
        """Go ``count`` tokens back; what lies beyond is kept for ``step``."""
        self._position = max(0, self._position - count)
        return self.trace

    def finish(self) -> Trace:
        """Go on to the end of the sentence or the limit."""
        return self.step(self.limit)

    def force(self, token: str | int) -> Trace:
        """Replace the current step's choice by ``token``; drop what lies beyond.

        Before the first step the token becomes the first choice. Text must be exactly
        one token; raises InputError otherwise.
        """
        id = self._target_id(token)
        kept = max(0, self._position - 1)
        return self.follow([*self._choices(kept), (id, "forced")])

    def feed(self, reference: str | Sequence[int]) -> Trace:
        """Teacher forcing: make ``reference`` the choices of all steps, in one pass.

        A text ends with the end-of-sentence token. Each step's candidates tell what the
        model would have chosen. Raises InputError where it is longer than the limit.
        """
        tokenizer = self.checkpoint.tokenizer
        ids = (
            [*tokenizer.encode_target(reference), tokenizer.eos]
            if isinstance(reference, str)
            else list(reference)
        )
        return self.follow([(id, "reference") for id in ids])

    def follow(self, choices: Sequence[Choice]) -> Trace:
        """Make exactly these choices, reusing the rows that agree with the last ones.

        Raises InputError for ids outside the vocabulary and beyond the limit.
        """
        if len(choices) > self.limit:
            raise InputError(
                f"{len(choices)} target tokens are more than the {self.limit} allowed."
            )
        if choices:
            check_ids([id for id, _ in choices], self.checkpoint.tokenizer.target.size)
        common = self.common(choices)
        self._recording.shorten(common)
        self._state.shorten(common)
        if len(choices) > common:
            self._extend(list(choices[common:]))
        self._position = len(choices)
        return self.trace

    def common(self, choices: Sequence[Choice]) -> int:
        """Return how many recorded steps agree with ``choices`` from the start."""
        pairs = zip(self._choices(len(self._recording)), choices, strict=False)
        return next(
            (i for i, (old, new) in enumerate(pairs) if old != new),
            min(len(self._recording), len(choices)),
        )

    def rows(self, start: int) -> list[Row]:
        """Return what the recorded rows from ``start`` on added to the Trace."""
        return self._recording.rows(start)

    def _choices(self, count: int) -> list[Choice]:
        steps = self._recording.steps[:count]
        return [(step.id, step.origin) for step in steps]

    def _target_id(self, token: str | int) -> int:
        tokenizer = self.checkpoint.tokenizer
        if isinstance(token, str):
            return tokenizer.target_id(token)
        check_ids([token], tokenizer.target.size)
        return token

    @torch.inference_mode()
    def _extend(self, choices: Sequence[Choice | None]) -> None:
        """Compute a row for each choice; None (only alone) leaves it to the model."""
        tokenizer = self.checkpoint.tokenizer
        made = self._recording.choices
        forced = [choice[0] for choice in choices if choice]
        # the row of a choice is the one that consumed the choice before it
        consumed = [made[-1] if made else tokenizer.bos, *forced[: len(choices) - 1]]
        ids = torch.tensor([consumed], device=self.checkpoint.device)
        visible = ids != tokenizer.pad if tokenizer.pad in consumed else None
        rows = self._state.extend(ids, visible)[0]
        output = rows[:, self.start.layout.output("decoder")]
        logits = self.checkpoint.packed.logits(output)
        distribution = Distribution(self.checkpoint, logits)
        values = host(rows)
        for index, given in enumerate(choices):
            at = len(self._recording)
            id, origin = given or (choose(logits[index], self.strategy, at), "model")
            text = tokenizer.decode([*self._recording.choices, id])
            step = distribution.step(index, id, origin, text)
            self._record(consumed[index], values[index], step)

    def _record(self, id: int, values: Floats, step: Step) -> None:
        tokenizer = self.checkpoint.tokenizer
        consumed = [*self._recording.ids, id]
        row = Row(
            id=id,
            token=tokenizer.target.token(id),
            values=values,
            self_mask=np.array(consumed) != tokenizer.pad,
            cross_mask=self._readable,
            step=step,
        )
        self._recording.append(row)
