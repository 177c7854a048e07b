"""One attention, against torch's own and by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from visformer.core import parts
from visformer.core.mask_rules import causal_mask, encoder_mask
from visformer.core.parts import Attention, Dropout, attention_weights, split_heads

FILL = -1e9


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def some_mask() -> Tensor:
    mask = drawn(2, 1, 5, 7, seed=9) > -0.3
    mask[..., 0] = True  # no row is without a key
    return mask


@pytest.mark.parametrize("mask", [None, some_mask()], ids=["no mask", "mask"])
def test_weights_give_what_torch_gives(mask: Tensor | None) -> None:
    q, k, v = drawn(2, 3, 5, 4), drawn(2, 3, 7, 4, seed=1), drawn(2, 3, 7, 4, seed=2)
    ours = attention_weights(q, k, mask, FILL) @ v
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_attention_gives_what_torch_gives() -> None:
    attention, x, memory = Attention(d_model=8, heads=2), drawn(3, 4, 8), drawn(3, 6, 8)
    ids = torch.tensor([[1] * 6, [1] * 5 + [0], [1] * 2 + [0] * 4])
    mask = encoder_mask("keys", ids != 0)
    made, projections = attention(x, memory, mask)
    q, k, v = (split_heads(part, 2) for part in projections)
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])
    expected = attention.output(theirs.transpose(1, 2).flatten(2))
    torch.testing.assert_close(made, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(projections.keys, attention.key(memory))


def test_rows_sum_to_one_and_masked_columns_are_zero() -> None:
    mask = some_mask()
    weights = attention_weights(drawn(2, 3, 5, 4), drawn(2, 3, 7, 4), mask, FILL)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))
    assert not weights[~mask.expand_as(weights)].any()


def test_a_row_that_may_attend_to_nothing_attends_equally() -> None:
    mask = torch.ones(2, 3, dtype=torch.bool)
    mask[1] = False
    weights = attention_weights(drawn(1, 1, 2, 4), drawn(1, 1, 3, 4), mask, FILL)
    torch.testing.assert_close(weights[0, 0, 1], torch.full((3,), 1 / 3))
    nothing = attention_weights(drawn(1, 1, 2, 4), drawn(1, 1, 3, 4), mask, -math.inf)
    assert nothing[0, 0, 1].isnan().all()


def test_weights_by_hand() -> None:
    q, k = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]]), torch.eye(4)[None, None, :2]
    # scores are 2 / sqrt(4) = 1 and 0
    expected = torch.tensor([math.e / (math.e + 1), 1 / (math.e + 1)])
    torch.testing.assert_close(attention_weights(q, k, None, FILL)[0, 0, 0], expected)


def test_query_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    length = parts.QUERY_BLOCK + 6
    attention, x = Attention(d_model=4, heads=1), drawn(1, length, 4)
    mask = causal_mask(length)[None]
    blocked, _ = attention(x, x, mask)
    monkeypatch.setattr(parts, "QUERY_BLOCK", length)
    whole, _ = attention(x, x, mask)
    torch.testing.assert_close(blocked, whole, atol=1e-6, rtol=0)


def test_masks() -> None:
    expected = torch.tensor([[True, False], [True, True]])
    assert torch.equal(causal_mask(2), expected)
    assert encoder_mask("keys", torch.tensor([[5, 0, 0]]) != 0).tolist() == [
        [[True, False, False]]
    ]


def test_dropout_zeroes_its_share_and_keeps_the_mean() -> None:
    dropout, x = Dropout(0.25), torch.ones(200, 201)
    torch.manual_seed(0)
    dropped = dropout(x)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert dropout.eval()(x) is x
