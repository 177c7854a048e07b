"""Heads that are cut out of tokens, put together, or mixed by a constant."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, scaled_dot_product_attention

from tests.system.watching.weighing import IDS, Weighing, seen
from visformer.watching.watcher import Watched, watch

WIDTH, HEADS, SIZE = 16, 4, 4
CUT = "each query and key is a piece of a token's features"
TOGETHER = "the outputs of two softmaxes are added or subtracted"
Split = Callable[[Tensor], Tensor]  # [B, T, D] to [B, H, T, d], rightly or not


class Splitting(nn.Module):
    """One layer that splits heads by a function; ``own`` has its weights."""

    def __init__(self, split: Split, *, fused: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.split, self.fused = split, fused
        self.embed, self.qkv = nn.Embedding(30, WIDTH), nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        q, k, v = map(self.split, self.qkv(x).chunk(3, -1))
        self.own = (q @ k.mT / SIZE**0.5).softmax(-1)
        made = scaled_dot_product_attention(q, k, v) if self.fused else self.own @ v
        return made.reshape(x.shape)


def watched_of(model: nn.Module, *shape: int) -> Watched:
    with torch.no_grad():
        return watch(model.eval())(torch.arange(torch.Size(shape).numel()).view(shape))


CUTS: dict[str, Split] = {
    "reshape": lambda x: x.reshape(len(x), HEADS, -1, SIZE),
    "merged": lambda x: x.reshape(len(x) * HEADS, -1, SIZE),
    "after a view": lambda x: x.reshape(*x.shape[:2], HEADS, SIZE).reshape(
        len(x), HEADS, -1, SIZE
    ),
    "heads read heads": lambda x: x.reshape(*x.shape[:2], HEADS, SIZE),
}


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("shape", [(2, 5), (2, 8), (4, 4), (1, 7), (2, 2)])
@pytest.mark.parametrize("how", CUTS)
def test_heads_cut_out_of_the_tokens(
    how: str, shape: tuple[int, int], fused: bool
) -> None:
    model = Splitting(CUTS[how], fused=fused)
    watched = watched_of(model, *shape)
    (one,) = watched.attentions
    own = model.own.view(shape[0], -1, *model.own.shape[-2:])  # as the model has them
    assert one.weights.shape == own.shape
    assert (torch.tensor(one.weights) - own).abs().max() < 1e-6
    assert one.query_ids is None
    assert one.key_ids is None
    assert [x.source[0] for x in watched.traces] == ["1"] * shape[0]
    assert CUT in watched.certificate.missed[0]


RIGHT: dict[str, Split] = {
    "transposed": lambda x: x.unflatten(2, (HEADS, SIZE)).transpose(1, 2),
    "beside the batch": lambda x: torch.cat(x.chunk(HEADS, -1)),
    "windows": lambda x: x.unflatten(1, (-1, 2)),
}


@pytest.mark.parametrize("how", RIGHT)
def test_heads_and_windows_that_are_split_rightly(how: str) -> None:
    missed = watched_of(Splitting(RIGHT[how], fused=False), 2, 8).certificate.missed
    assert CUT not in str(missed)


class Differential(nn.Module):
    """Two heads of two softmaxes each: what one gives, less half of the other's."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.embed = how, nn.Embedding(30, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.part = nn.Parameter(torch.tensor(0.5))

    def split(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(ids)
        q, k = (m(x).unflatten(2, (4, 4)).transpose(1, 2) for m in (self.q, self.k))
        return q, k  # [B, 4, T, 4] each

    def maps(self, ids: Tensor) -> Tensor:
        q, k = self.split(ids)
        return (q @ k.mT / 2).softmax(-1)  # [B, 4, T, T]

    def forward(self, ids: Tensor) -> Tensor:
        q, k = self.split(ids)
        v = self.v(self.embed(ids)).unflatten(2, (2, 8)).transpose(1, 2)
        if self.how == "one call":
            both = scaled_dot_product_attention(q, k, torch.cat([v, v], 1))
            first, second = both.chunk(2, 1)
        elif self.how == "two calls":
            first, second = (
                scaled_dot_product_attention(a, b, v)
                for a, b in zip(q.chunk(2, 1), k.chunk(2, 1), strict=True)
            )
        else:
            first, second = (self.maps(ids) @ torch.cat([v, v], 1)).chunk(2, 1)
        return first - self.part * second


@pytest.mark.parametrize("how", ["one call", "two calls", "eager"])
def test_maps_of_which_two_make_a_head_are_said_to_count_together(how: str) -> None:
    model = Differential(how)
    watched = watched_of(model, 2, 5)
    (one,) = watched.attentions
    own = model.maps(torch.arange(10).view(2, 5))
    assert (torch.tensor(one.weights) - own).abs().max() < 1e-6
    assert len(watched.traces) == 2
    assert watched.certificate.ok
    assert [TOGETHER in x for x in watched.certificate.checks] == [True]


@pytest.mark.parametrize(
    "pooled",
    [
        lambda y: y[:, 0] + y[:, -1],
        lambda y: y[:, 1:] - y[:, :-1],
        lambda y: y[0] + y[1],
        lambda y: y + 1,
    ],
)
def test_sums_of_tokens_or_of_rows_are_not_sums_of_maps(pooled: Split) -> None:
    class Pooled(Splitting):
        def forward(self, ids: Tensor) -> Tensor:
            return pooled(super().forward(ids))

    watched = watched_of(Pooled(RIGHT["transposed"], fused=True), 2, 5)
    assert watched.certificate.checks == ()


MIX = torch.tensor([[0.75, 0.5], [0.25, 0.5]])  # no parameter and no buffer
MIXED: dict[str, Callable[[Tensor], Tensor]] = {
    "einsum": lambda a: torch.einsum("hg,bhqk->bgqk", MIX, a),
    "matmul": lambda a: torch.matmul(MIX.T, a.flatten(2)).view(a.shape),
    "linear": lambda a: linear(a.movedim(1, -1), MIX.T).movedim(-1, 1),
    "convolution": lambda a: conv2d(a, MIX.T[:, :, None, None]),
}


@pytest.mark.parametrize("how", MIXED)
def test_heads_mixed_by_a_constant(how: str) -> None:
    model, watched = seen(Weighing(lambda scores: MIXED[how](scores.softmax(-1))))
    (one,) = watched.attentions
    assert (torch.tensor(one.weights) - model.kept[0]).abs().max() < 1e-6
    assert len(watched.traces) == len(IDS)
    assert watched.certificate.ok, str(watched.certificate)


def test_heads_mixed_by_a_sum_of_products() -> None:
    mix = nn.Parameter(MIX)

    def weigh(scores: Tensor) -> Tensor:
        return (scores.softmax(-1)[:, :, None] * mix[:, :, None, None]).sum(1)

    model = Weighing(weigh)
    model.mix = mix
    _model, watched = seen(model)
    assert len(watched.traces) == len(IDS)
    assert watched.certificate.ok, str(watched.certificate)


def test_the_mean_of_all_heads_is_no_product_without_a_softmax() -> None:
    model = Weighing(lambda scores: scores.softmax(-1).mean(1, keepdim=True))
    with torch.no_grad():
        missed = watch(model.eval())(IDS).certificate.missed
    assert len(missed) == 1
    assert "it is not clear which of its axes are batch, heads" in missed[0]


@pytest.mark.parametrize("kept", [lambda x: x, nn.Parameter])
def test_queries_that_are_mixed_are_no_heads(kept: Callable[[Tensor], Tensor]) -> None:
    mix = kept(torch.full((6, 6), 1 / 6))
    model = Weighing(lambda scores: mix @ scores.softmax(-1))
    model.mix = mix
    with torch.no_grad():
        watched = watch(model.eval())(IDS)
    assert watched.attentions == []
    assert "it is not clear which" in watched.certificate.missed[0]
