"""Files that are broken, something else or malicious: each has its own sentence."""

from __future__ import annotations

import gzip
import os
import pickle
import random
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

from tests.system.formats.hostile import (
    CUT_OFF,
    DAMAGED,
    RIGHT,
    STATE,
    Evil,
    entry,
    refused,
    refused_folder,
    safe_file,
    saved,
    tarred,
    zipped,
)
from visformer.errors import CheckpointError
from visformer.formats.weight_file import read_weights

# What is no model at all


FOREIGN = {
    "web page": (
        b"<!DOCTYPE html><title>404</title>",
        "m.pt is a web page, so the download went wrong. Download the file itself.",
    ),
    "lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "m.pt is a Git LFS pointer, not the file itself. Run “git lfs pull” in its "
        "folder.",
    ),
    "7z": (
        b"7z\xbc\xaf'\x1c" + bytes(99),
        "m.pt is an archive (7z). Unpack it and open its content.",
    ),
    "gzip": (
        gzip.compress(b"x"),
        "m.pt is an archive (gzip). Unpack it and open its content.",
    ),
    "tar": (tarred(), "m.pt is an archive (tar). Unpack it and open its content."),
    "zip": (
        zipped({"model/readme.txt": b"x"}),
        "m.pt is a zip archive without PyTorch weights. Unpack it and open its "
        "content.",
    ),
    "empty": (b"", "m.pt is empty. Download or copy it again."),
    "text": (
        b"hello, world",
        "m.pt is text. Visformer opens models (folders, .pt, .safetensors), recorded "
        "runs (.vis) and lessons (.lesson.md).",
    ),
    "pickle": (
        pickle.dumps({"a": [1.0] * 50}, protocol=2),
        "m.pt holds no state dict of tensors. Save only the weights: " + RIGHT,
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_other_kinds_of_file(tmp_path: Path, kind: str) -> None:
    content, sentence = FOREIGN[kind]
    (tmp_path / "m.pt").write_bytes(content)
    assert refused(tmp_path / "m.pt") == sentence


def test_what_is_no_plain_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.pt")  # opening one would wait for ever
    choose = "not a file. Choose a file."
    assert refused(tmp_path / "p.pt") == f"p.pt is a pipe, {choose}"
    assert refused(tmp_path) == f"{tmp_path.name} is a folder, {choose}"
    assert refused(Path("/dev/zero")) == f"zero is a device, {choose}"


def test_what_is_not_there(tmp_path: Path) -> None:
    assert refused(tmp_path / "x.pt") == (
        "x.pt cannot be read (no such file or directory). Check the file and its "
        "folder."
    )
    for name in ("x.pt", "n\0ul", "x" * 300):
        assert "does not exist. Check the spelling" in refused_folder(tmp_path / name)


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = saved(tmp_path / "m.pt", STATE)
    monkeypatch.setattr(Path, "open", denied)
    assert refused(path) == (
        "m.pt cannot be read (permission denied). Check the file and its folder."
    )


def test_file_over_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "m.pt", STATE)
    path.write_bytes(bytes(3000))
    monkeypatch.setattr("visformer.files.available_memory", lambda: 4500)
    assert refused(path) == (
        "m.pt needs 6.0 kB of memory, but only 4.5 kB is free. Close other programs or "
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
    assert same(read_weights(path).tensors)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_prefixes_are_stripped(tmp_path: Path, prefix: str) -> None:
    wrapped = {prefix + name: nn.Parameter(tensor) for name, tensor in STATE.items()}
    assert same(read_weights(saved(tmp_path / "m.pth", wrapped)).tensors)


def test_names_with_lone_surrogates_can_be_shown(tmp_path: Path) -> None:
    found = read_weights(saved(tmp_path / "m.pt", {"a\ud800": torch.ones(1)})).tensors
    assert list(found) == ["a\ufffd"]


def test_safetensors_are_read_whatever_their_name(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "m.bin")
    assert same(read_weights(tmp_path / "m.bin").tensors)


@pytest.mark.parametrize("zip_format", [True, False])
def test_no_code_is_run(tmp_path: Path, zip_format: bool) -> None:
    canary = tmp_path / "canary"
    value = {**STATE, "x": Evil(canary)}
    path = tmp_path / "m.pt"
    saved(path, value, _use_new_zipfile_serialization=zip_format)
    assert refused(path) == (
        f"m.pt was not opened because it would run code ({os.system.__module__}.system"
        "). Save only the weights: " + RIGHT
    )
    assert not canary.exists()


def test_no_code_of_a_plain_pickle_is_run(tmp_path: Path) -> None:
    canary, path = tmp_path / "canary", tmp_path / "m.pt"
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        path.write_bytes(pickle.dumps({"a": Evil(canary)}, protocol))
        assert refused(path).endswith(RIGHT)
    assert not canary.exists()


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
        "Tensor a of m.pt is sparse, quantized or nested. Save it as a dense float32 "
        "tensor.",
    ),
    "csr": (
        csr,
        "Tensor a of m.pt is sparse, quantized or nested. Save it as a dense float32 "
        "tensor.",
    ),
    "expanded": (
        lambda: torch.ones(1, 1).expand(10_000, 1_000_000),
        "Tensor a of m.pt claims more numbers than the file holds. Save it after "
        ".clone().",
    ),
    "large": (
        lambda: torch.ones(1).expand(10**10),
        "Tensor a of m.pt has shape [10000000000], so it is not a weight; the limit is "
        "4 dimensions of at most 16,777,216.",
    ),
    "rank": (
        lambda: torch.ones([1] * 60),
        "Tensor a of m.pt has shape [1, 1, 1, 1, 1, 1, 1, 1], so it is not a weight; "
        "the limit is 4 dimensions of at most 16,777,216.",
    ),
    "meta": (
        lambda: torch.ones(2, device="meta"),
        "Tensor a of m.pt has a shape but no numbers. Save it again.",
    ),
    "no tensor": (
        lambda: 1,
        "m.pt holds no state dict of tensors. Save only the weights: " + RIGHT,
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
        "m.pt holds 20,001 tensors, more than the limit of 20,000, so it is not a "
        "model. Choose another file."
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
        "m.pt is compressed, which PyTorch never does, so it may be a zip bomb. Save "
        "the weights again: " + RIGHT
    )


