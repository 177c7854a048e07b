"""Attention written in ways that few use: seen as it is, or named and not shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from visformer.watching.watcher import watch

X = torch.randn(2, 8, 16)


class Attending(nn.Module):
    """Queries, keys and values [B, 4, T, 4], and what is done with them."""

    def __init__(self, attend: Any) -> None:
        super().__init__()
        self.qkv, self.attend = nn.Linear(16, 48), attend

    def forward(self, x: Tensor) -> Tensor:
        several = self.qkv(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
        y: Tensor = self.attend(*several)
        return y.transpose(1, 2).flatten(2)


def weights(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.mT / 2).softmax(-1)


def flexed(q: Tensor, k: Tensor, v: Tensor) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q, k, v, score_mod=causal)


def causal(score: Tensor, _b: Tensor, _h: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return torch.where(query >= key, score - (query - key), -float("inf"))


# of torch's own, where it is not compiled
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_is_seen_by_its_parts() -> None:
    model = Attending(flexed)
    with torch.no_grad():
        watched = watch(model)(X)
        q, k, _v = model.qkv(X).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
    (one,) = watched.attentions
    far = torch.arange(8)[:, None] - torch.arange(8)[None]
    own = (q @ k.mT / 2 - far).masked_fill(far < 0, -float("inf")).softmax(-1)
    assert torch.allclose(torch.tensor(one.weights), own, atol=1e-6)
    assert one.kind == "decoder"
    assert one.scale == pytest.approx(0.5)
    assert watched.output_difference == 0.0
    assert watched.certificate.passed


def test_an_operation_that_takes_functions_runs_as_without() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        scores = q @ k.mT / 2
        branches = lambda x: x.softmax(-1), lambda x: x * 0
        return torch.cond(scores.sum() > -1e9, *branches, (scores,)) @ v

    with torch.no_grad():
        watched = watch(Attending(attend))(X)
    assert watched.output_difference == 0.0
    assert watched.attentions == []
    assert any("“cond” could not be followed" in s for s in watched.certificate.missed)


def test_a_logarithm_between_changes_no_scale() -> None:
    watched = watch(Attending(lambda q, k, v: weights(q, k).log().exp() @ v))(X)
    assert watched.certificate.passed
    model = Attending(lambda q, k, v: (q @ k.mT / 2).log_softmax(-1).exp() @ v)
    (one,) = watch(model)(X).attentions
    assert one.scale == pytest.approx(0.5)


def chunked_values(q: Tensor, k: Tensor, v: Tensor) -> Any:
    w = weights(q, k)
    return w[..., :3] @ v[:, :, :3] + w[..., 3:] @ v[:, :, 3:]


NOT_SHOWN = {
    "without a softmax": lambda q, k, v: (q @ k.mT / 2).sigmoid() @ v,
    "it is not clear which of its axes": chunked_values,
    "no known function of queries and keys": lambda q, k, v: (
        torch.cdist(q, k).neg().softmax(-1) @ v
    ),
}


@pytest.mark.parametrize("words", NOT_SHOWN)
def test_what_cannot_be_followed_is_named_and_accused_of_nothing(words: str) -> None:
    watched = watch(Attending(NOT_SHOWN[words]))(X)
    assert watched.attentions == []
    assert watched.certificate.findings == ()
    assert any(words in sentence for sentence in watched.certificate.missed)


BY_NUMPY: dict[str, Any] = {
    "bytes": lambda ones: torch.from_numpy(np.triu(ones, 1)).byte() == 0,
    "compared": lambda ones: torch.from_numpy(np.tril(ones)).float() != 0,
    "copied": lambda ones: torch.tensor(np.tril(ones)) > 0,
}


@pytest.mark.parametrize("how", BY_NUMPY)
def test_a_mask_made_by_numpy_is_nothing_missed(how: str) -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        mask = BY_NUMPY[how](np.ones((2, 8, 8)))[:, None]
        return (q @ k.mT / 2).masked_fill(~mask, -torch.inf).softmax(-1) @ v

    certificate = watch(Attending(attend))(X).certificate
    assert certificate.missed == ()
    assert certificate.ok


def test_a_mask_that_numpy_made_to_be_added_is_nothing_missed() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        mask = torch.from_numpy(np.triu(np.full((2, 1, 8, 8), -np.inf), 1)).float()
        return (q @ k.mT / 2 + mask).softmax(-1) @ v

    assert watch(Attending(attend))(X).certificate.missed == ()


def test_activations_that_numpy_made_are_said_to_be() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        values = torch.from_numpy(v.detach().numpy() * 2)
        return weights(q, k) @ values

    with torch.no_grad():
        watched = watch(Attending(attend))(X)
    assert any("numpy" in sentence for sentence in watched.certificate.missed)
