"""Decoding: one sentence translated token by token, forwards and backwards."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from visformer.arguments import whole_number
from visformer.core.checkpoint import Checkpoint, OwnDecoding, bundled, opened
from visformer.core.incremental import rows_after
from visformer.core.lens_rows import read_streams
from visformer.core.mask_rules import RULES, encoder_mask, make_masks, real_tokens
from visformer.core.modified import (
    as_intervention,
    host_mask,
    layer_masks,
    modified_checkpoint,
    modified_masks,
)
from visformer.core.rows import (
    Distribution,
    as_ids,
    check_ids,
    empty_trace,
    host,
    source_pieces,
    stack_rows,
)
from visformer.core.sampling import as_strategy, choose
from visformer.core.stepping import Pairs, Stepping, as_choices
from visformer.core.threads import few_threads, work
from visformer.errors import InputError
from visformer.language import _
from visformer.tokenizers.tokenizer import Token
from visformer.values.arrays import Bools
from visformer.values.intervention import Intervention
from visformer.values.not_finite import not_finite_words
from visformer.values.recording import Recording, Row
from visformer.values.step import Choice
from visformer.values.strategy import Strategy, StrategyName
from visformer.values.trace import Trace

if TYPE_CHECKING:
    from visformer.core.incremental import DecoderState

log = logging.getLogger(__name__)
_ELSEWHERE = {  # what other programs call by such a keyword, and what to call here
    **dict.fromkeys(("beam", "beams", "num_beams"), "visformer.translate(…, beam=4)"),
    **dict.fromkeys(("reference", "target"), "decoding.feed(…)"),
    **dict.fromkeys(("max_length", "max_tokens"), "limit=…"),
    **dict.fromkeys(
        ("do_sample", "temperature", "top_k", "top_p"),
        "strategy=visformer.Strategy(…)",
    ),
}


class Decoding(Stepping):
    """The decoding of one sentence by a model.

    ``trace`` is always the part up to the current step; later steps are kept, so that
    ``step`` after ``back`` computes and samples nothing. ``changed`` is the first row
    that the last computation changed. The model may be edited and hooked between
    sentences, but not within one: call ``restart`` then. Of a wrapped model, and of one
    that transformers runs, it is a ``WrappedDecoding``.
    """

    in_rows = True
    _given: Checkpoint
    _source: str | Sequence[int]  # that it begins with

    def __new__(cls, checkpoint: Any, source: Any = None, **settings: Any) -> Any:
        for name in settings.keys() & _ELSEWHERE:
            call = _ELSEWHERE[name]
            raise TypeError(
                _("Decoding takes no “{name}”. Use {call}.", name=name, call=call)
            )
        if source is None and _is_text(checkpoint):
            given, source = bundled(), checkpoint
        else:
            given = opened(checkpoint)
        if not isinstance(given, Checkpoint):
            most = settings.pop("max_new_tokens", None)
            settings["limit"] = _limit(settings.get("limit"), most)
            return given.begin_decoding(source, **settings)
        made = object.__new__(cls)
        made._given = given  # whose model a script may edit
        made._source = source
        return made

    def __init__(
        self,
        checkpoint: Checkpoint | str | Path | OwnDecoding,
        source: str | Sequence[int] | None = None,
        *,
        strategy: Strategy | StrategyName | None = None,
        limit: int | None = None,
        max_new_tokens: int | None = None,
        intervention: Intervention | str | None = None,
    ) -> None:
        """Encode ``source``; nothing is decoded yet.

        A text alone is the source of the bundled English-French model. ``limit``, or
        ``max_new_tokens``, is the largest number of target tokens (default: 2 S + 50 or
        the checkpoint's own rule; never more than the model's positions). Generation
        rules restrict what steps choose, but the probabilities stay the model's own. An
        ``intervention`` that changes masks makes every step a full pass, as do hooks on
        the decoder and replaced modules in it. Raises InputError for no source, unknown
        ids, a limit below 1, or a change that does not fit.
        """
        self.intervention = as_intervention(intervention)
        self.checkpoint = modified_checkpoint(self._given, self.intervention)
        self.strategy = as_strategy(strategy)
        self.restart(self._source, limit=_limit(limit, max_new_tokens))

    def __repr__(self) -> str:
        """Name the sentence, the step and what was decoded."""
        return f"<Decoding at step {len(self.trace)}: {self.trace!r}>"

    def restart(self, source: str | Sequence[int], *, limit: int | None = None) -> None:
        """Start again with another sentence."""
        model, positions = self.checkpoint.model, self.checkpoint.config.max_positions
        pieces, cut = source_pieces(self.checkpoint, source)
        if limit is not None:
            limit = min(whole_number("limit", limit, least=1), positions)
        self.intervention.check(self.checkpoint.facts, len(pieces))
        self.limit = limit or self.checkpoint.most_tokens(len(pieces))
        with torch.inference_mode(), few_threads(work(model, len(pieces))):
            self._encode(source, pieces, cut)

    def _encode(
        self, source: str | Sequence[int], pieces: Sequence[Token], cut: int
    ) -> None:
        config, model = self.checkpoint.config, self.checkpoint.model
        self._stamp, self._packed = self._given.stamp, self.checkpoint.packed
        ids = torch.tensor([[p.id for p in pieces]], device=self.checkpoint.device)
        rule, pad = config.mask_rule, self.checkpoint.tokenizer.source_pad
        self._real = real_tokens(rule, ids, pad)  # [1, S]
        original = encoder_mask(rule, self._real).expand(-1, len(pieces), -1)
        layers = config.encoder_layers
        mask = layer_masks(self.intervention, "encoder", layers, original, original)
        record = model.encode(ids, mask)
        self._memory = memory = record.output
        self._state = rows_after(
            self.checkpoint, self._packed, memory, self._real, self.limit
        )
        start = empty_trace(
            self.checkpoint,
            source,
            pieces,
            cut,
            encoder=stack_rows(record, final_norm=config.final_norm)[0],
            memory=self._state.memory_rows[0],
            mask=host_mask(mask, 0),
            intervention=self.intervention,
        )
        real = self._real[0].cpu().numpy()
        self._readable: Bools = real | (not RULES[rule].source_keys)
        self.start = replace(start, own_lens=partial(read_streams, self.checkpoint))
        self._recording = Recording(self.start, self.limit)
        self._position = self.changed = 0
        self._warned = False  # that the numbers are not finite

    @property
    def trace(self) -> Trace:
        """Everything up to the current step."""
        at, recording = self._position, self._recording
        if at < len(recording) and self._unsettled(recording.ids[:at]):
            shorter = Recording(self.start, at)
            self._record(shorter, recording.ids[:at], self._choices(at))
            return shorter.trace()
        return recording.trace().until(at)

    @property
    def ended(self) -> bool:
        """Whether the current step ended the sentence or reached the limit.

        A step whose probabilities are NaN ends it: no later choice means anything.
        """
        return self._position == self.limit or self._ends_at(self._position)

    def _ends_at(self, position: int) -> bool:
        if position == 0:
            return False
        step = self._recording.steps[position - 1]
        return step.id in self.checkpoint.ends or math.isnan(step.probability)

    @property
    def settled(self) -> bool:
        """Whether no later step changes the rows of an earlier one."""
        return not self.intervention.reaches_back

    def feed(self, reference: str | Sequence[int]) -> Trace:
        """Teacher forcing: make ``reference`` the choices of all steps, in one pass.

        A text ends with the end-of-sentence token. The candidates of each step show
        what the model would have chosen. Raises InputError if it is longer than the
        limit. Positions advance here even in models where they restart at each step.
        """
        choices = self.reference(reference)
        self._use_positions(whole_pass=True)
        return self._follow(choices)

    def reference(self, reference: str | Sequence[int]) -> list[Choice]:
        """Return the choices of a reference; a text includes the end of sentence."""
        tokenizer = self.checkpoint.tokenizer
        ids = (
            [*tokenizer.encode_target(reference), tokenizer.eos]
            if isinstance(reference, str)
            else as_ids("reference", reference, text=True)
        )
        return [Choice(id, "reference") for id in ids]

    def follow(self, choices: Pairs) -> Trace:
        """Make exactly these choices, reusing recorded rows that agree with them.

        Raises InputError for ids outside the vocabulary or beyond the limit.
        """
        made = as_choices(choices)
        self._use_positions(whole_pass=False)
        return self._follow(made)

    def _use_positions(self, *, whole_pass: bool) -> None:
        """Restart if the next rows need different positions from the recorded ones."""
        if self.checkpoint.config.position_axis != "restart":
            return
        if self._state.whole_pass != whole_pass:
            self._state.whole_pass = whole_pass
            self._recording.shorten(0)
            self._state.shorten(0)

    def _follow(self, choices: Sequence[Choice]) -> Trace:
        self._check_limit(choices)
        if ids := [choice.id for choice in choices]:
            check_ids(ids, self.checkpoint.tokenizer.target.size)
        common = self.common(choices)
        dropped = common < len(self._recording)
        if dropped and self._unsettled(self._recording.ids[:common]):
            common = 0  # the dropped rows had changed those before them
        self._recording.shorten(common)
        self._state.shorten(common)
        self.changed = common
        if len(choices) > common:
            self._extend(list(choices[common:]))
        self._position = len(choices)
        return self.trace

    def common(self, choices: Pairs) -> int:
        """Return how many recorded steps agree with ``choices`` from the start."""
        pairs = zip(self._choices(len(self._recording)), choices, strict=False)
        return next(
            (i for i, (old, new) in enumerate(pairs) if old[:2] != new[:2]),
            min(len(self._recording), len(choices)),
        )

    def rows(self, start: int) -> list[Row]:
        """Return what the recorded rows from ``start`` on add to the Trace."""
        return self._recording.rows(start)

    def _computed(self) -> int:
        return len(self._recording)

    def _compute_next(self) -> None:
        self._extend([None])

    def _choices(self, count: int) -> list[Choice]:
        steps = self._recording.steps[:count]
        return [step.choice for step in steps]

    def _target_id(self, token: str | int) -> int:
        tokenizer = self.checkpoint.tokenizer
        if isinstance(token, str):
            return tokenizer.target_id(token)
        id = whole_number("token", token)
        check_ids([id], tokenizer.target.size)
        return id

    def _extend(self, choices: Sequence[Choice | None]) -> None:
        """Compute a row per choice; a single None lets the model choose."""
        # the row of a choice is the one that consumes the choice before it
        given = [choice.id for choice in choices[:-1] if choice]
        bos, recorded = self.checkpoint.tokenizer.bos, self._recording.choices
        consumed = [bos, *recorded, *given]
        self.changed = len(recorded)
        if self._unsettled(consumed):
            choices = [*self._choices(len(recorded)), *choices]
            self._recording.shorten(0)
            self.changed = 0
        self._record(self._recording, consumed, choices)

    def _record(
        self, recording: Recording, consumed: list[int], given: Sequence[Choice | None]
    ) -> None:
        """Append the rows that consume these ids, from the first missing one on."""
        if not self._stamp.holds():
            raise InputError(
                _(
                    "The model's weights or hooks have changed since this sentence was "
                    "started. Call restart, or make a new Decoding."
                )
            )
        start, model = len(recording), self.checkpoint.model
        whole = self.intervention.whole or self._unsettled(consumed)
        tokens = len(consumed) - (0 if whole else start)
        with torch.inference_mode(), few_threads(work(model, tokens)):
            self._compute(recording, consumed, given, whole=whole)
        if not self._warned and math.isnan(recording.steps[-1].probability):
            self._warned = True
            log.warning("%s", not_finite_words(recording.trace()))

    def _compute(
        self,
        recording: Recording,
        consumed: list[int],
        given: Sequence[Choice | None],
        *,
        whole: bool,
    ) -> None:
        start, tokenizer = len(recording), self.checkpoint.tokenizer
        whole_pass = self._whole(consumed) if whole else None
        rows = whole_pass.rows if whole_pass else self._cached(consumed)
        rows = rows[start - len(consumed) :]
        output = rows[:, self.start.columns.output("decoder")]
        logits = self.checkpoint.logits_from(self._packed, output)
        token = self.checkpoint.tokenizer.target.token
        distribution, values = Distribution(logits, token), host(rows)
        for index, choice in enumerate(given):
            at = start + index
            chosen = choice or self._chosen(logits[index], consumed)
            self_mask, cross_mask = (
                whole_pass.allowed(at)
                if whole_pass
                else may_read(self.checkpoint, self._readable, consumed, at)
            )
            row = Row(
                id=consumed[at],
                token=tokenizer.target.token(consumed[at]),
                values=values[index],
                self_mask=self_mask,
                cross_mask=cross_mask,
                step=distribution.step(
                    index, chosen, tokenizer.decode([*recording.choices, chosen.id])
                ),
            )
            recording.append(row)

    def _chosen(self, logits: Tensor, consumed: list[int]) -> Choice:
        """Choose the next token from logits [V]."""
        rules, at = self.checkpoint.generation, len(consumed) - 1
        free = choose(logits, self.strategy, at)
        if not rules.restricts:
            return free
        ids = torch.tensor([consumed], device=logits.device)
        last = torch.tensor([at + 1 == self.limit], device=logits.device)
        ends = self.checkpoint.ends
        restricted = rules.restrict(logits[None].clone(), ids, last, ends)[0]
        bound = choose(restricted, self.strategy, at)
        return bound.under_rules(free)

    def _cached(self, consumed: list[int]) -> Tensor:
        """Compute the rows that the cache lacks, [n, W]: at least the last one."""
        state, pad = cast("DecoderState", self._state), self.checkpoint.tokenizer.pad
        ids = torch.tensor([consumed[state.length :]], device=self.checkpoint.device)
        visible = ids != pad if pad in consumed else None
        return state.extend(ids, visible)[0]

    def _whole(self, consumed: list[int]) -> WholePass:
        """Recompute all rows in one pass."""
        checkpoint = self.checkpoint
        ids = torch.tensor([consumed], device=checkpoint.device)
        rule, pad = checkpoint.config.mask_rule, checkpoint.tokenizer.pad
        original = make_masks(rule, self._real, ids != pad)
        opened = make_masks(rule, self._real, ids != pad, causal=False).decoder
        original = original._replace(cross=original.cross.expand(-1, len(consumed), -1))
        masks = modified_masks(self.intervention, checkpoint.config, original, opened)
        record = checkpoint.model.decode(
            ids, self._memory, masks.decoder, masks.cross, self._state.lookup
        )
        rows = stack_rows(record, final_norm=checkpoint.config.final_norm)[0]
        return WholePass(rows, host_mask(masks.decoder, 0), host_mask(masks.cross, 0))

    def _unsettled(self, consumed: list[int]) -> bool:
        """Whether the next token may change earlier rows; unknown if hooks run."""
        if self.intervention.reaches_back or self._packed is None:
            return True
        return changes_rows(self.checkpoint, consumed)


def _is_text(given: object) -> bool:
    """Whether what is given alone is a text, and not the path of a checkpoint."""
    if not isinstance(given, str) or os.path.exists(given):
        return False
    return " " in given.strip() or not (set(given) & set("/\\") or Path(given).suffix)


def _limit(limit: int | None, max_new_tokens: int | None) -> int | None:
    if limit is not None and max_new_tokens is not None:
        raise InputError(
            _("limit and max_new_tokens mean the same here. Give one of them.")
        )
    return max_new_tokens if limit is None else limit


class WholePass(NamedTuple):
    """All decoder rows, recomputed."""

    rows: Tensor  # [T, W] as in ``Columns``
    decoder: Bools  # [T, T], the masks they were computed with
    cross: Bools  # [T, S]; both with a leading layer axis if layers differ

    def allowed(self, row: int) -> tuple[Bools, Bools]:
        """Return what a row may attend to in the target and in the source."""
        return self.decoder[..., row, :], self.cross[..., row, :]


def changes_rows(checkpoint: Checkpoint, consumed: Sequence[int]) -> bool:
    """Whether the next token changes an earlier row.

    It does if a row has no allowed key and therefore attends to all of them, unless
    masked scores are infinite, which makes such a row NaN in any case.
    """
    config, pad = checkpoint.config, checkpoint.tokenizer.pad
    if config.masked_value == -math.inf or pad not in consumed:
        return False
    padding = RULES[config.mask_rule]
    return padding.target_rows or (padding.target_keys and consumed[0] == pad)


def may_read(
    checkpoint: Checkpoint, readable: Bools, consumed: Sequence[int], at: int
) -> tuple[Bools, Bools]:
    """Return what row ``at`` may attend to: bool [at + 1] of the target, and [S].

    ``readable`` bool [S] are the source tokens that a row of a real token may read.
    """
    padding = RULES[checkpoint.config.mask_rule]
    pad, seen = checkpoint.tokenizer.pad, np.ones(at + 1, bool)
    if padding.target_keys:
        seen = np.array(consumed[: at + 1]) != pad
    cross, nothing = readable, np.zeros_like
    if consumed[at] == pad:
        seen = nothing(seen) if padding.target_rows else seen
        cross = nothing(cross) if padding.cross_rows else cross
    return seen, cross
