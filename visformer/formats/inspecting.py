"""A checkpoint described as plain data: what it is, or what is wrong with it."""

from __future__ import annotations

import contextlib
import functools
import operator
from pathlib import Path
from typing import Any

import torch

from visformer.core.checkpoint import Checkpoint, choose_device
from visformer.errors import CheckpointError
from visformer.files import exists, is_folder
from visformer.formats.fitting import Fit
from visformer.formats.layouts.native import WEIGHTS
from visformer.formats.loading import as_location, layout_and_options, opening
from visformer.formats.native_config import CONFIG, stored_config
from visformer.formats.recognising import Location, parts_of, resolved, weights_of
from visformer.formats.weight_file import WeightReader
from visformer.language import _
from visformer.text import clean

_MOST_FITS = 8  # that are listed


def inspect(path: Location, **overrides: Any) -> dict[str, Any]:
    """Describe a checkpoint as plain data: what it is, or what is wrong with it.

    ``problem`` is the sentence that ``load`` would raise, or None; ``missing`` lists
    missing files; ``proposed`` are keywords of ``load`` under which a file whose names
    are not known would fit; ``fits`` the settings under which ``pairs=`` are likeliest,
    the best first, if those are given; unknown values are None or empty.
    ``overrides`` are keywords of ``load``.
    """
    path = as_location(path)
    report = _nothing_known(path)
    device = choose_device(overrides.pop("device", "cpu"))
    layout, options = layout_and_options(overrides)
    reader = WeightReader(options.rules)
    files = None
    try:
        files = opening(path, layout, options, reader)
        report |= _described(files.load(device))
        if options.pairs is not None:
            report["fits"] = [_fit(fit) for fit in files.fits[:_MOST_FITS]]
    except CheckpointError as error:
        report |= {"problem": str(error), "layout": _supposed(path, reader)}
        with contextlib.suppress(CheckpointError):
            report |= {"proposed": files.proposed()} if files is not None else {}
    stored = [_stored(Path(part), reader) for part in parts_of(path)]
    for key in set.intersection(*map(set, stored)):
        report[key] = functools.reduce(operator.add, (part[key] for part in stored))
    return report


def _fit(fit: Fit) -> dict[str, Any]:
    """Describe a combination of settings."""
    words = fit.words or _("as it is")
    return {"settings": words, "loss": round(fit.loss, 4)}


def _supposed(path: Location, reader: WeightReader) -> str | None:
    """Return the layout of what cannot be opened, if its tensors' names show it."""
    try:
        layout, files = resolved(path, None, reader)
    except CheckpointError:
        return None
    own = exists(files[0].path / CONFIG)
    return layout if layout != "native" or own else None


def _nothing_known(path: Location) -> dict[str, Any]:
    single = ("layout", "name", "digest", "bytes", "parameters", "config", "special")
    several = ("tensors", "assumed", "findings", "missing")
    known: dict[str, Any] = {
        "path": clean(" and ".join(map(str, parts_of(path)))),
        "problem": None,
        "tokenizer": None,
    }
    known |= {"proposed": {}, "fits": None}
    return known | dict.fromkeys(single) | {key: [] for key in several}


def _described(checkpoint: Checkpoint) -> dict[str, Any]:
    tokenizer = checkpoint.tokenizer
    return {
        "layout": checkpoint.layout,
        "name": checkpoint.name,
        "digest": checkpoint.digest,
        "parameters": checkpoint.facts.parameters,
        "config": stored_config(checkpoint.config)
        if isinstance(checkpoint, Checkpoint)
        else checkpoint.config,
        "special": {key: getattr(tokenizer, key) for key in ("pad", "bos", "eos")},
        "tokenizer": {
            "kind": tokenizer.source.kind,
            "source_tokens": tokenizer.source.size,
            "target_tokens": tokenizer.target.size,
        },
        "assumed": list(checkpoint.assumed),
        "findings": list(map(str, checkpoint.findings)),
    }


def _stored(path: Path, reader: WeightReader) -> dict[str, Any]:
    """Describe the weights as stored in the file, as far as they can be read."""
    missing: list[str] = []
    folder = path if is_folder(path) else path.parent
    if path in (folder, folder / CONFIG):
        names = [WEIGHTS, *(p.name for p in weights_of(folder, folder))]
        there = [name for name in names if exists(folder / name)]
        own = WEIGHTS in there or not there  # otherwise another program's weights
        missing = [n for n in (CONFIG, WEIGHTS) if own and not exists(folder / n)]
        path = folder / next(iter(there), WEIGHTS)
    try:
        tensors = reader(path).tensors
    except CheckpointError:  # load has met the same error, or an earlier one
        return {"missing": missing}
    stored = [
        {"name": name, "shape": list(tensor.shape), "dtype": _dtype_name(tensor.dtype)}
        for name, tensor in tensors.items()
    ]
    return {"missing": missing, "tensors": stored, "bytes": path.stat().st_size}


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
