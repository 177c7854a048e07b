"""The inside of one block: attention's own figures, feed-forward, residual, norm."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from visformer.pictures.diagram.attention_figure import attention, ending
from visformer.pictures.diagram.blocks import (
    BlockPath,
    activation,
    block_path,
    goal,
    names,
    norm_words,
    position_words,
    scale_words,
    shape,
    shared,
    softmax_words,
    title,
)
from visformer.pictures.diagram.columns import RADIUS, Arrow, Box, text
from visformer.pictures.diagram.figure import Figure
from visformer.pictures.masks import false_words, note
from visformer.text import visible
from visformer.values.facts import ModelFacts
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, layer_words, number, probability

MOST_TOKENS = 60  # listed with their ids
MOST_ROWS = 16  # of the predictions listed


def zoom(
    trace: Trace | None, model: ModelFacts, head: int, id: str, x: float, width: float
) -> tuple[list[Box], list[Arrow]]:
    """Draw the inside of a block from ``x`` on, ``width`` characters wide.

    ``head`` is the one whose mask is described.
    """
    figure, path = Figure(trace, model, x, width), block_path(id)
    figure.head(_heading(path, id))
    part, _, what = path.part.partition(".")
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
        tab = to["tab"].capitalize()
        figure.say(f"Click the block, or press Enter: its numbers ({tab} tab).")
    return figure.boxes, figure.arrows


def _heading(path: BlockPath, id: str) -> str:
    if path.layer is None or not path.part:
        return title(id)
    return f"{title(id)}, {path.stack} {layer_words(path.layer)}"


def _stream(figure: Figure, path: BlockPath) -> str:
    return shape(_length(figure, path), figure.model.config.d_model)


def _feed_forward(figure: Figure, id: str) -> None:
    model, path = figure.model, block_path(id)
    config = model.config
    act, width, inner = activation(config), config.d_model, config.feed_forward
    first = "x W1" + (" + b1" if config.w1_bias else "")
    gate = f" · (x W3{' + b3' if config.gate_bias else ''})" if config.gated else ""
    last = " + b2" if config.w2_bias else ""
    figure.say(f"{act}({first}){gate} W2{last}: the same at every position")
    figure.labels((0.5, _stream(figure, path)))
    figure.up(0.5)
    figure.row((0.1, 0.9, f"Linear W2  {inner:,} → {width:,}"))
    wide = shape(_length(figure, path), inner)
    figure.up(0.5, words=wide)
    if config.gated:
        top = figure.row((0.1, 0.9, "× (gate)"))[0]
        figure.up(0.26)
        figure.row((0.02, 0.49, act))
        figure.up(0.26, words=wide)
        lane = figure.x + 0.74 * figure.width
        ends = (lane, figure.y), (lane, top.y + top.height)
        figure.arrows.append(Arrow(points=ends))
        sizes = f"{width:,} → {inner:,}"
        figure.row((0.02, 0.49, f"W1  {sizes}"), (0.51, 0.98, f"W3  {sizes}"))
        figure.up(0.26, 0.74)
    else:
        figure.row((0.1, 0.9, act))
        figure.up(0.5, words=wide)
        figure.row((0.1, 0.9, f"Linear W1  {width:,} → {inner:,}"))
        figure.up(0.5)
    figure.labels((0.5, f"x {_stream(figure, path)}"))
    counted = figure.counts.words(id)
    if counted:
        figure.say(f"{counted} parameters.")


def _length(figure: Figure, path: BlockPath) -> int | str:
    return figure.source if path.stack == "encoder" else figure.target


def _residual(figure: Figure, id: str) -> None:
    first, size = figure.model.config.norm_first, _stream(figure, block_path(id))
    name = title(id.removesuffix(".add"))
    order = "x + F(Norm(x))" if first else "Norm(x + F(x))"
    figure.say(f"{order}, F being {name[0].lower()}{name[1:]}")
    figure.labels((0.35, size))
    if not first:
        figure.up(0.35)
        figure.row((0.1, 0.6, "Norm"), style="norm")
    figure.up(0.35, words="F(Norm(x)) + x" if first else "F(x) + x")
    half = RADIUS / figure.width
    add = figure.row((0.35 - half, 0.35 + half, "+"), style="add")[0]
    figure.up(0.35, words="F(Norm(x))" if first else "F(x)")
    what = id.split(".")[2].replace("_", "-")
    figure.row((0.05, 0.65, f"F: {what}"))
    if first:
        figure.up(0.35, words="Norm(x)")
        figure.row((0.1, 0.6, "Norm"), style="norm")
    figure.up(0.35, height=1.6)
    middle, bend = add.centre[1], figure.x + 0.72 * figure.width
    start, spine = figure.y - 0.8, figure.x + 0.35 * figure.width
    points = (spine, start), (bend, start), (bend, middle), (add.x + add.width, middle)
    figure.arrows.append(Arrow(points=points, line="residual"))
    room = figure.x + figure.width - bend - 1
    along = text(bend + 1, (start + middle) / 2, room, "x unchanged", small=True)
    figure.boxes.append(along)
    figure.labels((0.35, f"x {size}"))


def _norm(figure: Figure, id: str) -> None:
    model = figure.model
    config = model.config
    figure.say(
        f"{norm_words(model)}, for every row by itself, over its D = "
        f"{config.d_model:,} numbers"
    )
    figure.say("y = (x − mean) / √(variance + ε) · weight + bias")
    figure.say(f"ε = {number(config.norm_eps)}{ending(figure, id)}")
    if id.endswith(".norm"):
        figure.say("It follows the last layer of the stack.")
    elif config.norm_first:
        figure.say(
            "Pre-norm: it stands before the sublayer, and the residual passes by it."
        )
    else:
        figure.say("Post-norm: it stands after the +, on the residual's own way.")


def _mask(figure: Figure, path: BlockPath, head: int) -> None:
    figure.say(
        "A query may attend to a key where the mask is True. "
        + (false_words(figure.trace) if figure.trace else "")
    )
    if path.kind == "decoder":
        figure.say("Causal: a row never reads a later one, which it is to predict.")
    if figure.trace is not None and path.layer is not None:
        head = min(head, figure.trace.heads(path.kind) - 1)
        said = note(figure.trace, path.kind, "combined", path.layer, head)
        figure.say(f"{KIND_NAMES[path.kind]}: {said}")


def _layer(figure: Figure, path: BlockPath, id: str) -> None:
    model = figure.model
    figure.say("Click, or press Enter, to open or close it.")
    for part in names(model, path.stack):
        parts = (f"{id}.{part}_norm", f"{id}.{part}")
        for block in parts if model.config.norm_first else reversed(parts):
            counted = figure.counts.words(block)
            name = title(block)
            figure.say(f"{name}: {counted} parameters" if counted else name)
    if figure.counts:
        figure.say(
            f"together {figure.counts.words(id)} of {model.parameters:,} parameters"
        )
    kind = f"{path.stack}_layers"
    figure.say(f"The {path.stack} has {getattr(model.config, kind)} such layers.")


def _tokens(side: str) -> Callable[[Figure], None]:
    def show(figure: Figure) -> None:
        if figure.trace is None:
            figure.say("No sentence has been run yet.")
            return
        tokens = figure.trace.source if side == "source" else figure.trace.target
        ids = figure.trace.source_ids if side == "source" else figure.trace.target_ids
        named = (
            f"{visible(token)} ({id})"
            for token, id in zip(tokens, ids.tolist(), strict=True)
        )
        listed = "  ".join(itertools.islice(named, MOST_TOKENS))
        more = max(0, len(tokens) - MOST_TOKENS)
        rest = f" … and {more:,} more" if more else ""
        figure.say(f"{len(tokens):,} tokens (ids in brackets): {listed}{rest}")
        if side == "target":
            figure.say("Each step adds the token that the last one gave.")

    return show


def _embedding(side: str) -> Callable[[Figure], None]:
    def show(figure: Figure) -> None:
        model, block = figure.model, f"{side}_embedding"
        count = getattr(model.config, f"{side}_vocabulary")
        length = figure.source if side == "source" else figure.target
        figure.say(
            f"A row of the table {shape(count, model.config.d_model)} for each token's "
            f"id, {scale_words(model)}: {shape(length)} → "
            f"{shape(length, model.config.d_model)}"
        )
        counted = figure.counts.words(block)
        if counted:
            figure.say(f"{counted} parameters")
        if shared(model, "output").startswith(block):
            figure.say("The output projection is the same table.")

    return show


def _positions(figure: Figure) -> None:
    model = figure.model
    config = model.config
    figure.say(
        f"{position_words(model)}; {config.max_positions:,} positions × "
        f"{config.d_model:,} dimensions; the row of pos p is added to the token there"
    )
    learned = config.positions == "learned"
    figure.say("Its numbers are parameters." if learned else "It has no parameters.")


def _output(figure: Figure) -> None:
    config = figure.model.config
    bias = " + b" if config.output_bias else ""
    figure.say(
        f"logits = Z W{bias}, {shape(config.d_model, config.target_vocabulary)}: "
        "a score for every token of the vocabulary"
    )
    counted = figure.counts.words("output")
    if counted:
        figure.say(f"{counted} parameters")
    _predictions(figure)


def _softmax(figure: Figure) -> None:
    figure.say(
        f"The softmax is {softmax_words(figure.model)}. Every row of Z gives a "
        "distribution over the next token:"
    )
    _predictions(figure)


def _predictions(figure: Figure) -> None:
    """Each row of the decoder's output, and the token that was chosen of it."""
    trace = figure.trace
    if trace is None or not len(trace):
        figure.say("Nothing is decoded yet.")
        return
    first = max(0, len(trace) - MOST_ROWS)
    if first:
        figure.say(f"… rows 1 to {first}")
    layers = range(trace.layers("decoder"))
    causal = not any(trace.mask("decoder", at)[0, 1:].any() for at in layers)
    for row in range(first, len(trace)):
        step = trace.steps[row]
        knows = f"tokens 1 to {row + 1}" if causal else "all tokens"
        figure.boxes.append(
            Box(
                x=figure.x,
                y=figure.y,
                width=figure.width,
                height=1.2,
                title=f"row {row + 1} “{visible(trace.target[row])}” → "
                f"“{visible(step.token)}” {probability(step.probability)}",
                detail=knows,
                style="head" if row == len(trace) - 1 else "text",
            )
        )
        figure.y += 1.2
    figure.say("On the right: the target tokens that a row knows of.")


_OUTSIDE: dict[str, Callable[[Figure], None]] = {
    "source_tokens": _tokens("source"),
    "target_tokens": _tokens("target"),
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
