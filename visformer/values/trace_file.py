"""Traces on disk (``*.vis``): numpy only, so that the window reads them without torch.

A file is a magic line, the format's version (two bytes: major, minor), then blocks. A
block is its header's length (4 bytes, little endian), the header (JSON: name, dtype,
shape, bytes, SHA-256) and its bytes. The first block, ``facts``, is JSON; the others
are arrays. Readers ignore blocks they do not know and refuse a newer major version.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from visformer.errors import CheckpointError, InputError
from visformer.values.arrays import read_only
from visformer.values.config import FORMER_NAMES, ModelConfig
from visformer.values.facts import KINDS, BlockParameters, Description, Kind, ModelFacts
from visformer.values.intervention import Intervention, parse
from visformer.values.row_columns import Columns
from visformer.values.step import Candidates, Step
from visformer.values.trace import Trace

MAGIC = b"VISFORMER TRACE\n"
VERSION = (2, 0)  # 1: the model's facts were one flat object
MAX_HEADER = 1 << 20
MAX_FACTS = 64 << 20
_ARRAYS = {  # block name -> dtype
    "encoder_rows": np.float32,
    "memory_rows": np.float32,
    "decoder_rows": np.float32,
    "encoder_mask": np.bool_,
    "decoder_mask": np.bool_,
    "cross_mask": np.bool_,
}

# what reading other people's JSON as facts can raise
_DAMAGE = (
    CheckpointError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
)


def write_trace(trace: Trace, path: Path) -> None:
    """Write a Trace, whole or not at all; InputError where it cannot be written."""
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("wb") as file:
            file.write(MAGIC + bytes(VERSION))
            _write_block(file, "facts", np.frombuffer(_facts(trace), np.uint8))
            for name in _ARRAYS:
                _write_block(file, name, _array(trace, name))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from error


def _array(trace: Trace, name: str) -> NDArray[Any]:
    if name.endswith("_mask"):
        kind = name.removesuffix("_mask")
        masks = {str(kind): mask for kind, mask in trace.masks.items()}
        return masks.get(kind, np.zeros((0, 0), bool))
    array: NDArray[Any] = getattr(trace, name)
    return array


def _facts(trace: Trace) -> bytes:
    facts = {
        "model": _model_facts(trace.model),
        "source_text": trace.source_text,
        "source": trace.source,
        "source_ids": trace.source_ids.tolist(),
        "source_spans": trace.source_spans,
        "target": trace.target,
        "target_ids": trace.target_ids.tolist(),
        "steps": [_step_facts(step) for step in trace.steps],
        "truncated_from": trace.truncated_from,
        "intervention": trace.intervention.to_json(),
    }
    return json.dumps(facts, ensure_ascii=False).encode("utf-8", "replace")


def _model_facts(model: ModelFacts) -> dict[str, Any]:
    facts = dataclasses.asdict(model)
    facts["config"] = facts.pop("known")
    del facts["attention"], facts["stacks"]  # they follow from the config
    return {**facts, "cross": "cross" in model.kinds}


def _step_facts(step: Step) -> dict[str, Any]:
    names = (field.name for field in dataclasses.fields(step))
    facts = {name: getattr(step, name) for name in names}
    return {**facts, "candidates": list(step.candidates)}


def _write_block(file: BinaryIO, name: str, array: NDArray[Any]) -> None:
    data = np.ascontiguousarray(array).tobytes()
    header = {
        "name": name,
        "dtype": array.dtype.name,
        "shape": array.shape,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    text = json.dumps(header).encode()
    file.write(struct.pack("<I", len(text)) + text + data)


def read_trace(path: Path) -> Trace:
    """Read a Trace; InputError names what is wrong with the file."""
    try:
        with path.open("rb") as file:
            blocks = dict(_blocks(file, path.name))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    missing = [name for name in ("facts", *_ARRAYS) if name not in blocks]
    if missing:
        raise InputError(f"{path.name} is cut off or damaged: {missing[0]} is missing.")
    try:
        return _trace(json.loads(blocks["facts"].tobytes()), blocks)
    except _DAMAGE as error:
        raise InputError(f"{path.name} is damaged: its facts do not fit.") from error


def _blocks(file: BinaryIO, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the known blocks up to the end, or up to the first one that is cut off."""
    if file.read(len(MAGIC)) != MAGIC:
        raise InputError(f"{name} is no Visformer trace (*.vis).")
    version = file.read(2)
    if len(version) < 2 or version[0] > VERSION[0]:
        raise InputError(f"{name} was written by a newer Visformer: update to open it.")
    left = os.fstat(file.fileno()).st_size - file.tell()
    while left > 4:
        (size,) = struct.unpack("<I", file.read(4))
        left -= 4
        if size > min(MAX_HEADER, left):
            return
        header = _header(file.read(size), name)
        left -= size + header["bytes"]
        if left < 0:
            return
        if header["name"] in _ARRAYS or header["name"] == "facts":
            yield header["name"], _block(file.read(header["bytes"]), header, name)
        else:
            file.seek(header["bytes"], os.SEEK_CUR)


