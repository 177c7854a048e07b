"""The blocks of a model in words and numbers: what each is, and its parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from visformer.pictures.diagram.columns import Goal
from visformer.pictures.picture import Table
from visformer.text import visible
from visformer.values.config import ModelConfig
from visformer.values.facts import Kind, ModelFacts
from visformer.values.trace import Trace
from visformer.words import ACTIVATION_NAMES, count, layer_words, number, probability

NORMS = {
    "layer": "LayerNorm",
    "unbiased": "LayerNorm with variance over D − 1",
    "rms": "RMSNorm",
}
POSITIONS = {
    "sinusoidal": "sinusoidal",
    "halves": "sinusoidal, sines first",
    "learned": "learned",
    "none": "none",
}
AXES = {
    "time": "",
    "batch": ", by row of the batch",
    "restart": ", restarting at each step",
}
BIASES = {"all": "all", "none": "none", "value_output": "V and output only"}
# What leads to a block's numbers: its name without the layer -> tab and stage.
_CHANGES: dict[str, Goal] = {
    "attention": {"tab": "attention"},
    "attention.mask": {"tab": "masks"},
    "attention.add": {"tab": "computation", "stage": "residual"},
    "attention_norm": {"tab": "computation", "stage": "residual"},
    "feed_forward": {"tab": "computation", "stage": "w1"},
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


@dataclass(frozen=True, slots=True)
class BlockPath:
    """The parts of a block's id, such as ``encoder.0.self_attention``."""

    stack: str  # "encoder", "decoder", or the id of a block outside of both
    layer: int | None
    part: str  # "self_attention", "self_attention.mask", "" for a whole layer

    @property
    def kind(self) -> Kind:
        """The attention that the block belongs to, or its stack's own."""
        if self.part.startswith("cross_attention"):
            return "cross"
        return "encoder" if self.stack == "encoder" else "decoder"


def block_path(id: str) -> BlockPath:
    """Read a block's id."""
    stack, _, rest = id.partition(".")
    number, _, part = rest.partition(".")
    if number.isdigit():
        return BlockPath(stack, int(number), part)
    return BlockPath(stack, None, rest)


def goal(id: str) -> Goal:
    """Return where a block's numbers stand; {} where it has none.

    A whole layer is chosen where it stands.
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
    """Return what is known of the model on screen.

    A Trace from an older file does not tell its blocks; the same model, open, does.
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
        self._parts = {part.block: part for part in model.blocks}

    def __bool__(self) -> bool:
        return bool(self._parts)

    def total(self, start: str) -> int:
        """Count a block and all that is inside of it."""
        return sum(
            part.parameters
            for name, part in self._parts.items()
            if name == start or name.startswith(start + ".")
        )

    def words(self, block: str) -> str:
        """Return a block's count, and what it shares; "" where it is not known."""
        if not self._parts:
            return ""
        part = self._parts.get(block)
        if part is None:
            return f"{self.total(block):,}"
        if not part.shared:
            return f"{part.parameters:,}"
        own = f"{part.parameters:,} + " if part.parameters else ""
        return f"{own}shared: {part.shared.replace('_', ' ')}"

    def short(self, block: str) -> str:
        """Return a block's count alone, or that it is shared."""
        part = self._parts.get(block)
        return "shared" if part is not None and part.shared else self.words(block)


def names(model: ModelFacts, stack: str) -> tuple[str, ...]:
    """Return the sublayers of a stack's layers, as the data pass them."""
    crossed = () if stack == "encoder" else ("cross_attention",)
    return ("self_attention", *crossed, "feed_forward")


def title(id: str) -> str:
    """Name a block as the papers do."""
    path = block_path(id)
    if path.layer is None:
        return _OUTSIDE.get(id, id)
    part, _, what = path.part.partition(".")
    stack = f"{path.stack.capitalize()} {layer_words(path.layer)}"
    if not part:
        return stack
    if part.endswith("_norm"):
        return f"Norm of {_sublayer(path.stack, part.removesuffix('_norm'))}"
    if what:
        return f"{what.capitalize()} of {_sublayer(path.stack, part)}"
    name = _sublayer(path.stack, part)
    return name[0].upper() + name[1:]


def block_words(id: str) -> str:
    """Name a block in a list, its layer from 1: encoder layer 2 self attention."""
    path = block_path(id)
    if path.layer is None:
        return id.replace(".", " ").replace("_", " ")
    part = path.part.replace(".", " ").replace("_", " ")
    return f"{path.stack} {layer_words(path.layer)} {part}".rstrip()


def _sublayer(stack: str, part: str) -> str:
    if part == "self_attention":
        return f"{'masked ' if stack == 'decoder' else ''}multi-head attention"
    return {
        "cross_attention": "multi-head cross-attention",
        "feed_forward": "feed-forward",
    }[part]


_OUTSIDE = {
    "source_tokens": "Source tokens",
    "target_tokens": "Target tokens",
    "source_embedding": "Source embedding",
    "target_embedding": "Target embedding",
    "source_positions": "Positional encoding",
    "target_positions": "Positional encoding",
    "encoder.norm": "Final norm of the encoder",
    "decoder.norm": "Final norm of the decoder",
    "output": "Linear",
    "softmax": "Softmax",
    "prediction": "Next token",
}


