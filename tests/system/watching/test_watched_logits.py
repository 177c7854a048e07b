"""What a watched model predicts: its logits, however they are returned, and ranks."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import visformer
from tests.system.watching.test_comparing_runs import SOURCE, TARGET, Mine
from visformer.core.sampling import ranks

Told = namedtuple("Told", "state scores")


class Shaped(nn.Module):
    """The model, with its logits in another shape."""

    def __init__(self, shape: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.inside, self.shape = Mine(), shape

    def forward(self, source: Tensor, target: Tensor) -> Any:
        return self.shape(self.inside(source, target))


@pytest.mark.parametrize(
    "shape",
    [
        lambda z: z,
        lambda z: z.flatten(0, 1),
        lambda z: (z.mean(-1), None, z),
        lambda z: (torch.zeros(len(z), 7, 16), {"scores": z}),
        lambda z: Told(torch.zeros(2, 4, 16), z),
        lambda z: {"loss": z.mean(), "logits": z},
        lambda z: z.transpose(0, 1),
        lambda z: z.log_softmax(-1),
        lambda z: z.softmax(-1),
        lambda z: z.double(),
    ],
)
def test_logits_are_found_however_they_are_returned(
    shape: Callable[[Tensor], Any],
) -> None:
    with torch.no_grad():
        logits = Mine()(SOURCE, TARGET)
        watched = visformer.watch(Shaped(shape))(SOURCE, TARGET)
    for row, trace in enumerate(watched.traces):
        p = logits[row].softmax(-1)
        for at, step in enumerate(trace.steps):
            assert step.probability == pytest.approx(float(p[at, step.id]), abs=1e-6)
            assert step.rank == ranks(logits[row, at : at + 1], step.id)
            best = logits[row, at].sort(descending=True, stable=True).indices
            assert [one.id for one in step.candidates] == best.tolist()
            entropy = -(p[at] * p[at].log2()).sum()
            assert step.entropy == pytest.approx(float(entropy), abs=1e-5)
        assert len(trace.steps) == len(trace)


def test_what_is_no_distribution_over_tokens_is_none() -> None:
    for shape in (lambda z: z[..., :9], lambda z: z.sum(-1)):
        with torch.no_grad():
            watched = visformer.watch(Shaped(shape))(SOURCE, TARGET)
        assert [len(trace.steps) for trace in watched.traces] == [0, 0]


def test_ranks_follow_the_logits_where_probabilities_are_all_zero() -> None:
    """Below e^-103 float32 knows no probability; of equal logits the lowest id."""
    far = torch.arange(20.0) * -30
    far[7] = far[6]

    def distant(z: Tensor) -> Tensor:
        return far + torch.zeros_like(z)

    def target(*ids: int) -> Tensor:
        return torch.tensor([[1, *ids]])

    with torch.no_grad():
        watched = visformer.watch(Shaped(distant))(SOURCE[:1], target(5, 6, 7, 19))
    (trace,) = watched.traces
    assert [step.rank for step in trace.steps] == [6, 7, 8, 20, 1]
    assert trace.steps[3].probability == 0
    assert [one.id for one in trace.steps[0].candidates] == [*range(20)]
    wrapped = visformer.wrap(Shaped(distant), bos=1, eos=2)
    forced = visformer.Decoding(wrapped, [3, 4], limit=3)
    steps = forced.follow([(7, "forced"), (19, "forced")]).steps
    assert [step.rank for step in steps] == [8, 20]
