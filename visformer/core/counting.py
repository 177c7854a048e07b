"""The number of parameters of each block of a model; shared ones count once."""

from __future__ import annotations

from visformer.core.model import Transformer
from visformer.values.facts import BlockParameters


def count_blocks(model: Transformer) -> tuple[BlockParameters, ...]:
    """Count the model's parameters by block; the counts sum to their total number.

    Blocks are named after the modules: ``encoder.0.self_attention`` is in layer 0,
    ``output`` is the output projection. A tensor used by two blocks counts in the
    first; the second names the first as ``shared``.
    """
    counts: dict[str, int] = {}
    shared: dict[str, str] = {}
    owners: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        block = _block(name)
        owner = owners.setdefault(id(parameter), block)
        counts.setdefault(block, 0)
        if owner == block:
            counts[block] += parameter.numel()
        else:
            shared[block] = owner
    return tuple(
        BlockParameters(block, count, shared.get(block, ""))
        for block, count in counts.items()
    )


def _block(name: str) -> str:
    """Return the block of a parameter: the part of its layer, or its module."""
    parts = name.split(".")
    if "layers" in parts:  # encoder.layers.0.self_attention.query.weight
        at = parts.index("layers")
        return ".".join((parts[at - 1], *parts[at + 1 : at + 3]))
    return ".".join(parts[:-1]) or name
