"""Folders that are incomplete, contradict themselves or lead elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import visformer
from tests.system.formats.folders import edit_config, write_letters
from tests.system.formats.hostile import STATE, refused_folder, saved
from visformer.errors import InputError
from visformer.files import short
from visformer.formats.foreign import way_in
from visformer.formats.loading import load
from visformer.formats.weight_file import read_weights

# Checkpoint folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a native checkpoint that a test may spoil."""
    return write_letters(tmp_path / "model")


def test_folder_without_config(tmp_path: Path) -> None:
    assert refused_folder(tmp_path) == (
        f"{tmp_path.name} is not a Visformer checkpoint: it has no config.json. Choose "
        "the folder that holds config.json and model.safetensors."
    )


def test_lone_files_name_their_tensors(tmp_path: Path) -> None:
    assert refused_folder(saved(tmp_path / "m.pt", STATE)) == (
        "m.pt holds 2 tensors (a.weight, b), which do not match any known model. "
        + way_in()
    )
    own = {"encoder.layers.0.self_attention.query.weight": torch.ones(1)}
    save_file(own, tmp_path / "model.safetensors")
    assert refused_folder(tmp_path / "model.safetensors") == (
        f"model.safetensors holds 1 tensor ({short(next(iter(own)))}) but not the "
        "config of its model. Choose the folder that holds it and its config.json."
    )


MISSING_FILES = ["model.safetensors", "vocab.json"]


