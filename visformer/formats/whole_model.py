"""A model saved whole with ``torch.save(model)``: its tensors and its settings.

The file's pickle becomes stand-ins (``inert_pickle``). A stand-in with parameters and
submodules is read like a module; the rest becomes plain dicts, lists and values.
"""

import io
import math
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from visformer.formats.inert_pickle import (
    MOST_BYTES,
    Inert,
    StorageBytes,
    StorageRecord,
    TensorRecord,
    read_inert,
)

MAGIC = 0x1950A86A20F9469CFC6C  # of files written before torch 1.6
MOST_VALUES = 1_000_000
MOST_PLAIN = 2 * MOST_BYTES  # of a plain pickle, which contains its numbers
_DEEPEST = 60
_RANK, _DIMENSION = 8, 1 << 40  # generous limits; weights are checked later
MOST_MODULES = 20_000
_HEADS = ("num_heads", "n_heads", "nhead", "n_head", "heads", "h", "nheads", "head")
_ACTIVATIONS = {"ReLU": "relu", "GELU": "gelu", "SiLU": "silu", "Tanh": "tanh"}
_FUNCTIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "tanh": "tanh"}
_FLAGS = {1: "relu", 2: "gelu"}  # torch's own codes, activation_relu_or_gelu


@dataclass
class WholeFile:
    """The content of a file: plain values with tensors, and settings of its modules."""

    value: Any
    settings: dict[str, Any] = field(default_factory=dict)


def read_whole(data: bytes) -> WholeFile:
    """Read a file of ``torch.save`` without its classes; may raise any exception.

    Raises CodeInFileError if it names functions that run code.
    """
    if data.startswith(b"PK"):
        value, blocks = _read_archive(data)
    else:
        value, blocks = _read_legacy(data)
    plain = _Plain(blocks)
    return WholeFile(plain.of(value, 0), plain.settings)


def plain_value(value: Any) -> Any:
    """Convert stand-ins without tensors to plain values."""
    return _Plain({}).of(value, 0)


