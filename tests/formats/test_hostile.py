"""Files that are broken, something else or malicious: each has its own sentence."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import stat
import struct
import tarfile
import warnings
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save, save_file
from torch import Tensor, nn

from tests.formats.folders import edit_config, write_letters
from visformer.errors import CheckpointError
from visformer.formats.files import short
from visformer.formats.foreign import READS
from visformer.formats.loading import load
from visformer.formats.weights import read_tensors

RIGHT = 'torch.save(model.state_dict(), "model.pt").'
CUT_OFF = "m.pt is cut off or damaged: download or copy it again."
DAMAGED = (
    "m.pt is damaged or holds more than weights, and was not read. Download it again, "
    "or save its weights: " + RIGHT
)
STATE = {"a.weight": torch.arange(6.0).view(2, 3), "b": torch.ones(2)}


def refused(path: Path) -> str:
    """Return the sentence that opening the file's tensors is refused with."""
    with pytest.raises(CheckpointError) as caught:
        read_tensors(path)
    assert len(str(caught.value)) <= 200
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refused_folder(path: Path) -> str:
    """Return the sentence that opening the checkpoint is refused with."""
    with pytest.raises(CheckpointError) as caught:
        load(path, device="cpu")
    assert len(str(caught.value)) <= 200
    assert "\n" not in str(caught.value)
    return str(caught.value)


def saved(path: Path, value: object, **options: Any) -> Path:
    torch.save(value, path, **options)
    return path


def safe_file(path: Path, header: object, data: bytes = b"") -> Path:
    """Write a safetensors file with a header of one's own."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(shape: list[int], size: int, dtype: str = "F32") -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def tarred() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.pt"))
    return made.getvalue()


class Evil:
    """Touches a canary when unpickled with no restriction."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.canary}",)


# What is no model at all


FOREIGN = {
    "web page": (
        b"<!DOCTYPE html><title>404</title>",
        "m.pt is a web page: the download went wrong. Download the file itself.",
    ),
    "lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "m.pt is a Git LFS pointer, not the file itself: run “git lfs pull” in its "
        "folder.",
    ),
    "7z": (
        b"7z\xbc\xaf'\x1c" + bytes(99),
        "m.pt is a 7z archive: unpack it and open what it holds.",
    ),
    "gzip": (
        gzip.compress(b"x"),
        "m.pt is a gzip archive: unpack it and open what it holds.",
    ),
    "tar": (tarred(), "m.pt is a tar archive: unpack it and open what it holds."),
    "zip": (
        zipped({"model/readme.txt": b"x"}),
        "m.pt is a zip archive without PyTorch weights: unpack it and open what it "
        "holds.",
    ),
    "empty": (b"", "m.pt is empty: download or copy it again."),
    "text": (
        b"hello, world",
        "m.pt is neither safetensors nor a PyTorch file: choose the file that holds "
        "the model's weights.",
    ),
    "pickle": (
        pickle.dumps({"a": [1.0] * 50}, protocol=2),
        "m.pt is a pickle that torch.save did not write, and may run code: refused. "
        "Save the weights: " + RIGHT,
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_other_kinds_of_file(tmp_path: Path, kind: str) -> None:
    content, sentence = FOREIGN[kind]
    (tmp_path / "m.pt").write_bytes(content)
    assert refused(tmp_path / "m.pt") == sentence


def test_what_is_no_plain_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.pt")  # opening one would wait for ever
    choose = "not a file: choose a file that holds a model."
    assert refused(tmp_path / "p.pt") == f"p.pt is a pipe, {choose}"
    assert refused(tmp_path) == f"{tmp_path.name} is a folder, {choose}"
    assert refused(Path("/dev/zero")) == f"zero is a device, {choose}"


def test_what_is_not_there(tmp_path: Path) -> None:
    assert refused(tmp_path / "x.pt") == (
        "x.pt cannot be read (no such file or directory): check the file and its "
        "folder."
    )
    for name in ("x.pt", "n\0ul", "x" * 300):
        assert "does not exist: check the spelling" in refused_folder(tmp_path / name)


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = saved(tmp_path / "m.pt", STATE)
    monkeypatch.setattr(Path, "open", denied)
    assert refused(path) == (
        "m.pt cannot be read (permission denied): check the file and its folder."
    )


def test_file_over_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "m.pt", STATE)
    path.write_bytes(bytes(3000))
    monkeypatch.setattr("visformer.formats.files.available_memory", lambda: 4500)
    assert refused(path) == (
        "m.pt needs 6.0 kB of memory and 4.5 kB is free: close other programs or "
        "choose a smaller model."
    )


