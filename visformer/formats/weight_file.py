"""Reading tensors from an untrusted file without running its code.

Files are read whole, never mapped: a map skips the checksums of a ``.pt``, and reading
one that another program truncates kills the process. The bytes of a file decide its
type, not its name. Every error is one ``CheckpointError`` of one sentence.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import safetensors
import torch
from torch import Tensor

from visformer.errors import CheckpointError
from visformer.files import (
    amount,
    inside,
    listed,
    read_json,
    read_regular,
    refuse_foreign,
    short,
)
from visformer.formats.foreign import refuse_other_programs
from visformer.formats.name_rules import NameRules
from visformer.formats.saved import SavedState, options_of, state_of
from visformer.formats.torch_file import SAVE, check_archive, unpickled
from visformer.language import _
from visformer.tokenizers.vocabularies import vocabularies_in

INDEX = ".index.json"  # of weights in several files
MOST_FILES = 512
MAX_FILE = 20 << 30
MAX_HEADER = 16 << 20
_NO_HEADER = 1 << 48  # bytes: what is read as its size is text
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
    chosen: str = ""  # of several complete sets in the file, the one that was read
    others: tuple[str, ...] = ()  # the names of the other sets


class WeightReader:
    """Reads weight files, each once, however often it is asked for.

    The error of a file is raised again each time. ``rules`` apply to the names of its
    tensors.
    """

    def __init__(
        self, rules: NameRules | None = None, held: Mapping[Path, Weights] | None = None
    ) -> None:
        """Take what is in memory under names of no files as ``held``."""
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
        self._used |= self._rules.matching(weights.tensors)
        return weights._replace(tensors=self._rules.apply(weights.tensors, name))

    def holds(self, path: Path) -> bool:
        """Whether a name is that of something in memory, beside which no file lies."""
        return path in self._held

    def check_rules(self) -> None:
        """Raise CheckpointError for a pattern that matched nothing in what was read."""
        unused = sorted(self._rules.patterns - self._used)
        if unused and self._results:
            raise CheckpointError(
                _(
                    "No tensor of {file} has a name that matches “{pattern}”. Correct "
                    "the pattern, or leave it out.",
                    file=" and ".join(short(path.name) for path in self._results),
                    pattern=short(unused[0]),
                )
            )


@dataclass(frozen=True, eq=False)
class WeightFile:
    """A weight file, read once, when first needed."""

    path: Path
    reader: WeightReader

    @property
    def name(self) -> str:
        """The file's name, shortened to suit a sentence."""
        return short(self.path.name)

    @property
    def weights(self) -> Weights:
        """Its content; CheckpointError if it cannot be read."""
        return self.reader(self.path)


def read_weights(path: Path, wanted: str = "") -> Weights:
    """Read a file's tensors and its digest; CheckpointError if that is not safe.

    An index stands for all the files that it names; ``wanted`` is a set of weights.
    """
    if path.name.endswith(INDEX):
        return _in_several(path)
    data, name = read_regular(path, MAX_FILE), short(path.name)
    refuse_foreign(data[:512], name)
    refuse_other_programs(data[:512], path.name)
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
            _("{file} holds no tensors. Choose the file of weights.", file=name)
        )
    digest = hashlib.sha256(data).hexdigest()
    if state.others and state.name == wanted:  # not what the file's digest stands for
        digest = hashlib.sha256(f"{digest} {wanted}".encode()).hexdigest()
    return Weights(
        state.tensors, digest, options, vocabularies, state.name, state.others
    )


def _in_several(path: Path) -> Weights:
    """Read the files that an index names, as one."""
    index = short(path.name)
    places = read_json(path, MAX_HEADER).get("weight_map")
    if not isinstance(places, Mapping) or not all(
        isinstance(name, str) for name in places.values()
    ):
        raise CheckpointError(
            _(
                "{file} does not say which file holds which tensor. Download it again.",
                file=index,
            )
        )
    files = [n for n in dict.fromkeys(places.values()) if not n.endswith(INDEX)]
    if not 0 < len(files) <= MOST_FILES:
        raise CheckpointError(
            _(
                "{file} names {n:,} files of weights; between 1 and {most:,} are read.",
                file=index,
                n=len(files),
                most=MOST_FILES,
            )
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
            _(
                "{file} is neither a safetensors nor a PyTorch file. Choose the file "
                "that holds the model's weights.",
                file=name,
            )
        )
    if MAX_HEADER < header <= len(data) - 8:
        raise CheckpointError(
            _(
                "The header of {file} has {size}, but at most {limit} are allowed; the "
                "file is damaged or not a model. Download it again.",
                file=name,
                size=amount(header),
                limit=amount(MAX_HEADER),
            )
        )
    try:
        entries = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise CheckpointError(
            _(
                "{file} is truncated or damaged: its content does not match its "
                "header. Download or copy it again.",
                file=name,
            )
        ) from error
    _check_count(len(entries), name)
    return {
        key: _view(entry, key, name)
        for key, entry in sorted(entries, key=itemgetter(0))  # they come in any order
    }