@pytest.mark.parametrize("name", MISSING_FILES)
def test_missing_files(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert refused_folder(folder) == (
        f"{name} is missing from model. Copy it into the folder."
    )


JSON_FAULTS = {
    '{"format": NaN}': "NaN is not a number",
    '{"version": -Infinity}': "-Infinity is not a number",
    '{"format": "visformer", "format": 1}': "“format” occurs twice",
    "{": "expecting property name enclosed in double quotes in line 1",
    '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}": "it is nested too deeply",
    '{"a": ' + "9" * 5000 + "}": "a number is too long",
}


@pytest.mark.parametrize("text", JSON_FAULTS, ids=range(len(JSON_FAULTS)))
def test_config_that_is_not_json(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    assert refused_folder(folder) == (
        f"config.json is not valid JSON: {JSON_FAULTS[text]}. Correct it or copy it "
        "again."
    )


def test_config_of_other_bytes(folder: Path) -> None:
    config = folder / "config.json"
    config.write_bytes(b'{"a": "\xff"}')
    assert "config.json is not valid JSON: it is not UTF-8." in refused_folder(folder)
    config.write_bytes(b" " * (1 << 20) + b"{}")
    assert refused_folder(folder) == (
        "config.json is too large: it has 1.0 MB, and the limit is 1.0 MB."
    )
    config.write_bytes(b"[]")
    assert refused_folder(folder) == (
        "config.json must hold one JSON object, from { to }."
    )


def setting(*keys: str, to: object) -> Callable[[dict[str, Any]], None]:
    """Return a change of a config: the value at ``keys``."""

    def change(config: dict[str, Any]) -> None:
        for key in keys[:-1]:
            config = config[key]
        config[keys[-1]] = to

    return change


LONG = "x" * 1000
OUTSIDE = "but must be the name of a file inside the checkpoint's folder."
CONFIG_FAULTS: list[tuple[tuple[str, ...], object, str]] = [
    (
        ("format",),
        "marian",
        " does not belong to a Visformer checkpoint: its “format” is not “visformer”. "
        "Choose a folder that Visformer wrote.",
    ),
    (
        ("version",),
        2,
        " has format version 2, but this Visformer reads versions up to 1. Update "
        "Visformer.",
    ),
    (("version",), "1", ': “version” is "1", but must be a whole number.'),
    (("model",), [], ": “model” is a list, but must be an object."),
    (
        ("learning_rate",),
        1,
        ": “learning_rate” is not a known key. Remove it, or update Visformer.",
    ),
    (
        ("model", "d_modle"),
        1,
        ": “model.d_modle” is not a known key. Remove it, or update Visformer.",
    ),
    (
        ("model", "d_model"),
        16.0,
        ": “model.d_model” is 16.0, but must be a whole number.",
    ),
    (
        ("model", "heads"),
        True,
        ": “model.heads” is true, but must be a whole number.",
    ),
    (
        ("model", "norm_first"),
        1,
        ": “model.norm_first” is 1, but must be true or false.",
    ),
    (
        ("model", "masked_value"),
        None,
        ": “model.masked_value” is null, but must be a number.",
    ),
    (
        ("model", "masked_value"),
        10**30,
        ": “model.masked_value” is too large a number.",
    ),
    (("model", "d_model"), 10**4000, ": “model.d_model” is too large a number."),
    (("model", "norm_eps"), -1.0, ": “model.norm_eps” must be between 0 and 1."),
    (
        ("special", "eos"),
        30,
        ": “special.eos” is 30, but must be an id of the vocabulary, from 0 to 29.",
    ),
    (
        ("special", "pad"),
        -(10**30),
        f": “special.pad” is -{10**30}, but must be an id of the vocabulary, from 0 to "
        "29.",
    ),
    (
        ("special", "unk"),
        4,
        ": “special.unk” is 4, but the unknown token of vocab.json is 1. Correct it.",
    ),
    (
        ("tokenizer", "kind"),
        LONG,
        f": “tokenizer.kind” is “{'x' * 47}…”, but must be “sentencepiece” or "
        "“vocabulary”.",
    ),
    (
        ("tokenizer", "source"),
        "../vocab.json",
        f": “tokenizer.source” is “../vocab.json”, {OUTSIDE}",
    ),
]


@pytest.mark.parametrize(("keys", "value", "sentence"), CONFIG_FAULTS)
def test_config_faults(
    folder: Path, keys: tuple[str, ...], value: object, sentence: str
) -> None:
    edit_config(folder, setting(*keys, to=value))
    assert refused_folder(folder) == f"config.json{sentence}"


def test_missing_config_keys(folder: Path) -> None:
    edit_config(folder, lambda config: config["model"].pop("source_vocabulary"))
    assert refused_folder(folder) == (
        "config.json: “model.source_vocabulary” is missing. Add it as a whole number."
    )
    edit_config(folder, lambda config: config.pop("special"))
    assert refused_folder(folder) == (
        "config.json: “special” is missing. Add it as an object."
    )


def test_sizes_are_bounded_before_anything_is_allocated(folder: Path) -> None:
    edit_config(folder, setting("model", "max_positions", to=10**12))
    assert refused_folder(folder) == (
        "max_positions is 1000000000000, but must be a whole number from 1 to 65,536."
    )
    edit_config(folder, setting("model", "max_positions", to=65_536))
    edit_config(folder, setting("model", "encoder_layers", to=128))
    assert refused_folder(folder).startswith(
        "model.safetensors does not fit its config"
    )


ESCAPES = [
    "..",
    ".",
    "",
    "../secret",
    "/etc/passwd",
    "a/b",
    "..\\secret",
    "C:secret",
    "C:\\secret",
    "\\\\server\\share",
    "nul",
    "CON.json",
    "vocab.json:stream",
    "n\0ul",
    "x" * 200,
    "line\nbreak",
]


@pytest.mark.parametrize("name", ESCAPES, ids=ascii)
def test_config_leads_nowhere_else(folder: Path, name: str) -> None:
    (folder.parent / "secret").write_text('{"<unk>": 0}')
    edit_config(folder, setting("tokenizer", "target", to=name))
    sentence = refused_folder(folder)
    assert sentence.startswith("config.json: “tokenizer.target” is “")
    assert sentence.endswith(OUTSIDE)


@pytest.mark.parametrize("name", MISSING_FILES)
def test_links_lead_nowhere_else(folder: Path, name: str) -> None:
    outside = (folder / name).rename(folder.parent / "outside")
    (folder / name).symlink_to(outside)
    sentence = (
        f"{name} is a link that leads out of its folder. Copy the file itself into the "
        "folder."
    )
    assert refused_folder(folder) == sentence
    (folder / name).unlink()
    (folder / name).symlink_to(folder / name)  # leads to itself
    assert refused_folder(folder) == (
        f"{name} is, or is behind, a link that leads back to itself. Choose another "
        "file or folder."
    )


def test_a_folder_is_a_model_whatever_its_name(folder: Path) -> None:
    for name in ("x.vis", "x.lesson.md"):
        moved = folder.rename(folder.parent / name)
        assert load(moved, device="cpu").layout == "native"
        assert visformer.inspect(moved)["problem"] is None
        moved.rename(folder)
        moved.mkdir()
        sentence = f"{name} is not a Visformer checkpoint: it has no config.json."
        assert refused_folder(moved).startswith(sentence)
        assert visformer.inspect(moved)["problem"].startswith(sentence)
        with pytest.raises(InputError, match="is a folder, not a file"):
            visformer.open_trace(moved)


def test_vocabulary_of_another_model(folder: Path) -> None:
    (folder / "vocab.json").write_text('{"<pad>": 0, "<unk>": 1, "a": 4}')
    assert refused_folder(folder) == (
        "vocab.json has 5 tokens but the model's embedding has 30 rows: they belong to "
        "different models. Use the right one."
    )


def respoil(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change the tensors of a folder."""
    tensors = read_weights(folder / "model.safetensors").tensors
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_missing_tensors_are_named(folder: Path) -> None:
    respoil(folder, lambda tensors: tensors.pop("target_embedding.weight"))
    assert refused_folder(folder) == (
        "model.safetensors does not fit its config. Missing: target_embedding.weight."
    )


def test_surplus_tensors_are_named(folder: Path) -> None:
    respoil(folder, lambda tensors: tensors.update(x=torch.ones(1), y=torch.ones(1)))
    assert refused_folder(folder) == (
        "model.safetensors does not fit its config. Unexpected: x, y."
    )


def test_mis_shaped_tensors_are_named(folder: Path) -> None:
    key = "decoder.layers.1.cross_attention.output.weight"
    respoil(folder, lambda tensors: tensors.update({key: torch.ones(16, 8)}))
    assert refused_folder(folder) == (
        f"model.safetensors does not fit its config. Wrong shape: {key} is [16, 8], "
        "not [16, 16]."
    )


def test_many_misfits_stay_one_sentence(folder: Path) -> None:
    edit_config(folder, setting("model", "decoder_layers", to=128))
    assert refused_folder(folder) == (
        "model.safetensors does not fit its config. Missing: "
        "decoder.layers.2.self_attention.query.weight, "
        "decoder.layers.2.self_attention.query.bias and 3,274 more."
    )
    respoil(
        folder,
        lambda tensors: tensors.update(
            {"target_embedding.weight": torch.ones(31, 16), "extra": torch.ones(1)}
        ),
    )
    assert refused_folder(folder) == (
        "model.safetensors does not fit its config. Missing: "
        "decoder.layers.2.self_attention.query.weight and 3,275 more. Unexpected: "
        "extra. Wrong shape: target_embedding.weight is [31, 16], not [30, 16]."
    )


def test_whole_numbers_are_no_weights(folder: Path) -> None:
    key = "encoder.layers.0.feed_forward.w1.bias"
    respoil(folder, lambda tensors: tensors.update({key: torch.ones(32).int()}))
    assert refused_folder(folder) == (
        "model.safetensors holds weights that are not floating-point numbers: "
        f"{key}. Save them as float32."
    )


@pytest.mark.parametrize("name", [*MISSING_FILES, "config.json"])
def test_folder_with_foreign_files(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"<html>404</html>")
    assert refused_folder(folder) == (
        f"{name} is a web page, so the download went wrong. Download the file itself."
    )
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert stat.S_ISFIFO((folder / name).stat().st_mode)
    assert refused_folder(folder) == (f"{name} is a pipe, not a file. Choose a file.")


def test_control_characters_of_a_name_are_not_passed_on(folder: Path) -> None:
    edit_config(folder, setting("name", to="a\x1b[31m\u202eb\ud800" + "c" * 100))
    name = load(folder, device="cpu").name
    assert name.isprintable()
    assert len(name) == 80
    name.encode()
