"""The model as a diagram, for this sentence and step; inside of the chosen block.

It follows figure 1 of "Attention Is All You Need" (Vaswani et al. 2017).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from visformer.state.pictures.blocks import (
    Counts,
    about,
    changes,
    lengths,
    model_of,
    names,
    norm_words,
    position_words,
    scale_words,
    sentence,
    shape,
    softmax_words,
    title,
)
from visformer.state.pictures.diagram import (
    BLOCK,
    Arrow,
    Box,
    Column,
    Drawing,
    Point,
    chips,
    paragraph,
    text,
)
from visformer.state.pictures.zoom import zoom
from visformer.state.state import State
from visformer.text import visible
from visformer.trace import ModelFacts, Trace

NARROWEST = 132.0  # characters: a diagram in less room is scrolled
BUS = 8.0  # characters between the stacks, where the encoder's output runs
MARGIN = 1.0
WIDER = 1.5  # characters, by which the decoder is wider than the mean
SIDE = 2.5  # characters between a layer's frame and its blocks
MASK = 7.0  # characters of a mask's own block
SHORTEST, LONGEST = 0.85, 1.6  # lines of an arrow with words beside it
MOST_THIN = 7  # closed layers drawn one by one; more are joined


def architecture(
    state: State,
    *,
    chosen: str = "",
    columns: float = 140.0,
    lines: float = 40.0,
    closed: frozenset[str] = frozenset(),
) -> Drawing | None:
    """Return the diagram of the model on screen; None without a model.

    ``chosen`` is the block whose inside is shown; ``columns`` and ``lines`` the room
    there is, in characters and lines, of which it may take more. Of the stacks in
    ``closed`` no layer is opened; of the others the State's layer is.
    """
    model = model_of(state)
    if model is None:
        return None
    width = max(columns, NARROWEST)
    zoomed = min(56.0, 0.28 * width)
    each = (width - zoomed - BUS - 6 * MARGIN) / 2
    room = lines - 2 * MARGIN
    one, two = (
        _Builder(state, model, each, gap, closed).height() for gap in (1.0, 2.0)
    )
    gap = 1.0 + (room - one) / (two - one)
    builder = _Builder(state, model, each, max(SHORTEST, min(LONGEST, gap)), closed)
    return builder.drawing(chosen or _first(model, state, closed), width, zoomed, lines)


def _first(model: ModelFacts, state: State, closed: frozenset[str]) -> str:
    """Return the block that is shown inside before any was chosen."""
    if "decoder" in closed:
        return "output"
    layer = min(state.layer, model.decoder_layers - 1)
    return f"decoder.{layer}.cross_attention"


class _Builder:
    """Puts both columns together."""

    def __init__(
        self,
        state: State,
        model: ModelFacts,
        width: float,
        gap: float,
        closed: frozenset[str],
    ) -> None:
        self._state, self._model, self._closed = state, model, closed
        self._counts = Counts(model)
        self._trace: Trace | None = state.shown
        self._source, self._target = lengths(self._trace)
        decoding = self._trace is not None and len(self._trace) > 0
        right = MARGIN + width - WIDER + BUS
        self._encoder = Column(MARGIN, width - WIDER, gap)
        self._encoder.strong = self._trace is not None and not decoding
        self._decoder = Column(right, width + WIDER, gap)
        self._decoder.strong = decoding
        self._entries: list[Point] = []  # where decoder layers read the memory
        self._fill_encoder()
        self._fill_decoder()

    def height(self) -> float:
        """Lines that the taller column takes."""
        return -min(self._encoder.y, self._decoder.y)

    def drawing(
        self, chosen: str, width: float, zoomed: float, lines: float
    ) -> Drawing:
        """Join the columns, and put the chosen block's inside beside them."""
        state, model = self._state, self._model
        high = self.height() + 2 * MARGIN
        self._connect(high)
        boxes, arrows = _ordered(self._encoder, self._decoder)
        down = max(high, min(lines, high + MARGIN)) - MARGIN
        boxes = [replace(box, y=box.y + down) for box in boxes]
        arrows = [_lowered(arrow, down) for arrow in arrows]
        beside = width - zoomed - MARGIN
        over, left = self._about(down)
        inside, lines_inside = zoom(state, model, chosen, beside, zoomed)
        bottom = max(box.y + box.height for box in inside) + MARGIN
        boxes += [*over, *inside]
        if left:
            boxes += _below(left, beside, bottom, zoomed, max(high, lines) - MARGIN)
        bottom = max(box.y + box.height for box in boxes) + MARGIN / 2
        ids = {box.id: changes(box.id) for box in boxes if box.id}
        spine = self._decoder.spine
        first, last = down + self._decoder.y, down
        return Drawing(
            width=width,
            height=max(high, bottom),
            boxes=tuple(boxes),
            arrows=(*arrows, *lines_inside),
            beside=beside,
            chosen=chosen,
            path=((spine, last), (spine, first)) if self._decoder.strong else (),
            sentence=sentence(state),
            goes={id: change for id, change in ids.items() if change},
        )

    # ---- columns ---------------------------------------------------------------

    def _fill_encoder(self) -> None:
        trace = self._trace
        tokens = trace.source if trace is not None else ()
        self._fill_input(self._encoder, "source", tokens, self._source, -1)
        self._fill_stack(self._encoder, "encoder", self._source)

    def _fill_decoder(self) -> None:
        column, model, trace = self._decoder, self._model, self._trace
        tokens = trace.target if trace is not None else ()
        self._fill_input(column, "target", tokens, self._target, len(tokens) - 1)
        self._fill_stack(column, "decoder", self._target)
        size = f"{model.d_model:,} → {model.target_vocabulary:,}"
        self._block(column, "output", f"Linear  {size}", inset=SIDE)
        column.up(shape(self._target, f"{model.target_vocabulary}") + " logits")
        column.box(
            f"Softmax  ({softmax_words(model)})",
            "softmax",
            style="block" if model.softmax_output else "outside",
            words=f"Softmax, {softmax_words(model)}",
            inset=SIDE,
        )
        column.up(f"row {len(trace) - 1} of the probabilities" if trace else "")
        self._fill_prediction(column)

    def _fill_prediction(self, column: Column) -> None:
        trace = self._trace
        if trace is None or not len(trace):
            column.box("no token yet", "prediction", style="outside", inset=8)
            return
        step = trace.steps[-1]
        column.box(
            f"“{visible(step.token)}”",
            "prediction",
            detail=f"{step.probability:.4f}",
            style="token",
            words=f"Step {len(trace)} gives {visible(step.token)}",
            inset=8,
        )

    def _fill_input(
        self,
        column: Column,
        side: str,
        tokens: tuple[str, ...],
        length: int | str,
        newest: int,
    ) -> None:
        """Put tokens, embedding and position."""
        model, row = self._model, column.box("", f"{side}_tokens", style="row")
        column.boxes[-1] = replace(
            row,
            title="" if tokens else f"no {side} tokens yet",
            words=f"{side} tokens: {length}",
        )
        shown = tuple(visible(token) for token in tokens)
        column.boxes += chips(shown, row.x, row.y, row.width, strong=newest)
        column.up(f"{shape(length)} {side} tokens")
        vocabulary = getattr(model, f"{side}_vocabulary")
        self._block(
            column,
            f"{side}_embedding",
            f"Embedding  {vocabulary:,} × {model.d_model:,}",
            inset=SIDE,
        )
        column.up(f"{shape(length, model.d_model)} {scale_words(model)}")
        self._add_positions(column, side)
        column.up(shape(length, model.d_model))

    def _add_positions(self, column: Column, side: str) -> None:
        column.y -= BLOCK
        if self._model.positions == "none":
            ends = (column.spine, column.y + BLOCK), (column.spine, column.y)
            column.arrows.append(Arrow(points=ends, strong=column.strong, head=False))
            column.beside("no positional encoding", BLOCK)
            return
        middle = column.y + BLOCK / 2
        wide = column.width / 2 - SIDE - 4.5
        name = f"{side}_positions"
        column.boxes += [
            Box(
                x=column.x + SIDE,
                y=column.y,
                width=wide,
                title="Positions",
                detail=self._counts.words(name) if self._learned else "",
                style="block",
                id=name,
                words=f"Positional encoding, {position_words(self._model)}",
                strong=column.strong,
            ),
            Box(
                x=column.spine - 1.3,
                y=middle - 0.55,
                width=2.6,
                height=1.1,
                title="+",
                style="add",
                strong=column.strong,
            ),
        ]
        column.beside(position_words(self._model), BLOCK)
        ends = (column.x + SIDE + wide, middle), (column.spine - 1.3, middle)
        column.arrows.append(Arrow(points=ends, strong=column.strong))

    @property
    def _learned(self) -> bool:
        return self._model.positions == "learned"

    def _fill_stack(self, column: Column, stack: str, length: int | str) -> None:
        count = getattr(self._model, f"{stack}_layers")
        opened = -1 if stack in self._closed else min(self._state.layer, count - 1)
        layers = list(runs(count, opened))
        for at, (first, last) in enumerate(layers):
            if first == opened:
                self._open_layer(column, stack, first, length)
            else:
                self._thin_layer(column, stack, first, last)
            if at < len(layers) - 1:
                column.up(by=0.4)
        words = shape(length, self._model.d_model)
        if self._model.final_norm:
            column.up(words)
            self._norm(column, f"{stack}.norm", "Final norm")
        column.up(words if stack == "decoder" else "")  # the encoder's stands above

    def _thin_layer(self, column: Column, stack: str, first: int, last: int) -> None:
        name = title(f"{stack}.{first}")
        parts = [self._counts.total(f"{stack}.{n}") for n in range(first, last + 1)]
        if last > first:
            name = f"{stack.capitalize()} layers {first + 1} to {last + 1}"
        made = column.box(
            name,
            f"{stack}.{first}",
            detail=f"{sum(parts):,}" if self._counts else "",
            height=1.05,
            style="layer",
            words=f"{name}, closed",
            inset=SIDE,
        )
        if stack == "decoder":
            self._entries.append((made.x, made.centre[1]))

    def _open_layer(
        self, column: Column, stack: str, layer: int, length: int | str
    ) -> None:
        """Put one layer, its inside in a frame."""
        bottom, name = column.y, f"{stack}.{layer}"
        behind = len(column.boxes)
        parts = names(self._model, stack)
        for at, part in enumerate(parts):
            self._sublayer(column, f"{name}.{part}")
            words = shape(length, self._model.d_model) if at < len(parts) - 1 else ""
            column.up(words, by=None if words else 0.4)
        column.y -= 1.0
        top = column.y
        counted = self._counts.words(name)
        frame = Box(
            x=column.x,
            y=top,
            width=column.width,
            height=bottom - top,
            style="frame",
            strong=column.strong,
        )
        title_box = Box(
            x=column.x,
            y=top,
            width=column.width,
            height=1.1,
            title=f"{title(name)} of {getattr(self._model, f'{stack}_layers')}",
            detail=counted,
            style="layer",
            id=name,
            words=f"{title(name)}, opened",
            strong=column.strong,
        )
        column.boxes.insert(behind, frame)
        column.boxes.append(title_box)

    def _sublayer(self, column: Column, id: str) -> None:
        """Put a sublayer with its norm, residual and +, in the order of the model."""
        column.up(by=0.3)
        start, lane = column.y, column.x + column.width - 1.2
        column.up(by=0.4)
        if self._model.norm_first:
            self._norm(column, f"{id}_norm", "Norm")
        self._function(column, id)
        column.up(by=0.4)
        column.add(f"{id}.add", start, lane, "Residual: the input is added again")
        if self._model.norm_first:
            return
        self._norm(column, f"{id}_norm", "Norm")

    def _function(self, column: Column, id: str) -> None:
        """Put the sublayer's own block; an attention has its mask at the side."""
        model = self._model
        if id.endswith("feed_forward"):
            sizes = f"{model.d_model:,} → {model.feed_forward:,} → {model.d_model:,}"
            self._block(column, id, f"Feed-forward  {sizes}")
            return
        made = self._block(column, id, title(id))
        column.boxes[-1] = replace(made, width=made.width - MASK - 0.5)
        mask = Box(
            x=made.x + made.width - MASK,
            y=made.y,
            width=MASK,
            title="mask",
            style="mask",
            id=f"{id}.mask",
            words=title(f"{id}.mask"),
            strong=column.strong,
        )
        column.boxes.append(mask)
        if "cross" in id:
            self._entries.append((made.x, made.centre[1]))

    def _block(self, column: Column, id: str, name: str, *, inset: float = SIDE) -> Box:
        counted, short = self._counts.words(id), self._counts.short(id)
        words = f"{title(id)}, {counted} parameters" if counted else title(id)
        return column.box(name, id, detail=short, words=words, inset=inset)

    def _norm(self, column: Column, id: str, name: str) -> None:
        counted = self._counts.words(id)
        column.box(
            f"{name}  ({norm_words(self._model)})",
            id,
            detail=counted,
            style="norm",
            words=f"{title(id)}, {counted} parameters" if counted else title(id),
            inset=SIDE,
        )

    # ---- between and around ------------------------------------------------------

    def _connect(self, high: float) -> None:
        """Lead the encoder's output to every decoder layer, the choice back in."""
        encoder, decoder = self._encoder, self._decoder
        bus = encoder.x + encoder.width + BUS / 2 - 1
        top = encoder.y
        used = decoder.strong
        ys = [top, *(y for _, y in self._entries)]
        lead = (encoder.spine, top), (bus, top)
        trunk = (bus, min(ys)), (bus, max(ys))
        decoder.arrows += [
            Arrow(points=lead, line="memory", strong=used, head=False),
            Arrow(points=trunk, line="memory", strong=used, head=False),
        ]
        for x, y in self._entries:
            ends = (bus, y), (x, y)
            decoder.arrows.append(Arrow(points=ends, line="memory", strong=used))
        if used:
            lane = decoder.x + decoder.width + MARGIN
            over, under = decoder.y + BLOCK / 2, -BLOCK / 2
            right = decoder.x + decoder.width
            points = (right - 8, over), (lane, over), (lane, under), (right, under)
            decoder.arrows.append(Arrow(points=points, line="next"))

    def _about(self, down: float) -> tuple[list[Box], list[str]]:
        """Say what the step and the model are, over the encoder.

        Returns also what found no room there.
        """
        encoder, room = self._encoder, self._encoder.y + down - 1.2
        label = f"encoder output {shape(self._source, self._model.d_model)}: K, V"
        made = [
            text(
                encoder.spine + 1,
                room + 0.25,
                encoder.width / 2 + BUS / 2 - 3,
                label,
                small=True,
            )
        ]
        left = [words for words in about(self._model) if words]
        wide, y = encoder.width + BUS / 2 - 2, MARGIN / 2
        part = paragraph(MARGIN, y, wide, sentence(self._state), strong=True)
        while part[-1].y + part[-1].height <= room:
            made += part
            y = part[-1].y + part[-1].height + 0.15
            if not left:
                return made, []
            part = paragraph(MARGIN, y, wide, left.pop(0))
        return made, [" ".join(line.title for line in part), *left]


