"""The two parts of the paper's figure 2: multi-head attention, and one head of it."""

from __future__ import annotations

import math

from visformer.pictures.diagram.blocks import BlockPath, block_path, shape
from visformer.pictures.diagram.columns import Arrow, text
from visformer.pictures.diagram.figure import STEP, Figure
from visformer.pictures.masks import attends_to_nothing
from visformer.words import masked_value_text, number


def _sizes(figure: Figure, path: BlockPath) -> tuple[int | str, int | str]:
    """Return the number of queries and of keys of an attention."""
    queries = figure.source if path.kind == "encoder" else figure.target
    return queries, figure.target if path.kind == "decoder" else figure.source


def attention(figure: Figure, path: BlockPath, id: str) -> None:
    """Draw the paper's figure 2: many heads on top, one of them below."""
    model, (queries, keys) = figure.model, _sizes(figure, path)
    heads, size, width = (
        model.config.heads,
        model.config.head_size,
        model.config.d_model,
    )
    across = path.kind == "cross"
    figure.say(
        f"MultiHead(Q, K, V) = Concat(head 1, …, head {heads}) W_O; "
        + ("K, V of the encoder's output" if across else "Q, K, V of the same rows")
        + ending(figure, id)
    )
    figure.row((0.2, 0.8, f"Linear W_O  {width} → {width}"))
    figure.up(0.5, words=shape(queries, width))
    figure.row((0.2, 0.8, "Concat"))
    figure.up(0.3, 0.5, 0.7, words=f"{heads} × {shape(queries, size)}")
    name = f"Scaled dot-product attention × {heads}"
    figure.row((0.06, 0.94, name), stack=3, id="")
    figure.y += 0.35
    figure.up(0.17, 0.5, 0.83, words=shape(heads, queries, size), height=0.9)
    figure.row(
        (0.0, 0.33, "Linear W_V"),
        (0.335, 0.665, "Linear W_K"),
        (0.67, 1.0, "Linear W_Q"),
    )
    figure.up(0.17, 0.5, 0.83, height=0.7)
    figure.labels(
        (0.17, f"V {shape(keys, width)}"),
        (0.5, f"K {shape(keys, width)}"),
        (0.83, f"Q {shape(queries, width)}"),
    )
    figure.y += 0.4
    _one_head(figure, id, queries, keys)


def _one_head(figure: Figure, id: str, queries: int | str, keys: int | str) -> None:
    model = figure.model
    size, weights = model.config.head_size, shape(queries, keys)
    fill = masked_value_text(model.config.masked_value)
    figure.head("One head: scaled dot-product attention")
    figure.say(f"softmax(Q Kᵀ / √{size}) V")
    top = figure.row((0.04, 0.96, f"MatMul: weights × V   {shape(queries, size)}"))[0]
    figure.up(0.32, words="", height=STEP)
    figure.boxes.append(
        text(
            figure.x + 0.34 * figure.width,
            figure.y - STEP,
            0.4 * figure.width,
            f"{weights} {_sums(figure, id)}",
            height=STEP,
            small=True,
        )
    )
    figure.row((0.04, 0.74, "SoftMax over the keys"))
    figure.up(0.32, height=0.6)
    figure.row((0.04, 0.74, f"Mask (opt.): {fill}"), style="mask", id=f"{id}.mask")
    figure.up(0.32, height=0.6)
    scale = 1 / math.sqrt(size)
    figure.row((0.04, 0.74, f"Scale × 1/√{size} = {number(scale)}"))
    figure.up(0.32, words="", height=0.6)
    figure.row((0.04, 0.74, f"MatMul: Q Kᵀ   {weights}"))
    figure.up(0.16, 0.58, height=0.6)
    value = figure.x + 0.87 * figure.width
    ends = (value, figure.y), (value, top.y + top.height)
    figure.arrows.append(Arrow(points=ends))
    figure.labels(
        (0.16, f"Q {shape(queries, size)}"),
        (0.52, f"K {shape(keys, size)}"),
        (0.87, f"V {shape(keys, size)}"),
    )


def _sums(figure: Figure, id: str) -> str:
    """Say what the weights of a row sum to, also where a row may attend to nothing."""
    trace, path = figure.trace, block_path(id)
    if trace is None or path.layer is None:
        return "rows sum to 1"
    if not attends_to_nothing(trace, path.kind, path.layer):
        return "rows sum to 1"
    infinite = math.isinf(figure.model.config.masked_value)
    return "all masked: NaN" if infinite else "all masked: equal"


def ending(figure: Figure, id: str) -> str:
    """End a sentence, and say how many parameters a block has."""
    counted = figure.counts.words(id)
    return f". {counted} parameters." if counted else "."
