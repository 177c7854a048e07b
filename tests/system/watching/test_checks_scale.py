"""The scale of scores: what is wrong is named with what belongs there, not a design."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.system.watching.planted_faults import (
    Attention,
    NotScaled,
    sentences,
    trained,
)
from visformer.values.finding import Finding
from visformer.watching.watcher import watch

WIDTH, HEADS, SIZE = 32, 4, 8


class Decoder(nn.Module):
    """A causal layer; ``score`` makes scores of queries and keys [B, H, T, d]."""

    def __init__(self, score: Callable[[Tensor, Tensor], Tensor], heads: int = HEADS):
        super().__init__()
        self.score, self.heads = score, heads
        self.embed, self.out = nn.Embedding(20, WIDTH), nn.Linear(WIDTH, 20)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        q, k, v = (
            part(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        later = torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool()
        weights = self.score(q, k).masked_fill(later, -1e9).softmax(-1)
        y: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return y


def findings(model: nn.Module, *args: Any) -> tuple[Finding, ...]:
    args = args or (torch.randint(0, 20, (2, 6)),)
    with torch.no_grad():
        return watch(model.eval()).certify(*args).findings


def scaled(scale: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda q, k: q @ k.mT * scale


@pytest.mark.parametrize(
    ("scale", "found"),
    [
        (WIDTH**-0.5, "0.177 = 1/sqrt(32)"),
        (SIZE**0.5, "2.83 = sqrt(8)"),
        (1 / WIDTH, "0.0312 = 1/32"),
        (WIDTH**0.5, "5.66 = sqrt(32)"),
        (float(SIZE), "8 = 8"),
    ],
)
def test_a_wrong_scale_is_named_with_what_belongs_there(
    scale: float, found: str
) -> None:
    torch.manual_seed(0)
    (finding,) = findings(Decoder(scaled(scale)))
    assert (finding.id, finding.severity) == ("wrong-scale", "fault")
    assert finding.where == "decoder layer 1 (forward)"
    assert (
        f"is {found}; for heads of 8 it ought to be 1/sqrt(8) = 0.354" in finding.what
    )


def test_division_without_the_root_is_a_note() -> None:
    (finding,) = findings(Decoder(scaled(1 / SIZE)))
    assert (finding.id, finding.severity) == ("wrong-scale", "note")
    assert "0.125 = 1/8" in finding.what
    assert "muP" in finding.remedy


def test_no_scale_is_a_fault_of_several_heads_and_a_note_of_one() -> None:
    (several,) = findings(Decoder(scaled(1.0)))
    (one,) = findings(Decoder(scaled(1.0), heads=1))
    assert (several.id, several.severity) == ("not-scaled", "fault")
    assert (one.id, one.severity) == ("not-scaled", "note")


def test_a_trained_model_may_carry_the_scale_in_its_weights() -> None:
    """Half of it in those of the queries, half in those of the keys."""
    model = trained()
    for part in model.modules():
        if isinstance(part, Attention):
            part.__class__ = NotScaled
            for own in (*part.q.parameters(), *part.k.parameters()):
                own.data /= SIZE**0.25
    src, given, _labels = sentences(3, 7)
    (finding,) = findings(model, src, given)
    assert (finding.id, finding.severity) == ("not-scaled", "note")
    assert finding.what.startswith("If ")


def test_a_scale_that_may_be_of_a_configuration_is_a_note() -> None:
    torch.manual_seed(0)
    (finding,) = findings(Decoder(lambda q, k: q @ k.mT / 12))  # as Gemma 2
    assert (finding.id, finding.severity) == ("wrong-scale", "note")
    assert "0.0833 = 0.236/sqrt(8)" in finding.what


def test_division_by_the_root_of_the_length_is_seen_at_other_lengths() -> None:
    torch.manual_seed(0)
    model = Decoder(lambda q, k: q @ k.mT / k.shape[2] ** 0.5)
    (finding,) = findings(model, torch.randint(0, 20, (2, SIZE)))
    assert (finding.id, finding.severity) == ("wrong-scale", "note")
    assert "0.707 = 1/sqrt(2)" in finding.what


def normalised(q: Tensor, k: Tensor) -> Tensor:
    return nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).mT


@pytest.mark.parametrize(
    "score",
    [
        scaled(SIZE**-0.5),
        normalised,
        lambda q, k: normalised(q, k) * SIZE**0.5,  # a temperature
        lambda q, k: (q @ k.mT + torch.arange(q.shape[2])) / SIZE**0.5,
        lambda q, k: q @ k.mT + torch.arange(q.shape[2]) / 10,  # biases, as T5
    ],
)
def test_a_scale_of_design_is_no_finding(score: Any) -> None:
    torch.manual_seed(0)
    assert findings(Decoder(score)) == ()


def test_a_learned_temperature_is_no_finding() -> None:
    class Learned(Decoder):
        def __init__(self) -> None:
            super().__init__(lambda q, k: q @ k.mT * self.temperature)
            self.temperature = nn.Parameter(torch.tensor(1.0))

    assert findings(Learned()) == ()


def test_layers_with_a_scale_of_their_own_have_no_finding() -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, WIDTH)
            self.scales = [1 / math.sqrt(SIZE) / at for at in (1, 2, 3)]
            self.parts = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(3))

        def forward(self, ids: Tensor) -> Tensor:
            x: Tensor = self.embed(ids)
            for part, scale in zip(self.parts, self.scales, strict=True):
                q, k, v = part(x).unflatten(2, (3, HEADS, SIZE)).permute(2, 0, 3, 1, 4)
                y = (q @ k.mT * scale).softmax(-1) @ v
                x = x + y.transpose(1, 2).flatten(2)
            return x

    assert findings(Several()) == ()


def test_attention_to_states_as_they_are_has_no_scale() -> None:
    class Luong(nn.Module):
        """Keys are the encoder's states, which are the values, too."""

        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = (nn.Embedding(20, WIDTH) for _ in range(2))
            self.encoder, self.decoder = (
                nn.GRU(WIDTH, WIDTH, batch_first=True) for _ in range(2)
            )
            self.out = nn.Linear(2 * WIDTH, 20)

        def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
            states, last = self.encoder(self.source(src))
            asks, _last = self.decoder(self.target(tgt), last)
            read = (asks @ states.mT).softmax(-1) @ states
            y: Tensor = self.out(torch.cat([asks, read], -1))
            return y

    torch.manual_seed(0)
    ids = torch.randint(2, 20, (2, 7)), torch.randint(2, 20, (2, 5))
    assert findings(Luong(), *ids) == ()
