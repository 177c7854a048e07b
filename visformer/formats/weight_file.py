"""Reading tensors from an untrusted file without running its code.

Files are read whole, never mapped: a map skips the checksums of a ``.pt``, and reading
one that another program truncates kills the process. The bytes of a file decide its
type, not its name. Every error is one ``CheckpointError`` of one sentence.

What ``torch.save`` wrote comes from PyTorch's restricted unpickler: tensors, numbers,
texts, lists, dicts and ``argparse.Namespace``; nothing here executes code from the
file. Around its weights a training script may save wrappers, prefixes and options.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import struct
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import safetensors
import torch
from torch import Size, Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint

from visformer.errors import CheckpointError
from visformer.file_kinds import START, told
from visformer.files import amount, inside, listed, read_json, read_regular, short
from visformer.formats.inert_pickle import CodeInFileError
from visformer.formats.names import NameRules
from visformer.formats.whole_model import WholeFile, read_whole
from visformer.language import _
from visformer.text import clean
from visformer.tokenizers.vocabularies import is_vocabulary, vocabularies_in

INDEX = ".index.json"  # of weights split across several files
MOST_FILES = 512
MAX_FILE = 20 << 30
MAX_HEADER = 16 << 20
_NO_HEADER = 1 << 48  # bytes: a larger header size is actually text
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


class Weights(NamedTuple):
    """The tensors of one file."""

    tensors: dict[str, Tensor]
    digest: str  # SHA-256 of the file
    options: Mapping[str, Any]  # plain values that were saved beside the tensors
    vocabularies: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    chosen: str = ""  # the set that was read, if the file has several complete ones
    others: tuple[str, ...] = ()  # the names of the other sets


class WeightReader:
    """Reads weight files, each only once.

    If reading a file failed, the same error is raised again. ``rules`` apply to the
    names of its tensors.
    """

    def __init__(
        self, rules: NameRules | None = None, held: Mapping[Path, Weights] | None = None
    ) -> None:
        """``held`` are weights in memory, under paths that name no file."""
        self._rules = NameRules() if rules is None else rules
        self._used: set[str] = set()
        self._held = {} if held is None else held
        self._results: dict[Path, Weights | CheckpointError] = {}

    def __call__(self, path: Path) -> Weights:
        """Return the content of a file; CheckpointError if it cannot be read."""
        if path not in self._results:
            try:
                self._results[path] = self._named(path)
            except CheckpointError as error:
                self._results[path] = error
        result = self._results[path]
        if isinstance(result, CheckpointError):
            raise result
        return result

    def _named(self, path: Path) -> Weights:
        """Read a file and give its tensors the names that the caller wants."""
        weights, name = self._held.get(path), short(path.name)
        weights = (
            read_weights(path, self._rules.weights) if weights is None else weights
        )
        tensors, used = self._rules.apply(weights.tensors, name)
        self._used |= used
        return weights._replace(tensors=tensors)

    def holds(self, path: Path) -> bool:
        """Whether a path stands for weights in memory."""
        return path in self._held

    def check_rules(self) -> None:
        """Raise CheckpointError for a pattern that matched nothing read so far."""
        unused = sorted(self._rules.patterns - self._used)
        if unused and self._results:
            raise CheckpointError(
                "No tensor of {file} has a name that matches “{pattern}”. Correct the "
                "pattern, or leave it out.",
                file=" and ".join(short(path.name) for path in self._results),
                pattern=short(unused[0]),
            )


@dataclass(frozen=True, eq=False)
class WeightFile:
    """A weight file, read once on first use."""

    path: Path
    reader: WeightReader

    @property
    def name(self) -> str:
        """The file's name, shortened to fit into a sentence."""
        return short(self.path.name)

    @property
    def weights(self) -> Weights:
        """Its content; CheckpointError if it cannot be read."""
        return self.reader(self.path)


