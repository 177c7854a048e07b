"""State dicts of every layout as files, and how they are opened in tests."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.system.formats.layout_models import MAKERS
from visformer.core.checkpoint import Checkpoint
from visformer.errors import CheckpointError, InputError
from visformer.formats.layouts import LAYOUTS
from visformer.formats.loading import load
from visformer.formats.names import our_name

CUDA_FREE = "cpu"
opened = partial(load, heads=2, device=CUDA_FREE)


def saved(path: Path, tensors: dict[str, Tensor]) -> Path:
    torch.save(tensors, path)
    return path


def refusal(path: Any, **told: Any) -> str:
    with pytest.raises((CheckpointError, InputError)) as caught:
        load(path, **{"heads": 2, "device": "cpu", **told})
    return str(caught.value)


def weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    return dict(checkpoint.model.named_parameters())


def check_weights(checkpoint: Checkpoint, tensors: dict[str, Tensor]) -> None:
    """Every tensor of the file is in the model, and nothing else is."""
    keys, found = LAYOUTS[checkpoint.layout].names, weights(checkpoint)
    for name, tensor in tensors.items():
        ours = our_name(keys, name)
        assert ours is not None, name
        place = checkpoint.model.positions if ours == "positions" else found.pop(ours)
        assert torch.equal(place, tensor.reshape(place.shape)), name
    assert not found


TUTORIALS = [name for name in MAKERS if name != "torch"]