def runs(count: int, opened: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last layer of each box of a stack, from the bottom.

    Each layer has its own box where they are few; else those in the middle, away from
    the opened one, share one.
    """
    kept = {0, 1, count - 2, count - 1, opened - 1, opened, opened + 1}
    layer = 0
    while layer < count:
        last = layer
        if count > MOST_THIN + 1 and layer not in kept:
            while last + 1 < count and last + 1 not in kept:
                last += 1
        yield layer, last
        layer = last + 1


def _below(
    left: list[str], x: float, y: float, width: float, bottom: float
) -> list[Box]:
    """Return what is left to say about the model, at the bottom, if there is room."""
    made: list[Box] = []
    for words in left:
        made += paragraph(x, made[-1].y + 1.2 if made else 0.0, width, words)
    lower = bottom - (made[-1].y + made[-1].height)
    if lower < y:
        return []
    return [replace(box, y=box.y + lower) for box in made]


def _ordered(*columns: Column) -> tuple[list[Box], list[Arrow]]:
    boxes = [box for column in columns for box in column.boxes]
    return boxes, [arrow for column in columns for arrow in column.arrows]


def _lowered(arrow: Arrow, by: float) -> Arrow:
    return replace(arrow, points=tuple((x, y + by) for x, y in arrow.points))
