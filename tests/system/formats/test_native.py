"""Native checkpoints: what is written is what is read."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.system.formats.folders import (
    PIECES,
    SPECIAL,
    edit_config,
    pieces,
    write_letters,
)
from tests.tiny_models import tiny_model
from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Transformer
from visformer.core.position_rules import sinusoidal
from visformer.errors import CheckpointError, InputError
from visformer.formats.layouts.native import TokenizerFiles, write_native
from visformer.formats.loading import inspect, load
from visformer.values.config import FORMER_NAMES

SIZES = [
    {},
    {"tied_output": False},
    {"shared_embedding": False, "tied_output": False, "norm_first": True},
    {"shared_embedding": False, "final_norm": True, "masked_value": -math.inf},
]


def reopened(folder: Path, model: Transformer) -> Checkpoint:
    return load(write_letters(folder, model), device="cpu")


@pytest.mark.parametrize("sizes", SIZES)
def test_round_trip_keeps_weights_and_config(
    tmp_path: Path, sizes: dict[str, Any]
) -> None:
    model = tiny_model(**sizes)
    checkpoint = reopened(tmp_path / "new", model)
    assert checkpoint.config == model.config
    assert (checkpoint.assumed, checkpoint.findings) == ((), ())
    expected = dict(model.named_parameters())
    found = dict(checkpoint.model.named_parameters())
    assert list(found) == list(expected)  # shared ones stay shared
    for name, weight in found.items():
        assert torch.equal(weight, expected[name].half().float()), name


@pytest.mark.parametrize("sizes", SIZES)
def test_round_trip_keeps_the_output(tmp_path: Path, sizes: dict[str, Any]) -> None:
    model = tiny_model(**sizes)
    opened = reopened(tmp_path, model).model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())
        source, target = torch.tensor([[4, 9, 5, 3]]), torch.tensor([[2, 7, 8]])
        assert torch.equal(opened(source, target, 0), model(source, target, 0))


def test_model_is_ready_to_run(tmp_path: Path) -> None:
    model = load(write_letters(tmp_path), device="cpu").model
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert torch.equal(model.positions, sinusoidal(64, 16))
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32}


def test_opening_and_watching_load_no_compiler(tmp_path: Path) -> None:
    """It is 800 modules, which take 2 s."""
    program = (
        "import sys, torch, visformer; from visformer.formats.loading import load; "
        f"load({str(write_letters(tmp_path))!r}, device='cpu'); "
        "layer = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval(); "
        "assert visformer.watch(layer)(torch.zeros(1, 3, 8)).attentions; "
        "sys.exit(bool({'sympy', 'torch._dynamo'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_tied_weights_stay_tied(tmp_path: Path) -> None:
    model = load(write_letters(tmp_path), device="cpu").model
    assert model.output.weight is model.target_embedding.weight
    assert model.source_embedding is model.target_embedding
    stored = load_file(tmp_path / "model.safetensors")
    assert "output.weight" not in stored
    assert "source_embedding.weight" not in stored
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}


def test_output_may_be_tied_without_shared_embeddings(tmp_path: Path) -> None:
    model = reopened(tmp_path, tiny_model(shared_embedding=False)).model
    assert model.output.weight is model.target_embedding.weight
    assert model.source_embedding is not model.target_embedding


def test_large_weights_keep_their_full_precision(tmp_path: Path) -> None:
    model, name = tiny_model(), "encoder.layers.0.feed_forward.w1.bias"
    with torch.no_grad():
        model.get_parameter(name)[3] = 1e5  # too large for float16
    checkpoint = reopened(tmp_path, model)
    assert checkpoint.model.get_parameter(name)[3] == 1e5
    assert checkpoint.findings == ()


def test_sentencepiece_in_one_file_and_in_two(tmp_path: Path) -> None:
    one = {"joint.model": pieces()}
    joint = TokenizerFiles("sentencepiece", "joint.model", "joint.model", one)
    both = {"a.model": pieces(), "b.model": pieces("fr")}
    two = TokenizerFiles("sentencepiece", "a.model", "b.model", both)
    for files in (joint, two):
        folder = tmp_path / files.source.removesuffix(".model")
        model = tiny_model(source_vocabulary=PIECES, target_vocabulary=PIECES)
        write_native(folder, model, name="x", special=SPECIAL, tokenizer=files)
        tokenizer = load(folder, device="cpu").tokenizer
        assert (tokenizer.source is tokenizer.target) == (files is joint)
        assert tokenizer.decode(tokenizer.encode_target("the cat")) == "the cat"
        assert not (folder / "README.md").exists()


def test_folder_holds_config_weights_tokenizer_and_card(tmp_path: Path) -> None:
    write_letters(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model.safetensors",
        "vocab.json",
        "README.md",
    }
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["format"], config["version"]) == ("visformer", 1)
    assert config["special"] == {"pad": 0, "unk": 1, "bos": 2, "eos": 3}
    assert config["tokenizer"]["source"] == "vocab.json"


def test_failed_write_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load(write_letters(tmp_path), device="cpu").digest

    def full(_: Path, __: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(
        InputError, match=r"cannot be written: No space left on device\.$"
    ):
        write_letters(tmp_path, tiny_model(seed=1))
    assert load(tmp_path, device="cpu").digest == before


def test_name_and_defaults(tmp_path: Path) -> None:
    assert load(write_letters(tmp_path), device="cpu").name == "letters a>z"

    def forget(config: dict[str, Any]) -> None:
        del config["name"], config["model"]["norm_eps"]

    edit_config(tmp_path, forget)
    checkpoint = load(tmp_path, device="cpu")
    assert checkpoint.name == tmp_path.name
    assert checkpoint.assumed == ("norm_eps = 1e-05 (config.json does not say)",)


def test_a_config_under_its_former_names_opens(tmp_path: Path) -> None:
    write_letters(tmp_path)
    config = load(tmp_path, device="cpu").config

    def before(config: dict[str, Any]) -> None:
        for former, name in FORMER_NAMES.items():
            config["model"][former] = config["model"].pop(name)

    edit_config(tmp_path, before)
    checkpoint = load(tmp_path, device="cpu")
    assert (checkpoint.config, checkpoint.assumed) == (config, ())


def test_files_of_the_folder_open_it(tmp_path: Path) -> None:
    write_letters(tmp_path)
    for name in ("model.safetensors", "config.json"):
        assert load(tmp_path / name, device="cpu").name == "letters a>z"
    assert load(str(tmp_path), layout="native", device="cpu").layout == "native"


def test_unknown_layout_and_device(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="layout is 'onnx', but must be one of nat"):
        load(tmp_path, layout="onnx")
    with pytest.raises(InputError, match="no device “abacus” here"):
        load(tmp_path, device="abacus")


def test_not_finite_weights_are_findings(tmp_path: Path) -> None:
    model = tiny_model()
    with torch.no_grad():
        matrix = model.get_parameter("encoder.layers.1.feed_forward.w1.weight")
        matrix[0, :3] = torch.nan
        bias = model.get_parameter("decoder.layers.0.self_attention.query.bias")
        bias[2] = torch.inf
    found = reopened(tmp_path, model).findings
    numbers = "numbers {} NaN or infinite, which spreads to everything that reads {}."
    assert [(finding.id, finding.where, finding.what) for finding in found] == [
        (
            "not-finite",
            "encoder.layers.1.feed_forward.w1.weight",
            f"3 of 512 {numbers.format('are', 'them')}",
        ),
        (
            "not-finite",
            "decoder.layers.0.self_attention.query.bias",
            f"1 of 16 {numbers.format('is', 'it')}",
        ),
    ]


def test_many_damaged_tensors_are_counted(tmp_path: Path) -> None:
    model = tiny_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    findings = reopened(tmp_path, model).findings
    total = len(list(model.parameters()))
    assert len(findings) == 9
    assert findings[-1].what == (
        f"{total - 8} more tensors hold NaN or infinite numbers, which spread to "
        "everything that reads them."
    )


def test_memory_is_compared_before_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_letters(tmp_path)
    monkeypatch.setattr("visformer.core.assembly.available_memory", lambda: 20_000)
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path, device="cpu")
    assert str(caught.value) == (
        "model.safetensors needs 62.8 kB of memory, but only 20.0 kB is free. Close "
        "other programs or choose a smaller model."
    )


def test_inspect_describes_a_checkpoint(tmp_path: Path) -> None:
    report = inspect(write_letters(tmp_path))
    json.dumps(report, allow_nan=False)  # plain data throughout
    assert report["problem"] is None
    assert report["missing"] == []
    assert report["layout"] == "native"
    assert report["bytes"] == (tmp_path / "model.safetensors").stat().st_size
    assert report["parameters"] == sum(p.numel() for p in tiny_model().parameters())
    assert report["config"]["d_model"] == 16
    assert report["special"] == {"pad": 0, "bos": 2, "eos": 3}
    assert report["tokenizer"] == {
        "kind": "vocabulary",
        "source_tokens": 30,
        "target_tokens": 30,
    }
    first = {"name": "target_embedding.weight", "shape": [30, 16], "dtype": "float16"}
    assert first in report["tensors"]


def test_inspect_describes_what_cannot_be_opened(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2, 3)}, tmp_path / "model.safetensors")
    report = inspect(tmp_path)
    assert report["problem"].endswith("that holds config.json and model.safetensors.")
    assert report["missing"] == ["config.json"]
    assert report["tensors"] == [{"name": "a", "shape": [2, 3], "dtype": "float32"}]
    torch.save({"b": torch.ones(4)}, tmp_path / "m.pt")
    assert inspect(tmp_path / "m.pt")["tensors"][0]["shape"] == [4]
    assert inspect(tmp_path / "nowhere")["tensors"] == []


def test_inspect_names_missing_weights(tmp_path: Path) -> None:
    write_letters(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    report = inspect(tmp_path)
    assert report["missing"] == ["model.safetensors"]
    assert report["problem"].startswith("model.safetensors is missing from ")