# PyTorch files


def same(found: dict[str, Tensor]) -> bool:
    return list(found) == list(STATE) and all(
        torch.equal(found[name], STATE[name]) for name in STATE
    )


@pytest.mark.parametrize("zip_format", [True, False])
@pytest.mark.parametrize("wrapper", ["", "model", "state_dict", "model_state_dict"])
def test_state_dicts_are_read(tmp_path: Path, wrapper: str, zip_format: bool) -> None:
    around = {"epoch": 3, "args": Namespace(heads=8), "loss": np.float64(2.5)}
    value = {wrapper: STATE, **around} if wrapper else STATE
    path = tmp_path / "m.bin"
    saved(path, value, _use_new_zipfile_serialization=zip_format)
    assert same(read_tensors(path))


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_prefixes_are_stripped(tmp_path: Path, prefix: str) -> None:
    wrapped = {prefix + name: nn.Parameter(tensor) for name, tensor in STATE.items()}
    assert same(read_tensors(saved(tmp_path / "m.pth", wrapped)))


def test_names_with_lone_surrogates_can_be_shown(tmp_path: Path) -> None:
    found = read_tensors(saved(tmp_path / "m.pt", {"a\ud800": torch.ones(1)}))
    assert list(found) == ["a\ufffd"]


def test_safetensors_are_read_whatever_their_name(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "m.bin")
    assert same(read_tensors(tmp_path / "m.bin"))


@pytest.mark.parametrize("zip_format", [True, False])
def test_no_code_is_run(tmp_path: Path, zip_format: bool) -> None:
    canary = tmp_path / "canary"
    value = {**STATE, "x": Evil(canary)}
    path = tmp_path / "m.pt"
    saved(path, value, _use_new_zipfile_serialization=zip_format)
    assert refused(path) == (
        f"m.pt would run code when opened ({os.system.__module__}.system): refused. "
        "Save only the weights: " + RIGHT
    )
    assert not canary.exists()


def test_no_code_of_a_plain_pickle_is_run(tmp_path: Path) -> None:
    canary, path = tmp_path / "canary", tmp_path / "m.pt"
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        path.write_bytes(pickle.dumps({"a": Evil(canary)}, protocol))
        assert refused(path).endswith(RIGHT)
    assert not canary.exists()


@pytest.mark.parametrize("zip_format", [True, False])
def test_whole_models_are_refused(tmp_path: Path, zip_format: bool) -> None:
    path = tmp_path / "m.pt"
    saved(path, nn.Linear(2, 2), _use_new_zipfile_serialization=zip_format)
    assert refused(path) == (
        "m.pt is a whole pickled model, which only its own program can open. Save its "
        "weights there: " + RIGHT
    )