def _read_archive(data: bytes) -> tuple[Any, dict[str, bytearray]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        pickled = next(name for name in sizes if name.endswith("/data.pkl"))
        root = pickled.removesuffix("data.pkl")
        if sizes[pickled] > MOST_BYTES:
            raise ValueError("too large")
        order = archive.read(f"{root}byteorder") if f"{root}byteorder" in sizes else b""
        if (order or b"little") != sys.byteorder.encode():
            raise ValueError("numbers of another byte order")
        value, storages = read_inert(io.BytesIO(archive.read(pickled)))
        if sum(sizes[f"{root}data/{key}"] for key in storages) > len(data):
            raise ValueError("more numbers than the file is long")
        blocks = {key: bytearray(archive.read(f"{root}data/{key}")) for key in storages}
    return value, blocks


def _read_legacy(data: bytes) -> tuple[Any, dict[str, bytearray]]:
    """Read magic, version, system, value, keys: a pickle each; then the numbers."""
    stream = io.BytesIO(data)
    magic, _ = read_inert(stream, most=MOST_PLAIN)
    if isinstance(magic, dict | Inert):  # a plain pickle, which has its numbers
        return magic, {}
    _version, _ = read_inert(stream, most=1 << 10)
    _system, _ = read_inert(stream, most=1 << 16)
    if magic != MAGIC:
        raise ValueError("not written by torch")
    value, storages = read_inert(stream)
    keys, _ = read_inert(stream)
    blocks: dict[str, bytearray] = {}
    for key in keys:
        count = int.from_bytes(stream.read(8), "little", signed=True)
        size = count * storages[key].dtype.itemsize
        if not 0 <= size <= len(data) or key in blocks:
            raise ValueError("a storage of another size")
        blocks[key] = bytearray(stream.read(size))
    return value, blocks


class _Plain:
    """Converts stand-ins and records to plain values and tensors."""

    def __init__(self, blocks: Mapping[str, bytearray]) -> None:
        self._blocks = blocks
        self._seen: dict[int, Any] = {}  # id -> converted value
        self._count = 0
        self.settings: dict[str, Any] = {}

    def of(self, value: Any, depth: int) -> Any:
        """Return a value in plain form; None beyond the maximum depth."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        self._count += 1
        if depth > _DEEPEST or self._count > MOST_VALUES:
            return None
        if id(value) in self._seen:
            return self._seen[id(value)]
        if isinstance(value, TensorRecord):
            made: Any = self._tensor(value)
            self._seen[id(value)] = made
            return made
        if isinstance(value, Inert):
            return self._object(value, depth)
        if isinstance(value, type) and issubclass(value, Inert):
            return value.qualified
        if isinstance(value, Mapping):
            made = self._seen[id(value)] = {}
            for key, inside in value.items():
                if isinstance(key, str | int):
                    made[key] = self.of(inside, depth + 1)
            return made
        if isinstance(value, list | tuple | set | frozenset):
            made = self._seen[id(value)] = []
            made += [self.of(inside, depth + 1) for inside in value]
            return made
        return None

    def _of_array(self, array: np.ndarray | list[Any], depth: int) -> Any:
        """Return texts as lists, scalars as numbers and other arrays as tensors."""
        if isinstance(array, list):
            return self.of(array, depth + 1)
        if array.ndim == 0 or array.dtype.kind == "U":
            return array.tolist()
        return torch.from_numpy(array)

    def _object(self, value: Inert, depth: int) -> Any:
        """Return a module's tensors by name, or the attributes of another object."""
        made: Any
        array = array_of(value)
        if array is not None:
            made = self._seen[id(value)] = self._of_array(array, depth)
            return made
        made = {}
        self._seen[id(value)] = made
        if look(value) is not None:
            tree = list(modules(value, look))
            found = tensors_of(tree)
            made |= {name: self.of(part, depth + 1) for name, part in found.items()}
            self.settings = settings_of(tree) | self.settings
            made |= self._kept_beside(tree[0].attributes, {*made}, depth)
            return made
        if value.qualified in ("builtins.set", "builtins.frozenset", "builtins.list"):
            inside = value.arguments[0] if value.arguments else value.listed
            made = self._seen[id(value)] = self.of(inside, depth + 1)
            return made
        if value.listed:
            made["items"] = self.of(value.listed, depth + 1)
        for part in (value.mapping, value.state):
            if isinstance(part, tuple):  # a C++ object, such as torchtext's Vocab
                several = [x for x in part if isinstance(x, list) and x]
                lists = [x for x in several if type(x[0]) is str]
                part = {"items": lists[0]} if lists else {}
            inside = self.of(part, depth + 1)
            if isinstance(inside, dict):
                made |= inside
        return made

    def _kept_beside(
        self, attributes: Mapping[str, Any], taken: set[str], depth: int
    ) -> dict[str, Any]:
        """Return the other attributes of a module, such as vocabularies."""
        return {
            name: self.of(value, depth + 1)
            for name, value in attributes.items()
            if isinstance(name, str)
            and name[:1] != "_"
            and name not in taken
            and isinstance(value, dict | list | Inert)
        }

    def _tensor(self, record: TensorRecord) -> Tensor:
        """Return a tensor with memory of its own; ValueError for an invalid record."""
        block, dtype = self._block(record)
        shape, stride, offset = record.shape, record.stride, record.offset
        if isinstance(shape, list):
            shape = tuple(shape)
        numbers = (offset, *shape, *stride)
        if any(type(n) is not int or not 0 <= n < _DIMENSION for n in numbers):
            raise ValueError("a shape of other than numbers")
        if len(shape) != len(stride) or len(shape) > _RANK:
            raise ValueError("a shape without its strides")
        count = 1
        for size in shape:
            count *= size
        last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        held = len(block) // dtype.itemsize
        if not 0 < count <= held or last >= held:
            raise ValueError("more numbers than there are")
        flat = torch.frombuffer(block, dtype=dtype)
        return flat.as_strided(shape, stride, offset)

    def _block(self, record: TensorRecord) -> tuple[bytearray, torch.dtype]:
        """Return the bytes of a tensor's storage and their dtype."""
        storage, blocks = record.storage, self._blocks
        if isinstance(storage, StorageBytes):
            storage, blocks = _read_legacy(storage.data)
        if not isinstance(storage, StorageRecord):
            raise ValueError("no storage")
        block = blocks[storage.key]
        if len(block) != storage.numel * storage.dtype.itemsize or not block:
            raise ValueError("a storage of another size")
        return block, record.dtype or storage.dtype


def look(value: Any) -> tuple[str, Mapping[str, Any]] | None:
    """Return the class name and attributes of a module's stand-in, else None."""
    state = value.state if isinstance(value, Inert) else None
    if not isinstance(state, dict) or not isinstance(state.get("_parameters"), dict):
        return None
    if not isinstance(state.get("_modules"), dict):
        return None
    return value.qualified.rpartition(".")[2], state


_ROOMS = ("numpy.core.multiarray", "numpy._core.multiarray")
_MAKERS = tuple(f"{room}._reconstruct" for room in _ROOMS)
_SCALARS = tuple(f"{room}.scalar" for room in _ROOMS)
_BUFFERS = tuple(f"numpy.{room}.numeric._frombuffer" for room in ("core", "_core"))
_CODE = re.compile(r"f[248]|[iu][1248]|b1|U\d{1,4}")  # numbers and texts of fixed size
_ARRAY_RANK = 8


def array_of(value: Inert) -> np.ndarray | list[Any] | None:
    """Return the array that a stand-in represents; objects as a flat list.

    None if it is not an array, or has elements other than numbers and texts. Raises
    ValueError if the number of elements does not match its shape.
    """
    if value.qualified in _SCALARS and len(value.arguments) == 2:
        kind, data = value.arguments
        return _array((), kind, data, "C")
    if value.qualified in _BUFFERS and len(value.arguments) == 4:
        data, kind, shape, order = value.arguments
        return _array(shape, kind, data, order)
    if value.qualified in _MAKERS and isinstance(value.state, tuple):
        if len(value.state) != 5:
            raise ValueError("no array")
        _version, shape, kind, by_columns, data = value.state
        if isinstance(data, list):
            return data
        return _array(shape, kind, data, "F" if by_columns else "C")
    return None


def _array(shape: Any, kind: Any, data: Any, order: Any) -> np.ndarray | None:
    dtype = _dtype(kind)
    if dtype is None:
        return None
    plain = isinstance(shape, tuple | list) and isinstance(data, bytes | bytearray)
    if not plain or len(shape) > _ARRAY_RANK or order not in ("C", "F"):
        raise ValueError("no array")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("a shape of other than numbers")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError("an array of another size")
    flat = np.frombuffer(data, dtype).reshape(tuple(shape), order=order)
    return flat.astype(dtype.newbyteorder("="))


def _dtype(kind: Any) -> np.dtype | None:
    code = kind.arguments[0] if isinstance(kind, Inert) and kind.arguments else None
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return None
    state = kind.state
    order = state[1] if isinstance(state, tuple) and len(state) > 1 else "|"
    return np.dtype(f">{code}" if order == ">" else code)


# ---- What modules reveal besides weights: heads, norms, activation, padding ----------


class SeenModule(NamedTuple):
    """One module of a tree."""

    prefix: str  # the prefix of its tensors' names: "" or "encoder.layers.0."
    kind: str  # the name of its class
    attributes: Mapping[str, Any]


LookInside = Callable[[Any], tuple[str, Mapping[str, Any]] | None]  # None: not a module


def modules(root: Any, look: LookInside) -> Iterator[SeenModule]:
    """Yield a module and its submodules; ValueError for an endless tree."""
    waiting: list[tuple[str, int, Any]] = [("", 0, root)]
    count = 0
    while waiting:
        prefix, depth, module = waiting.pop()
        seen = look(module)
        if seen is None:
            continue
        count += 1
        if count > MOST_MODULES or depth > _DEEPEST:
            raise ValueError("too many modules")
        yield SeenModule(prefix, *seen)
        children = seen[1].get("_modules")
        if isinstance(children, Mapping):
            for name, child in reversed([*children.items()]):
                waiting.append((f"{prefix}{name}.", depth + 1, child))


def tensors_of(tree: list[SeenModule]) -> dict[str, Any]:
    """Return a tree's parameters and buffers by name, like ``state_dict``.

    Position tables are included even if ``state_dict`` leaves them out.
    """
    made: dict[str, Any] = {}
    for module in tree:
        dropped = module.attributes.get("_non_persistent_buffers_set")
        for kind in ("_parameters", "_buffers"):
            inside = module.attributes.get(kind)
            for name, tensor in inside.items() if isinstance(inside, Mapping) else ():
                if tensor is None or not isinstance(name, str):
                    continue
                hidden = isinstance(dropped, set | list | frozenset) and name in dropped
                if not hidden or name.lower().startswith(("pe", "pos")):
                    made[f"{module.prefix}{name}"] = tensor
    return made


def settings_of(tree: list[SeenModule]) -> dict[str, Any]:
    """Return the settings that a tree of modules reveals, under ``load``'s names.

    Contradictory values are left out.
    """
    said: dict[str, Any] = {}
    for module in tree[:1]:
        for name, value in module.attributes.items():
            if isinstance(name, str) and name[:1] != "_" and _plain(value):
                said[name] = value
    found: dict[str, set[Any]] = {}
    for module in tree:
        for name, value in _settings_in(module):
            found.setdefault(name, set()).add(value)
    for name, values in found.items():
        said.pop(name, None)
        if len(values) == 1:
            said[name] = next(iter(values))
    return said


def _plain(value: object) -> bool:
    return type(value) in (bool, int, float, str)


def _settings_in(module: SeenModule) -> Iterator[tuple[str, Any]]:
    """Yield the settings that one module reveals about the whole model."""
    own, kind = module.attributes, module.kind
    for name in _HEADS:
        if type(own.get(name)) is int and own[name] > 0:
            yield "heads", own[name]
            break
    if kind in _ACTIVATIONS:
        yield "activation", _ACTIVATIONS[kind]
    if own.get("activation_relu_or_gelu") in (1, 2):
        yield "activation", _FLAGS[own["activation_relu_or_gelu"]]
    elif word := _FUNCTIONS.get(_name_of(own.get("activation"))):
        yield "activation", word
    if type(own.get("norm_first")) is bool:
        yield "norm_first", own["norm_first"]
    if "norm" in kind.lower() and type(own.get("eps")) is float:
        yield "norm_eps", own["eps"]
    if kind == "Embedding" and type(own.get("padding_idx")) is int:
        yield "pad", own["padding_idx"]


def _name_of(value: Any) -> str:
    """Return the last part of the name of a function or its stand-in."""
    name = getattr(value, "qualified", None) or getattr(value, "__name__", "")
    return name.rpartition(".")[2] if isinstance(name, str) else ""
