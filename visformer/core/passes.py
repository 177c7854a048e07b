"""One teacher-forced pass over a padded batch of ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from visformer.core.checkpoint import Checkpoint
from visformer.core.masks import causal_mask, padding_mask
from visformer.core.model import StackRecord
from visformer.core.recording import (
    Distribution,
    check_ids,
    empty_trace,
    host,
    memory_rows,
    source_pieces,
    stack_rows,
)
from visformer.core.search import search
from visformer.errors import InputError
from visformer.formats.tokenizers import Piece
from visformer.trace import Bools, Kind, Step, Trace, read_only

Ids = Sequence[Sequence[int]] | np.ndarray | Tensor


@torch.inference_mode()
def run(checkpoint: Checkpoint, source_ids: Ids, target_ids: Ids) -> list[Trace]:
    """Run a batch in one pass: ids [B, S] and [B, T], padded with the pad id.

    Returns one Trace a row, pads included. Row t of the target is read to predict what
    follows it; a step's choice is the next target token, and the model's own best after
    the last one. Raises InputError for unequal batches, lengths beyond the model's
    positions, and ids outside the vocabulary.
    """
    source = _batch(source_ids, checkpoint, source=True)
    target = _batch(target_ids, checkpoint, source=False)
    if len(source) != len(target):
        raise InputError(
            f"{len(source)} sources and {len(target)} targets: not a pair."
        )
    model, pad = checkpoint.model, checkpoint.tokenizer.pad
    readable = padding_mask(source, pad)  # [B, 1, S]
    allowed = padding_mask(target, pad) & causal_mask(target.shape[1], target.device)
    encoded = model.encode(source, readable)
    decoded = model.decode(target, encoded.output, allowed, readable)
    return [
        _trace(checkpoint, source[b], target[b], allowed[b], encoded, decoded, b)
        for b in range(len(source))
    ]


def run_texts(checkpoint: Checkpoint, sources: Sequence[str]) -> list[Trace]:
    """Translate each text greedily, then run all together, padded: one Trace a text.

    Raises InputError where a text is empty.
    """
    tokenizer = checkpoint.tokenizer
    if not sources or not all(text.strip() for text in sources):
        raise InputError("Each line of the batch needs a sentence.")
    rows = [[p.id for p in source_pieces(checkpoint, text)[0]] for text in sources]
    found = search(checkpoint, rows, beam=1)
    # the last choice is never read: a row consumes what stands before it
    targets = [[tokenizer.bos, *ids[:-1]] for ids in found]
    traces = run(
        checkpoint, padded(rows, tokenizer.pad), padded(targets, tokenizer.pad)
    )
    return [
        replace(trace, source_text=text)
        for trace, text in zip(traces, sources, strict=True)
    ]


def padded(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Return the rows as one int64 tensor [B, longest], padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])


def _batch(ids: Ids, checkpoint: Checkpoint, *, source: bool) -> Tensor:
    batch = torch.as_tensor(np.asarray(ids), dtype=torch.int64)
    side, positions = checkpoint.tokenizer, checkpoint.config.max_positions
    if batch.dim() != 2:
        raise InputError(f"ids must be [batch, length], not {list(batch.shape)}.")
    if batch.shape[1] > positions:
        raise InputError(
            f"{batch.shape[1]} tokens are more than the model's {positions} positions."
        )
    size = side.source.size if source else side.target.size
    check_ids(batch.flatten().tolist(), size)
    return batch.to(checkpoint.device)


def _trace(
    checkpoint: Checkpoint,
    source: Tensor,
    target: Tensor,
    allowed: Tensor,
    encoded: StackRecord,
    decoded: StackRecord,
    row: int,
) -> Trace:
    """Cut one row out of a batch's records."""
    final, tokenizer = checkpoint.config.final_norm, checkpoint.tokenizer
    pieces = [Piece(i, tokenizer.source.token(i), 0, 0) for i in source.tolist()]
    start = empty_trace(
        checkpoint,
        source.tolist(),
        pieces,
        0,
        encoder=stack_rows(encoded, final_norm=final)[row],
        memory=memory_rows(decoded)[row],
    )
    ids = target.tolist()
    masks: dict[Kind, Bools] = {
        "encoder": start.masks["encoder"],
        "decoder": read_only(allowed.cpu().numpy()),
        "cross": np.broadcast_to(start.masks["encoder"][:1], (len(ids), len(pieces))),
    }
    return replace(
        start,
        target=tuple(tokenizer.target.token(i) for i in ids),
        target_ids=read_only(np.array(ids, np.int64)),
        steps=_steps(checkpoint, decoded.output[row], ids),
        decoder_rows=host(stack_rows(decoded, final_norm=final)[row]),
        masks=masks,
    )


def _steps(checkpoint: Checkpoint, output: Tensor, ids: list[int]) -> tuple[Step, ...]:
    distribution = Distribution(checkpoint, checkpoint.model.output(output))
    chosen = [*ids[1:], distribution.best[-1][0]]
    decode = checkpoint.tokenizer.decode
    return tuple(
        distribution.step(
            t,
            id,
            "reference" if t + 1 < len(ids) else "model",
            decode(chosen[: t + 1]),
        )
        for t, id in enumerate(chosen)
    )
