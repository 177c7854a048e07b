"""Both columns of the diagram: what enters, the layers, what comes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from visformer.pictures.diagram.blocks import (
    Counts,
    lengths,
    names,
    norm_words,
    position_words,
    scale_words,
    shape,
    softmax_words,
    title,
)
from visformer.pictures.diagram.columns import (
    ADD,
    BLOCK,
    RADIUS,
    Arrow,
    Box,
    Column,
    Point,
    chips,
)
from visformer.text import visible
from visformer.values.facts import ModelFacts
from visformer.values.trace import Trace
from visformer.words import probability

BUS = 8.0  # characters between the stacks, where the encoder's output runs
MARGIN = 0.7
WIDER = 1.5  # characters, by which the decoder is wider than the mean
SIDE = 2.5  # characters between a layer's frame and its blocks
MASK = 7.0  # characters of a mask's own block
MOST_THIN = 7  # closed layers drawn one by one; more are joined


class Stacks:
    """The encoder's and the decoder's column, from the bottom up.

    ``layer`` is opened in both, but in those stacks that are ``closed``.
    """

    def __init__(
        self,
        trace: Trace | None,
        model: ModelFacts,
        layer: int,
        width: float,
        gap: float,
        closed: frozenset[str],
    ) -> None:
        self.trace, self.model, self._layer, self._closed = trace, model, layer, closed
        self._counts = Counts(model)
        self.source, self._target = lengths(self.trace)
        decoding = self.trace is not None and len(self.trace) > 0
        right = MARGIN + width - WIDER + BUS
        self.encoder = Column(MARGIN, width - WIDER, gap)
        self.encoder.strong = self.trace is not None and not decoding
        self.decoder = Column(right, width + WIDER, gap)
        self.decoder.strong = decoding
        self.entries: list[Point] = []  # where decoder layers read the memory
        self._fill_encoder()
        self._fill_decoder()

    @property
    def height(self) -> float:
        """Lines that the taller column takes: the decoder, but for few layers."""
        return -min(self.encoder.y, self.decoder.y)

    @property
    def gaps(self) -> int:
        """How many arrows of the taller column may be longer."""
        return min((self.encoder, self.decoder), key=lambda column: column.y).gaps

    def _fill_encoder(self) -> None:
        trace = self.trace
        tokens = trace.source if trace is not None else ()
        self._fill_input(self.encoder, "source", tokens, self.source, -1)
        self._fill_stack(self.encoder, "encoder", self.source)

    def _fill_decoder(self) -> None:
        column, model, trace = self.decoder, self.model, self.trace
        config = model.config
        tokens = trace.target if trace is not None else ()
        self._fill_input(column, "target", tokens, self._target, len(tokens) - 1)
        self._fill_stack(column, "decoder", self._target)
        size = f"{config.d_model:,} → {config.target_vocabulary:,}"
        self._block(column, "output", f"Linear  {size}", inset=SIDE)
        column.up(shape(self._target, f"{config.target_vocabulary}") + " logits")
        column.box(
            f"Softmax  ({softmax_words(model)})",
            "softmax",
            style="block" if config.softmax_output else "outside",
            words=f"Softmax, {softmax_words(model)}",
            inset=SIDE,
        )
        rows = 0 if trace is None else len(trace)
        column.up(f"row {rows} of the probabilities" if rows else "")
        self._fill_prediction(column)

    def _fill_prediction(self, column: Column) -> None:
        trace = self.trace
        if trace is None or not len(trace):
            column.box("no token yet", "prediction", style="outside", inset=8)
            return
        step = trace.steps[-1]
        column.box(
            f"“{visible(step.token)}”",
            "prediction",
            detail=probability(step.probability),
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
        model, row = self.model, column.box("", f"{side}_tokens", style="row")
        config = model.config
        column.boxes[-1] = replace(
            row,
            title="" if tokens else f"no {side} tokens yet",
            words=f"{side} tokens: {length}",
        )
        shown = tuple(visible(token) for token in tokens)
        column.boxes += chips(shown, row.x + 3, row.y, row.width - 6, strong=newest)
        column.up(f"{shape(length)} {side} tokens")
        vocabulary = getattr(model.config, f"{side}_vocabulary")
        self._block(
            column,
            f"{side}_embedding",
            f"Embedding  {vocabulary:,} × {config.d_model:,}",
            inset=SIDE,
        )
        column.up(f"{shape(length, config.d_model)} {scale_words(model)}")
        self._add_positions(column, side)
        column.up(shape(length, config.d_model))

    def _add_positions(self, column: Column, side: str) -> None:
        column.y -= BLOCK
        if self.model.config.positions == "none":
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
                words=f"Positional encoding, {position_words(self.model)}",
                strong=column.strong,
            ),
            Box(
                x=column.spine - RADIUS,
                y=middle - ADD / 2,
                width=2 * RADIUS,
                height=ADD,
                title="+",
                style="add",
                strong=column.strong,
            ),
        ]
        column.beside(position_words(self.model), BLOCK)
        ends = (column.x + SIDE + wide, middle), (column.spine - RADIUS, middle)
        column.arrows.append(Arrow(points=ends, strong=column.strong))

    @property
    def _learned(self) -> bool:
        return self.model.config.positions == "learned"

    def _fill_stack(self, column: Column, stack: str, length: int | str) -> None:
        count = getattr(self.model.config, f"{stack}_layers")
        opened = -1 if stack in self._closed else min(self._layer, count - 1)
        layers = list(runs(count, opened))
        for at, (first, last) in enumerate(layers):
            if first == opened:
                self._open_layer(column, stack, first, length)
            else:
                self._thin_layer(column, stack, first, last)
            if at < len(layers) - 1:
                column.up(by=0.4)
        words = shape(length, self.model.config.d_model)
        if self.model.config.final_norm:
            column.up(words)
            self._norm(column, f"{stack}.norm", "Final norm")
        column.up(words if stack == "decoder" else "")  # the encoder's stands above

    def _thin_layer(self, column: Column, stack: str, first: int, last: int) -> None:
        name = title(f"{stack}.{first}")
        parts = [self._counts.total(f"{stack}.{n}") for n in range(first, last + 1)]
        if last > first:
            name = f"{stack.capitalize()} layers {first + 1} to {last + 1}"
        box = column.box(
            name,
            f"{stack}.{first}",
            detail=f"{sum(parts):,}" if self._counts else "",
            height=1.05,
            style="layer",
            words=f"{name}, closed",
            inset=SIDE,
        )
        if stack == "decoder":
            self.entries.append((box.x, box.centre[1]))

    def _open_layer(
        self, column: Column, stack: str, layer: int, length: int | str
    ) -> None:
        """Put one layer, its inside in a frame."""
        bottom, name = column.y, f"{stack}.{layer}"
        behind = len(column.boxes)
        parts = names(self.model, stack)
        for at, part in enumerate(parts):
            self._sublayer(column, f"{name}.{part}")
            words = (
                shape(length, self.model.config.d_model) if at < len(parts) - 1 else ""
            )
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
            title=f"{title(name)} of {getattr(self.model.config, f'{stack}_layers')}",
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
        if self.model.config.norm_first:
            self._norm(column, f"{id}_norm", "Norm")
        self._function(column, id)
        column.up(by=0.4)
        column.add(f"{id}.add", start, lane, "Residual: the input is added again")
        if self.model.config.norm_first:
            return
        self._norm(column, f"{id}_norm", "Norm")

    def _function(self, column: Column, id: str) -> None:
        """Put the sublayer's own block; an attention has its mask at the side."""
        config = self.model.config
        if id.endswith("feed_forward"):
            sizes = f"{config.d_model:,} → {config.feed_forward:,} → {config.d_model:,}"
            self._block(column, id, f"Feed-forward  {sizes}")
            return
        block = self._block(column, id, title(id))
        column.boxes[-1] = replace(block, width=block.width - MASK - 0.5)
        mask = Box(
            x=block.x + block.width - MASK,
            y=block.y,
            width=MASK,
            title="mask",
            style="mask",
            id=f"{id}.mask",
            words=title(f"{id}.mask"),
            strong=column.strong,
        )
        column.boxes.append(mask)
        if "cross" in id:
            self.entries.append((block.x, block.centre[1]))

    def _block(self, column: Column, id: str, name: str, *, inset: float = SIDE) -> Box:
        counted, short = self._counts.words(id), self._counts.short(id)
        words = f"{title(id)}, {counted} parameters" if counted else title(id)
        return column.box(name, id, detail=short, words=words, inset=inset)

    def _norm(self, column: Column, id: str, name: str) -> None:
        counted = self._counts.words(id)
        column.box(
            f"{name}  ({norm_words(self.model)})",
            id,
            detail=counted,
            style="norm",
            words=f"{title(id)}, {counted} parameters" if counted else title(id),
            inset=SIDE,
        )


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
