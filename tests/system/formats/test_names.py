"""names=: embeddings, positions and output that a file calls something else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.system.formats.folders import write_letters
from tests.system.formats.layout_models import MAKERS, SOURCE, WIDTH, state
from visformer.core.position_rules import sinusoidal
from visformer.errors import CheckpointError, InputError
from visformer.formats.layouts import LAYOUTS
from visformer.formats.loading import load
from visformer.formats.names import their_name

TUTORIALS = [name for name in MAKERS if name != "torch"]
OTHERS = {
    "source_embedding.weight": "net.words_in.weight",
    "target_embedding.weight": "net.words_out.weight",
    "output.weight": "net.last.weight",
    "output.bias": "net.last.bias",
}
NAMES = {
    "source_embedding": "net.words_in",
    "target_embedding": "net.words_out.weight",
    "output": "net.last",
}


def saved(path: Path, tensors: dict[str, Tensor]) -> Path:
    torch.save(tensors, path)
    return path


@pytest.mark.parametrize("layout", TUTORIALS)
def test_other_names_are_told(tmp_path: Path, layout: str) -> None:
    plain = state(MAKERS[layout])
    new = {
        their_name(LAYOUTS[layout].names, ours): name for ours, name in OTHERS.items()
    }
    other = {new.get(name, name): tensor for name, tensor in plain.items()}
    path = saved(tmp_path / "m.pt", other)
    with pytest.raises(CheckpointError, match="Unexpected"):
        load(path, heads=2, device="cpu")
    checkpoint = load(path, heads=2, device="cpu", names=NAMES)
    assert checkpoint.layout == layout
    for ours, name in OTHERS.items():
        assert torch.equal(checkpoint.model.get_parameter(ours), other[name])
    other["net.last.weight"] = torch.ones(2, WIDTH)
    with pytest.raises(
        CheckpointError, match=r"Wrong shape: net\.last\.weight is \[2, 8\]"
    ):
        load(saved(path, other), heads=2, device="cpu", names=NAMES)


@pytest.mark.parametrize("layout", ["d2l", "labml", "modular"])
def test_a_stored_table_may_be_named(tmp_path: Path, layout: str) -> None:
    table = 2 * sinusoidal(30, WIDTH)
    tensors = {**state(MAKERS[layout]), "encoder.pos.P": table[None]}
    path = saved(tmp_path / "m.pt", tensors)
    told = {"positions": "encoder.pos.P"}
    checkpoint = load(path, heads=2, device="cpu", names=told)
    assert torch.equal(checkpoint.model.positions, table)
    assert checkpoint.config.max_positions == 30
    assert not any("max_positions" in line for line in checkpoint.assumed)


def test_roles_may_be_swapped_but_not_doubled(tmp_path: Path) -> None:
    tensors = state(MAKERS["scratch"])
    source, target = "encoder_embedding.weight", "decoder_embedding.weight"
    tensors[target] = torch.randn(SOURCE, WIDTH)
    tensors["fc_out.weight"], tensors["fc_out.bias"] = tensors[target], torch.ones(11)
    path = saved(tmp_path / "m.pt", tensors)
    swapped = {"source_embedding": target, "target_embedding": source}
    checkpoint = load(path, heads=2, device="cpu", names=swapped)
    assert torch.equal(checkpoint.model.source_embedding.weight, tensors[target])
    with pytest.raises(CheckpointError, match="the file already has one"):
        load(path, heads=2, names={"target_embedding": source})
    with pytest.raises(CheckpointError, match="no such tensor around its layers"):
        load(path, heads=2, names={"output": "head"})
    with pytest.raises(CheckpointError, match="does not accept “head”"):
        load(path, heads=2, names={"head": "fc_out"})


def test_the_output_of_torch_has_its_bias(tmp_path: Path) -> None:
    tensors = state(MAKERS["torch"])
    path = saved(tmp_path / "m.pt", tensors)
    made = load(path, heads=2, device="cpu", names={"output": "generator"}).model
    assert torch.equal(made.get_parameter("output.bias"), tensors["generator.bias"])


def test_folders_need_no_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tensor names"):
        load(write_letters(tmp_path), names=NAMES)
