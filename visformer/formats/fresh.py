"""Fresh models by the names of their presets."""

from __future__ import annotations

from typing import Any

import torch

from visformer.arguments import whole_number, wrong_type
from visformer.core.checkpoint import Checkpoint
from visformer.core.presets import OTHERS, fresh
from visformer.errors import CheckpointError
from visformer.formats.layout_spec import LayoutSpec
from visformer.formats.layouts import LAYOUTS
from visformer.language import _


def presets() -> dict[str, LayoutSpec]:
    """Return the names that ``build`` accepts, each with its layout."""
    return {
        spec.preset.name: spec for spec in LAYOUTS.values() if spec.preset is not OTHERS
    }


def build(
    preset: str,
    *,
    seed: int = 0,
    device: str | torch.device | None = None,
    **sizes: Any,
) -> Checkpoint:
    """Return a checkpoint of fresh weights, initialised as the preset's author does.

    ``sizes`` are fields of ``ModelConfig`` and override the preset's. Its tokens are
    numbers. Raises CheckpointError for an unknown preset, field or value.
    """
    known = presets()
    if not isinstance(preset, str):
        raise wrong_type("preset", preset, ", ".join(known))
    seed = whole_number("seed", seed, most=2**63 - 1)
    if preset not in known:
        raise CheckpointError(
            _(
                "There is no preset “{preset}”. Choose from {choices}.",
                preset=preset,
                choices=", ".join(known),
            )
        )
    spec = known[preset]
    return fresh(spec.preset, layout=spec.name, seed=seed, device=device, **sizes)
