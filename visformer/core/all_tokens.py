"""Every token of the vocabulary: its probability after a row, and its name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from visformer.core.loaded import Loaded
from visformer.core.rows import host
from visformer.core.sampling import most_probable
from visformer.core.threads import few_threads
from visformer.errors import InputError
from visformer.values.arrays import Floats, read_only
from visformer.values.distribution import WholeDistribution


@torch.inference_mode()
def distribution_of(checkpoint: Loaded, stream: Floats) -> WholeDistribution:
    """Return every token with its probability, of what leaves the last layer [D].

    Raises InputError for a stream of another width than the model's.
    """
    width = checkpoint.config.d_model
    if stream.shape != (width,):
        raise InputError(
            "The residual stream has shape {found}, but must have {expected}.",
            found=list(stream.shape),
            expected=[width],
        )
    rows = torch.tensor(stream[None], device=checkpoint.device)
    with few_threads(width * checkpoint.config.target_vocabulary):
        out = checkpoint.model.decoder.norm(rows)
        logits = checkpoint.logits_from(checkpoint.packed, out)
    p, ids, _entropy = most_probable(logits, logits.shape[-1])
    return whole_distribution(p[0], ids[0], checkpoint.tokenizer.target.token)


def whole_distribution(
    p: Tensor, ids: Tensor, token: Callable[[int], str]
) -> WholeDistribution:
    """Return probabilities [V] with their tokens, in the order of ``ids`` [V]."""
    order = read_only(ids.to("cpu", torch.int64).numpy())
    return WholeDistribution(
        ids=order,
        tokens=tuple(map(token, order.tolist())),
        probabilities=host(p[ids]),
    )
