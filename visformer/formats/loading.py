"""Opening a checkpoint of whatever layout: the table of readers and the door to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from visformer.core.checkpoint import Checkpoint, choose_device
from visformer.errors import CheckpointError, InputError
from visformer.formats.files import listed, short
from visformer.formats.native import CONFIG, WEIGHTS, plain_config, read_native
from visformer.formats.weights import read_tensors
from visformer.text import clean

Reader = Callable[[Path, torch.device], Checkpoint]

READERS: dict[str, Reader] = {  # layout -> what opens a checkpoint of it
    "native": read_native,
}


def load(
    path: str | Path, *, layout: str | None = None, device: str | None = None
) -> Checkpoint:
    """Open a checkpoint folder, or the weights file inside one.

    ``layout`` is a key of ``READERS``, recognised where not given; ``device`` as torch
    names it, by default the best there is. Raises CheckpointError with one sentence
    about what is wrong or missing, InputError for an unknown layout or device.
    """
    if layout is not None and layout not in READERS:
        raise InputError(
            f"there is no layout “{short(layout)}”: choose from {', '.join(READERS)}."
        )
    where = choose_device(device)
    folder = checkpoint_folder(Path(path))
    try:
        return READERS[layout or "native"](folder, where)
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise CheckpointError(
            f"{short(folder.resolve().name)} does not fit into the memory of {where}: "
            "close other programs or choose a smaller model."
        ) from error


def checkpoint_folder(path: Path) -> Path:
    """Return the checkpoint folder that a path means; CheckpointError where it is none.

    A folder means itself, its ``config.json`` or ``model.safetensors`` mean the folder.
    """
    if _is(path, Path.is_dir):
        if _is(path / CONFIG, Path.exists):
            return path
        raise CheckpointError(
            f"{short(path.resolve().name)} is not a Visformer checkpoint: it has no "
            f"{CONFIG}. Choose the folder that holds {CONFIG} and {WEIGHTS}."
        )
    if not _is(path, Path.exists):
        raise CheckpointError(
            f"{short(path.name)} does not exist: check the spelling, or choose "
            "another file or folder."
        )
    if path.name in (CONFIG, WEIGHTS) and _is(path.parent / CONFIG, Path.is_file):
        return path.parent
    names = list(read_tensors(path))
    raise CheckpointError(
        f"{short(path.name)} holds {_counted(names)} but not what model they make: "
        f"choose the folder that holds them and their {CONFIG}."
    )


def _counted(names: list[str]) -> str:
    if len(names) == 1:
        return f"one tensor ({listed(names)})"
    return f"{len(names):,} tensors ({listed(names, room=60)})"


def _is(path: Path, question: Callable[[Path], bool]) -> bool:
    """Ask the file system; a path that it cannot even look up is not there."""
    try:
        return question(path)
    except (OSError, ValueError):
        return False


def inspect(path: str | Path) -> dict[str, Any]:
    """Describe a checkpoint as plain data: what it is, or what is wrong with it.

    ``problem`` is the sentence that ``load`` would raise, or None; ``missing`` names
    the files that are not there; what cannot be known is None or empty.
    """
    path = Path(path)
    report = _nothing_known(path)
    try:
        report |= _described(load(path, device="cpu"))
    except CheckpointError as error:
        report["problem"] = str(error)
    return report | _stored(path)


def _nothing_known(path: Path) -> dict[str, Any]:
    single = ("layout", "name", "digest", "bytes", "parameters", "config", "special")
    several = ("tensors", "assumed", "findings", "missing")
    known: dict[str, Any] = {
        "path": clean(str(path)),
        "problem": None,
        "tokenizer": None,
    }
    return known | dict.fromkeys(single) | {key: [] for key in several}


def _described(checkpoint: Checkpoint) -> dict[str, Any]:
    tokenizer = checkpoint.tokenizer
    kind = type(tokenizer.source).__name__.removesuffix("Side").lower()
    return {
        "layout": checkpoint.layout,
        "name": checkpoint.name,
        "digest": checkpoint.digest,
        "parameters": checkpoint.facts.parameters,
        "config": plain_config(checkpoint.config),
        "special": {key: getattr(tokenizer, key) for key in ("pad", "bos", "eos")},
        "tokenizer": {
            "kind": kind,
            "source_tokens": tokenizer.source.size,
            "target_tokens": tokenizer.target.size,
        },
        "assumed": list(checkpoint.assumed),
        "findings": list(checkpoint.findings),
    }


def _stored(path: Path) -> dict[str, Any]:
    """Describe the weights as they lie in the file, as far as they can be read."""
    missing = []
    if _is(path, Path.is_dir) or path.name == CONFIG:
        folder = path if _is(path, Path.is_dir) else path.parent
        missing = [n for n in (CONFIG, WEIGHTS) if not _is(folder / n, Path.exists)]
        path = folder / WEIGHTS
    try:
        tensors = read_tensors(path)
    except CheckpointError:  # load has met the same, or a fault before it
        return {"missing": missing}
    stored = [
        {"name": name, "shape": list(tensor.shape), "dtype": _plain(tensor.dtype)}
        for name, tensor in tensors.items()
    ]
    return {"missing": missing, "tensors": stored, "bytes": path.stat().st_size}


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
