"""A cached loop in a ``with``: its steps are compared with one full pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from visformer.values.finding import Certificate
from visformer.watching.watcher import watch

Cache = list[Tensor]


class Cached(nn.Module):
    """A causal layer with a cache; a step's place is counted, or begins at 0 again."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.words, self.out = nn.Embedding(40, 16), nn.Linear(16, 40)
        self.places, self.parts = nn.Parameter(torch.randn(30, 16)), nn.Linear(16, 48)

    def forward(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        start = cache[0].shape[2] if cache else 0
        at = {"restart": 0, "ahead": start + bool(start)}.get(self.fault, start)
        x = self.words(ids) + self.places[at : at + ids.shape[1]]
        if self.fault == "restart beside others":
            x = self.words(ids) + self.places[: ids.shape[1]]
            x = x + self.places[start : start + ids.shape[1]].flip(1)
        if self.fault == "length":  # as rotary positions that know the length
            x = x * (1 + 0.2 * (start + ids.shape[1]))
        q, k, v = self.parts(x).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        if cache is not None:
            kept = (
                [k, v]
                if not cache
                else [torch.cat([a, b], 2) for a, b in zip(cache, (k, v), strict=True)]
            )
            cache[:] = kept
            k, v = kept
        may = torch.ones(q.shape[2], k.shape[2]).tril(start).bool()
        if self.fault == "short" and start > 2:
            may[:, : start - 2] = False
        weights = (q @ k.mT / 8**0.5).masked_fill(~may, -1e9).softmax(-1)
        read = (weights @ v).transpose(1, 2).flatten(2)
        if self.fault == "after" and start:
            read = read + 0.5
        if self.fault == "dropped":
            read = F.dropout(read, 0.1)
        y: Tensor = self.out(read)
        return y


def looped(model: Cached) -> Certificate:
    torch.manual_seed(2)
    cache: Cache = []
    y = torch.tensor([[3], [7]])
    with torch.no_grad(), watch(model) as watched:
        for _step in range(6):
            best = model(y[:, -1:], cache)[:, -1].argmax(-1)
            y = torch.cat([y, best[:, None]], 1)
    return watched.certificate


@pytest.mark.parametrize(
    ("fault", "id", "said"),
    [
        ("restart", "positions-restart", "the queries of row"),
        ("short", "cached-steps-differ", "Row 4 of the cached steps differs"),
        ("ahead", "cached-steps-differ", "Row 2 of the cached steps differs"),
        ("restart beside others", "cached-steps-differ", "of the cached steps differs"),
    ],
)
def test_steps_that_differ_are_named(fault: str, id: str, said: str) -> None:
    torch.manual_seed(0)
    (finding,) = looped(Cached(fault)).findings
    assert (finding.id, finding.severity) == (id, "fault")
    assert finding.where == "forward"
    assert said in finding.what


def test_steps_that_are_right_are_said_to_be_compared() -> None:
    torch.manual_seed(0)
    certificate = looped(Cached())
    assert certificate.findings == ()
    (said,) = certificate.checks
    assert said.startswith("Cached steps against one full pass: they differ by ")


def test_outputs_are_compared_where_attention_is_the_same() -> None:
    torch.manual_seed(0)
    (finding,) = looped(Cached("after")).findings
    assert (finding.id, finding.where) == ("cached-steps-differ", "output")


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("length", "a pass over fewer tokens gives other numbers by itself"),
        ("dropped", "numbers are dropped at random"),
    ],
)
def test_what_is_not_compared_is_said(fault: str, why: str) -> None:
    torch.manual_seed(0)
    certificate = looped(Cached(fault))
    assert "cached-steps-differ" not in {x.id for x in certificate.findings}
    said = f"Cached steps were not compared with one full pass: {why}."
    assert said in certificate.checks


def test_numbers_of_places_are_no_tokens_of_a_cache() -> None:
    class Placed(nn.Module):
        """Its places are cut off from a longer row, and a sentence begins with 0."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.table = nn.Embedding(40, 16), nn.Embedding(9, 16)
            self.parts, self.out = nn.Linear(16, 48), nn.Linear(16, 40)

        def forward(self, ids: Tensor, at: Tensor, cache: Cache) -> Tensor:
            x = self.words(ids) + self.table(at)
            q, k, v = self.parts(x).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            cache[:] = [torch.cat([*cache, torch.stack([k, v])], 3)]
            k, v = cache[0].unbind()
            y = F.scaled_dot_product_attention(q, k, v)
            return self.out(y.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    torch.manual_seed(0)
    model, cache = Placed().eval(), list[Tensor]()
    y, at = torch.tensor([[0], [0]]), torch.arange(9).repeat(2, 1)
    with torch.no_grad(), watch(model) as watched:
        for step in range(5):
            best = model(y[:, -1:].clone(), at[:, step : step + 1], cache)
            y = torch.cat([y, best[:, -1].argmax(-1, keepdim=True)], 1)
    assert watched.last_run[0].weights.shape == (2, 2, 5, 5)
    assert watched.certificate.findings == ()
