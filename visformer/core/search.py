"""Beam search over a batch of sentences, for translation without Traces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from visformer.core.generation import Generation
from visformer.core.incremental import DecoderRows
from visformer.core.loaded import Loaded
from visformer.core.mask_rules import (
    RULES,
    encoder_mask,
    padded,
    real_tokens,
)
from visformer.core.sampling import best_first
from visformer.core.threads import few_threads, work
from visformer.values.config import ModelConfig

BATCH_TOKENS = 2048  # source tokens decoded at once, times the number of beams


@dataclass(slots=True)
class Beams:
    """The finished hypotheses of one sentence: the ``width`` best, best first.

    The rules of ``early_stopping`` are those of transformers: True stops as soon as
    there are ``width`` of them; False stops when the best unfinished one, if it ended
    now, would not beat the worst of them; "never" is like False, but assumes that the
    best one continues to the limit if the length penalty favours long ones.
    """

    width: int
    limit: int  # tokens
    rules: Generation
    finished: list[tuple[float, list[int]]] = field(default_factory=list)
    closed: bool = False

    def add(self, score: float, ids: list[int]) -> None:
        """Keep a hypothesis with its score, the sum of log-probabilities."""
        self.finished.append((self._mean(score, len(ids)), ids))
        # the sort is stable: of equals, the earlier comes first
        self.finished.sort(key=lambda hypothesis: -hypothesis[0])
        del self.finished[self.width :]

    def look(self, best: float, length: int) -> None:
        """Close when the search ends; ``best`` is the best unfinished hypothesis."""
        stopping, longer = self.rules.early_stopping, self.rules.length_penalty > 0
        if stopping == "never" and longer:
            length = self.limit
        full = len(self.finished) == self.width
        hopeless = full and self._mean(best, length) <= self.finished[-1][0]
        # a single beam is greedy search; if all are -inf (or NaN), nothing continues
        early = full and (stopping is True or self.width == 1)
        self.closed |= early or hopeless or not best > -math.inf

    def _mean(self, score: float, length: int) -> float:
        return score / math.pow(length, self.rules.length_penalty)

    def best(self) -> list[int]:
        """Return the ids with the highest score; none if all numbers were NaN."""
        return self.finished[0][1] if self.finished else []


def search(
    checkpoint: Loaded, sources: Sequence[Sequence[int]], *, beam: int
) -> list[list[int]]:
    """Return the best target ids of each source, the end-of-sentence token included.

    At most 2 S + 50 tokens are generated, or as many as the checkpoint's own rules
    allow, and never more than the model's positions.
    """
    results: list[list[int]] = [[]] * len(sources)
    for batch in _batches(checkpoint.config, sources, beam):
        longest = len(sources[batch[-1]])
        tokens = longest + checkpoint.most_tokens(longest)
        with few_threads(work(checkpoint.model, tokens, len(batch) * beam)):
            best = _search(checkpoint, [sources[i] for i in batch], beam)
        for index, made in zip(batch, best, strict=True):
            results[index] = made
    return results


def _batches(
    config: ModelConfig, sources: Sequence[Sequence[int]], beam: int
) -> list[list[int]]:
    """Group sources of similar length: their indices."""
    batches: list[list[int]] = []
    for index in sorted(range(len(sources)), key=lambda i: len(sources[i])):
        size = len(sources[index]) * beam  # the longest so far
        full = not batches or size * (len(batches[-1]) + 1) > BATCH_TOKENS
        if full or not _together(config, sources[batches[-1][0]], sources[index]):
            batches.append([])
        batches[-1].append(index)
    return batches


def _together(config: ModelConfig, first: Sequence[int], other: Sequence[int]) -> bool:
    """Whether both sentences give the same result in one batch as alone."""
    hidden = RULES[config.mask_rule].source_keys  # otherwise padding would be read
    return config.position_axis != "batch" and (hidden or len(first) == len(other))


@torch.inference_mode()
def _search(
    checkpoint: Loaded, sources: Sequence[Sequence[int]], beam: int
) -> list[list[int]]:
    config, model, device = checkpoint.config, checkpoint.model, checkpoint.device
    pad = checkpoint.tokenizer.source_pad
    ids = padded(sources, pad).to(device)  # [B, S]
    lengths = torch.tensor([len(s) for s in sources], device=device)  # [B]
    real = real_tokens(config.mask_rule, ids, pad, lengths)  # [B, S]
    memory = model.encode(ids, encoder_mask(config.mask_rule, real)).output
    limits = torch.tensor(
        [checkpoint.most_tokens(len(s)) for s in sources], device=device
    )
    rows = DecoderRows(
        checkpoint,
        memory.repeat_interleave(beam, 0),
        real.repeat_interleave(beam, 0),
        int(limits.max()),
    )
    return _expand(checkpoint, rows, limits, beam)


def _expand(
    checkpoint: Loaded, rows: DecoderRows, limits: Tensor, beam: int
) -> list[list[int]]:
    """Extend the beams of all sentences until each has ended or reached its limit."""
    rules, ends = checkpoint.generation, checkpoint.ends
    count, device = len(limits), checkpoint.device
    beams = [Beams(beam, limit, rules) for limit in limits.tolist()]
    consumed = torch.full((count * beam, 1), checkpoint.tokenizer.bos, device=device)
    ending = torch.tensor(ends, device=device)
    first = beam * torch.arange(count, device=device)[:, None]  # row of each sentence
    scores = torch.full((count, beam), -math.inf, device=device)  # [B, beam]
    scores[:, 0] = 0.0  # all beams start the same: only one may branch
    for length in range(1, int(limits.max()) + 1):
        last = limits == length  # [B]
        steps = _next(checkpoint, rows, consumed, last.repeat_interleave(beam), beam)
        total = scores[:, :, None] + steps.view(count, beam, -1)  # [B, beam, V]
        # enough for ``beam`` of them to continue, even if all beams end in every way
        top, flat = best_first(total.flatten(1), beam * max(2, 1 + len(ends)))
        parents, tokens = flat // steps.shape[1], flat % steps.shape[1]
        ended = torch.isin(tokens, ending) | last[:, None]  # [B, candidates]
        grown = torch.cat([consumed[first + parents], tokens[:, :, None]], 2)
        _collect(beams, grown, top, ended)
        scores, order = best_first(top.masked_fill(ended, -math.inf), beam)
        for sentence, best in zip(beams, scores[:, 0].tolist(), strict=True):
            sentence.look(best, length)
        if all(sentence.closed for sentence in beams):
            break
        consumed = grown.gather(
            1, order[:, :, None].expand(-1, -1, length + 1)
        ).flatten(0, 1)
        rows.select((first + parents.gather(1, order)).flatten())
    return [sentence.best() for sentence in beams]


def _next(
    checkpoint: Loaded,
    rows: DecoderRows,
    consumed: Tensor,
    last: Tensor,
    beam: int,
) -> Tensor:
    """Score the next tokens of the rows so far, [N, t] -> [N, V]."""
    rules = checkpoint.generation
    newest, _masks = rows.computed(consumed, consumed.shape[1] - 1)
    steps = rows.logits(newest[:, 0])  # [N, V]
    if beam > 1:
        steps = steps.log_softmax(-1)
    if rules.restricts:
        steps = rules.restrict(steps, consumed, last, checkpoint.ends)
        if rules.renormalise and beam > 1:
            steps = steps.log_softmax(-1)
    return steps


def _collect(beams: list[Beams], grown: Tensor, top: Tensor, ended: Tensor) -> None:
    """Move hypotheses that have ended to the finished ones.

    Only the best ``width`` count: the others are spares in case these all end.
    """
    for row, column in ended[:, : beams[0].width].nonzero().tolist():
        score = top[row, column].item()
        if not beams[row].closed and score != -math.inf:
            beams[row].add(score, grown[row, column, 1:].tolist())
