"""Both columns of the diagram: inputs, layers and outputs."""

from dataclasses import replace

from visformer.language import N_, _
from visformer.pictures import token_names
from visformer.pictures.attention.token_groups import joined_tokens
from visformer.pictures.diagram.blocks import (
    Counts,
    block_path,
    depth,
    lengths,
    names,
    runs,
    shape,
    title,
    width_of,
)
from visformer.pictures.diagram.columns import (
    ADD,
    BLOCK,
    RADIUS,
    Arrow,
    Box,
    Column,
    Point,
    Style,
    chips,
)
from visformer.pictures.diagram.figure import put_prediction
from visformer.pictures.diagram.model_words import (
    OTHER_BLOCKS,
    attention_words,
    norm_words,
    position_words,
    scale_words,
)
from visformer.values.changes.position_change import adds_positions
from visformer.values.facts import ModelFacts, SentenceSide
from visformer.values.trace import Trace

BUS = 8.0  # characters between the stacks, where the encoder's output runs
MARGIN = 0.7
WIDER = 1.5  # characters by which the decoder exceeds the mean width
SIDE = 2.5  # characters between a layer's frame and its blocks
MASK = 7.0  # characters: the width of a mask's block
JOINED = {
    "encoder": N_("Encoder layers {first} to {last}"),
    "decoder": N_("Decoder layers {first} to {last}"),
}


