"""Tensors out of a stranger's file, without running its code.

Files are read whole, never mapped: a map skips the checksums of a ``.pt``, and reading
one that another program cuts short kills the process. What a file is, its bytes decide,
not its name. Every fault is one ``CheckpointError`` of one sentence.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import struct
import threading
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import torch
from torch import Tensor

from visformer.errors import CheckpointError
from visformer.files import amount, listed, read_regular, refuse_foreign, short
from visformer.formats.saved import options_of, state_of

MAX_FILE = 20 << 30
MAX_HEADER = 16 << 20
MAX_TENSORS = 20_000
MAX_RANK = 4
MAX_DIMENSION = 1 << 24

_SAFE_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_scalar: Callable[..., Any] = np.float64(0).__reduce__()[0]  # type: ignore[assignment]
_HARMLESS: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    argparse.Namespace,  # training scripts keep their options beside the weights
    np.dtype,
    *(type(np.dtype(name)) for name in ("f4", "f8", "i4", "i8", "?")),
    (_scalar, "numpy.core.multiarray.scalar"),
    (_scalar, "numpy._core.multiarray.scalar"),
]
_SAVE = 'torch.save(model.state_dict(), "model.pt")'
_one_load = threading.Lock()  # two at once can skip torch's checks (pytorch#194750)


class Weights(NamedTuple):
    """The tensors of one file."""

    tensors: dict[str, Tensor]
    digest: str  # SHA-256 of the file
    options: Mapping[str, Any]  # plain values that were saved beside the tensors


class WeightReader:
    """Reads files of weights, each once, however often it is asked for.

    What was wrong with a file is raised again.
    """

    def __init__(self) -> None:
        self._results: dict[Path, Weights | CheckpointError] = {}

    def __call__(self, path: Path) -> Weights:
        """Return what a file holds; CheckpointError where it cannot be read."""
        if path not in self._results:
            try:
                self._results[path] = read_weights(path)
            except CheckpointError as error:
                self._results[path] = error
        result = self._results[path]
        if isinstance(result, CheckpointError):
            raise result
        return result


@dataclass(frozen=True, eq=False)
class WeightFile:
    """A file of weights, read when it is first asked for them, and once."""

    path: Path
    reader: WeightReader

    @property
    def name(self) -> str:
        """The file's name, at a length that suits a sentence."""
        return short(self.path.name)

    @property
    def weights(self) -> Weights:
        """What it holds; CheckpointError where it cannot be read."""
        return self.reader(self.path)


def read_weights(path: Path) -> Weights:
    """Read a file's tensors and its digest; CheckpointError where that is not safe."""
    data, name = read_regular(path, MAX_FILE), short(path.name)
    refuse_foreign(data[:512], name)
    zipped = data.startswith(b"PK\x03\x04")
    options: Mapping[str, Any] = {}
    if zipped:
        _check_zip(data, name)
    if zipped or (data[:1] == b"\x80" and data[8:9] not in (b"{", b"")):
        loaded = _unpickle(data, name)
        tensors, options = _state(loaded, name), options_of(loaded)
    else:
        tensors = _parse_safetensors(data, name)
    if not tensors:
        raise CheckpointError(f"{name} holds no tensors: choose the file of weights.")
    return Weights(tensors, hashlib.sha256(data).hexdigest(), options)


def _parse_safetensors(data: bytes, name: str) -> dict[str, Tensor]:
    (header,) = struct.unpack("<Q", data[:8].ljust(8, b"\xff"))
    if data[8:9] not in (b"{", b""):
        raise CheckpointError(
            f"{name} is neither safetensors nor a PyTorch file: choose the file "
            "that holds the model's weights."
        )
    if MAX_HEADER < header <= len(data) - 8:
        raise CheckpointError(
            f"{name} has a header of {amount(header)}, where {amount(MAX_HEADER)} "
            "are read: it is damaged, or not a model. Download it again."
        )
    try:
        entries = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise CheckpointError(
            f"{name} is cut off or damaged: it does not hold what its header promises. "
            "Download or copy it again."
        ) from error
    _check_count(len(entries), name)
    return {
        key: _view(entry, f"tensor {short(key)} of {name}")
        for key, entry in sorted(entries, key=itemgetter(0))  # they come in any order
    }


def _view(entry: Mapping[str, Any], what: str) -> Tensor:
    _check_shape(entry["shape"], what)
    if entry["dtype"] not in _SAFE_DTYPES:
        raise CheckpointError(
            f"{what} has the number format {short(entry['dtype'])}, which is not read: "
            "save it as float32 or float16."
        )
    dtype = _SAFE_DTYPES[entry["dtype"]]
    if not entry["data"]:
        raise CheckpointError(f"{what} is empty: save the weights again.")
    return torch.frombuffer(entry["data"], dtype=dtype).reshape(entry["shape"])


