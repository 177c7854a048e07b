"""The model as a diagram for this sentence and step, with the inside of a chosen block.

It follows figure 1 of "Attention Is All You Need" (Vaswani et al. 2017).
"""

from dataclasses import replace

from visformer.language import _
from visformer.pictures.diagram.blocks import (
    block_path,
    depth,
    goal,
    model_of,
    shape,
    width_of,
)
from visformer.pictures.diagram.columns import (
    BLOCK,
    Arrow,
    Box,
    Drawing,
    paragraph,
    text,
)
from visformer.pictures.diagram.model_words import about, sentence
from visformer.pictures.diagram.stacks import BUS, MARGIN, Stacks
from visformer.pictures.diagram.zoom import zoom
from visformer.pictures.selection import Selection
from visformer.values.facts import STACK_OF, ModelFacts
from visformer.values.memo import Memo
from visformer.values.trace import Trace

NARROWEST = 132.0  # characters: narrower diagrams scroll
SHORTEST, LONGEST = 0.82, 1.6  # lines: length of an arrow with words beside it
_APART = Memo(most=256)  # the spacing of a model's diagram


def architecture(
    trace: Trace | None,
    opened: ModelFacts | None,
    selection: Selection,
    *,
    chosen: str = "",
    columns: float = 140.0,
    lines: float = 40.0,
    closed: frozenset[str] = frozenset(),
) -> Drawing | None:
    """Return the diagram of a Trace's model or, without one, of the ``opened`` model.

    ``chosen`` is the block whose inside is shown; ``columns`` and ``lines`` are the
    space in characters and lines, which the diagram may exceed. Stacks in ``closed``
    show no layer; in the others the selected layer is opened. None without a model.
    """
    model = model_of(trace, opened)
    if model is None:
        return None
    width = max(columns, NARROWEST)
    zoomed = min(56.0, 0.28 * width)
    each = (width - zoomed - BUS - 6 * MARGIN) / 2
    gap, high = _apart(model, selection.layer, each, lines, closed)
    bottom = max(high, min(lines, high + MARGIN)) - MARGIN
    return _joined(
        Stacks(trace, model, selection.layer, each, gap, bottom, closed),
        chosen if _exists(model, chosen) else _first(model, selection, closed),
        said=sentence(trace),
        head=selection.head,
        width=width,
        zoomed=zoomed,
        lines=max(high, lines),
    )


def _apart(
    model: ModelFacts, layer: int, width: float, lines: float, closed: frozenset[str]
) -> tuple[float, float]:
    """Return the length of an arrow, and the height of both stacks with margins."""
    name = layer, width, lines, closed
    kept: tuple[float, float] | None = _APART.find((model,), name)
    if kept is None:
        least = Stacks(None, model, layer, width, SHORTEST, 0.0, closed)
        room = max(0.0, lines - 2 * MARGIN - least.height)
        gap = min(LONGEST, SHORTEST + room / least.gaps)
        fitted = Stacks(None, model, layer, width, gap, 0.0, closed)
        kept = gap, fitted.height + 2 * MARGIN
        _APART.keep((model,), name, kept, len(kept))
    return kept


def _first(model: ModelFacts, selection: Selection, closed: frozenset[str]) -> str:
    """Return the block whose inside is shown until the user chooses one.

    It is the focused attention, or that of the last kind that the model has.
    """
    kind = selection.kind if selection.kind in model.kinds else model.kinds[-1]
    stack = STACK_OF[kind]
    if stack in closed:
        return "output" if model.known is not None else f"{stack}.0"
    part = "cross_attention" if kind == "cross" else "self_attention"
    return f"{stack}.{min(selection.layer, model.layers(kind) - 1)}.{part}"


def _exists(model: ModelFacts, chosen: str) -> bool:
    """Whether a model has a block that can be shown."""
    path = block_path(chosen)
    if path.layer is None:
        known = ("source_tokens", "target_tokens", "prediction")
        return bool(chosen) and (model.known is not None or chosen in known)
    if not path.part:
        return path.layer < depth(model, path.stack)
    attends = path.part.startswith(("self_attention", "cross_attention"))
    there = path.layer < model.layers(path.kind) if attends else True
    return there and (model.known is not None or attends)