def read_weights(path: Path, wanted: str = "") -> Weights:
    """Read a file's tensors and digest; CheckpointError if it cannot be read safely.

    An index stands for all files that it names; ``wanted`` is a set of weights.
    """
    if path.name.endswith(INDEX):
        return _in_several(path)
    data, name = read_regular(path, MAX_FILE), short(path.name)
    if problem := told(data[:START], path).problem:
        raise CheckpointError(problem)
    zipped = data.startswith(b"PK\x03\x04")
    options: Mapping[str, Any] = {}
    vocabularies: Mapping[str, Mapping[str, int]] = {}
    state = SavedState({})
    if zipped:
        check_archive(data, name)
    if zipped or (data[:1] == b"\x80" and data[8:9] not in (b"{", b"")):
        loaded = unpickled(data, name)
        state = checked_state(loaded.value, name, wanted=wanted)
        options = options_of(loaded.value) | loaded.settings
        vocabularies = vocabularies_in(loaded.value)
    else:
        state = SavedState(_parse_safetensors(data, name))
    if not state.tensors:
        raise CheckpointError(
            "{file} holds no tensors. Choose the file of weights.", file=name
        )
    digest = hashlib.sha256(data).hexdigest()
    if state.others and state.name == wanted:  # the digest stands for another set
        digest = hashlib.sha256(f"{digest} {wanted}".encode()).hexdigest()
    return Weights(
        state.tensors, digest, options, vocabularies, state.name, state.others
    )


def _in_several(path: Path) -> Weights:
    """Merge the files that an index names."""
    index = short(path.name)
    places = read_json(path, MAX_HEADER).get("weight_map")
    if not isinstance(places, Mapping) or not all(
        isinstance(name, str) for name in places.values()
    ):
        raise CheckpointError(
            "{file} does not say which file holds which tensor. Download it again.",
            file=index,
        )
    files = [n for n in dict.fromkeys(places.values()) if not n.endswith(INDEX)]
    if not 0 < len(files) <= MOST_FILES:
        raise CheckpointError(
            "{file} names {n:,} files of weights; between 1 and {most:,} are read.",
            file=index,
            n=len(files),
            most=MOST_FILES,
        )
    tensors: dict[str, Tensor] = {}
    together = hashlib.sha256()
    for name in files:
        part = inside(path.parent, name, key="weight_map", of=index)
        weights = read_weights(part)
        tensors |= weights.tensors
        together.update(weights.digest.encode())
    return Weights(tensors, together.hexdigest(), {})


def _parse_safetensors(data: bytes, name: str) -> dict[str, Tensor]:
    (header,) = struct.unpack("<Q", data[:8].ljust(8, b"\xff"))
    text = not name.endswith(".safetensors")
    if data[8:9] not in (b"{", b"") or (text and header > _NO_HEADER):
        raise CheckpointError(
            "{file} is neither a safetensors nor a PyTorch file. Choose the file that "
            "holds the model's weights.",
            file=name,
        )
    if MAX_HEADER < header <= len(data) - 8:
        raise CheckpointError(
            "The header of {file} has {size}, but at most {limit} are allowed; the "
            "file is damaged or not a model. Download it again.",
            file=name,
            size=amount(header),
            limit=amount(MAX_HEADER),
        )
    try:
        entries = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise CheckpointError(
            "{file} is truncated or damaged: its content does not match its header. "
            "Download or copy it again.",
            file=name,
        ) from error
    _check_count(len(entries), name)
    return {
        key: _view(entry, key, name)
        for key, entry in sorted(entries, key=itemgetter(0))  # in any order in the file
    }


def _view(entry: Mapping[str, Any], key: str, name: str) -> Tensor:
    _check_shape(entry["shape"], key, name)
    if entry["dtype"] not in _SAFE_DTYPES:
        raise CheckpointError(
            "Tensor {tensor} of {file} has the unsupported number format {dtype}. "
            "Save it as float32 or float16.",
            tensor=short(key),
            file=name,
            dtype=short(entry["dtype"]),
        )
    dtype = _SAFE_DTYPES[entry["dtype"]]
    if not entry["data"]:
        raise CheckpointError(
            "Tensor {tensor} of {file} is empty. Save the weights again.",
            tensor=short(key),
            file=name,
        )
    return torch.frombuffer(entry["data"], dtype=dtype).reshape(entry["shape"])


def _check_count(count: int, name: str) -> None:
    if count > MAX_TENSORS:
        raise CheckpointError(
            "{file} holds {n:,} tensors, more than the limit of {most:,}, so it is "
            "not a model. Choose another file.",
            file=name,
            n=count,
            most=MAX_TENSORS,
        )


