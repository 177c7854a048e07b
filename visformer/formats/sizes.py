"""What a model's tensors reveal about its config: by shape, index and presence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.")


def sizes_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the fields of a ModelConfig that tensors under our names determine.

    Missing or mis-shaped tensors are left for ``build_model`` to report: a size is what
    most tensors agree on, and 1 if there is none.
    """
    source = _rows(tensors, "source_embedding.weight")
    target = _rows(tensors, "target_embedding.weight") or _rows(
        tensors, "output.weight"
    )
    fields = {
        "source_vocabulary": source or target or 1,
        "target_vocabulary": target or source or 1,
        "d_model": _usual(t.shape[-1] for k, t in _norms_and_tables(tensors)),
        "feed_forward": _usual(_inner_sizes(tensors)),
        "encoder_layers": _layers(tensors, "encoder"),
        "decoder_layers": _layers(tensors, "decoder"),
        "encoder_bias": _biases(tensors, "encoder"),
        "decoder_bias": _biases(tensors, "decoder"),
        "norm_bias": _norm_biases(tensors),
        "final_norm": any(
            f"{s}.norm.weight" in tensors for s in ("encoder", "decoder")
        ),
        "gated": _any(tensors, "feed_forward.gate.weight"),
        "w1_bias": _any(tensors, "feed_forward.w1.bias"),
        "w2_bias": _any(tensors, "feed_forward.w2.bias"),
        "output_bias": "output.bias" in tensors,
        "encoder_norm_length": _norm_length(tensors, "encoder"),
        "decoder_norm_length": _norm_length(tensors, "decoder"),
    }
    if fields["gated"]:
        fields["gate_bias"] = _any(tensors, "feed_forward.gate.bias")
    return fields | _position_fields(tensors)


def _norms_and_tables(tensors: Mapping[str, Tensor]) -> list[tuple[str, Tensor]]:
    return [
        (key, tensor)
        for key, tensor in tensors.items()
        if tensor.dim()
        and key.endswith(("norm.weight", "norm.bias", "embedding.weight"))
    ]


def _inner_sizes(tensors: Mapping[str, Tensor]) -> Iterable[int]:
    for key, tensor in tensors.items():
        if tensor.dim() == 2 and key.endswith("feed_forward.w1.weight"):
            yield tensor.shape[0]
        if tensor.dim() == 2 and key.endswith("feed_forward.w2.weight"):
            yield tensor.shape[1]


def _usual(sizes: Iterable[int]) -> int:
    """Return the most common size, so that one tensor of another shape stands out."""
    counted = Counter(sizes).most_common(1)
    return counted[0][0] if counted else 1


def _rows(tensors: Mapping[str, Tensor], key: str) -> int:
    tensor = tensors.get(key)
    return tensor.shape[0] if tensor is not None and tensor.dim() == 2 else 0


def _layers(tensors: Mapping[str, Tensor], stack: str) -> int:
    layers = filter(None, map(_LAYER.match, tensors))
    return 1 + max((int(match[2]) for match in layers if match[1] == stack), default=0)


def _norm_biases(tensors: Mapping[str, Tensor]) -> bool:
    """Return whether norms shift; one that lacks its own among others is a fault."""
    scales = any(key.endswith("norm.weight") for key in tensors if key[0] != "?")
    return not scales or _any(tensors, "norm.bias")


def _any(tensors: Mapping[str, Tensor], ending: str) -> bool:
    return any(key.endswith(ending) and key[0] != "?" for key in tensors)


def _biases(tensors: Mapping[str, Tensor], stack: str) -> str:
    """Return which biases the attention has, judged by those in the file."""
    own = {key: t for key, t in tensors.items() if key.startswith(f"{stack}.layers.")}
    if _any(own, "attention.query.bias") or _any(own, "attention.key.bias"):
        return "all"
    return "value_output" if _any(own, "attention.value.bias") else "none"


def _position_fields(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    learned = tensors.get("source_positions", tensors.get("target_positions"))
    if learned is not None:
        fields = {"positions": "learned", "position_axis": "time"}
        return {**fields, "max_positions": max(learned.shape, default=1)}
    table = tensors.get("positions")
    if table is None or not table.dim():
        return {}
    return {"max_positions": len(table)}


def _norm_length(tensors: Mapping[str, Tensor], stack: str) -> int:
    """Return how many tokens a stack normalises together; 0 for each token alone."""
    norms = [
        tensor
        for key, tensor in tensors.items()
        if key.startswith(f"{stack}.") and key.endswith("norm.weight")
    ]
    shapes = {tensor.dim(): len(tensor) for tensor in norms if tensor.dim()}
    return shapes[2] if set(shapes) == {2} else 0