def shape(*sizes: int | str) -> str:
    """Write a shape as in code: [13, 256]."""
    return f"[{', '.join(str(size) for size in sizes)}]"


def lengths(trace: Trace | None) -> tuple[int | str, int | str]:
    """Return this sentence's source and target length; letters without a sentence."""
    if trace is None:
        return "S", "T"
    return len(trace.source), len(trace)


def shared(model: ModelFacts, block: str) -> str:
    """Return the block whose parameters this one uses, "" for none."""
    sharing = (part.shared for part in model.blocks if part.block == block)
    return next(sharing, "")


def scale_words(model: ModelFacts) -> str:
    """Say what embeddings are multiplied by."""
    config = model.config
    if not config.embedding_scale:
        return "not scaled"
    return f"× √{config.d_model} = {number(math.sqrt(config.d_model))}"


def position_words(model: ModelFacts) -> str:
    """Say what is added for a token's position."""
    config = model.config
    kind = POSITIONS.get(config.positions, config.positions)
    if config.positions == "none":
        return kind
    return kind + AXES.get(config.position_axis, "")


def softmax_words(model: ModelFacts) -> str:
    """Say whether the softmax is the model's own."""
    return f"{'in' if model.config.softmax_output else 'out'}side the model"


def activation(config: ModelConfig) -> str:
    """Name the feed-forward's activation."""
    return ACTIVATION_NAMES.get(config.activation, config.activation)


def norm_words(model: ModelFacts) -> str:
    """Name the norm."""
    return NORMS.get(model.config.norm, model.config.norm)


def about(model: ModelFacts) -> tuple[str, ...]:
    """Say what the model is, a sentence a line, the most telling first."""
    config = model.config
    counts = Counts(model)
    placed = "pre-norm: the norm before each sublayer"
    if not config.norm_first:
        placed = "post-norm (Add & Norm): the norm after each +"
    final = "; final norms" if config.final_norm else "; no final norms"
    return (
        f"{config.encoder_layers} + {config.decoder_layers} layers, {placed}{final}",
        _parameters(model, counts),
        f"width {config.d_model:,} = {config.heads} heads × {config.head_size}; "
        f"feed-forward {config.feed_forward:,}, {activation(config)}"
        + (", gated" if config.gated else ""),
        _biases(model),
        _ties(model),
    )


def _parameters(model: ModelFacts, counts: Counts) -> str:
    total = f"{model.parameters:,} parameters"
    if not counts:
        return f"{total}; the file does not tell those of the blocks"
    sides = ("source", "target")
    tables = [f"{side}_{what}" for side in sides for what in ("embedding", "positions")]
    embeddings = sum(map(counts.total, tables))
    output = counts.short("output")
    return (
        f"{total}: embeddings {embeddings:,}, encoder {counts.total('encoder'):,}, "
        f"decoder {counts.total('decoder'):,}, output {output}"
    )


def _biases(model: ModelFacts) -> str:
    config = model.config
    first, second = BIASES[config.encoder_bias], BIASES[config.decoder_bias]
    attention = first if first == second else f"encoder {first}, decoder {second}"
    inner = {
        "W1": config.w1_bias,
        "gate": config.gated and config.gate_bias,
        "W2": config.w2_bias,
    }
    feed = ", ".join(name for name, there in inner.items() if there) or "none"
    output = "yes" if config.output_bias else "no"
    return f"biases: attention {attention}; feed-forward {feed}; output {output}"


def _ties(model: ModelFacts) -> str:
    if not model.blocks:
        return ""
    both = shared(model, "source_embedding") or shared(model, "target_embedding")
    tables = "one embedding table" if both else "an embedding table a side"
    tied = shared(model, "output").replace("_", " ")
    output = f"tied to the {tied}" if tied else "of its own"
    return f"{tables}; output projection {output}"


def sentence(trace: Trace | None, steps: int) -> str:
    """Say what a Trace's last step does; ``steps``: how many its run has."""
    if trace is None:
        return "No sentence has been run yet: shapes are in letters."
    length = len(trace)
    words = f"Step {length} of {steps}: "
    if not length:
        return (
            f"{words}the encoder has read {len(trace.source):,} source tokens in one "
            "pass; the decoder has not begun."
        )
    step = trace.steps[-1]
    reads = f"the decoder reads {count(length, 'token')}"
    token, likely = visible(step.token), probability(step.probability)
    return (
        f"{words}{reads}; the newest row, “{visible(trace.target[-1])}”, gives "
        f"“{token}” ({likely}). The encoder's output is used again."
    )


def counts_table(model: ModelFacts | None) -> Table | None:
    """Return each block's parameters, and the block that it shares them with."""
    if model is None or not model.blocks:
        return None
    counts = tuple((part.parameters, block_words(part.shared)) for part in model.blocks)
    names = tuple(block_words(part.block) for part in model.blocks)
    return Table(names, ("parameters", "shared"), counts, "block")
