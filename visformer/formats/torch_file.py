"""Files of ``torch.save``: which of them are refused, and how the others are read."""

from __future__ import annotations

import argparse
import io
import threading
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from visformer.errors import CheckpointError
from visformer.files import short
from visformer.formats.inert_pickle import CodeInFileError
from visformer.formats.whole_model import WholeFile, read_whole
from visformer.language import _

_scalar: Callable[..., Any] = np.float64(0).__reduce__()[0]  # type: ignore[assignment]
_HARMLESS: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    argparse.Namespace,  # training scripts keep their options beside the weights
    np.dtype,
    *(type(np.dtype(name)) for name in ("f4", "f8", "i4", "i8", "?")),
    (_scalar, "numpy.core.multiarray.scalar"),
    (_scalar, "numpy._core.multiarray.scalar"),
]
SAVE = 'torch.save(model.state_dict(), "model.pt")'
_one_load = threading.Lock()  # two at once can skip torch's checks (pytorch#194750)


def check_archive(data: bytes, name: str) -> None:
    """Refuse archives that are not PyTorch's, hold a program or may be zip bombs."""
    try:
        entries = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise CheckpointError(
            _("{file} is truncated or damaged. Download or copy it again.", file=name)
        ) from error
    names = [entry.filename for entry in entries]
    if any(
        entry.endswith(("archive_format", "serialized_exported_program.json"))
        for entry in names
    ):
        raise CheckpointError(
            _(
                "{file} is a program of torch.export, not weights. Call "
                "visformer.watch(torch.export.load(file).module())(…) with its inputs.",
                file=name,
            )
        )
    if not any(entry.endswith("/data.pkl") for entry in names):
        raise CheckpointError(
            _(
                "{file} is a zip archive without PyTorch weights. Unpack it and open "
                "its content.",
                file=name,
            )
        )
    if any("/code/" in entry or entry.endswith("/constants.pkl") for entry in names):
        raise CheckpointError(
            _(
                "{file} is a TorchScript program, not weights. Open it with "
                "torch.jit.load and run {code}.",
                file=name,
                code=SAVE,
            )
        )
    if any(entry.compress_type or entry.file_size > len(data) for entry in entries):
        raise CheckpointError(
            _(
                "{file} is compressed, which PyTorch never does, so it may be a zip "
                "bomb. Save the weights again: {code}.",
                file=name,
                code=SAVE,
            )
        )


def unpickled(data: bytes, name: str) -> WholeFile:
    """Run PyTorch's restricted unpickler, or read a file without its classes.

    Any exception becomes one sentence.
    """
    refused: Exception | None = None
    with _one_load, warnings.catch_warnings(action="ignore"):
        try:
            with (
                torch.sparse.check_sparse_tensor_invariants(),
                torch.serialization.safe_globals(_HARMLESS),
            ):
                if not _unsafe_globals(data):
                    file = io.BytesIO(data)
                    loaded = torch.load(file, map_location="cpu", weights_only=True)
                    return WholeFile(loaded)
        except Exception as error:  # torch.load raises about 13 different types
            refused = error
    try:
        return read_whole(data)
    except CodeInFileError as error:
        raise CheckpointError(
            _(
                "{file} was not opened because it would run code ({names}). Save only "
                "the weights: {code}.",
                file=name,
                names=short(str(error), 40),
                code=SAVE,
            )
        ) from error
    except Exception as error:  # a stranger's pickle fails in any way
        raise CheckpointError(_unreadable(refused or error, name)) from error


def _unsafe_globals(data: bytes) -> list[str]:
    """Return the functions and classes a file asks for; [] for legacy files."""
    if not data.startswith(b"PK"):
        return []
    return torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))


def _unreadable(error: Exception, name: str) -> str:
    if "magic number" in str(error) or "Unsupported operand" in str(error):
        return _(
            "{file} was not opened because torch.save did not write it and it may run "
            "code. Save the weights: {code}.",
            file=name,
            code=SAVE,
        )
    return _(
        "{file} cannot be read: it is damaged or holds more than weights. Download it "
        "again, or save its weights: {code}.",
        file=name,
        code=SAVE,
    )
