"""Scores that are filled, and weights that are edited or mixed after the softmax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.system.watching.weighing import IDS, Weigh, Weighing, causal, future, seen
from visformer.watching.watcher import watch

PADS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 0, 0, 0]])
FILLS = [-100.0, -1e4, -1e5, -1e6, -1e9, -1e20, torch.finfo(torch.float32).min]


Fill = Callable[[Tensor, float], Tensor]


def hidden(scores: Tensor) -> Tensor:
    """Return what rows of padding and later keys may not read: all, of padding."""
    return future(scores) | (PADS == 0)[:, None, :, None]  # [B, 1, T, T]


def filled(scores: Tensor, fill: float) -> Tensor:
    return scores.masked_fill(hidden(scores), fill).softmax(-1)


def chosen(scores: Tensor, fill: float) -> Tensor:
    return torch.where(hidden(scores), fill, scores).softmax(-1)


def put(scores: Tensor, fill: float) -> Tensor:
    scores[hidden(scores).expand(scores.shape)] = fill
    return scores.softmax(-1)


def added(scores: Tensor, fill: float) -> Tensor:
    return (scores + hidden(scores) * fill).softmax(-1)


def replaced(scores: Tensor, fill: float) -> Tensor:
    """Multiply by a mask, and add what hides: as GPT-2 once did."""
    may = (~hidden(scores)).float()
    return (scores * may + fill * (1 - may)).softmax(-1)


@pytest.mark.parametrize("size", [1, 6])
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("how", [filled, chosen, put, added, replaced])
def test_rows_without_keys_are_the_models_own(
    how: Fill, fill: float, size: float
) -> None:
    if how is added and fill < -1e30:
        fill = -1e30  # with a score it would overflow
    model = Weighing(lambda scores: how(scores, fill), size=size)
    watched = seen(model, PADS).watched
    assert watched.certificate.passed, str(watched.certificate)
    assert watched.certificate.worst < 1e-6
    assert len(watched.traces) == 2
    ids = {one.id for one in watched.certificate.findings}
    assert not ids & {"mask-multiplied", "not-causal"}
    (one,) = watched.attentions
    if fill <= -1e4 or how is not added:
        assert one.masked[1, 0, 3:].all()
        assert not one.masked[:, 0, 0, 0].any()
    assert one.linear


def test_only_a_multiplication_by_zero_is_one() -> None:
    def multiplied(scores: Tensor) -> Tensor:
        return (scores * (~future(scores)).float()).softmax(-1)

    (one,) = seen(Weighing(multiplied)).watched.attentions
    assert one.multiplied is not None
    np.testing.assert_array_equal(one.multiplied[0, 0], np.triu(np.ones((6, 6)), 1) > 0)
    certificate = watch(Weighing(multiplied).eval())(IDS).certificate
    assert "mask-multiplied" in {one.id for one in certificate.findings}


def first_key(w: Tensor) -> None:
    w[..., 0] = 0


def one_head(w: Tensor) -> None:
    w[:, 1] *= 0.5


def a_mask(w: Tensor) -> None:
    w[w < 0.2] = 0


def a_fill(w: Tensor) -> None:
    w.masked_fill_(torch.eye(6).bool(), 0)


def a_gate(w: Tensor) -> None:
    w *= torch.tensor([0.5, 2.0])[:, None, None]


def a_diagonal(w: Tensor) -> None:
    w.diagonal(dim1=-2, dim2=-1).zero_()


def a_copy(w: Tensor) -> None:
    w[..., 1:3].copy_(torch.tensor([0.1, 0.2]))


def another_row(w: Tensor) -> None:
    w[0, 0, 0] = w[0, 0, 1]
    w[0, 0, 1] = w[0, 0, 2]


def by_index(w: Tensor) -> None:
    w.index_fill_(-1, torch.tensor([0, 2]), 0.0)


EDITS = [first_key, one_head, a_mask, a_fill, a_gate, a_diagonal, a_copy, another_row]


@pytest.mark.parametrize("edit", [*EDITS, by_index], ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("when", ["before", "after"])
def test_edits_in_place_are_followed(edit: object, when: str) -> None:
    assert callable(edit)

    def weigh(scores: Tensor) -> Tensor:
        if when == "before":
            edit(scores)
            return scores.softmax(-1)
        weights = scores.softmax(-1)
        edit(weights)
        return weights

    watched = seen(Weighing(weigh)).watched
    certificate = watched.certificate
    assert certificate.passed, str(certificate)
    assert certificate.missed == ()
    assert certificate.worst < 1e-6
    assert len(watched.traces) == 2


def largest(w: Tensor) -> Tensor:
    values, keys = w.topk(3, -1)
    return torch.zeros_like(w).scatter(-1, keys, values)


def kept(w: Tensor) -> Tensor:
    return w * torch.zeros_like(w).scatter(-1, w.topk(3, -1).indices, 1.0)


@pytest.mark.parametrize("choose", [largest, kept])
def test_the_largest_weights_alone(choose: Weigh) -> None:
    watched = seen(Weighing(lambda scores: choose(scores.softmax(-1)))).watched
    assert watched.certificate.passed
    assert not watched.certificate.missed
    assert watched.certificate.worst < 1e-6


class Differential(nn.Module):
    """Twice as many maps as heads: of two maps, one less a part of the other."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.embed, self.out = how, nn.Embedding(20, 16), nn.Linear(16, 20)
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.part = nn.Parameter(torch.tensor(0.3))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        q, k = (m(x).unflatten(2, (4, 4)).transpose(1, 2) for m in (self.q, self.k))
        v = self.v(x).unflatten(2, (2, 8)).transpose(1, 2)  # [B, 2, T, 8]
        if self.how == "two softmaxes":
            first, second = (
                causal(a @ b.mT / 2)
                for a, b in zip(q.chunk(2, 1), k.chunk(2, 1), strict=True)
            )
        elif self.how == "chunk":
            first, second = causal(q @ k.mT / 2).chunk(2, 1)
        else:
            first, second = causal(q @ k.mT / 2).unflatten(1, (2, 2)).unbind(2)
        y = ((first - self.part * second) @ v).transpose(1, 2).flatten(2)
        return self.out(y)  # type: ignore[no-any-return]


