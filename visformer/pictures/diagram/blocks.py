"""The blocks of a model: ids, names, parameters, and where their numbers are shown."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from visformer.language import N_, _, ngettext
from visformer.pictures.diagram.columns import Goal
from visformer.pictures.picture import Table
from visformer.values.facts import BlockParameters, Kind, ModelFacts, StackName
from visformer.values.trace import Trace
from visformer.words import layer_words

STACKS = {"encoder": N_("encoder"), "decoder": N_("decoder")}
PARTS = {  # of a layer, in lists
    "self_attention": N_("self-attention"),
    "self_attention_norm": N_("self-attention norm"),
    "cross_attention": N_("cross-attention"),
    "cross_attention_norm": N_("cross-attention norm"),
    "feed_forward": N_("feed-forward"),
    "feed_forward_norm": N_("feed-forward norm"),
}
OUTSIDE = {  # the layers, in lists
    "source_embedding": N_("source embedding"),
    "target_embedding": N_("target embedding"),
    "source_positions": N_("source positions"),
    "target_positions": N_("target positions"),
    "encoder.norm": N_("encoder norm"),
    "decoder.norm": N_("decoder norm"),
    "output": N_("output"),
}
_LAYERS = {"encoder": N_("Encoder {layer}"), "decoder": N_("Decoder {layer}")}
_PART_TITLES = {
    "self_attention": N_("Multi-head attention"),
    "self_attention.mask": N_("Mask of the multi-head attention"),
    "self_attention.add": N_("Residual connection of the multi-head attention"),
    "self_attention_norm": N_("Norm of the multi-head attention"),
    "cross_attention": N_("Multi-head cross-attention"),
    "cross_attention.mask": N_("Mask of the multi-head cross-attention"),
    "cross_attention.add": N_("Residual connection of the multi-head cross-attention"),
    "cross_attention_norm": N_("Norm of the multi-head cross-attention"),
    "feed_forward": N_("Feed-forward"),
    "feed_forward.add": N_("Residual connection of the feed-forward network"),
    "feed_forward_norm": N_("Norm of the feed-forward network"),
}
_DECODER_TITLES = {  # that differ from the encoder's
    "self_attention": N_("Masked multi-head attention"),
    "self_attention.mask": N_("Mask of the masked multi-head attention"),
    "self_attention.add": N_("Residual connection of the masked multi-head attention"),
    "self_attention_norm": N_("Norm of the masked multi-head attention"),
}
_OUTSIDE_TITLES = {
    "source_tokens": N_("Source tokens"),
    "target_tokens": N_("Target tokens"),
    "source_embedding": N_("Source embedding"),
    "target_embedding": N_("Target embedding"),
    "source_positions": N_("Positional encoding"),
    "target_positions": N_("Positional encoding"),
    "encoder.norm": N_("Final norm of the encoder"),
    "decoder.norm": N_("Final norm of the decoder"),
    "output": N_("Linear"),
    "softmax": N_("Softmax"),
    "prediction": N_("Next token"),
}


@dataclass(frozen=True, slots=True)
class BlockPath:
    """The parts of a block's id, such as ``encoder.0.self_attention``."""

    stack: str  # "encoder", "decoder", or the id of a block outside both
    layer: int | None
    part: str  # "self_attention", "self_attention.mask", "" for a whole layer

    @property
    def kind(self) -> Kind:
        """The attention that the block belongs to, or its stack's self-attention."""
        if self.part.startswith("cross_attention"):
            return "cross"
        return "encoder" if self.stack == "encoder" else "decoder"


def block_path(id: str) -> BlockPath:
    """Read a block's id."""
    stack, _dot, rest = id.partition(".")
    number, _dot, part = rest.partition(".")
    if number.isdigit():
        return BlockPath(stack, int(number), part)
    return BlockPath(stack, None, rest)


def title(id: str) -> str:
    """Name a block as the papers do."""
    path = block_path(id)
    if path.layer is None:
        return _(_OUTSIDE_TITLES.get(id, id))
    if not path.part:
        return _(_LAYERS[path.stack], layer=layer_words(path.layer))
    if path.stack == "decoder" and path.part in _DECODER_TITLES:
        return _(_DECODER_TITLES[path.part])
    return _(_PART_TITLES[path.part])


def block_words(id: str) -> str:
    """Name a block in a list, its layer from 1: encoder layer 2 self-attention.

    Names that only a file uses are kept, with spaces.
    """
    path = block_path(id)
    if path.layer is None or path.stack not in STACKS:
        return _(OUTSIDE[id]) if id in OUTSIDE else _spaced(id)
    stack, layer = _(STACKS[path.stack]), layer_words(path.layer)
    if not path.part:
        return _("{stack} {layer}", stack=stack, layer=layer)
    part = _(PARTS[path.part]) if path.part in PARTS else _spaced(path.part)
    return _("{stack} {layer} {part}", stack=stack, layer=layer, part=part)


def _spaced(id: str) -> str:
    return id.replace(".", " ").replace("_", " ")


MOST_THIN = 7  # closed layers drawn separately; beyond that, some share a box
# Where a block's numbers are shown: its name without the layer -> tab and stage.
_CHANGES: dict[str, Goal] = {
    "attention": {"tab": "attention"},
    "attention.mask": {"tab": "masks"},
    "attention.add": {"tab": "computation", "stage": "residual"},
    "attention_norm": {"tab": "computation", "stage": "residual"},
    "feed_forward": {"tab": "computation", "stage": "activation"},  # its units
    "feed_forward.add": {"tab": "computation", "stage": "feed_residual"},
    "feed_forward_norm": {"tab": "computation", "stage": "feed_residual"},
    "source_positions": {"tab": "positions"},
    "target_positions": {"tab": "positions"},
    "source_embedding": {"tab": "positions"},  # the page of its sum with the position
    "target_embedding": {"tab": "positions"},
    "decoder.norm": {"tab": "output"},
    "output": {"tab": "output"},
    "softmax": {"tab": "output"},
}


