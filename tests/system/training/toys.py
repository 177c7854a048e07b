"""Tiny training runs: copying models that take a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.tiny_models import tiny_config
from visformer.core.model import Transformer
from visformer.training.loop import Trainer, TrainingOptions
from visformer.training.prepare import Task, ToyData

TINY: dict[str, Any] = {
    "d_model": 16,
    "heads": 2,
    "layers": 1,
    "feed_forward": 32,
    "max_positions": 32,
    "threads": 1,
    "device": "cpu",
}
TOY: dict[str, Any] = {
    **TINY,
    "task": "copy",
    "longest": 4,
    "examples": 60,
    "valid": 20,
    "test": 20,
    "epochs": 2,
    "batch_tokens": 64,
    "save_seconds": 0.0,
}
TASK = Task(name="copy", shortest=1, longest=4)


def trainer(folder: Path, *, dropout: float = 0.1, **changes: Any) -> Trainer:
    """Return a trainer of a model of one narrow layer on 60 strings an epoch."""
    torch.manual_seed(5)
    config = tiny_config(encoder_layers=1, decoder_layers=1)
    model = Transformer(config, dropout=dropout)
    model.initialise()
    data = ToyData(TASK, count=60, valid=TASK.pairs("valid", 20))
    options = {"epochs": 2, "batch_tokens": 64, "warmup": 4, **changes}
    return Trainer(
        model, data, TrainingOptions(**options), folder, device=torch.device("cpu")
    )