@pytest.mark.parametrize("how", ["two softmaxes", "chunk", "unbind"])
def test_differential_attention(how: str) -> None:
    with torch.no_grad():
        watched = watch(Differential(how).eval())(IDS)
    (one,) = watched.attentions
    certificate = watched.certificate
    assert one.weights.shape == (2, 2, 6, 6)
    assert certificate.passed
    assert certificate.worst < 1e-6
    assert certificate.findings == ()
    assert "sums to 0.7" in str(certificate)
    if how == "two softmaxes":
        assert certificate.missed == ()
        assert len(watched.traces) == 2
        assert watched.traces[0].attention("decoder", 0).shape == (2, 6, 6)
    else:
        assert watched.traces == []
        assert "2 heads are computed from the weights of 4" in certificate.missed[0]


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_same_weights_over_two_halves_of_the_values(implementation: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.DiffLlamaConfig(
        **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 50},
        attn_implementation=implementation,
    )
    model = transformers.DiffLlamaForCausalLM(config).eval()
    with torch.no_grad():
        watched = watch(model)(IDS)
    assert [one.weights.shape for one in watched.attentions] == [(2, 4, 6, 6)] * 2
    assert [one.values.shape[3] for one in watched.attentions] == [16, 16]
    assert watched.certificate.ok, str(watched.certificate)
    assert watched.traces[0].attention("decoder", 1).shape == (4, 6, 6)


def test_heads_that_are_mixed_say_what_a_row_sums_to() -> None:
    mix = nn.Parameter(torch.tensor([[2.0, -1.0], [0.5, 1.0]]))

    def weigh(scores: Tensor) -> Tensor:
        return torch.einsum("bhqk,hg->bgqk", scores.softmax(-1), mix)

    model = Weighing(weigh)
    model.mix = mix
    certificate = seen(model).watched.certificate
    assert certificate.passed
    assert certificate.findings == ()
    assert "row 1 of head 1 sums to 2.5." in str(certificate)
