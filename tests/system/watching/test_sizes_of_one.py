"""Attention over one key, one query, one head: what is degenerate is found too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.system.watching.comparing import assert_watched
from tests.system.watching.difficult_models import HEADS, SIZE, WIDTH, Attending
from visformer.watching.watcher import watch


class ByEinsum(Attending):
    """One key is not summed over: einsum multiplies the values by the weights."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        q = self.q(target).unflatten(-1, (HEADS, SIZE))
        k, v = (f(source).unflatten(-1, (HEADS, SIZE)) for f in (self.k, self.v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / SIZE**0.5
        weights = self.keep(scores.softmax(-1))
        return self.o(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))  # type: ignore[no-any-return]


class MaskFirst(Attending):
    """The mask is the first argument, and was made of the tokens themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(24, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        q, k, v = self.projected(self.embed(ids))
        scores = q @ k.mT / SIZE**0.5
        lowest = torch.tensor(torch.finfo(scores.dtype).min)
        scores = torch.where((ids != 0)[:, None, None], scores, lowest)
        return self.joined(self.keep(scores.softmax(-1)) @ v)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("keys", [1, 6])
def test_any_of_the_sizes_may_be_one(batch: int, queries: int, keys: int) -> None:
    torch.manual_seed(3)
    model = ByEinsum().eval()
    source, target = (torch.randn(batch, n, WIDTH) for n in (keys, queries))
    with torch.no_grad():
        model(source, target)
    own, model.kept = list(model.kept), []
    watched = assert_watched("einsum", model, [source, target], ["cross"], own)
    (one,) = watched.attentions
    assert one.weights.shape == (batch, HEADS, queries, keys)
    assert one.values.shape == (batch, HEADS, keys, SIZE)
    assert watched.certificate.missed == ()
    assert watched.certificate.findings == ()


@pytest.mark.parametrize("batch", [1, 3])
def test_a_mask_that_comes_first_is_no_score(batch: int) -> None:
    ids = torch.randint(1, 24, (batch, 7))
    ids[-1, -2:] = 0
    model = MaskFirst().eval()
    with torch.no_grad():
        model(ids)
    own, model.kept = list(model.kept), []
    watched = assert_watched("where", model, [ids], ["encoder"], own, pad=0)
    assert watched.certificate.missed == ()


@pytest.mark.parametrize("sequence_first", [False, True])
def test_as_many_rows_as_tokens_are_no_other_tokens(sequence_first: bool) -> None:
    class Model(MaskFirst):
        def forward(self, ids: Tensor) -> Tensor:
            y = super().forward(ids.T if sequence_first else ids)
            return y.transpose(0, 1) if sequence_first else y

    ids = torch.randint(1, 24, (5, 5))
    ids[-1, -2:] = 0
    watched = watch(Model(), pad=0)(ids.T.contiguous() if sequence_first else ids)
    sources = [trace.source_ids.tolist() for trace in watched.traces]
    assert sources == ids.tolist()
    assert watched.certificate.findings == ()


def test_a_softmax_over_the_only_query_is_not_over_the_keys() -> None:
    class OverQueries(Attending):
        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            q, k, v = self.heads(self.q(target)), *self.projected(source)[1:]
            return self.joined((q @ k.mT / SIZE**0.5).softmax(-2) @ v)

    source, target = (torch.randn(2, n, WIDTH) for n in (6, 1))
    watched = watch(OverQueries())(source, target)
    assert watched.certificate.passed
    assert [f.id for f in watched.certificate.findings] == ["softmax-axis"]


def test_a_softmax_over_the_queries_of_one_key_is_named() -> None:
    class OverQueries(Attending):
        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            q = self.q(target).unflatten(-1, (HEADS, SIZE))
            k, v = (f(source).unflatten(-1, (HEADS, SIZE)) for f in (self.k, self.v))
            weights = (torch.einsum("bqhd,bkhd->bhqk", q, k) / SIZE**0.5).softmax(-2)
            return self.o(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))  # type: ignore[no-any-return]

    source, target = (torch.randn(2, n, WIDTH) for n in (1, 5))
    watched = watch(OverQueries())(source, target)
    assert watched.certificate.passed
    assert watched.certificate.missed == ()
    assert [f.id for f in watched.certificate.findings] == ["softmax-axis"]


def test_one_token_of_one_row_tells_of_no_batch() -> None:
    """Which of two axes of size one counts rows cannot be told: none is accused."""

    class SequenceFirst(Attending):
        def forward(self, x: Tensor) -> Tensor:
            at = torch.arange(len(x))[:, None, None]  # along the tokens
            q, k, v = self.projected((x + at).transpose(0, 1))
            weights = (q @ k.mT / SIZE**0.5).softmax(-1)
            return self.joined(weights @ v).transpose(0, 1)

    for sizes in ((1, 1), (7, 1), (3, 3)):
        certificate = watch(SequenceFirst()).certify(torch.randn(*sizes, WIDTH))
        assert [f.id for f in certificate.findings] == []
        assert (sizes == (1, 1)) == ("No other lengths" in certificate.checks[0])
