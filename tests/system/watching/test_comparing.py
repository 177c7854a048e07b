"""A module's own forward pass against the checkpoint of its weights."""

from __future__ import annotations

import itertools
import math
import warnings
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import visformer
from tests.system.watching.faulty_models import built
from visformer.errors import InputError

SOURCE, TARGET, WIDTH = 11, 13, 16
IDS = [[3, 4, 5, 6], [7, 8, 9, 10]], [[1, 6, 7, 8, 9], [1, 3, 2, 5, 4]]


class Program(nn.Module):
    """A program around torch.nn.Transformer, with a fault if one is asked for."""

    def __init__(self, fault: str = "", layers: int = 2) -> None:
        super().__init__()
        self.fault = fault
        self.src_emb = nn.Embedding(SOURCE, WIDTH)
        self.tgt_emb = nn.Embedding(TARGET, WIDTH)
        first = fault == "norm_first"
        with warnings.catch_warnings(action="ignore"):
            self.transformer = nn.Transformer(
                *(WIDTH, 4, layers, layers, 24), batch_first=True, norm_first=first
            )
        self.out = nn.Linear(WIDTH, TARGET)
        torch.manual_seed(0)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.4)
        self.eval()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        scale = math.sqrt(WIDTH) if self.fault == "scale" else 1.0
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.transformer(
            self.src_emb(source) * scale,
            self.tgt_emb(target) * scale,
            tgt_mask=None if self.fault == "causal" else mask,
        )
        logits: Tensor = self.out(hidden)
        return logits


def opened(program: Program, **told: object) -> visformer.Checkpoint:
    given = {"positions": "none", "embedding_scale": False, "norm_first": False, **told}
    return visformer.load(program, device="cpu", **given)  # type: ignore[arg-type]


@cache
def sound() -> visformer.Checkpoint:
    """Return the checkpoint of a program without a fault; no test alters it."""
    return opened(Program())


def test_a_sound_program_is_its_checkpoint() -> None:
    made = visformer.compare(Program(), sound(), *IDS)
    assert (made.kind, made.remedy) == (None, "")
    assert str(made) == (
        "Attention is the same in every head, and so is what follows it."
    )


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("causal", "decoder"), ("scale", "encoder"), ("norm_first", "encoder")],
)
def test_a_fault_is_placed(fault: str, kind: str) -> None:
    program = Program(fault)
    made = visformer.compare(program, opened(program), *IDS)
    assert (made.kind, made.layer, made.head) == (kind, 0, 0)
    assert made.difference > 1e-3
    assert made.remedy == ""
    assert f"first in {kind} attention, layer 1, head 1, by" in str(made)


PADDED = [[3, 4, 5, 6, 7], [8, 9, 4, 0, 0], [4, 4, 3, 0, 0]]
SHIFTED = [[1, 6, 7, 8, 9, 4], [1, 3, 2, 5, 0, 0], [1, 3, 0, 0, 0, 0]]


def opened_scratch(module: nn.Module, rule: str = "keys") -> visformer.Checkpoint:
    return visformer.load(module, device="cpu", mask_rule=rule)


@pytest.mark.parametrize(
    ("fault", "rule", "remedy"),
    [
        ("mask-multiplied", "keys", ""),
        ("dropout-on", "keys", "module.eval()"),
        ("dropout-on", "rows_and_keys", ""),  # not alone
        ("softmax-axis", "keys", ""),
    ],
)
def test_dropout_that_is_on_is_named(fault: str, rule: str, remedy: str) -> None:
    module = built(fault)
    torch.manual_seed(0)  # dropout
    made = visformer.compare(module, opened_scratch(module, rule), PADDED, SHIFTED)
    assert made.kind is not None
    assert made.remedy == remedy
    assert (f"It vanishes with {remedy}." in str(made)) is bool(remedy)


def test_what_differs_after_the_last_attention_is_said() -> None:
    class Doubled(Program):
        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            return super().forward(source, target) * 2

    program = Doubled("", 1)
    made = visformer.compare(program, opened(program), *IDS)
    with torch.no_grad():
        logits = Program("", 1)(*map(torch.tensor, IDS))
    expected = (2 * logits).log_softmax(-1) - logits.log_softmax(-1)
    assert made.kind is None
    assert made.log_probabilities == pytest.approx(expected.abs().max().item(), 1e-4)
    assert "in every head, but the logarithms of the probabilities differ" in str(made)


def test_another_number_of_heads_is_found() -> None:
    program = Program()
    checkpoint = opened(program, heads=8)
    made = visformer.compare(program, checkpoint, *IDS)
    assert made.heads == (4, 8)


def test_what_has_no_attention_is_refused() -> None:
    class Plain(nn.Module):
        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            return target.float()[..., None]

    with pytest.raises(InputError):
        visformer.compare(Plain(), sound(), *IDS)


ROW = IDS[0][1:], IDS[1][1:]
RAN = "watched", "trace", "run"


@cache
def side(kind: str, fault: str) -> Any:
    """Return what is compared, of a program of one layer or of its checkpoint."""
    program = Program(fault, 1)
    if kind == "module":
        return program
    if kind == "wrapped":
        return visformer.wrap(program, bos=1, eos=3)
    if kind in ("watched", "trace"):
        with torch.no_grad():
            watched = visformer.watch(program)(*map(torch.tensor, ROW))
        return watched if kind == "watched" else watched.traces[0]
    checkpoint = opened(program, embedding_scale=fault == "scale")
    return checkpoint if kind == "checkpoint" else visformer.run(checkpoint, *ROW)[0]


def first_weights(scale: float) -> Tensor:
    """Return what head 1 of the encoder's layer weighs, [S, S]."""
    program = Program("", 1)
    own = program.transformer.encoder.layers[0].self_attn
    x = program.src_emb(torch.tensor(ROW[0][0])) * scale
    q, k, _v = (x @ own.in_proj_weight.mT + own.in_proj_bias).split(WIDTH, -1)
    scores: Tensor = q[:, :4] @ k[:, :4].mT / 2  # heads of 4
    return scores.softmax(-1)


@pytest.mark.parametrize(
    "pair", [*itertools.product(("module", "checkpoint", "wrapped", *RAN), repeat=2)]
)
def test_every_pair_of_sides_tells_the_same(pair: tuple[str, str]) -> None:
    """What ran has its ids; the rest is given them. The second has the fault."""
    given = [] if {*pair} & {*RAN} else ROW
    one, other = (side(kind, "") for kind in pair)
    assert str(visformer.compare(one, other, *given)) == (
        "Attention is the same in every head, and so is what follows it."
    )
    made = visformer.compare(one, side(pair[1], "scale"), *given)
    assert (made.kind, made.layer, made.head, made.heads) == ("encoder", 0, 0, (4, 4))
    apart = first_weights(1.0) - first_weights(math.sqrt(WIDTH))
    assert made.difference == pytest.approx(apart.abs().max().item(), abs=1e-5)