# safetensors files


def test_truncated_safetensors(tmp_path: Path) -> None:
    data, path = save(STATE), tmp_path / "m.safetensors"
    for length in (1, 7, 8, 9, 50, len(data) - 33, len(data) - 1):
        path.write_bytes(data[:length])
        assert refused(path) == (
            "m.safetensors is truncated or damaged: its content does not match its "
            "header. Download or copy it again."
        )


def test_safetensors_bombs(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    assert refused(safe_file(path, entry([1] * 100_000, 4), bytes(4))) == (
        "Tensor a of m.safetensors has shape [1, 1, 1, 1, 1, 1, 1, 1], so it is not a "
        "weight; the limit is 4 dimensions of at most 16,777,216."
    )
    header = b"{" + b" " * (16 << 20) + b"}"
    assert refused(safe_file(path, header)) == (
        "The header of m.safetensors has 16.8 MB, but at most 16.8 MB are allowed; the "
        "file is damaged or not a model. Download it again."
    )
    claim = entry([1 << 20, 1 << 20], 1 << 42)  # 4 TB
    assert "is truncated or damaged" in refused(safe_file(path, claim))


def test_safetensors_with_nothing_usable(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    assert refused(safe_file(path, {})) == (
        "m.safetensors holds no tensors. Choose the file of weights."
    )
    assert refused(safe_file(path, entry([0], 0))) == (
        "Tensor a of m.safetensors is empty. Save the weights again."
    )
    assert refused(safe_file(path, entry([4], 4, "F8_E4M3"), bytes(4))) == (
        "Tensor a of m.safetensors has the unsupported number format F8_E4M3. Save it "
        "as float32 or float16."
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
        for tensor in read_weights(path).tensors.values():
            tensor.clone().float().isfinite().sum()
    except CheckpointError as error:
        return str(error)
    return ""