class Stacks:
    """The encoder's and the decoder's column, from ``bottom`` up.

    ``layer`` is opened in both, except in ``closed`` stacks. Heights do not depend on
    the step or on a Trace.
    """

    def __init__(
        self,
        trace: Trace | None,
        model: ModelFacts,
        layer: int,
        width: float,
        gap: float,
        bottom: float,
        closed: frozenset[str],
    ) -> None:
        self.bottom = bottom
        self.trace, self.model, self._layer, self._closed = trace, model, layer, closed
        self._counts = Counts(model)
        self.source, self._target = lengths(self.trace)
        decoding = self.trace is not None and len(self.trace) > 0
        right = MARGIN + width - WIDER + BUS
        self.left = Column(MARGIN, width - WIDER, gap, bottom)
        self.left.strong = self.trace is not None and not decoding
        self.right = Column(right, width + WIDER, gap, bottom)
        self.right.strong = decoding
        self.entries: list[Point] = []  # where decoder layers read the encoder's output
        encoder = {"encoder", "cross"} & set(model.kinds)
        if not {"decoder", "cross"} & set(model.kinds):
            self.right.strong = self.left.strong
            self._fill_encoder(self.right)
        elif encoder:
            self._fill_encoder(self.left)
            self._fill_decoder()
        else:
            self._fill_decoder()

    @property
    def height(self) -> float:
        """The height of the taller column, in lines."""
        return self.bottom - min(self.left.y, self.right.y)

    @property
    def gaps(self) -> int:
        """The number of extensible arrows in the taller column."""
        return min((self.left, self.right), key=lambda column: column.y).gaps

    def _fill_encoder(self, column: Column) -> None:
        trace = self.trace
        tokens = token_names.names(trace, "source") if trace is not None else ()
        self._fill_input(column, "source", tokens, self.source, -1)
        if "encoder" in self.model.kinds:
            self._fill_stack(column, "encoder", self.source)
        else:
            column.box(_("encoder: not in this trace"), style="outside", inset=SIDE)
            column.up()

    def _fill_decoder(self) -> None:
        column, trace = self.right, self.trace
        tokens = token_names.names(trace, "target") if trace is not None else ()
        self._fill_input(column, "target", tokens, self._target, len(tokens) - 1)
        self._fill_stack(column, "decoder", self._target)
        if self.model.known is None:
            column.box(_("output: not known"), style="outside", inset=SIDE)
        else:
            self._fill_output(column)
        rows = 0 if trace is None or not trace.steps else len(trace)
        column.up(_("row {row} of the probabilities", row=rows) if rows else "")
        put_prediction(column, trace)

    def _fill_output(self, column: Column) -> None:
        """Draw the output projection and the softmax."""
        config = self.model.config
        self._block(
            column,
            "output",
            _(
                "Linear  {width:,} → {vocabulary:,}",
                width=config.d_model,
                vocabulary=config.target_vocabulary,
            ),
        )
        logits = shape(self._target, config.target_vocabulary)
        column.up(_("{shape} logits", shape=logits))
        inside = config.softmax_output
        column.box(
            _("Softmax  (inside the model)")
            if inside
            else _("Softmax  (outside the model)"),
            "softmax",
            style="block" if inside else "outside",
            words=_("Softmax, inside the model")
            if inside
            else _("Softmax, outside the model"),
            inset=SIDE,
        )

    def _fill_input(
        self,
        column: Column,
        side: SentenceSide,
        tokens: tuple[str, ...],
        length: int | str,
        newest: int,
    ) -> None:
        """Draw tokens, embedding and position."""
        row, trace = column.box("", f"{side}_tokens", style="row"), self.trace
        sizes = shape(length)
        if side == "source":
            empty = _("no source tokens yet")
            words = _("source tokens: {length}", length=length)
            label = _("{shape} source tokens", shape=sizes)
        else:
            empty = _("no target tokens yet")
            words = _("target tokens: {length}", length=length)
            label = _("{shape} target tokens", shape=sizes)
        column.boxes[-1] = replace(row, title="" if tokens else empty, words=words)
        joined = frozenset[int]() if trace is None else joined_tokens(trace, side)
        place = row.x + 3, row.y, row.width - 6
        column.boxes += chips(tokens, *place, strong=newest, joined=joined)
        column.up(label)
        if self.model.known is None:
            column.box(_("input: not known"), style="outside", inset=SIDE)
            stack = "encoder" if side == "source" else "decoder"
            column.up(shape(length, width_of(self.model, stack)))
        else:
            self._fill_embedding(column, side, length)

    def _fill_embedding(
        self, column: Column, side: SentenceSide, length: int | str
    ) -> None:
        """Draw the embedding and the position that is added to it."""
        model, config = self.model, self.model.config
        self._block(
            column,
            f"{side}_embedding",
            _(
                "Embedding  {vocabulary:,} × {width:,}",
                vocabulary=getattr(config, f"{side}_vocabulary"),
                width=config.d_model,
            ),
        )
        column.up(
            _(
                "{shape} {scale}",
                shape=shape(length, config.d_model),
                scale=scale_words(model),
            )
        )
        self._add_positions(column, side)
        column.up(shape(length, config.d_model))

    def _add_positions(self, column: Column, side: SentenceSide) -> None:
        column.y -= BLOCK
        change = None if self.trace is None else self.trace.intervention.positions
        if not adds_positions(self.model, change):
            ends = (column.spine, column.y + BLOCK), (column.spine, column.y)
            column.arrows.append(Arrow(points=ends, strong=column.strong, head=False))
            column.beside(_("no positional encoding"), BLOCK)
            return
        middle = column.y + BLOCK / 2
        wide = column.width / 2 - SIDE - 4.5
        name, encoding = f"{side}_positions", position_words(self.model)
        encoding = encoding if change is None else str(change)
        column.boxes += [
            Box(
                x=column.x + SIDE,
                y=column.y,
                width=wide,
                title=_("Positions"),
                detail=self._counts.short(name) if self._learned else "",
                style="block",
                id=name,
                words=_("Positional encoding, {encoding}", encoding=encoding),
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
        column.beside(encoding, BLOCK)
        ends = (column.x + SIDE + wide, middle), (column.spine - RADIUS, middle)
        column.arrows.append(Arrow(points=ends, strong=column.strong))

    @property
    def _learned(self) -> bool:
        return self.model.config.positions == "learned"

    def _fill_stack(self, column: Column, stack: str, length: int | str) -> None:
        count = depth(self.model, stack)
        opened = -1 if stack in self._closed else min(self._layer, count - 1)
        layers = list(runs(count, opened))
        for at, (first, last) in enumerate(layers):
            if first == opened:
                self._open_layer(column, stack, first, length)
            else:
                self._thin_layer(column, stack, first, last)
            if at < len(layers) - 1:
                column.up(by=0.4)
        words = shape(length, width_of(self.model, stack))
        if self.model.known is not None and self.model.config.final_norm:
            column.up(words)
            name = _("Final norm  ({norm})", norm=norm_words(self.model))
            self._block(column, f"{stack}.norm", name, "norm")
        beside = column is self.left  # the encoder's output has its label above
        column.up("" if beside else words)

    def _thin_layer(self, column: Column, stack: str, first: int, last: int) -> None:
        name = title(f"{stack}.{first}")
        parts = [self._counts.total(f"{stack}.{n}") for n in range(first, last + 1)]
        if last > first:
            name = _(JOINED[stack], first=first + 1, last=last + 1)
        box = column.box(
            name,
            f"{stack}.{first}",
            detail=f"{sum(parts):,}" if self._counts else "",
            height=1.05,
            style="layer",
            words=_("{layer}, closed", layer=name),
            inset=SIDE,
        )
        if stack == "decoder" and "cross" in self.model.kinds:
            self.entries.append((box.x, box.centre[1]))

    def _open_layer(
        self, column: Column, stack: str, layer: int, length: int | str
    ) -> None:
        """Draw one layer with its inside in a frame."""
        bottom, name = column.y, f"{stack}.{layer}"
        behind = len(column.boxes)
        parts = names(self.model, stack, layer)
        for at, part in enumerate(parts):
            self._sublayer(column, f"{name}.{part}")
            words = shape(length, width_of(self.model, stack))
            words = words if at < len(parts) - 1 else ""
            column.up(words, by=None if words else 0.4)
        column.y -= 1.0
        top = column.y
        count = depth(self.model, stack)
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
            title=_("{layer} of {count}", layer=title(name), count=count),
            detail=self._counts.short(name),
            style="layer",
            id=name,
            words=_("{layer}, opened", layer=title(name)),
            strong=column.strong,
        )
        column.boxes.insert(behind, frame)
        column.boxes.append(title_box)

    def _sublayer(self, column: Column, id: str) -> None:
        """Draw a sublayer with its norm and residual, in the model's order."""
        column.up(by=0.3)
        if self.model.known is None:
            self._known_function(column, id)
            return
        start, lane = column.y, column.x + column.width - 1.2
        column.up(by=0.4)
        norm = _("Norm  ({norm})", norm=norm_words(self.model))
        if self.model.config.norm_first:
            self._block(column, f"{id}_norm", norm, "norm")
        self._function(column, id)
        column.up(by=0.4)
        words = _("Residual connection: the sublayer's input is added to its output")
        column.add(f"{id}.add", start, lane, words)
        if not self.model.config.norm_first:
            self._block(column, f"{id}_norm", norm, "norm")

    def _function(self, column: Column, id: str) -> None:
        """Draw the sublayer's block; an attention has its mask beside it."""
        config = self.model.config
        if id.endswith("feed_forward"):
            name = _(
                "Feed-forward  {width:,} → {inner:,} → {width:,}",
                width=config.d_model,
                inner=config.feed_forward,
            )
            self._block(column, id, name)
            return
        self._attention(column, id, self._block(column, id, title(id)))

    def _known_function(self, column: Column, id: str) -> None:
        """Draw the known part of a sublayer: an attention, or a block for the rest."""
        path = block_path(id)
        if path.part == "other":
            column.box(_(OTHER_BLOCKS), style="outside", inset=SIDE)
            return
        name = attention_words(self.model, path.kind)
        self._attention(column, id, self._block(column, id, name))

    def _attention(self, column: Column, id: str, block: Box) -> None:
        column.boxes[-1] = replace(block, width=block.width - MASK - 0.5)
        mask = Box(
            x=block.x + block.width - MASK,
            y=block.y,
            width=MASK,
            title=_("mask"),
            style="mask",
            id=f"{id}.mask",
            words=title(f"{id}.mask"),
            strong=column.strong,
        )
        column.boxes.append(mask)
        if "cross" in id:
            self.entries.append((block.x, block.centre[1]))

    def _block(self, column: Column, id: str, name: str, style: Style = "block") -> Box:
        return column.box(
            name,
            id,
            detail=self._counts.short(id),
            style=style,
            words=self._counts.named(id),
            inset=SIDE,
        )
