"""Attention that one kernel computes: its weights are computed beside it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from visformer.watching.captured import again, grouped
from visformer.watching.score_trail import ScoreProduct, ScoreTrail, safe_softmax

if TYPE_CHECKING:
    from visformer.watching.recorder import Recorder

FUSED = {
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
}


def fused_attention(
    recorder: Recorder,
    func: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    out: Any,
) -> int:
    """Note the attention of a fused kernel; returns the mark of its result."""
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    query, key, value = (given[name] for name in names[:3])  # [B, H, N, d]
    marks = [recorder.ledger.marks([one]) for one in (query, key, value)]
    product = _product(recorder, query, key, (marks[0], marks[1]))
    trail = _trail(product, name, given)
    dimensions = (*product.shared, product.left_rows, product.right_columns)
    weights = again(trail).weights
    result = out[0] if isinstance(out, tuple | list) else out
    values = grouped(value, query.shape[1]), marks[2]
    if not recorder.capture(trail, (weights, dimensions), values, result):
        return 0
    return recorder.found[-1].mark


def _product(
    recorder: Recorder, query: Tensor, key: Tensor, marks: tuple[int, int]
) -> ScoreProduct:
    of_query, of_key = map(recorder.ledger.known, (query, key))
    *shared, rows, depth = of_key.dimensions
    turned = replace(of_key, dimensions=(*shared, depth, rows))
    right = grouped(key.detach().float(), query.shape[1]).mT
    return recorder.score_product(query.float(), right, of_query, turned, marks)


def _trail(product: ScoreProduct, name: str, given: dict[str, Any]) -> ScoreTrail:
    """Return the operations that the kernel does in one."""
    scale = given.get("scale")
    scale = 1 / math.sqrt(product.left.shape[-1]) if scale is None else scale
    bias = given.get("attn_mask", given.get("attn_bias"))
    mask = _mask(product, bias, causal=bool(given.get("is_causal")))

    def masked(numbers: Tensor) -> Tensor:
        return numbers if mask is None else numbers + mask.to(numbers.dtype)

    dimensions = (*product.shared, product.left_rows, product.right_columns)
    scores = ScoreTrail(product, ScoreTrail(product), lambda x: x * scale, name)
    scores = ScoreTrail(product, scores, masked, name)
    return ScoreTrail(
        product,
        scores,
        lambda x: safe_softmax(x, -1),
        name,
        softmax=(dimensions[-1], dimensions),
        random=bool(given.get("dropout_p")),
    )


def _mask(product: ScoreProduct, bias: Tensor | None, *, causal: bool) -> Tensor | None:
    """Return what is added to the scores, [Q, K] or broadcast to [B, H, Q, K]."""
    if bias is not None:
        if bias.dtype == torch.bool:
            zeros = torch.zeros(bias.shape, device=bias.device)
            return zeros.masked_fill(~bias, -math.inf)
        return bias.detach().float()
    if not causal:
        return None
    shape = product.left.shape[-2], product.right.shape[-1]
    return torch.full(shape, -math.inf, device=product.left.device).triu(1)