def _check_shape(shape: list[int] | torch.Size, key: str, name: str) -> None:
    if len(shape) > MAX_RANK or max(shape, default=0) > MAX_DIMENSION:
        raise CheckpointError(
            "Tensor {tensor} of {file} has shape {shape}, so it is not a weight; the "
            "limit is {rank} dimensions of at most {most:,}.",
            tensor=short(key),
            file=name,
            shape=short(str(list(shape[:8])), 32),
            rank=MAX_RANK,
            most=MAX_DIMENSION,
        )


def checked_state(
    loaded: object, name: str, *, anywhere: bool = False, wanted: str = ""
) -> SavedState:
    """Return the state dict inside what a training script saved.

    Raises CheckpointError if there is none, if the set ``wanted`` is missing, or if a
    tensor is not a valid weight or, unless ``anywhere``, not on the CPU.
    """
    state = state_of(loaded, wanted)
    if not state.tensors:
        raise CheckpointError(
            "{file} holds no state dict of tensors. Save only the weights: {code}.",
            file=name,
            code=SAVE,
        )
    if wanted and state.name != wanted:
        sets = [one for one in (state.name, *state.others) if one]
        raise CheckpointError(
            "{file} holds no set of weights “{name}” beside another, but {sets}.",
            file=name,
            name=short(wanted),
            sets=listed(sets, room=60) if state.others else _("one alone"),
        )
    _check_count(len(state.tensors), name)
    for key, tensor in state.tensors.items():
        _check_tensor(tensor, key, name, anywhere=anywhere)
    detached = {key: tensor.detach() for key, tensor in state.tensors.items()}
    return state._replace(tensors=detached)


def _check_tensor(tensor: Tensor, key: str, name: str, *, anywhere: bool) -> None:
    """Refuse all but dense CPU tensors that own their memory."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        raise CheckpointError(
            "Tensor {tensor} of {file} is sparse, quantized or nested. Save it as a "
            "dense float32 tensor.",
            tensor=short(key),
            file=name,
        )
    if tensor.device.type == "meta" or (tensor.device.type != "cpu" and not anywhere):
        raise CheckpointError(
            "Tensor {tensor} of {file} has a shape but no numbers. Save it again.",
            tensor=short(key),
            file=name,
        )
    _check_shape(tensor.shape, key, name)
    sizes = zip(tensor.stride(), tensor.shape, strict=True)
    expanded = any(stride == 0 and size > 1 for stride, size in sizes)
    held = tensor.untyped_storage().nbytes()
    if expanded or tensor.numel() * tensor.element_size() > held:
        raise CheckpointError(
            "Tensor {tensor} of {file} claims more numbers than the file holds. Save "
            "it after .clone().",
            tensor=short(key),
            file=name,
        )


_scalar: Callable[..., Any] = np.float64(0).__reduce__()[0]  # type: ignore[assignment]
_HARMLESS: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    argparse.Namespace,  # training scripts save their options beside the weights
    np.dtype,
    *(type(np.dtype(name)) for name in ("f4", "f8", "i4", "i8", "?")),
    (_scalar, "numpy.core.multiarray.scalar"),
    (_scalar, "numpy._core.multiarray.scalar"),
]
SAVE = 'torch.save(model.state_dict(), "model.pt")'
_one_load = threading.Lock()  # parallel loads can skip torch's checks (pytorch#194750)


def check_archive(data: bytes, name: str) -> None:
    """Refuse archives that are not PyTorch's, contain a program or may be zip bombs."""
    try:
        entries = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise CheckpointError(
            "{file} is truncated or damaged. Download or copy it again.", file=name
        ) from error
    names = [entry.filename for entry in entries]
    if any(
        entry.endswith(("archive_format", "serialized_exported_program.json"))
        for entry in names
    ):
        raise CheckpointError(
            "{file} is a program of torch.export, not weights. Call "
            "visformer.watch(torch.export.load(file).module())(…) with its inputs.",
            file=name,
        )
    if not any(entry.endswith("/data.pkl") for entry in names):
        raise CheckpointError(
            "{file} is a zip archive without PyTorch weights. Unpack it and open its "
            "content.",
            file=name,
        )
    if any("/code/" in entry or entry.endswith("/constants.pkl") for entry in names):
        raise CheckpointError(
            "{file} is a TorchScript program, not weights. Open it with "
            "torch.jit.load and run {code}.",
            file=name,
            code=SAVE,
        )
    if any(entry.compress_type or entry.file_size > len(data) for entry in entries):
        raise CheckpointError(
            "{file} is compressed, which PyTorch never does, so it may be a zip bomb. "
            "Save the weights again: {code}.",
            file=name,
            code=SAVE,
        )


