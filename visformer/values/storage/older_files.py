"""Files of versions 1 and 2, read whole.

Such a file is the magic line, the version (two bytes: major, minor), then blocks. A
block is its header's length (4 bytes, little endian), the header (JSON: name, dtype,
shape, bytes, SHA-256) and its bytes. ``facts`` is JSON, the steps included; the others
are arrays. In version 1 the model's facts were one flat object.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from visformer.errors import InputError
from visformer.language import _
from visformer.values.arrays import read_only
from visformer.values.change_text import parse
from visformer.values.config import FORMER_NAMES, ModelConfig
from visformer.values.facts import KINDS, Description, Kind
from visformer.values.row_columns import Columns
from visformer.values.step import Origin, Step
from visformer.values.storage.file_blocks import MAX_JSON, START
from visformer.values.storage.read_runs import damaged
from visformer.values.storage.regular_file import RegularFile
from visformer.values.storage.stored_facts import DAMAGE, checked, plain_model
from visformer.values.storage.stored_steps import candidates_from, check_steps
from visformer.values.trace import Trace

MAX_HEADER = 1 << 20
_ARRAYS = {  # block name -> dtype
    "encoder_rows": np.dtype("<f4"),
    "memory_rows": np.dtype("<f4"),
    "decoder_rows": np.dtype("<f4"),
    "encoder_mask": np.dtype(np.bool_),
    "decoder_mask": np.dtype(np.bool_),
    "cross_mask": np.dtype(np.bool_),
}


class _OlderStep(msgspec.Struct, frozen=True):
    id: int
    token: str
    probability: float
    rank: int
    candidates: tuple[tuple[int, str, float], ...]
    entropy: float
    origin: Origin
    text: str


def read_older(file: RegularFile) -> Trace:
    """Return the Trace of a file; InputError where it is cut off or damaged."""
    blocks = dict(_blocks(file))
    missing = [name for name in ("facts", *_ARRAYS) if name not in blocks]
    if missing:
        raise InputError(
            _(
                "{file} is cut off or damaged: its block “{block}” is missing. Copy or "
                "download the file again.",
                file=file.name,
                block=missing[0],
            )
        )
    try:
        return _trace(json.loads(blocks["facts"].tobytes()), blocks)
    except DAMAGE as error:
        raise damaged(file.name, error) from error


def _blocks(file: RegularFile) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the known blocks up to the end, or up to the first one that is cut off."""
    at = START
    while at + 4 < file.size:
        (size,) = struct.unpack("<I", file.read(at, 4))
        start = at + 4 + size
        if size > MAX_HEADER or start > file.size:
            return
        header = _header(file, at + 4, size)
        at = start + header["bytes"]
        if at > file.size:
            return
        name = header["name"]
        if name in _ARRAYS or name == "facts":
            yield name, _block(file, start, header)


def _header(file: RegularFile, at: int, size: int) -> dict[str, Any]:
    try:
        header = json.loads(file.read(at, size))
        if type(header["bytes"]) is not int or header["bytes"] < 0:
            raise ValueError("a block's size is no number")
        if header["name"] not in (*_ARRAYS, "facts"):
            return {"name": "", "bytes": header["bytes"]}
        kind = _ARRAYS.get(header["name"], np.dtype(np.uint8))
        shape = [int(n) for n in header["shape"]]
        fits = header["bytes"] == math.prod(shape) * kind.itemsize
        if not fits or min(shape) < 0 or len(shape) > 3:
            raise ValueError("sizes do not agree")
        checksum = str(header["sha256"])
    except DAMAGE as error:
        raise InputError(
            _(
                "{file} is damaged: a block's header is unreadable. Copy or download "
                "the file again.",
                file=file.name,
            )
        ) from error
    return {**header, "shape": shape, "dtype": kind, "sha256": checksum}