def _check_count(count: int, name: str) -> None:
    if count > MAX_TENSORS:
        raise CheckpointError(
            f"{name} holds {count:,} tensors, where {MAX_TENSORS:,} are read: "
            "it is not a model. Choose another file."
        )


def _check_shape(shape: list[int] | torch.Size, what: str) -> None:
    if len(shape) > MAX_RANK or max(shape, default=0) > MAX_DIMENSION:
        raise CheckpointError(
            f"{what} has shape {short(str(list(shape[:8])), 32)}, where {MAX_RANK} "
            f"dimensions of at most {MAX_DIMENSION:,} are read: it is no weight."
        )


def _check_zip(data: bytes, name: str) -> None:
    """Refuse archives that are not PyTorch's, hold a program or unpack to a bomb."""
    try:
        entries = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise CheckpointError(
            f"{name} is cut off or damaged: download or copy it again."
        ) from error
    names = [entry.filename for entry in entries]
    if not any(entry.endswith("/data.pkl") for entry in names):
        raise CheckpointError(
            f"{name} is a zip archive without PyTorch weights: unpack it and open "
            "what it holds."
        )
    if any("/code/" in entry or entry.endswith("/constants.pkl") for entry in names):
        raise CheckpointError(
            f"{name} is a TorchScript program, not weights. Open it with "
            f"torch.jit.load and run {_SAVE}."
        )
    if any(entry.compress_type or entry.file_size > len(data) for entry in entries):
        raise CheckpointError(
            f"{name} is compressed, which PyTorch itself never does: it may be a bomb. "
            f"Save the weights again: {_SAVE}."
        )


def _unpickle(data: bytes, name: str) -> object:
    """Run PyTorch's restricted unpickler; anything it raises becomes one sentence."""
    with _one_load, warnings.catch_warnings(action="ignore"):
        try:
            with (
                torch.sparse.check_sparse_tensor_invariants(),
                torch.serialization.safe_globals(_HARMLESS),
            ):
                unsafe = _unsafe_globals(data)
                if not unsafe:
                    file = io.BytesIO(data)
                    return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # some 13 types come out of torch.load
            unsafe = re.findall(r"GLOBAL (\w+(?:\.\w+)+)", str(error))
            if not unsafe:
                raise CheckpointError(_unreadable(error, name)) from error
    raise CheckpointError(_refused(sorted(unsafe), name))


def _unsafe_globals(data: bytes) -> list[str]:
    """Return the functions and classes a file asks for; legacy files do not tell."""
    if not data.startswith(b"PK"):
        return []
    return torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))


def _refused(unsafe: list[str], name: str) -> str:
    if any(name.startswith("torch.nn.modules.") for name in unsafe):
        return (
            f"{name} is a whole pickled model, which only its own program can open. "
            f"Save its weights there: {_SAVE}."
        )
    return (
        f"{name} would run code when opened ({listed(unsafe, room=40)}): refused. "
        f"Save only the weights: {_SAVE}."
    )


def _unreadable(error: Exception, name: str) -> str:
    if "magic number" in str(error) or "Unsupported operand" in str(error):
        return (
            f"{name} is a pickle that torch.save did not write, and may run code: "
            f"refused. Save the weights: {_SAVE}."
        )
    return (
        f"{name} is damaged or holds more than weights, and was not read. "
        f"Download it again, or save its weights: {_SAVE}."
    )


def _state(loaded: object, name: str) -> dict[str, Tensor]:
    """Return the state dict inside what a training script saved."""
    state = state_of(loaded)
    if not state:
        raise CheckpointError(
            f"{name} holds no state dict of tensors. Save the weights alone: {_SAVE}."
        )
    _check_count(len(state), name)
    for key, tensor in state.items():
        _check_tensor(tensor, f"tensor {short(key)} of {name}")
    return {key: tensor.detach() for key, tensor in state.items()}


def _check_tensor(tensor: Tensor, what: str) -> None:
    """Refuse all but dense tensors on the CPU that own their numbers."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        raise CheckpointError(
            f"{what} is sparse, quantized or nested: save it dense, as float32."
        )
    if tensor.device.type != "cpu":
        raise CheckpointError(f"{what} has no numbers, only a shape: save it anew.")
    _check_shape(tensor.shape, what)
    sizes = zip(tensor.stride(), tensor.shape, strict=True)
    expanded = any(stride == 0 and size > 1 for stride, size in sizes)
    held = tensor.untyped_storage().nbytes()
    if expanded or tensor.numel() * tensor.element_size() > held:
        raise CheckpointError(
            f"{what} claims more numbers than the file holds: save it after .clone()."
        )
