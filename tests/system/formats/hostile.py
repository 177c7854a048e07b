"""Broken and malicious files, and the sentences that they are refused with."""

from __future__ import annotations

import io
import json
import os
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from visformer.errors import CheckpointError
from visformer.formats.loading import load
from visformer.formats.weight_file import read_weights

RIGHT = 'torch.save(model.state_dict(), "model.pt").'
CUT_OFF = "m.pt is truncated or damaged. Download or copy it again."
DAMAGED = (
    "m.pt cannot be read: it is damaged or holds more than weights. Download it again, "
    "or save its weights: " + RIGHT
)
STATE = {"a.weight": torch.arange(6.0).view(2, 3), "b": torch.ones(2)}


def refused(path: Path) -> str:
    """Return the sentence that opening the file's tensors is refused with."""
    with pytest.raises(CheckpointError) as caught:
        read_weights(path)
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
