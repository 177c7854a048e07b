"""Every token of the vocabulary: its probability after a row, and its name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from visformer.core.loaded import Loaded
from visformer.core.rows import check_ids, host
from visformer.core.sampling import most_probable
from visformer.core.threads import few_threads
from visformer.core.vocabulary import named
from visformer.errors import InputError
from visformer.values.arrays import Floats, read_only
from visformer.values.distribution import WholeDistribution
from visformer.values.facts import SentenceSide
from visformer.values.near_words import NearWords

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
    checkpoint: Loaded,
    side: SentenceSide,
    asked: int | str,
) -> NearWords:
    """Return the nearest tokens of one token of a side, by id or as a text names it.

    Raises InputError for an unknown id. Of the table [V, D] only V cosines are made.
    """
    model = checkpoint.model
    tables = {"source": model.source_embedding, "target": model.target_embedding}
    table: Tensor = tables[side].weight  # [V, D]
    names = getattr(checkpoint.tokenizer, side)
    size, width = table.shape
    if isinstance(asked, str):
        tokens = (names.token(id) for id in range(min(size, names.size)))
        found = named(asked, tokens)
        if not found:
            return _nothing(side, asked, size, width)
        asked = found[0][0]
    check_ids([asked], size)
    with few_threads(size * width):
        lengths = torch.linalg.vector_norm(table, dim=1)  # [V]
        cosines = (table @ table[asked]) / (lengths * lengths[asked])  # [V]
    cosines = cosines.nan_to_num(nan=-2.0)  # a row of zeros, or not a number
    cosines[asked] = 2.0  # comes first
    best = torch.sort(cosines, descending=True, stable=True).indices[: NEAR + 1]
    ids = [int(id) for id in best if cosines[id] >= -1.5]
    rows = table[ids].double()  # [N, D]
    units = rows / rows.norm(dim=1, keepdim=True)
    places, shares = _projected(units)
    told = (units @ units[0]).clamp(-1, 1)
    return NearWords(
        side=side,
        ids=read_only(np.array(ids, np.int64)),
        tokens=tuple(map(names.token, ids)),
        cosines=host(told.float()),
        places=places,
        shares=shares,
        vocabulary=size,
        width=width,
    )


def _projected(units: Tensor) -> tuple[Floats, tuple[float, float]]:
    """Project rows [N, D] on their first two principal components -> [N, 2], shares.

    The sign of a component is that of its largest loading, which is made positive. A
    row that is not a number is in the middle.
    """
    centred = (units - units.nanmean(0)).nan_to_num(0.0, 0.0, 0.0)
    _u, sizes, loadings = torch.linalg.svd(centred, full_matrices=False)
    axes = loadings[:2]  # [2, D], or fewer
    largest = axes.abs().argmax(1, keepdim=True)
    axes = axes * axes.gather(1, largest).sign()
    places = torch.zeros(len(units), 2, dtype=units.dtype)
    places[:, : len(axes)] = (centred @ axes.T).cpu()
    variances = sizes.square()[:2] / sizes.square().sum().clamp_min(1e-30)
    held: list[float] = [*variances.tolist(), 0.0, 0.0]
    return host(places.float()), (held[0], held[1])


def _nothing(side: SentenceSide, asked: str, size: int, width: int) -> NearWords:
    none: Floats = np.zeros((0, 2), np.float32)
    return NearWords(
        side=side,
        ids=np.zeros(0, np.int64),
        tokens=(),
        cosines=none[:, 0],
        places=none,
        shares=(0.0, 0.0),
        vocabulary=size,
        width=width,
        asked=asked,
    )
