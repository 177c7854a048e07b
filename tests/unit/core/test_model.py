"""The whole model, against ``torch.nn.Transformer`` with the same weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.tiny_models import PAD, tiny_model
from tests.unit.core.variants import torchs_own
from visformer.core.mask_rules import causal_mask
from visformer.core.model import Transformer
from visformer.core.position_rules import sinusoidal

VARIANTS = [
    {"norm_first": False, "final_norm": False},
    {"norm_first": False, "final_norm": True},
    {"norm_first": True, "final_norm": True},
]
SOURCE = torch.tensor([[4, 5, 6, 7, 3], [8, 9, 3, PAD, PAD]])
TARGET = torch.tensor([[2, 10, 11, 12], [2, 13, PAD, PAD]])


def embedded(model: Transformer, ids: Tensor) -> Tensor:
    table = model.target_embedding.weight[ids] * math.sqrt(model.config.d_model)
    return table + sinusoidal(ids.shape[1], model.config.d_model)


@pytest.mark.parametrize("variant", VARIANTS)
def test_model_equals_torchs_with_copied_weights(variant: dict[str, bool]) -> None:
    model = tiny_model(**variant)
    expected = torchs_own(model)(
        embedded(model, SOURCE),
        embedded(model, TARGET),
        tgt_mask=~causal_mask(4),
        src_key_padding_mask=SOURCE == PAD,
        tgt_key_padding_mask=TARGET == PAD,
        memory_key_padding_mask=SOURCE == PAD,
    )
    real = TARGET != PAD
    made = model(SOURCE, TARGET, PAD)
    torch.testing.assert_close(made[real], expected[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_batch_row_equals_the_single_sentence(variant: dict[str, bool]) -> None:
    model = tiny_model(**variant)
    batch = model(SOURCE, TARGET, PAD)
    alone = model(SOURCE[1:, :3], TARGET[1:, :2], PAD)
    torch.testing.assert_close(batch[1:, :2], alone, atol=1e-5, rtol=0)


def test_the_future_changes_nothing() -> None:
    model, changed = tiny_model(), TARGET.clone()
    changed[0, 3] = 20
    before, after = model(SOURCE, TARGET, PAD)[0], model(SOURCE, changed, PAD)[0]
    torch.testing.assert_close(before[:3], after[:3])
    assert not torch.allclose(before[3], after[3])


def test_sinusoids_by_hand() -> None:
    table = sinusoidal(4, 6)
    assert table[0].tolist() == [0, 1, 0, 1, 0, 1]
    for position in range(4):
        for pair in range(3):
            angle = position / 10_000 ** (2 * pair / 6)
            expected = [math.sin(angle), math.cos(angle)]
            found = table[position, 2 * pair : 2 * pair + 2].tolist()
            assert found == pytest.approx(expected, abs=1e-6)


def test_tables_are_shared_as_the_config_says() -> None:
    tied = tiny_model(tied_output=True)
    assert tied.output.weight is tied.target_embedding.weight
    assert tied.source_embedding is tied.target_embedding
    apart = tiny_model(shared_embedding=False, tied_output=False, source_vocabulary=9)
    assert apart.source_embedding.weight.shape == (9, 16)
    assert apart.output.weight is not apart.target_embedding.weight


def test_record_holds_every_residual_and_projection() -> None:
    model = tiny_model(final_norm=True)
    record = model.encode(SOURCE, torch.ones(2, 1, 5, dtype=torch.bool))
    assert [tuple(x.shape) for x in record.hidden] == [(2, 5, 16)] * 3
    torch.testing.assert_close(record.hidden[0], embedded(model, SOURCE))
    torch.testing.assert_close(record.output, model.encoder.norm(record.hidden[-1]))
    assert len(record.attention) == 2
    assert not record.cross