def _view(entry: Mapping[str, Any], key: str, name: str) -> Tensor:
    _check_shape(entry["shape"], key, name)
    if entry["dtype"] not in _SAFE_DTYPES:
        raise CheckpointError(
            _(
                "Tensor {tensor} of {file} has the unsupported number format {dtype}. "
                "Save it as float32 or float16.",
                tensor=short(key),
                file=name,
                dtype=short(entry["dtype"]),
            )
        )
    dtype = _SAFE_DTYPES[entry["dtype"]]
    if not entry["data"]:
        raise CheckpointError(
            _(
                "Tensor {tensor} of {file} is empty. Save the weights again.",
                tensor=short(key),
                file=name,
            )
        )
    return torch.frombuffer(entry["data"], dtype=dtype).reshape(entry["shape"])


def _check_count(count: int, name: str) -> None:
    if count > MAX_TENSORS:
        raise CheckpointError(
            _(
                "{file} holds {n:,} tensors, more than the limit of {most:,}, so it is "
                "not a model. Choose another file.",
                file=name,
                n=count,
                most=MAX_TENSORS,
            )
        )


def _check_shape(shape: list[int] | torch.Size, key: str, name: str) -> None:
    if len(shape) > MAX_RANK or max(shape, default=0) > MAX_DIMENSION:
        raise CheckpointError(
            _(
                "Tensor {tensor} of {file} has shape {shape}, so it is not a weight; "
                "the limit is {rank} dimensions of at most {most:,}.",
                tensor=short(key),
                file=name,
                shape=short(str(list(shape[:8])), 32),
                rank=MAX_RANK,
                most=MAX_DIMENSION,
            )
        )


def checked_state(
    loaded: object, name: str, *, anywhere: bool = False, wanted: str = ""
) -> SavedState:
    """Return the state dict inside what a training script saved.

    Raises CheckpointError if it has none, or not the set of weights that is ``wanted``,
    or a tensor that is no weight, or is on another device than the CPU, unless it may
    be ``anywhere``.
    """
    state = state_of(loaded, wanted)
    if not state.tensors:
        raise CheckpointError(
            _(
                "{file} holds no state dict of tensors. Save only the weights: {code}.",
                file=name,
                code=SAVE,
            )
        )
    if wanted and state.name != wanted:
        sets = [one for one in (state.name, *state.others) if one]
        raise CheckpointError(
            _(
                "{file} holds no set of weights “{name}” beside another, but {sets}.",
                file=name,
                name=short(wanted),
                sets=listed(sets, room=60) if state.others else _("one alone"),
            )
        )
    _check_count(len(state.tensors), name)
    for key, tensor in state.tensors.items():
        _check_tensor(tensor, key, name, anywhere=anywhere)
    detached = {key: tensor.detach() for key, tensor in state.tensors.items()}
    return state._replace(tensors=detached)


def _check_tensor(tensor: Tensor, key: str, name: str, *, anywhere: bool) -> None:
    """Refuse all but dense tensors on the CPU that own their numbers."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        raise CheckpointError(
            _(
                "Tensor {tensor} of {file} is sparse, quantized or nested. Save it as "
                "a dense float32 tensor.",
                tensor=short(key),
                file=name,
            )
        )
    if tensor.device.type == "meta" or (tensor.device.type != "cpu" and not anywhere):
        raise CheckpointError(
            _(
                "Tensor {tensor} of {file} has a shape but no numbers. Save it again.",
                tensor=short(key),
                file=name,
            )
        )
    _check_shape(tensor.shape, key, name)
    sizes = zip(tensor.stride(), tensor.shape, strict=True)
    expanded = any(stride == 0 and size > 1 for stride, size in sizes)
    held = tensor.untyped_storage().nbytes()
    if expanded or tensor.numel() * tensor.element_size() > held:
        raise CheckpointError(
            _(
                "Tensor {tensor} of {file} claims more numbers than the file holds. "
                "Save it after .clone().",
                tensor=short(key),
                file=name,
            )
        )
