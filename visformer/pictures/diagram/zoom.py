"""The inside of one block: attention, feed-forward, residual connection, norm."""

import math
from collections.abc import Callable

import numpy as np

from visformer.language import N_, _, ngettext
from visformer.pictures.attention.mosaic import is_large
from visformer.pictures.attention.weights import layers_weights
from visformer.pictures.diagram.blocks import (
    PARTS,
    BlockPath,
    block_path,
    depth,
    goal,
    names,
    shape,
    shared,
    title,
    width_of,
)
from visformer.pictures.diagram.columns import RADIUS, Arrow, Box, text
from visformer.pictures.diagram.figure import (
    STEP,
    Figure,
    FigureRoles,
    list_predictions,
    token_list,
)
from visformer.pictures.diagram.model_words import (
    activation,
    attention_words,
    norm_words,
    part_facts_words,
    position_words,
    scale_words,
)
from visformer.pictures.masks import attends_to_nothing, note
from visformer.pictures.positions import AXIS_WORDS, nothing_words
from visformer.values.config import ModelConfig
from visformer.values.facts import ModelFacts, SentenceSide
from visformer.values.reading_order import reads_later, reads_on
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, layer_words, masked_value_text, number

LEADS = {  # by the tab that shows the block's numbers
    "attention": N_(
        "Click the block or press Enter to see its numbers on the Attention tab."
    ),
    "computation": N_(
        "Click the block or press Enter to see its numbers on the Computation tab."
    ),
    "masks": N_("Click the block or press Enter to see its numbers on the Masks tab."),
    "output": N_(
        "Click the block or press Enter to see its numbers on the Output tab."
    ),
    "positions": N_(
        "Click the block or press Enter to see its numbers on the Positions tab."
    ),
}
_HEADINGS = {
    "encoder": N_("{block}, encoder {layer}"),
    "decoder": N_("{block}, decoder {layer}"),
}


def zoom(
    trace: Trace | None, model: ModelFacts, head: int, id: str, x: float, width: float
) -> tuple[list[Box], list[Arrow]]:
    """Draw the inside of a block at ``x``, ``width`` characters wide.

    ``head`` is the head whose weights are quoted where its mask is described.
    """
    figure, path = Figure(trace, model, x, width), block_path(id)
    figure.head(_heading(model, path, id))
    part, _dot, what = path.part.partition(".")
    if what == "mask":
        _mask(figure, path, head)
    elif what == "add":
        _residual(figure, id)
    elif part.endswith("norm"):
        _norm(figure, id)
    elif part.endswith("attention"):
        attention(figure, path, id)
    elif part == "feed_forward":
        _feed_forward(figure, id)
    elif path.layer is not None:
        _layer(figure, path, id)
    else:
        _OUTSIDE[id](figure)
    if "tab" in (to := goal(id)):
        figure.say(_(LEADS[to["tab"]]))
    return figure.boxes, figure.arrows


def _heading(model: ModelFacts, path: BlockPath, id: str) -> str:
    if path.layer is None or not path.part:
        return title(id)
    if model.known is None:  # without the rules, it may or may not be masked
        id = id.replace("decoder.", "encoder.")
    return _(_HEADINGS[path.stack], block=title(id), layer=layer_words(path.layer))


def _stream(figure: Figure, path: BlockPath) -> str:
    return shape(_length(figure, path), width_of(figure.model, path.stack))


def _feed_forward(figure: Figure, id: str) -> None:
    model, path = figure.model, block_path(id)
    config = model.config
    act, width, inner = activation(config), config.d_model, config.feed_forward
    first = "x W1" + (" + b1" if config.w1_bias else "")
    gate = f" · (x W3{' + b3' if config.gate_bias else ''})" if config.gated else ""
    last = " + b2" if config.w2_bias else ""
    formula = f"{act}({first}){gate} W2{last}"
    figure.say(_("{formula}: the same at every position", formula=formula))
    figure.labels((0.5, _stream(figure, path)))
    figure.up(0.5)
    sizes = {"width": width, "inner": inner}
    figure.row((0.1, 0.9, _("Linear W2  {inner:,} → {width:,}", **sizes)))
    wide = shape(_length(figure, path), inner)
    figure.up(0.5, words=wide)
    if config.gated:
        top = figure.row((0.1, 0.9, _("× (gate)")))[0]
        figure.up(0.26)
        figure.row((0.02, 0.49, act))
        figure.up(0.26, words=wide)
        lane = figure.x + 0.74 * figure.width
        ends = (lane, figure.y), (lane, top.y + top.height)
        figure.arrows.append(Arrow(points=ends))
        both = f"{width:,} → {inner:,}"
        figure.row((0.02, 0.49, f"W1  {both}"), (0.51, 0.98, f"W3  {both}"))
        figure.up(0.26, 0.74)
    else:
        figure.row((0.1, 0.9, act))
        figure.up(0.5, words=wide)
        figure.row((0.1, 0.9, _("Linear W1  {width:,} → {inner:,}", **sizes)))
        figure.up(0.5)
    figure.labels((0.5, f"x {_stream(figure, path)}"))
    figure.say_parameters(id)