def test_torchscript_is_refused(tmp_path: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        torch.jit.script(nn.Linear(2, 2)).save(str(tmp_path / "m.pt"))
    assert refused(tmp_path / "m.pt") == (
        "m.pt is a TorchScript program, not weights. Open it with torch.jit.load and "
        "run " + RIGHT
    )


def csr() -> Tensor:
    with warnings.catch_warnings(action="ignore"):
        return torch.eye(3).to_sparse_csr()


ODD: dict[str, tuple[Callable[[], object], str]] = {
    "sparse": (
        lambda: torch.eye(3).to_sparse(),
        "tensor a of m.pt is sparse, quantized or nested: save it dense, as float32.",
    ),
    "csr": (
        csr,
        "tensor a of m.pt is sparse, quantized or nested: save it dense, as float32.",
    ),
    "expanded": (
        lambda: torch.ones(1, 1).expand(10_000, 1_000_000),
        "tensor a of m.pt claims more numbers than the file holds: save it after "
        ".clone().",
    ),
    "large": (
        lambda: torch.ones(1).expand(10**10),
        "tensor a of m.pt has shape [10000000000], where 4 dimensions of at most "
        "16,777,216 are read: it is no weight.",
    ),
    "rank": (
        lambda: torch.ones([1] * 60),
        "tensor a of m.pt has shape [1, 1, 1, 1, 1, 1, 1, 1], where 4 dimensions of at "
        "most 16,777,216 are read: it is no weight.",
    ),
    "meta": (
        lambda: torch.ones(2, device="meta"),
        "tensor a of m.pt has no numbers, only a shape: save it anew.",
    ),
    "no tensor": (
        lambda: 1,
        "m.pt holds no state dict of tensors. Save the weights alone: " + RIGHT,
    ),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_tensors(tmp_path: Path, kind: str) -> None:
    make, sentence = ODD[kind]
    assert refused(saved(tmp_path / "m.pt", {"a": make()})) == sentence


def test_values_that_hold_no_state_dict(tmp_path: Path) -> None:
    own: list[Any] = []
    own.append(own)
    values: list[object] = [[torch.ones(2)], own, {}, 3, None]
    for value in values:
        sentence = refused(saved(tmp_path / "m.pt", value))
        assert sentence.startswith("m.pt holds no state dict of tensors.")


def test_lists_nested_without_end(tmp_path: Path) -> None:
    deep = b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."
    (tmp_path / "m.pt").write_bytes(zipped({"m/data.pkl": deep, "m/version": b"3\n"}))
    assert refused(tmp_path / "m.pt").startswith("m.pt holds no state dict of tensors.")


def test_too_many_tensors(tmp_path: Path) -> None:
    one = torch.ones(1)
    path = saved(tmp_path / "m.pt", {str(i): one for i in range(20_001)})
    assert refused(path) == (
        "m.pt holds 20,001 tensors, where 20,000 are read: it is not a model. Choose "
        "another file."
    )


@pytest.mark.parametrize("zip_format", [True, False])
def test_truncated_torch_files(tmp_path: Path, zip_format: bool) -> None:
    path = saved(tmp_path / "m.pt", STATE, _use_new_zipfile_serialization=zip_format)
    data = path.read_bytes()
    for length in range(20, len(data) - 1, len(data) // 20):
        path.write_bytes(data[:length])
        if zip_format:
            assert refused(path) == CUT_OFF
        else:  # where a name is cut, it is one that torch does not know
            assert refused(path).endswith(RIGHT)
    path.write_bytes(data[:-1])
    assert refused(path) == (CUT_OFF if zip_format else DAMAGED)


def test_compressed_archives_are_refused(tmp_path: Path) -> None:
    bomb = zipped({"m/data.pkl": bytes(1_000_000)}, zipfile.ZIP_DEFLATED)
    (tmp_path / "m.pt").write_bytes(bomb)
    assert refused(tmp_path / "m.pt") == (
        "m.pt is compressed, which PyTorch itself never does: it may be a bomb. Save "
        "the weights again: " + RIGHT
    )


# safetensors files


def test_truncated_safetensors(tmp_path: Path) -> None:
    data, path = save(STATE), tmp_path / "m.safetensors"
    for length in (1, 7, 8, 9, 50, len(data) - 33, len(data) - 1):
        path.write_bytes(data[:length])
        assert refused(path) == (
            "m.safetensors is cut off or damaged: it does not hold what its header "
            "promises. Download or copy it again."
        )


def test_safetensors_bombs(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    assert refused(safe_file(path, entry([1] * 100_000, 4), bytes(4))) == (
        "tensor a of m.safetensors has shape [1, 1, 1, 1, 1, 1, 1, 1], where 4 "
        "dimensions of at most 16,777,216 are read: it is no weight."
    )
    header = b"{" + b" " * (16 << 20) + b"}"
    assert refused(safe_file(path, header)) == (
        "m.safetensors has a header of 16.8 MB, where 16.8 MB are read: it is damaged, "
        "or not a model. Download it again."
    )
    claim = entry([1 << 20, 1 << 20], 1 << 42)  # 4 TB
    assert "is cut off or damaged" in refused(safe_file(path, claim))


def test_safetensors_with_nothing_usable(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    assert refused(safe_file(path, {})) == (
        "m.safetensors holds no tensors: choose the file of weights."
    )
    assert refused(safe_file(path, entry([0], 0))) == (
        "tensor a of m.safetensors is empty: save the weights again."
    )
    assert refused(safe_file(path, entry([4], 4, "F8_E4M3"), bytes(4))) == (
        "tensor a of m.safetensors has the number format F8_E4M3, which is not read: "
        "save it as float32 or float16."
    )


def mutants(data: bytes, count: int) -> list[bytes]:
    """Return copies of ``data`` with a few bytes changed, removed or added."""
    made, results = random.Random(0), []
    for _ in range(count):
        mutant = bytearray(data)
        for _ in range(made.choice((1, 1, 2, 8))):
            at = made.randrange(min(len(mutant), made.choice((64, 600, 10**6))))
            mutant[at : at + made.choice((0, 1, 1, 9))] = made.randbytes(1)
        results.append(bytes(mutant))
    return results


@pytest.mark.parametrize("kind", ["safetensors", "zip", "legacy"])
def test_mutants_are_read_or_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "m.pt"
    saved(path, STATE, _use_new_zipfile_serialization=kind == "zip")
    data = save(STATE) if kind == "safetensors" else path.read_bytes()
    for mutant in mutants(data, 150):
        path.write_bytes(mutant)
        outcome = use_tensors(path)
        assert len(outcome) <= 200


def use_tensors(path: Path) -> str:
    """Return the sentence of refusal, or nothing where the tensors can be used."""
    try:
        for tensor in read_tensors(path).values():
            tensor.clone().float().isfinite().sum()
    except CheckpointError as error:
        return str(error)
    return ""


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
        f"m.pt holds 2 tensors (a.weight, b), which are no known model's: {READS}."
    )
    own = {"encoder.layers.0.self_attention.query.weight": torch.ones(1)}
    save_file(own, tmp_path / "model.safetensors")
    assert refused_folder(tmp_path / "model.safetensors") == (
        f"model.safetensors holds one tensor ({short(next(iter(own)))}) but not what "
        "model they make: choose the folder that holds them and their config.json."
    )


MISSING_FILES = ["model.safetensors", "vocab.json"]


@pytest.mark.parametrize("name", MISSING_FILES)
def test_missing_files(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert refused_folder(folder) == (
        f"{name} is missing from model: copy it into the folder."
    )


JSON_FAULTS = {
    '{"format": NaN}': "NaN is not a number",
    '{"version": -Infinity}': "-Infinity is not a number",
    '{"format": "visformer", "format": 1}': "“format” stands there twice",
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
        "config.json is too large: 1.0 MB, where at most 1.0 MB are read."
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
OUTSIDE = "it must be the name of a file inside the checkpoint's folder."
CONFIG_FAULTS: list[tuple[tuple[str, ...], object, str]] = [
    (
        ("format",),
        "marian",
        " is not of a Visformer checkpoint: its “format” is not “visformer”. Choose a "
        "folder that Visformer wrote.",
    ),
    (
        ("version",),
        2,
        " has format version 2, where this Visformer reads 1: update it.",
    ),
    (("version",), "1", ': “version” must be a whole number, not "1".'),
    (("model",), [], ": “model” must be an object, not a list."),
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
    (("model", "d_model"), 16.0, ": “model.d_model” must be a whole number, not 16.0."),
    (("model", "heads"), True, ": “model.heads” must be a whole number, not true."),
    (("model", "norm_first"), 1, ": “model.norm_first” must be true or false, not 1."),
    (("model", "mask_fill"), None, ": “model.mask_fill” must be a number, not null."),
    (("model", "mask_fill"), 10**30, ": “model.mask_fill” is too large a number."),
    (("model", "d_model"), 10**4000, ": “model.d_model” is too large a number."),
    (("model", "norm_eps"), -1.0, ": “model.norm_eps” must lie between 0 and 1."),
    (
        ("special", "eos"),
        30,
        ": “special.eos” is 30, outside the vocabulary: it must be from 0 to 29.",
    ),
    (
        ("special", "pad"),
        -(10**30),
        ": “special.pad” is -100000000000000000…, outside the vocabulary: it must be "
        "from 0 to 29.",
    ),
    (
        ("special", "unk"),
        4,
        ": “special.unk” is 4, but the unknown token of vocab.json is 1: correct it.",
    ),
    (
        ("tokenizer", "kind"),
        LONG,
        f": “tokenizer.kind” is “{'x' * 47}…”: it must be “sentencepiece” or "
        "“vocabulary”.",
    ),
    (
        ("tokenizer", "source"),
        "../vocab.json",
        f": “tokenizer.source” is “../vocab.json”: {OUTSIDE}",
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
        "config.json: “model.source_vocabulary” is missing. Add it: a whole number."
    )
    edit_config(folder, lambda config: config.pop("special"))
    assert refused_folder(folder) == (
        "config.json: “special” is missing. Add it: an object."
    )


def test_sizes_are_bounded_before_anything_is_allocated(folder: Path) -> None:
    edit_config(folder, setting("model", "max_positions", to=10**12))
    assert refused_folder(folder) == (
        "max_positions is 1000000000000: it must be a whole number from 1 to 65536."
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
        f"{name} is a link that leads out of its folder: copy the file itself into the "
        "folder."
    )
    assert refused_folder(folder) == sentence
    (folder / name).unlink()
    (folder / name).symlink_to(folder / name)  # leads to itself
    assert refused_folder(folder) == sentence


def test_vocabulary_of_another_model(folder: Path) -> None:
    (folder / "vocab.json").write_text('{"<pad>": 0, "<unk>": 1, "a": 4}')
    assert refused_folder(folder) == (
        "vocab.json has 5 tokens and the model's embedding 30 rows: they belong to "
        "different models. Copy the right one."
    )


def respoil(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change the tensors of a folder."""
    tensors = read_tensors(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_missing_tensors_are_named(folder: Path) -> None:
    respoil(folder, lambda tensors: tensors.pop("target_embedding.weight"))
    assert refused_folder(folder) == (
        "model.safetensors does not fit its config; missing: target_embedding.weight."
    )


def test_surplus_tensors_are_named(folder: Path) -> None:
    respoil(folder, lambda tensors: tensors.update(x=torch.ones(1), y=torch.ones(1)))
    assert refused_folder(folder) == (
        "model.safetensors does not fit its config; surplus: x, y."
    )


def test_mis_shaped_tensors_are_named(folder: Path) -> None:
    key = "decoder.layers.1.cross_attention.output.weight"
    respoil(folder, lambda tensors: tensors.update({key: torch.ones(16, 8)}))
    assert refused_folder(folder) == (
        f"model.safetensors does not fit its config; mis-shaped: {key} [16, 8], not "
        "[16, 16]."
    )


def test_many_misfits_stay_one_sentence(folder: Path) -> None:
    edit_config(folder, setting("model", "decoder_layers", to=128))
    assert refused_folder(folder) == (
        "model.safetensors does not fit its config; missing: "
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
        "model.safetensors does not fit its config; missing: "
        "decoder.layers.2.self_attention.query.weight and 3,275 more; surplus: extra; "
        "mis-shaped: target_embedding.weight [31, 16], not [30, 16]."
    )


def test_whole_numbers_are_no_weights(folder: Path) -> None:
    key = "encoder.layers.0.feed_forward.expand.bias"
    respoil(folder, lambda tensors: tensors.update({key: torch.ones(32).int()}))
    assert refused_folder(folder) == (
        "model.safetensors holds weights that are not floating-point numbers: "
        f"{key}. Save them as float32."
    )


@pytest.mark.parametrize("name", [*MISSING_FILES, "config.json"])
def test_folder_with_foreign_files(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"<html>404</html>")
    assert refused_folder(folder) == (
        f"{name} is a web page: the download went wrong. Download the file itself."
    )
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert stat.S_ISFIFO((folder / name).stat().st_mode)
    assert refused_folder(folder) == (
        f"{name} is a pipe, not a file: choose a file that holds a model."
    )


def test_control_characters_of_a_name_are_not_passed_on(folder: Path) -> None:
    edit_config(folder, setting("name", to="a\x1b[31m\u202eb\ud800" + "c" * 100))
    name = load(folder, device="cpu").name
    assert name.isprintable()
    assert len(name) == 80
    name.encode()