def goal(id: str) -> Goal:
    """Return where a block's numbers are shown; {} if it has none.

    Whole layers are selected without leaving the diagram.
    """
    path = block_path(id)
    if path.layer is None:
        return _CHANGES.get(id, {})
    chosen: Goal = {"kind": path.kind, "layer": path.layer}
    if not path.part:
        return chosen
    name = path.part.removeprefix("self_").removeprefix("cross_")
    return {**_CHANGES[name], **chosen}


def model_of(trace: Trace | None, opened: ModelFacts | None) -> ModelFacts | None:
    """Return the facts of the model on screen.

    A Trace from an older file does not list its blocks; they are taken from the same
    model if it is open.
    """
    if trace is None:
        return opened
    recorded = trace.model
    if recorded.blocks or opened is None or opened.digest != recorded.digest:
        return recorded
    return opened if opened.digest else recorded


class Counts:
    """The parameters of the model's blocks, and their sums."""

    def __init__(self, model: ModelFacts) -> None:
        self._parts, self._totals = _counted(model.blocks)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def total(self, start: str) -> int:
        """Count the parameters of a block, including all blocks inside it."""
        return self._totals.get(start, 0)

    def words(self, block: str) -> str:
        """Say how many parameters a block has and which it shares; "" if unknown."""
        if not self._parts:
            return ""
        part = self._parts.get(block)
        if part is None or not part.shared:
            return ngettext("{n:,} parameter", "{n:,} parameters", self.total(block))
        owner = block_words(part.shared)
        if not part.parameters:
            return _("parameters shared with the {block}", block=owner)
        return ngettext(
            "{n:,} parameter and those shared with the {block}",
            "{n:,} parameters and those shared with the {block}",
            part.parameters,
            block=owner,
        )

    def named(self, block: str) -> str:
        """Name a block, with its number of parameters if known."""
        parameters = self.words(block)
        if not parameters:
            return title(block)
        return _("{block}: {parameters}", block=title(block), parameters=parameters)

    def short(self, block: str) -> str:
        """Return a block's parameter count, or that it is shared; "" if unknown."""
        if not self._parts:
            return ""
        part = self._parts.get(block)
        if part is not None and part.shared and part.parameters:
            return _("{n:,} and shared", n=part.parameters)
        if part is not None and part.shared:
            return _("shared")
        return f"{self.total(block):,}"


@lru_cache(maxsize=4)  # models; asked for every part of a diagram
def _counted(
    blocks: tuple[BlockParameters, ...],
) -> tuple[Mapping[str, BlockParameters], Mapping[str, int]]:
    """Return each block by name, and the sums including inner blocks."""
    totals: defaultdict[str, int] = defaultdict(int)
    for part in blocks:
        inner = part.block.split(".")
        for end in range(1, len(inner) + 1):
            totals[".".join(inner[:end])] += part.parameters
    return {part.block: part for part in blocks}, totals


def names(model: ModelFacts, stack: str, layer: int) -> tuple[str, ...]:
    """Return the sublayers of a layer, in the order of the data flow.

    ``"other"`` stands for all unknown parts.
    """
    kinds = kinds_of(stack)
    there = (kind for kind in kinds if layer < model.layers(kind))
    parts = (
        "cross_attention" if kind == "cross" else "self_attention" for kind in there
    )
    return *parts, "other" if model.known is None else "feed_forward"


def kinds_of(stack: str) -> tuple[Kind, ...]:
    """Return the kinds of attention whose queries are a stack's tokens."""
    return ("encoder",) if stack == "encoder" else ("decoder", "cross")


def depth(model: ModelFacts, stack: str) -> int:
    """Return the number of layers of a stack with attention."""
    return max(model.layers(kind) for kind in kinds_of(stack))


def width_of(model: ModelFacts, stack: str) -> int | str:
    """Return the width of a stack's residual stream, or a letter if unknown."""
    name: StackName = "encoder" if stack == "encoder" else "decoder"
    facts = model.stacks.get(name)
    return "D" if facts is None else facts.d_model


def shape(*sizes: int | str) -> str:
    """Write a shape as in code: [13, 256]."""
    return f"[{', '.join(str(size) for size in sizes)}]"


def lengths(trace: Trace | None) -> tuple[int | str, int | str]:
    """Return the sentence's source and target length, or letters without a sentence."""
    if trace is None:
        return "S", "T"
    return len(trace.source), len(trace)


def shared(model: ModelFacts, block: str) -> str:
    """Return the block whose parameters this one shares; "" if none."""
    sharing = (part.shared for part in model.blocks if part.block == block)
    return next(sharing, "")


def counts_table(model: ModelFacts | None) -> Table | None:
    """Return each block's parameters and the block that it shares them with."""
    if model is None or not model.blocks:
        return None
    counts = tuple((part.parameters, block_words(part.shared)) for part in model.blocks)
    names = tuple(block_words(part.block) for part in model.blocks)
    columns = _("parameters"), _("shared with")
    return Table(names, columns, counts, _("block"))


def runs(count: int, opened: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last layer of each box of a stack, from the bottom.

    A few layers have a box each; of many, those in the middle, away from the opened
    one, share boxes.
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