def _length(figure: Figure, path: BlockPath) -> int | str:
    return figure.source if path.stack == "encoder" else figure.target


def _residual(figure: Figure, id: str) -> None:
    path, first = block_path(id), figure.model.config.norm_first
    sublayer, size = path.part.removesuffix(".add"), _stream(figure, path)
    order = "x + F(Norm(x))" if first else "Norm(x + F(x))"
    figure.say(_("{formula}, where F is the sublayer", formula=order))
    figure.labels((0.35, size))
    if not first:
        figure.up(0.35)
        figure.row((0.1, 0.6, _("Norm")), style="norm")
    figure.up(0.35, words="F(Norm(x)) + x" if first else "F(x) + x")
    half = RADIUS / figure.width
    add = figure.row((0.35 - half, 0.35 + half, "+"), style="add")[0]
    figure.up(0.35, words="F(Norm(x))" if first else "F(x)")
    figure.row((0.05, 0.65, _("F: {sublayer}", sublayer=_(PARTS[sublayer]))))
    if first:
        figure.up(0.35, words="Norm(x)")
        figure.row((0.1, 0.6, _("Norm")), style="norm")
    figure.up(0.35, height=1.6)
    middle, bend = add.centre[1], figure.x + 0.72 * figure.width
    start, spine = figure.y - 0.8, figure.x + 0.35 * figure.width
    points = (spine, start), (bend, start), (bend, middle), (add.x + add.width, middle)
    figure.arrows.append(Arrow(points=points, line="residual"))
    room = figure.x + figure.width - bend - 1
    words = _("x unchanged")
    along = text(bend + 1, (start + middle) / 2, room, words, small=True)
    figure.boxes.append(along)
    figure.labels((0.35, f"x {size}"))


def _norm(figure: Figure, id: str) -> None:
    model = figure.model
    config = model.config
    tokens = getattr(config, f"{block_path(id).stack}_norm_length")
    template = N_(
        "{norm}, applied to each row separately, over its D = {width:,} numbers"
    )
    if tokens:
        template = N_("{norm}, applied to {tokens:,} rows of D = {width:,} at once")
    norm = norm_words(model)
    figure.say(_(template, norm=norm, width=config.d_model, tokens=tokens))
    figure.say(_norm_formula(config))
    figure.say(f"ε = {number(config.norm_eps)}")
    figure.say_parameters(id)
    if id.endswith(".norm"):
        figure.say(_("It follows the last layer of the stack."))
    elif config.norm_first:
        figure.say(
            _(
                "Pre-norm: it comes before the sublayer, and the residual connection "
                "bypasses it."
            )
        )
    else:
        figure.say(
            _("Post-norm: it comes after the +, so the whole stream passes through it.")
        )


def _norm_formula(config: ModelConfig) -> str:
    if config.norm == "rms":
        return _("y = x / √(mean of x² + ε) · weight")
    if not config.norm_bias:
        return _("y = (x − mean) / √(variance + ε) · weight")
    return _("y = (x − mean) / √(variance + ε) · weight + bias")


def _mask(figure: Figure, path: BlockPath, head: int) -> None:
    figure.say(
        _(
            "A query may attend to a key where the mask is True. Where it is False, "
            "the score is replaced by {value} before the softmax.",
            value=masked_value_text(figure.model.attention[path.kind].masked_value),
        )
    )
    if path.kind == "decoder" and figure.model.known is not None:
        if figure.trace is not None and reads_later(figure.trace, path.layer):
            figure.say(_("Not causal here: rows read later tokens."))
        else:
            figure.say(
                _("Causal: no row reads a later token here, which it has to predict.")
            )
    if figure.trace is not None and path.layer is not None:
        head = min(head, figure.trace.heads(path.kind) - 1)
        said = note(figure.trace, path.kind, "combined", path.layer, head)
        figure.say(_("{kind}: {note}", kind=_(KIND_NAMES[path.kind]), note=said))


def _layer(figure: Figure, path: BlockPath, id: str) -> None:
    model = figure.model
    figure.say(_("Click or press Enter to open or close this layer."))
    for part in names(model, path.stack, path.layer or 0):
        if model.known is None:
            figure.say(part_facts_words(model, path, part))
            continue
        parts = (f"{id}.{part}_norm", f"{id}.{part}")
        for block in parts if model.config.norm_first else reversed(parts):
            figure.say(figure.counts.named(block))
    if figure.counts:
        figure.say(
            _(
                "Together: {parameters} of the model's {total:,}",
                parameters=figure.counts.words(id),
                total=model.parameters,
            )
        )
    if path.stack == "encoder":
        layers = ngettext(
            "The encoder has {n} such layer.",
            "The encoder has {n} such layers.",
            depth(model, "encoder"),
        )
    else:
        layers = ngettext(
            "The decoder has {n} such layer.",
            "The decoder has {n} such layers.",
            depth(model, "decoder"),
        )
    figure.say(layers)