def unpickled(data: bytes, name: str) -> WholeFile:
    """Run PyTorch's restricted unpickler, or read a file without its classes.

    Every exception becomes one sentence.
    """
    refused: Exception | None = None
    with _one_load, warnings.catch_warnings(action="ignore"):
        try:
            with (
                torch.sparse.check_sparse_tensor_invariants(),
                torch.serialization.safe_globals(_HARMLESS),
            ):
                file, zipped = io.BytesIO(data), data.startswith(b"PK")
                if not (zipped and get_unsafe_globals_in_checkpoint(file)):
                    file.seek(0)
                    loaded = torch.load(file, map_location="cpu", weights_only=True)
                    return WholeFile(loaded)
        except Exception as error:  # torch.load raises about 13 different types
            refused = error
    try:
        return read_whole(data)
    except CodeInFileError as error:
        raise CheckpointError(
            "{file} was not opened because it would run code ({names}). Save only the "
            "weights: {code}.",
            file=name,
            names=short(str(error), 40),
            code=SAVE,
        ) from error
    except Exception as error:  # an untrusted pickle may fail in any way
        raise CheckpointError(_unreadable(refused or error, name)) from error


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


_WRAPPERS = ("model_state_dict", "state_dict", "model")  # keys of the weights
_PREFIXES = ("module.", "_orig_mod.")  # of DataParallel and torch.compile
_HALVES = ("encoder", "decoder")
_COUNTERS = {"n_averaged"}  # from torch.optim.swa_utils.AveragedModel
_FEWEST = 8  # least number of tensors in one of several sets
_DEPTH = 4  # maximum nesting of dicts whose options are read
_LOOKED_INTO = 100  # maximum nesting of dicts: stays below Python's recursion limit


class SavedState(NamedTuple):
    """The tensors of a state dict, and the other sets in the file."""

    tensors: dict[str, Tensor]
    name: str = ""  # the key under which it is saved
    others: tuple[str, ...] = ()  # names of complete sets of the same tensors


def state_of(loaded: object, wanted: str = "") -> SavedState:
    """Return the state dict inside saved data; without tensors if there is none.

    Of several sets of the same tensors, such as averages, it is the ``wanted`` one,
    else the usual one. A wrapper's prefix that all names share is removed.
    """
    chosen = _tensors_in(_weights_in(loaded, set()))
    shapes = _shapes(chosen)
    named = ((name, _tensors_in(part)) for name, part in _parts(loaded, "", 0))
    sets = {name: part for name, part in named if shapes and _shapes(part) == shapes}
    usual = next((name for name in sets if _same(sets[name], chosen)), "")
    name = wanted if wanted in sets else usual
    made = sets.get(name, chosen)
    others = tuple(other for other in sets if not _same(sets[other], made))
    return SavedState(made, name, others)


def _tensors_in(state: Mapping[Any, Any]) -> dict[str, Tensor]:
    tensors = [(k, v) for k, v in state.items() if isinstance(v, Tensor)]
    return dict(_without_prefixes([t for t in tensors if t[0] not in _COUNTERS]))


def _same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return all(one[key] is other[key] for key in one)


