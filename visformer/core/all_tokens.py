"""Every token of the vocabulary: its probability after a row, its nearest tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from visformer.core.loaded import Loaded
from visformer.core.rows import check_ids, host
from visformer.core.sampling import most_probable
from visformer.core.threads import few_threads
from visformer.core.vocabulary import named
from visformer.errors import InputError
from visformer.files import short
from visformer.tokenizers.tokenizer import TokenizerSide
from visformer.values.arrays import Floats, read_only
from visformer.values.facts import SentenceSide
from visformer.values.measured import NearWords, WholeDistribution

NEAR = 20  # nearest tokens, at most


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


@torch.inference_mode()
def near_words(
    table: Tensor, names: TokenizerSide, side: SentenceSide, asked: int | str
) -> NearWords:
    """Return the nearest tokens of one, by its id or as a text names it.

    ``table`` are the embeddings [V, D] of a side. Raises InputError for an unknown id,
    and for a text that names no token.
    """
    table = table[: names.size].detach()
    size, width = table.shape
    if isinstance(asked, str):
        found = named(asked, map(names.token, range(size)))
        if not found:
            raise InputError(
                "No token of this vocabulary is named “{text}”.", text=short(asked)
            )
        asked = found[0][0]
    check_ids([asked], size)
    with few_threads(size * width):
        lengths = torch.linalg.vector_norm(table, dim=1)  # [V]
        cosines = (table @ table[asked]) / (lengths * lengths[asked])  # [V]
    cosines = cosines.nan_to_num(nan=-2.0)  # a row of zeros, or not a number
    cosines[asked] = 2.0  # comes first
    best = torch.sort(cosines, descending=True, stable=True).indices[: NEAR + 1]
    ids = best[cosines[best] >= -1.5]
    rows = table[ids].cpu().double()  # [N, D]
    units = rows / rows.norm(dim=1, keepdim=True)
    return NearWords(
        side=side,
        ids=read_only(ids.cpu().numpy()),
        tokens=tuple(map(names.token, ids.tolist())),
        cosines=host((units @ units[0]).clamp(-1, 1).float()),
        vocabulary=size,
        width=width,
    )