def _joined(
    stacks: Stacks,
    chosen: str,
    *,
    said: str,
    head: int,
    width: float,
    zoomed: float,
    lines: float,
) -> Drawing:
    """Join the columns and put the inside of the chosen block beside them."""
    _connect(stacks)
    boxes = [*stacks.left.boxes, *stacks.right.boxes]
    beside = width - zoomed - MARGIN
    over, left = _about(said, stacks)
    inside, lines_inside = zoom(
        stacks.trace, stacks.model, head, chosen, beside, zoomed
    )
    bottom = max(box.y + box.height for box in inside) + MARGIN
    boxes += [*over, *inside]
    if left:
        boxes += _below(left, beside, bottom, zoomed, lines - MARGIN)
    bottom = max(box.y + box.height for box in boxes) + MARGIN / 2
    ids = {box.id: goal(box.id) for box in boxes if box.id}
    spine = stacks.right.spine
    decoding = stacks.trace is not None and len(stacks.trace) > 0
    return Drawing(
        width=width,
        height=max(stacks.height + 2 * MARGIN, bottom),
        boxes=tuple(boxes),
        arrows=(*stacks.left.arrows, *stacks.right.arrows, *lines_inside),
        beside=beside,
        chosen=chosen,
        path=((spine, stacks.bottom), (spine, stacks.right.y)) if decoding else (),
        sentence=said,
        goes={id: to for id, to in ids.items() if to},
    )


def _connect(stacks: Stacks) -> None:
    """Draw the encoder's output to every decoder layer, and the next token back in."""
    left, decoder = stacks.left, stacks.right
    bus, top = left.x + left.width + BUS / 2 - 1, left.y
    used = stacks.trace is not None and len(stacks.trace) > 0
    if stacks.entries:
        ys = [top, *(y for _x, y in stacks.entries)]
        lead = (left.spine, top), (bus, top)
        trunk = (bus, min(ys)), (bus, max(ys))
        decoder.arrows += [
            Arrow(points=lead, line="memory", strong=used, head=False),
            Arrow(points=trunk, line="memory", strong=used, head=False),
        ]
    for x, y in stacks.entries:
        ends = (bus, y), (x, y)
        decoder.arrows.append(Arrow(points=ends, line="memory", strong=used))
    if stacks.trace is not None and stacks.trace.steps:
        lane = decoder.x + decoder.width + MARGIN
        over, under = decoder.y + BLOCK / 2, stacks.bottom - BLOCK / 2
        right = decoder.x + decoder.width
        points = (right - 8, over), (lane, over), (lane, under), (right - 2, under)
        decoder.arrows.append(Arrow(points=points, line="next"))


def _about(said: str, stacks: Stacks) -> tuple[list[Box], list[str]]:
    """Describe the step and the model above the encoder; also returns what is left."""
    encoder, room = stacks.left, stacks.left.y - 1.2
    output = shape(stacks.source, width_of(stacks.model, "encoder"))
    boxes = []
    if stacks.entries:
        label = _("encoder output {shape}: K, V", shape=output)
        wide = encoder.width / 2 + BUS / 2 - 3
        at = encoder.spine + 1, room + 0.25, wide
        boxes.append(text(*at, label, small=True))
    left = [words for words in about(stacks.model) if words]
    wide, y = encoder.width + BUS / 2 - 2, MARGIN / 2
    part = paragraph(MARGIN, y, wide, words := said, strong=True)
    while part[-1].y + part[-1].height <= room:
        boxes += part
        y = part[-1].y + part[-1].height + 0.15
        if not left:
            return boxes, []
        part = paragraph(MARGIN, y, wide, words := left.pop(0))
    return boxes, [words, *left]


def _below(
    left: list[str], x: float, y: float, width: float, bottom: float
) -> list[Box]:
    """Return the rest of the description at the bottom, if it fits."""
    boxes: list[Box] = []
    for words in left:
        boxes += paragraph(x, boxes[-1].y + 1.2 if boxes else 0.0, width, words)
    lower = bottom - (boxes[-1].y + boxes[-1].height)
    if lower < y:
        return []
    return [replace(box, y=box.y + lower) for box in boxes]
