"""The two parts of the paper's figure 2: multi-head attention, and one of its heads."""

from __future__ import annotations

import math

import numpy as np

from visformer.language import _
from visformer.pictures.attention.mosaic import is_large
from visformer.pictures.attention.weights import layers_weights
from visformer.pictures.diagram.block_names import BlockPath, block_path
from visformer.pictures.diagram.blocks import shape
from visformer.pictures.diagram.columns import Arrow, text
from visformer.pictures.diagram.facts_words import attention_words
from visformer.pictures.diagram.figure import STEP, Figure, FigureRoles
from visformer.pictures.masks import attends_to_nothing
from visformer.words import masked_value_text, number


def _sizes(figure: Figure, path: BlockPath) -> tuple[int | str, int | str]:
    """Return the number of queries and of keys of an attention."""
    queries = figure.source if path.kind == "encoder" else figure.target
    return queries, figure.target if path.kind == "decoder" else figure.source


VKQ: FigureRoles = ("value", "key", "query")  # as the paper's figure 2 has them


def attention(figure: Figure, path: BlockPath, id: str) -> None:
    """Draw the paper's figure 2: all heads above, one of them below."""
    model, (queries, keys) = figure.model, _sizes(figure, path)
    if model.known is None:
        figure.say(attention_words(model, path.kind))
        _one_head(figure, id, queries, keys)
        return
    facts, width = model.attention[path.kind], model.config.d_model
    heads, size = facts.heads, facts.head_size
    if path.kind == "cross":
        origin = _(
            "MultiHead(Q, K, V) = Concat(head 1, …, head {heads}) W_O, with K and V "
            "from the encoder's output",
            heads=heads,
        )
    else:
        origin = _(
            "MultiHead(Q, K, V) = Concat(head 1, …, head {heads}) W_O, with Q, K and V "
            "from the same rows",
            heads=heads,
        )
    figure.say(origin)
    figure.say_parameters(id)
    figure.row((0.2, 0.8, _("Linear W_O  {width} → {width}", width=width)))
    figure.up(0.5, words=shape(queries, width))
    figure.row((0.2, 0.8, _("Concat")))
    figure.up(0.3, 0.5, 0.7, words=f"{heads} × {shape(queries, size)}")
    name = _("Scaled dot-product attention × {heads}", heads=heads)
    figure.row((0.06, 0.94, name), stack=3, id="")
    figure.y += 0.35
    words = shape(heads, queries, size)
    figure.up(0.17, 0.5, 0.83, words=words, height=0.9, roles=VKQ)
    figure.row(
        (0.0, 0.33, _("Linear W_V")),
        (0.335, 0.665, _("Linear W_K")),
        (0.67, 1.0, _("Linear W_Q")),
        roles=VKQ,
    )
    figure.up(0.17, 0.5, 0.83, height=0.7, roles=VKQ)
    figure.labels(
        (0.17, f"V {shape(keys, width)}"),
        (0.5, f"K {shape(keys, width)}"),
        (0.83, f"Q {shape(queries, width)}"),
        roles=VKQ,
    )
    figure.y += 0.4
    _one_head(figure, id, queries, keys)


def _one_head(figure: Figure, id: str, queries: int | str, keys: int | str) -> None:
    path = block_path(id)
    facts, weights = figure.model.attention[path.kind], shape(queries, keys)
    trace, layer, size = figure.trace, path.layer or 0, facts.head_size
    scale = facts.scales[layer] if trace is None else trace.scale(path.kind, layer)
    masked = masked_value_text(facts.masked_value)
    root = facts.is_root(scale)
    figure.head(_("One head: scaled dot-product attention"))
    figure.say(_formula(figure, path, f"√{size}" if root else ""))
    outputs = shape(queries, facts.value_size)
    product = _("MatMul: weights × V   {shape}", shape=outputs)
    top = figure.row((0.04, 0.96, product))[0]
    figure.up(0.32, words="", height=STEP)
    figure.boxes.append(
        text(
            figure.x + 0.34 * figure.width,
            figure.y - STEP,
            0.4 * figure.width,
            _sums(figure, id, weights),
            height=STEP,
            small=True,
        )
    )
    figure.row((0.04, 0.74, _("SoftMax over the keys")))
    figure.up(0.32, height=0.6)
    mask = _("Mask (optional): {value}", value=masked)
    figure.row((0.04, 0.74, mask), style="mask", id=f"{id}.mask")
    figure.up(0.32, height=0.6)
    factor = _("Scale × {scale}", scale=number(scale))
    if root:
        factor = _("Scale × 1/√{size} = {scale}", size=size, scale=number(scale))
    figure.row((0.04, 0.74, factor))
    figure.up(0.32, words="", height=0.6)
    figure.row((0.04, 0.74, _("MatMul: Q Kᵀ   {shape}", shape=weights)))
    figure.up(0.16, 0.58, height=0.6, roles=("query", "key"))
    value = figure.x + 0.87 * figure.width
    ends = (value, figure.y), (value, top.y + top.height)
    figure.arrows.append(Arrow(points=ends, role="value"))
    figure.labels(
        (0.16, f"Q {shape(queries, size)}"),
        (0.52, f"K {shape(keys, size)}"),
        (0.87, f"V {shape(keys, facts.value_size)}"),
        roles=("query", "key", "value"),
    )


def _formula(figure: Figure, path: BlockPath, root: str) -> str:
    """Write a head's formula; ``root``: what it divides by, as in the paper."""
    trace, layer = figure.trace, path.layer or 0
    bias = ""
    if trace is not None and trace.added(path.kind, layer) is not None:
        bias = " + B"
    return f"softmax(Q Kᵀ / {root}{bias}) V" if root else f"softmax(s Q Kᵀ{bias}) V"


def _sums(figure: Figure, id: str, shape: str) -> str:
    """Say what a row of weights sums to, or what a row that is all masked becomes."""
    trace, path = figure.trace, block_path(id)
    if trace is not None and trace.is_captured(path.kind, path.layer or 0):
        return _("{shape} as captured", shape=shape)
    if trace is not None and path.layer is not None:
        if attends_to_nothing(trace, path.kind, path.layer):
            if math.isinf(figure.model.attention[path.kind].masked_value):
                return _("{shape} all masked: NaN", shape=shape)
            return _("{shape} all masked: equal", shape=shape)
        if is_large(trace, path.kind):
            return shape  # to look at all weights takes too long
        layers = range(path.layer, path.layer + 1)
        if np.isnan(layers_weights(trace, path.kind, layers)).any():
            return _("{shape} some rows are NaN", shape=shape)
    return _("{shape} rows sum to 1", shape=shape)
