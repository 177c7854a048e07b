"""Certificates of rounded numbers: no layer is lost to rounding, no fault passes."""

from __future__ import annotations

import ctypes
import weakref

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.system.watching.weighing import (
    IDS,
    INF,
    Weigh,
    Weighing,
    causal,
    future,
    seen,
)
from visformer.watching.watcher import watch

HALF = [torch.bfloat16, torch.float16]
SIZES = [1, 4, 8]  # the last has scores of some sixty


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_loses_no_layer(dtype: torch.dtype, size: float) -> None:
    model = Weighing(layers=3, size=size).to(dtype)
    watched = seen(model).watched
    certificate = watched.certificate
    assert certificate.ok, str(certificate)
    assert len(watched.attentions) == 3
    for row, trace in enumerate(watched.traces):
        for layer, kept in enumerate(model.kept):
            shown = trace.attention("decoder", layer)
            np.testing.assert_array_equal(shown, kept[row].float().numpy())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_autocast_loses_no_layer(dtype: torch.dtype, size: float) -> None:
    model = Weighing(layers=3, size=size).eval()
    with torch.autocast("cpu", dtype), torch.no_grad():
        watched = watch(model)(IDS)
    assert watched.certificate.ok, str(watched.certificate)
    assert watched.traces[0].attention("decoder", 2).shape == (2, 6, 6)


def raised(dtype: torch.dtype) -> Weigh:
    """Return a softmax of another type than the scores and the values."""

    def weigh(scores: Tensor) -> Tensor:
        return causal(scores.to(dtype)).to(scores.dtype)

    return weigh


@pytest.mark.parametrize("own", [*HALF, torch.float32], ids=str)
@pytest.mark.parametrize("other", [*HALF, torch.float32], ids=str)
def test_a_softmax_of_another_type(own: torch.dtype, other: torch.dtype) -> None:
    certificate = seen(Weighing(raised(other)).to(own)).watched.certificate
    assert certificate.ok, str(certificate)


def test_large_scores_of_float32_are_no_fault() -> None:
    certificate = seen(Weighing(size=40)).watched.certificate
    assert certificate.ok, str(certificate)


def test_float32_is_held_to_float32() -> None:
    certificate = seen(Weighing(layers=2)).watched.certificate
    assert certificate.worst < 1e-6
    assert certificate.tolerance == 2e-5


def edited(scores: Tensor) -> Tensor:
    """Change a weight behind the back of torch."""
    weights = causal(scores)
    ctypes.memset(weights.data_ptr(), 0, weights.element_size())  # row 1 reads nothing
    return weights


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("dtype", [*HALF, torch.float32], ids=str)
def test_a_weight_that_was_changed_unseen_is_found(
    dtype: torch.dtype, size: float
) -> None:
    certificate = seen(Weighing(edited, size=size).to(dtype)).watched.certificate
    assert not certificate.passed
    (sentence,) = [s for s in certificate.missed if "computed again" in s]
    assert "differ by 1, so" in sentence


def test_of_two_layers_the_wrong_one_is_refused_by_its_own_measure() -> None:
    """One of half precision gives no room to one of float32."""
    turns = iter([raised(torch.bfloat16), edited] * 2)
    watched = seen(Weighing(lambda scores: next(turns)(scores), layers=2)).watched
    assert [one.verified for one in watched.attentions] == [True, False]
    assert not watched.certificate.passed


def test_a_pass_lets_go_of_its_scores() -> None:
    kept: list[weakref.ref[Tensor]] = []

    def weigh(scores: Tensor) -> Tensor:
        masked = scores.masked_fill(future(scores), -INF)
        kept.extend(map(weakref.ref, (scores.untyped_storage(), masked)))  # type: ignore[arg-type]
        return masked.softmax(-1)

    model = Weighing(weigh).eval()
    with torch.no_grad(), watch(model):
        model(IDS)
        assert [ref() for ref in kept] == [None, None]


class Torch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Transformer(16, 2, 2, 2, 32, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = torch.ones(target.shape[1], target.shape[1]).triu(1).bool()
        y: Tensor = self.inner(source, target, tgt_mask=mask)
        return y


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_torch_in_half_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Torch().eval().to(dtype)
    given = [torch.randn(2, n, 16, dtype=dtype) for n in (5, 6)]
    with torch.no_grad():
        certificate = watch(model)(*given).certificate
    assert certificate.ok, str(certificate)
    assert certificate.attentions == 6
    assert certificate.output_difference == 0