def _parts(
    saved: object, name: str, depth: int
) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield the dicts that may hold tensors, each with the path of keys to it."""
    if not isinstance(saved, Mapping) or depth > _DEPTH or "param_groups" in saved:
        return
    for within, part in _sets_in(saved).items():
        yield ".".join(filter(None, (name, within))), part
    for key, value in saved.items():
        if isinstance(key, str):
            yield from _parts(value, f"{name}.{key}" if name else key, depth + 1)


def _sets_in(saved: Mapping[Any, Any]) -> dict[str, Mapping[Any, Any]]:
    """Return the sets of weights in one dict: itself, or those under the same prefixes.

    Averages may be stored beside their model as ``ema.…`` beside ``model.…``. A dict
    without tensors has no sets.
    """
    tensors = {k: t for k, t in saved.items() if isinstance(t, Tensor)}
    groups: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        first, _dot, rest = str(key).partition(".")
        groups.setdefault(first, {})[rest] = tensor
    sets = {name: _tensors_in(part) for name, part in groups.items()}
    shapes = {name: _shapes(part) for name, part in sets.items()}
    alike = max(shapes.values(), key=len, default={})
    same = {name: part for name, part in sets.items() if shapes[name] == alike}
    if len(same) > 1 and len(alike) >= _FEWEST and not same.keys() & {*_HALVES}:
        return {**same}
    return {"": saved} if tensors else {}


def _shapes(part: Mapping[str, Tensor]) -> dict[str, Size]:
    return {key: tensor.shape for key, tensor in part.items()}


def options_of(loaded: object) -> dict[str, Any]:
    """Return the plain values saved beside the weights, outer ones first."""
    options: dict[str, Any] = {}
    level = {id(loaded): loaded}
    seen: set[int] = set()
    for _level in range(_DEPTH):
        seen |= level.keys()
        inner: dict[int, object] = {}
        for key, value in (pair for part in level.values() for pair in _items(part)):
            if type(value) in (bool, int, float, str):
                options.setdefault(key, value)
            elif id(value) not in seen and _may_hold_options(value):
                inner[id(value)] = value
        level = inner
    return options


def _items(part: object) -> Iterator[tuple[str, Any]]:
    if isinstance(part, argparse.Namespace):
        part = vars(part)
    if isinstance(part, Mapping):
        yield from ((key, value) for key, value in part.items() if type(key) is str)


def _may_hold_options(part: object) -> bool:
    """Whether it is not weights, a vocabulary, or an optimizer's state with options."""
    inside = dict(_items(part))
    tensors = any(isinstance(value, Tensor) for value in inside.values())
    vocabulary = isinstance(part, Mapping) and is_vocabulary(part)
    return not tensors and not vocabulary and "param_groups" not in inside


def _weights_in(saved: object, outer: set[int]) -> Mapping[Any, Any]:
    """Return the weights: under a usual key, this dict, or the largest dict inside."""
    if isinstance(saved, list | tuple):  # a state dict among other values
        parts = [part for part in saved[:_LOOKED_INTO] if isinstance(part, Mapping)]
        saved = {str(at): part for at, part in enumerate(parts)}
    if not isinstance(saved, Mapping) or id(saved) in outer or "param_groups" in saved:
        return {}
    if len(outer) > _LOOKED_INTO:
        return {}
    outer.add(id(saved))
    for key in _WRAPPERS:
        if inner := _weights_in(saved.get(key), outer):
            return inner
    if sets := _sets_in(saved):
        return next(
            (sets[key] for key in _WRAPPERS if key in sets), next(iter(sets.values()))
        )
    inner = {key: _weights_in(value, outer) for key, value in saved.items()}
    if halves := _joined(inner):
        return halves
    return max(inner.values(), key=len, default={})


def _joined(inner: Mapping[Any, Mapping[Any, Any]]) -> dict[str, Any]:
    """Merge the state dicts of an encoder and a decoder saved side by side."""
    parts = [inner.get(h) or inner.get(f"{h}_state_dict") for h in _HALVES]
    if not all(parts):
        return {}
    return {
        f"{half}.{name}": tensor
        for half, part in zip(_HALVES, parts, strict=True)
        for name, tensor in (part or {}).items()
    }


def _without_prefixes(
    tensors: list[tuple[Any, Tensor]],
) -> Iterator[tuple[str, Tensor]]:
    names = [clean(str(key)) for key, _ in tensors]
    while shared := [p for p in _PREFIXES if all(n.startswith(p) for n in names)]:
        if not names:
            break
        names = [name.removeprefix(shared[0]) for name in names]
    return zip(names, (tensor for _, tensor in tensors), strict=True)
