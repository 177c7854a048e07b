"""A model that the engine has open, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from visformer.engine.messages import Opened
from visformer.values.arrays import Floats
from visformer.values.facts import ModelFacts


def opened_model(
    model: ModelFacts, positions: Floats | None = None, **changes: Any
) -> Opened:
    """Return what the engine says once it has a model open; without positions: ones."""
    if positions is None:
        positions = np.ones((8, model.config.d_model), np.float32)
    given: dict[str, Any] = {
        "number": 1,
        "path": "/model",
        "devices": ("cpu",),
        "findings": (),
        **changes,
    }
    return Opened(model=model, positions=positions, **given)
