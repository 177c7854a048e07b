"""What the diagram knows of a model's blocks: their parameters, and where to go."""

from __future__ import annotations

from visformer.language import _, ngettext
from visformer.pictures.diagram.block_names import block_path, block_words, title
from visformer.pictures.diagram.columns import Goal
from visformer.pictures.picture import Table
from visformer.values.facts import ModelFacts
from visformer.values.trace import Trace

# Where a block's numbers are: its name without the layer -> tab and stage.
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


def goal(id: str) -> Goal:
    """Return where a block's numbers are; {} if it has none.

    A whole layer is selected without leaving the diagram.
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

    A Trace from an older file does not list its blocks; the same model, if it is open,
    does.
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
        """Count a block's parameters and those of all blocks inside it."""
        return sum(
            part.parameters
            for name, part in self._parts.items()
            if name == start or name.startswith(start + ".")
        )

    def words(self, block: str) -> str:
        """Say how many parameters a block has, and what it shares; "" if unknown."""
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
        """Name a block, with its parameters if they are known."""
        parameters = self.words(block)
        if not parameters:
            return title(block)
        return _("{block}: {parameters}", block=title(block), parameters=parameters)

    def short(self, block: str) -> str:
        """Return a block's count alone, or that it is shared; "" if unknown."""
        if not self._parts:
            return ""
        part = self._parts.get(block)
        if part is not None and part.shared:
            return _("shared")
        return f"{self.total(block):,}"


def names(model: ModelFacts, stack: str) -> tuple[str, ...]:
    """Return the sublayers of a stack's layers, in the order of the data flow."""
    crossed = () if stack == "encoder" else ("cross_attention",)
    return ("self_attention", *crossed, "feed_forward")


def shape(*sizes: int | str) -> str:
    """Write a shape as in code: [13, 256]."""
    return f"[{', '.join(str(size) for size in sizes)}]"


def lengths(trace: Trace | None) -> tuple[int | str, int | str]:
    """Return this sentence's source and target length, or letters if there is none."""
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