def _block(file: RegularFile, at: int, header: dict[str, Any]) -> NDArray[Any]:
    name, size = header["name"], header["bytes"]
    data = file.read(at, size if name != "facts" else min(size, MAX_JSON + 1))
    if hashlib.sha256(data).hexdigest() != header["sha256"]:
        raise InputError(
            _(
                "{file} is damaged: the block “{block}” fails its checksum. Copy or "
                "download the file again.",
                file=file.name,
                block=name,
            )
        )
    array = np.frombuffer(data, header["dtype"]).reshape(header["shape"])
    return array if header["dtype"] == np.bool_ else np.asarray(array)


def _trace(facts: dict[str, Any], blocks: dict[str, NDArray[Any]]) -> Trace:
    steps = _steps(facts.pop("steps"))
    intervention = facts.pop("intervention", "")
    if isinstance(intervention, str):  # the text form, in a file of version 1
        intervention = parse([intervention]).to_json()
    known, change, _fills = checked(
        {
            **facts,
            "model": _model(facts["model"]),
            "intervention": intervention,
            "chosen": [step.token for step in steps],
            "text": steps[-1].text if steps else "",
            "height": 1,
        }
    )
    model = known.model
    trace = Trace(
        model=model,
        source_text=known.source_text,
        source=known.source,
        source_ids=read_only(np.array(known.source_ids, np.int64)),
        source_spans=known.source_spans,
        target=known.target,
        target_ids=read_only(np.array(known.target_ids, np.int64)),
        steps=steps,
        # of a decoder that ran alone, older files had the width of an encoder's row
        encoder_rows=read_only(
            blocks["encoder_rows"][:, : Columns(model).width("encoder")]
        ),
        memory_rows=read_only(blocks["memory_rows"]),
        decoder_rows=read_only(blocks["decoder_rows"]),
        masks={kind: read_only(blocks[f"{kind}_mask"]) for kind in model.kinds},
        truncated_from=known.truncated_from,
        intervention=change,
    )
    _check_shapes(trace)
    return trace


def _steps(data: Any) -> tuple[Step, ...]:
    """Read steps: their candidates are [id, token, probability] of each."""
    older = msgspec.convert(data, tuple[_OlderStep, ...])
    check_steps(
        np.array([step.id for step in older], np.int64),
        np.array([step.probability for step in older], np.float64),
        np.array([step.rank for step in older], np.int64),
        np.array([step.entropy for step in older], np.float64),
    )
    steps = []
    for step in older:
        ids = np.array([id for id, _token, _share in step.candidates], np.int64)
        shares = np.array([share for *_rest, share in step.candidates], np.float64)
        tokens = [token for _id, token, _share in step.candidates]
        values = {**msgspec.structs.asdict(step)}
        values["candidates"] = candidates_from(ids, tokens, shares)
        steps.append(Step(**values))
    return tuple(steps)


def _model(facts: dict[str, Any]) -> dict[str, Any]:
    """Read what is known of the model; files older than a field have its default."""
    if "config" not in facts:
        facts = _nested(facts)
    facts = {**facts}
    config = ModelConfig(**facts.pop("config"))
    kinds: tuple[Kind, ...] = KINDS if facts.pop("cross", True) else ("decoder",)
    return {**plain_model(Description.of(config, kinds)), **facts}


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Put the config of a version 1 file together: its fields lay among the facts."""
    flat = {FORMER_NAMES.get(name, name): value for name, value in flat.items()}
    config = {
        field.name: flat.pop(field.name)
        for field in dataclasses.fields(ModelConfig)
        if field.name in flat
    }
    shared = {block: by for block, _parameters, by in flat.get("blocks", ())}
    ties = {block for block, by in shared.items() if by == "target_embedding"}
    config["shared_embedding"] = "source_embedding" in ties
    config["tied_output"] = "output" in ties
    # a decoder that ran alone had 0 encoder layers
    config["encoder_layers"] = max(1, config["encoder_layers"])
    return {**flat, "config": config}


def _check_shapes(trace: Trace) -> None:
    """Raise ValueError unless the arrays have the shapes that the facts promise."""
    source, target = len(trace.source), len(trace.target)
    columns = trace.columns
    promised = {
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