def _embedding(side: SentenceSide) -> Callable[[Figure], None]:
    def show(figure: Figure) -> None:
        model, block = figure.model, f"{side}_embedding"
        count = getattr(model.config, f"{side}_vocabulary")
        length = figure.source if side == "source" else figure.target
        figure.say(
            _(
                "Each token's id selects a row of the table {table}, {scale}: {ids} → "
                "{vectors}",
                table=shape(count, model.config.d_model),
                scale=scale_words(model),
                ids=shape(length),
                vectors=shape(length, model.config.d_model),
            )
        )
        figure.say_parameters(block)
        if shared(model, "output").startswith(block):
            figure.say(_("The output projection uses the same table."))

    return show


def _positions(figure: Figure) -> None:
    model, trace = figure.model, figure.trace
    config, change = model.config, trace.intervention.positions if trace else None
    if change is not None:
        figure.say(_("Changed in this run: {change}", change=change))
    if config.positions == "none":
        figure.say(nothing_words(model))
        return
    figure.say(
        _(
            "{encoding}; {positions:,} positions × {dimensions:,} dimensions.",
            encoding=position_words(model),
            positions=config.max_positions,
            dimensions=config.d_model,
        )
    )
    if change is None:
        figure.say(_(AXIS_WORDS[config.position_axis]))
    if config.positions == "learned":
        figure.say(_("These numbers are trained parameters."))
    else:
        figure.say(_("It has no parameters."))


def _output(figure: Figure) -> None:
    config = figure.model.config
    bias = " + b" if config.output_bias else ""
    figure.say(
        _(
            "{formula}, {shape}: one score per token of the vocabulary",
            formula=f"logits = Z W{bias}",
            shape=shape(config.d_model, config.target_vocabulary),
        )
    )
    figure.say_parameters("output")
    list_predictions(figure)


def _softmax(figure: Figure) -> None:
    if figure.model.known is None:
        words = _("The next token of each row:")
    elif figure.model.config.softmax_output:
        words = _(
            "The softmax is part of the model. Each row of Z gives a distribution over "
            "the next token:"
        )
    else:
        words = _(
            "The softmax is outside the model. Each row of Z gives a distribution over "
            "the next token:"
        )
    figure.say(words)
    list_predictions(figure)


_OUTSIDE: dict[str, Callable[[Figure], None]] = {
    "source_tokens": token_list("source"),
    "target_tokens": token_list("target"),
    "source_embedding": _embedding("source"),
    "target_embedding": _embedding("target"),
    "source_positions": _positions,
    "target_positions": _positions,
    "encoder.norm": lambda figure: _norm(figure, "encoder.norm"),
    "decoder.norm": lambda figure: _norm(figure, "decoder.norm"),
    "output": _output,
    "softmax": _softmax,
    "prediction": _softmax,
}


def _sizes(figure: Figure, path: BlockPath) -> tuple[int | str, int | str]:
    """Return the number of queries and of keys of an attention."""
    queries = figure.source if path.kind == "encoder" else figure.target
    return queries, figure.target if path.kind == "decoder" else figure.source


VKQ: FigureRoles = ("value", "key", "query")  # the order in the paper's figure 2


def attention(figure: Figure, path: BlockPath, id: str) -> None:
    """Draw the paper's figure 2: all heads above, one head below."""
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
    """Write a head's formula; ``root`` is its divisor, √d_k in the paper."""
    trace, layer = figure.trace, path.layer or 0
    bias = ""
    if trace is not None and trace.added(path.kind, layer) is not None:
        bias = " + B"
    return f"softmax(Q Kᵀ / {root}{bias}) V" if root else f"softmax(s Q Kᵀ{bias}) V"


def _sums(figure: Figure, id: str, shape: str) -> str:
    """Say what a row of weights sums to, or becomes if it is all masked."""
    trace, path = figure.trace, block_path(id)
    if trace is not None and trace.is_captured(path.kind, path.layer or 0):
        return _("{shape} as captured", shape=shape)
    if trace is not None and path.layer is not None:
        if attends_to_nothing(trace, path.kind, path.layer):
            if math.isinf(figure.model.attention[path.kind].masked_value):
                return _("{shape} rows all masked: NaN", shape=shape)
            return _("{shape} rows all masked: equal", shape=shape)
        if is_large(trace, path.kind):
            return shape  # checking all weights takes too long
        layers = range(path.layer, path.layer + 1)
        if np.isnan(layers_weights(trace, path.kind, layers)).any():
            return _("{shape} some rows are NaN", shape=shape)
        if trace.intervention.at(path.kind, path.layer).acts("weights"):
            return _("{shape} weights changed", shape=shape)
        if reads_on(trace, path.kind, path.layer):
            return _("{shape} later keys cut off", shape=shape)
    return _("{shape} rows sum to 1", shape=shape)
