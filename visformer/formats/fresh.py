"""Fresh models by the names of their presets."""

from __future__ import annotations

from typing import Any

from visformer.core.checkpoint import Checkpoint
from visformer.core.presets import fresh
from visformer.errors import CheckpointError
from visformer.formats.layout_spec import LayoutSpec
from visformer.formats.layouts import LAYOUTS


def presets() -> dict[str, LayoutSpec]:
    """Return the names that ``build`` knows, each with its layout."""
    return {spec.preset.name: spec for spec in LAYOUTS.values()}


def build(
    preset: str, *, seed: int = 0, device: str | None = None, **sizes: Any
) -> Checkpoint:
    """Return a checkpoint of fresh weights, drawn as the preset's author draws them.

    ``sizes`` are fields of ``ModelConfig`` and win over the preset's. Its tokens are
    numbers. Raises CheckpointError for an unknown preset, field or value.
    """
    known = presets()
    if preset not in known:
        raise CheckpointError(
            f"there is no preset “{preset}”: choose from {', '.join(known)}."
        )
    spec = known[preset]
    return fresh(spec.preset, layout=spec.name, seed=seed, device=device, **sizes)
