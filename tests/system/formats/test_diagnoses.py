"""What weights tell of a checkpoint's faults: each fault made by hand, and none."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import visformer
from visformer.core.position_rules import halves, sinusoidal
from visformer.formats.diagnoses import findings_of

Tensors = dict[str, Tensor]
SIZES: dict[str, Any] = {
    "source_vocabulary": 60,
    "target_vocabulary": 50,
    "d_model": 32,
    "heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "feed_forward": 48,
}
CONFIG = visformer.build("scratch", device="cpu", **SIZES).config


def healthy() -> Tensors:
    """Return a model's tensors as training may leave them."""
    built = visformer.build("labml", device="cpu", **SIZES)
    drawn = torch.Generator().manual_seed(0)
    made = {name: p.clone() for name, p in built.model.named_parameters()}
    for tensor in made.values():
        tensor += 0.3 * torch.randn(tensor.shape, generator=drawn)
    return {**made, "positions": sinusoidal(100, 32)}


def found(tensors: Tensors, pads: tuple[int, int] = (0, 0)) -> list[str]:
    """Return what is said of weights, apart from what is true of a layout."""
    return list(map(str, findings_of(CONFIG, tensors, pads)))


def ids(tensors: Tensors, pads: tuple[int, int] = (0, 0)) -> set[str]:
    return {line.partition(":")[0] for line in found(tensors, pads)}


def test_a_healthy_model_has_no_findings() -> None:
    assert found(healthy()) == []
    padded = healthy()
    padded["source_embedding.weight"][3] = 0
    padded["target_embedding.weight"][1] = 0
    assert found(padded, (3, 1)) == []


def poisoned(tensors: Tensors) -> None:
    tensors["output.weight"][0, 0] = float("inf")


def flat(tensors: Tensors) -> None:
    tensors["encoder.layers.1.feed_forward.w1.weight"].fill_(0.25)


def reset_norms(tensors: Tensors) -> None:
    for name, tensor in tensors.items():
        if "norm." in name:
            tensor.fill_(float(name.endswith("weight")))


def copied_biases(tensors: Tensors) -> None:
    for name, tensor in tensors.items():
        if ".layers.1." in name and name.endswith("bias") and "norm" not in name:
            tensor.copy_(tensors[name.replace(".layers.1.", ".layers.0.")])


def linear_again(tensors: Tensors) -> None:
    fresh = nn.Linear(32, 48).weight
    tensors["decoder.layers.0.feed_forward.w1.weight"].copy_(fresh)


def xavier_again(tensors: Tensors) -> None:
    nn.init.xavier_uniform_(tensors["decoder.layers.1.self_attention.query.weight"])


def joint_again(tensors: Tensors) -> None:
    """Draw query, key and value together, as torch.nn.MultiheadAttention does."""
    joint = nn.MultiheadAttention(32, 2).in_proj_weight
    tensors["decoder.layers.1.self_attention.query.weight"].copy_(joint[:32])


def zero_rows(tensors: Tensors) -> None:
    tensors["source_embedding.weight"][[7, 9]] = 0


def first_rows(tensors: Tensors) -> None:
    table = tensors["target_embedding.weight"]
    table[12] = nn.init.xavier_uniform_(torch.empty(table.shape))[12]


def other_padding(tensors: Tensors) -> None:
    tensors["source_embedding.weight"][1] = 0


def mixed_up(tensors: Tensors) -> None:
    tensors["positions"] = halves(100, 32)


def strange_table(tensors: Tensors) -> None:
    tensors["positions"] = torch.rand(100, 32)


FAULTS: dict[str, tuple[Callable[[Tensors], None], str, str]] = {
    "infinite": (poisoned, "not-finite", "output.weight"),
    "constant": (flat, "constant", "encoder.layers.1.feed_forward.w1.weight"),
    "norms": (reset_norms, "untrained-norms", "Every norm has weight 1 and bias 0"),
    "biases": (copied_biases, "002-14", "biases are the same in all layers"),
    "linear": (linear_again, "initial-scale", "decoder.layers.0.feed_forward.w1"),
    "xavier": (xavier_again, "initial-scale", "decoder.layers.1.self_attention.query"),
    "joint": (joint_again, "initial-scale", "decoder.layers.1.self_attention.query"),
    "zero rows": (
        zero_rows,
        "untrained-rows",
        "2 of 60 rows are zero (the first is row 7)",
    ),
    "first rows": (
        first_rows,
        "untrained-rows",
        "1 of 50 rows is still as initialised (row 12)",
    ),
    "padding_idx": (other_padding, "003-8", "Row 1 is zero but the pad id is 0"),
    "mixed up": (mixed_up, "positions-order", "all sines before all cosines"),
    "no waves": (strange_table, "positions-unknown", "neither of the known orders"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_nothing_else(fault: str) -> None:
    torch.manual_seed(0)
    spoil, id, words = FAULTS[fault]
    tensors = healthy()
    with torch.no_grad():
        spoil(tensors)
    lines = found(tensors)
    assert {re.split(r"[: ]", line)[0] for line in lines} == {id}
    assert words in lines[0]
    for line in lines:  # where: what it is, and a remedy
        assert line.endswith(".")
        assert line.count(". ") == 1
        assert len(line) < 260


@pytest.mark.parametrize("preset", ["handout", "d2l", "labml", "modular", "scratch"])
def test_a_fresh_model_is_seen_to_be_one(preset: str) -> None:
    checkpoint = visformer.build(
        preset,
        device="cpu",
        source_vocabulary=60,
        target_vocabulary=50,
        d_model=64,
        heads=4,
        encoder_layers=2,
        decoder_layers=2,
        feed_forward=96,
    )
    config = checkpoint.config
    tensors = dict(checkpoint.model.named_parameters())
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        stored = {name: t.to(dtype) for name, t in tensors.items()}
        lines = list(map(str, findings_of(config, stored, (1, 1))))
        fresh = [line for line in lines if line.startswith("initial-scale")]
        matrices = sum(t.dim() == 2 for t in tensors.values())
        tables = 0 if preset == "labml" else 2  # drawn from a normal distribution
        assert f": {matrices - tables} of {matrices} matrices" in fresh[0]


def test_each_side_has_its_own_pad() -> None:
    tensors = healthy()
    tensors["source_embedding.weight"][2] = 0
    tensors["target_embedding.weight"][2] = 0
    lines = found(tensors, (2, 3))
    assert [line.partition(": Row")[0] for line in lines] == ["003-8: Target embedding"]


def test_a_file_is_told_its_own_names(tmp_path: Path) -> None:
    built = visformer.build("scratch", device="cpu", d_model=32, heads=2)
    assert built.findings == ()
    tensors = healthy()
    poisoned(tensors)
    first = findings_of(CONFIG, tensors, (0, 0), lambda name: f"my.{name}")[0]
    assert (first.id, first.where) == ("not-finite", "my.output.weight")