def _header(text: bytes, name: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
        known = _ARRAYS.get(header["name"], np.uint8)
        shape = [int(n) for n in header["shape"]]
        fits = header["bytes"] == math.prod(shape) * np.dtype(known).itemsize
        known_block = header["name"] in _ARRAYS or header["name"] == "facts"
        if known_block and (not fits or min(shape) < 0 or len(shape) > 3):
            raise ValueError("sizes do not agree")
        if type(header["bytes"]) is not int or header["bytes"] < 0:
            raise ValueError("a block's size is no number")
        checksum = str(header["sha256"]) if known_block else ""
    except _DAMAGE as error:
        raise InputError(
            f"{name} is damaged: a block's header is unreadable."
        ) from error
    return {**header, "shape": shape, "dtype": known, "sha256": checksum}


def _block(data: bytes, header: dict[str, Any], name: str) -> NDArray[Any]:
    if hashlib.sha256(data).hexdigest() != header["sha256"]:
        raise InputError(f"{name} is damaged: {header['name']} fails its checksum.")
    if header["name"] == "facts" and len(data) > MAX_FACTS:
        raise InputError(f"{name} is damaged: its facts are too large.")
    return np.frombuffer(data, header["dtype"]).reshape(header["shape"])


def _trace(facts: dict[str, Any], blocks: dict[str, NDArray[Any]]) -> Trace:
    steps = [
        Step(**{**step, "candidates": _candidates(step["candidates"])})
        for step in facts["steps"]
    ]
    model = _model(facts["model"])
    trace = Trace(
        model=model,
        source_text=facts["source_text"],
        source=tuple(facts["source"]),
        source_ids=read_only(np.array(facts["source_ids"], np.int64)),
        source_spans=tuple((a, b) for a, b in facts["source_spans"]),
        target=tuple(facts["target"]),
        target_ids=read_only(np.array(facts["target_ids"], np.int64)),
        steps=tuple(steps),
        # of a decoder that ran alone, older files had the width of an encoder's row
        encoder_rows=read_only(
            blocks["encoder_rows"][:, : Columns(model).width("encoder")]
        ),
        memory_rows=read_only(blocks["memory_rows"]),
        decoder_rows=read_only(blocks["decoder_rows"]),
        masks={kind: read_only(blocks[f"{kind}_mask"]) for kind in model.kinds},
        truncated_from=facts["truncated_from"],
        intervention=_intervention(facts.get("intervention", "")),
    )
    _check(trace)
    return trace


def _intervention(facts: dict[str, Any] | str) -> Intervention:
    """Read what modified the run: data, or the text form in a file of version 1."""
    return parse([facts]) if isinstance(facts, str) else Intervention.from_json(facts)


def _candidates(facts: list[Any]) -> Candidates:
    """Read candidates: [id, token, probability] of each."""
    ids, tokens, shares = zip(*facts, strict=True) if facts else ((), (), ())
    return Candidates(np.array(ids, np.int64), tokens, np.array(shares, np.float32))


def _model(facts: dict[str, Any]) -> ModelFacts:
    """Read what is known of the model; files older than a field have its default."""
    blocks = tuple(
        BlockParameters(str(block), int(count), str(shared))
        for block, count, shared in facts.pop("blocks", ())
    )
    if "config" not in facts:
        facts = _nested(facts, blocks)
    config = ModelConfig(**facts.pop("config"))
    kinds: tuple[Kind, ...] = KINDS if facts.pop("cross", True) else ("decoder",)
    return ModelFacts(**Description.of(config, kinds)._asdict(), **facts, blocks=blocks)


def _nested(
    flat: dict[str, Any], blocks: tuple[BlockParameters, ...]
) -> dict[str, Any]:
    """Put the config of a version 1 file together: its fields lay among the facts."""
    flat = {FORMER_NAMES.get(name, name): value for name, value in flat.items()}
    config = {
        field.name: flat.pop(field.name)
        for field in dataclasses.fields(ModelConfig)
        if field.name in flat
    }
    ties = {block.block for block in blocks if block.shared == "target_embedding"}
    config["shared_embedding"] = "source_embedding" in ties
    config["tied_output"] = "output" in ties
    # a decoder that ran alone had 0 encoder layers
    config["encoder_layers"] = max(1, config["encoder_layers"])
    return {**flat, "config": config}


def _check(trace: Trace) -> None:
    """Raise ValueError unless the arrays have the shapes that the facts promise."""
    source, target = len(trace.source), len(trace.target)
    columns = trace.columns
    promised = {
        "source_ids": (source,),
        "target_ids": (target,),
        "encoder_rows": (source, columns.width("encoder")),
        "memory_rows": (source, columns.width("memory")),
        "decoder_rows": (target, columns.width("decoder")),
    }
    shapes = {name: getattr(trace, name).shape for name in promised}
    changed = trace.intervention
    masks = {
        kind: mask.shape[changed.by_layer(kind) :]
        for kind, mask in trace.masks.items()
        if not changed.by_layer(kind) or len(mask) == trace.layers(kind)
    }
    lengths = {
        "encoder": (source, source),
        "decoder": (target, target),
        "cross": (target, source),
    }
    square = {kind: lengths[kind] for kind in trace.kinds}
    if shapes != promised or masks != square or len(trace.steps) != target:
        raise ValueError("the arrays do not fit the facts")
