"""The benchmark of training at a tiny size: both loops train the same model."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from tests.bench import time_training as training
from tests.bench.time_training import TorchModel
from tests.tiny_models import tiny_config
from tests.unit.core.variants import torch_tensors
from visformer.core.model import Transformer
from visformer.values.config import ModelConfig

DATA = training.synthetic(30, 40)
BATCHES = training.batched(DATA, 128)


@pytest.fixture
def config() -> ModelConfig:
    return tiny_config(norm_first=True, final_norm=True)


def copy_weights(model: Transformer, plain: TorchModel) -> None:
    plain.transformer.load_state_dict(torch_tensors(model))
    plain.embedding.weight.data.copy_(model.target_embedding.weight)


def test_both_loops_make_the_same_steps(tmp_path: Path, config: ModelConfig) -> None:
    trainer = training.make_trainer(config, DATA, tmp_path, dropout=0.0)
    plain = training.baseline_loop(trainer, dropout=0.0, bfloat16=False)
    counts = [
        sum(weight.numel() for weight in model.parameters())
        for model in (trainer.model, plain.model)
    ]
    assert counts[0] == counts[1]
    copy_weights(trainer.model, plain.model)
    for batch in BATCHES[:4]:
        loss, count = trainer.step(batch, training.RATE)
        # the trainer may multiply in bfloat16
        assert plain.step(batch) == pytest.approx(loss / count, rel=1e-2)


def test_a_figure(
    tmp_path: Path, config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "ROUNDS", 1)
    trainer = training.make_trainer(config, DATA, tmp_path, dropout=0.1)
    plain = training.baseline_loop(trainer, dropout=0.1, bfloat16=True)
    figure = training.against(trainer, plain, BATCHES[:1], "tiny")
    assert figure.value is not None
    assert 0 < figure.value < math.inf
    assert all(0 < part < math.inf for part in figure.parts.values())


def test_batches_are_no_larger_than_asked() -> None:
    assert sum(map(len, BATCHES)) == len(DATA.epoch(0)) == 40
    for batch in BATCHES:
        assert len(batch) * max(len(side) for e in batch for side in e) <= 128
    ids = torch.tensor([id for e in DATA.train for id in e.source[:-1]])
    assert ids.min() > training.EOS
    assert ids.max() < 30
