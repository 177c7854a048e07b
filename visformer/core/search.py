"""Beam search over a batch of sentences, for text that nobody watches being made."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from visformer.core.checkpoint import Checkpoint
from visformer.core.config import ModelConfig
from visformer.core.masks import RULES, encoder_mask, padded, real_tokens
from visformer.core.newest import NewestRows
from visformer.core.recording import source_pieces
from visformer.errors import InputError

log = logging.getLogger(__name__)
BATCH_TOKENS = 2048  # source tokens, beams counted, that are decoded at a time


@dataclass(slots=True)
class Beams:
    """The hypotheses of one sentence."""

    width: int
    finished: list[tuple[float, list[int]]] = field(default_factory=list)

    def done(self) -> bool:
        """Whether as many hypotheses have ended as are looked for."""
        return len(self.finished) >= self.width

    def best(self) -> list[int]:
        """Return the ids with the highest mean log-probability."""
        return max(self.finished)[1]


def translate(
    checkpoint: Checkpoint, sources: Sequence[str], *, beam: int = 1
) -> list[str]:
    """Translate every text, in order; blank ones stay empty.

    ``beam`` 1 is greedy search; the best of N beams is the one with the highest mean
    log-probability a token. A source over the model's positions is cut there.
    """
    if beam < 1:
        raise InputError(f"the beam is {beam}: at least 1 is needed.")
    tokenizer, positions = checkpoint.tokenizer, checkpoint.config.max_positions
    ids = {}
    for index, text in enumerate(sources):
        if text.strip():
            pieces, cut_from = source_pieces(checkpoint, text)
            if cut_from:
                log.warning("%s", cut_notice(cut_from, positions, text))
            ids[index] = [piece.id for piece in pieces]
    results = [""] * len(sources)
    found = search(checkpoint, list(ids.values()), beam=beam)
    for index, made in zip(ids, found, strict=True):
        results[index] = tokenizer.decode(made)
    return results


def cut_notice(tokens: int, positions: int, text: str) -> str:
    """Say that a sentence is too long for the model."""
    return f"{tokens:,} of {positions:,} tokens: “{text.strip()[:40]}…” is cut."


def search(
    checkpoint: Checkpoint, sources: Sequence[Sequence[int]], *, beam: int
) -> list[list[int]]:
    """Return the best target ids of each source, the end-of-sentence token included.

    At most 2 S + 50 tokens are made, and never more than the model's positions.
    """
    results: list[list[int]] = [[]] * len(sources)
    for batch in _batches(checkpoint.config, sources, beam):
        found = _search(checkpoint, [sources[i] for i in batch], beam)
        for index, made in zip(batch, found, strict=True):
            results[index] = made
    return results


def _batches(
    config: ModelConfig, sources: Sequence[Sequence[int]], beam: int
) -> list[list[int]]:
    """Put sources of about one length together: their indices."""
    made: list[list[int]] = []
    for index in sorted(range(len(sources)), key=lambda i: len(sources[i])):
        size = len(sources[index]) * beam  # the longest so far
        full = not made or size * (len(made[-1]) + 1) > BATCH_TOKENS
        if full or not _together(config, sources[made[-1][0]], sources[index]):
            made.append([])
        made[-1].append(index)
    return made


def _together(config: ModelConfig, first: Sequence[int], other: Sequence[int]) -> bool:
    """Whether a batch leaves both sentences what they are alone."""
    hidden = RULES[config.mask_rule].source_keys  # else padding would be read
    return config.position_axis != "batch" and (hidden or len(first) == len(other))


@torch.inference_mode()
def _search(
    checkpoint: Checkpoint, sources: Sequence[Sequence[int]], beam: int
) -> list[list[int]]:
    config, model, device = checkpoint.config, checkpoint.model, checkpoint.device
    pad = checkpoint.tokenizer.source_pad
    ids = padded(sources, pad).to(device)
    lengths = torch.tensor([len(s) for s in sources], device=device)
    real = real_tokens(config.mask_rule, ids, pad, lengths)
    memory = model.encode(ids, encoder_mask(config.mask_rule, real)).output
    limits = (2 * lengths + 50).clamp(max=config.max_positions)
    newest = NewestRows(
        checkpoint,
        memory.repeat_interleave(beam, 0),
        real.repeat_interleave(beam, 0),
        int(limits.max()),
    )
    return _expand(checkpoint, newest, limits, beam)


def _expand(
    checkpoint: Checkpoint, newest: NewestRows, limits: Tensor, beam: int
) -> list[list[int]]:
    """Grow the beams of all sentences until each has ended or is at its limit."""
    count = len(limits)
    tokenizer, packed = checkpoint.tokenizer, checkpoint.packed
    device = checkpoint.device
    beams = [Beams(beam) for _ in range(count)]
    made = torch.full((count * beam, 1), tokenizer.bos, device=device)
    scores = torch.full((count, beam), -math.inf, device=device)
    scores[:, 0] = 0.0  # all beams start alike: only one may branch
    for length in range(1, int(limits.max()) + 1):
        steps = packed.logits(newest.output(made)).log_softmax(-1)
        steps[:, list(tokenizer.never)] = -math.inf
        total = scores[:, :, None] + steps.view(count, beam, -1)
        top, flat = total.flatten(1).topk(2 * beam)
        parents, tokens = flat // steps.shape[1], flat % steps.shape[1]
        ended = (tokens == tokenizer.eos) | (limits == length)[:, None]
        _collect(beams, made, top, parents, tokens, ended, length)
        if all(b.done() for b in beams):
            break
        scores, order = top.masked_fill(ended, -math.inf).topk(beam)
        kept = (
            parents.gather(1, order)
            + beam * torch.arange(count, device=device)[:, None]
        )
        made = torch.cat([made[kept.flatten()], tokens.gather(1, order).view(-1, 1)], 1)
        newest.select(kept.flatten())
    return [b.best() for b in beams]


def _collect(
    beams: list[Beams],
    made: Tensor,
    top: Tensor,
    parents: Tensor,
    tokens: Tensor,
    ended: Tensor,
    length: int,
) -> None:
    """Move hypotheses that have ended to the finished ones."""
    width = beams[0].width
    for row, column in ended.nonzero().tolist():
        score = top[row, column].item()
        if beams[row].done() or score == -math.inf or column >= width:
            continue
        prefix = made[row * width + int(parents[row, column]), 1:].tolist()
        beams[row].finished.append(
            (score / length, [*prefix, int(tokens[row, column])])
        )
