"""Opening a checkpoint of whatever layout: the table of readers and the door to it."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from visformer.core.checkpoint import Checkpoint, choose_device
from visformer.errors import CheckpointError, InputError
from visformer.files import listed, read_json, short
from visformer.formats.asking import form_for, location_and_keywords
from visformer.formats.foreign import READS, foreign
from visformer.formats.layouts import HABITS
from visformer.formats.marian import WEIGHT_FILES, read_marian_folder
from visformer.formats.native import CONFIG, WEIGHTS, plain_config, read_native
from visformer.formats.options import Given, given
from visformer.formats.recognition import joined, recognise
from visformer.formats.tutorials import read_parts, read_tutorial
from visformer.formats.weight_file import WeightFile, read_tensors
from visformer.text import clean
from visformer.values.questions import Form, Told

Location = str | Path | tuple[str | Path, str | Path]
Files = tuple[WeightFile, ...]  # one; d2l's two; or a folder, which is not read as one
Reader = Callable[[Files, Given, torch.device], Checkpoint]


def _native(files: Files, told: Given, device: torch.device) -> Checkpoint:
    folder = checkpoint_folder(files[0])
    if not told.empty:
        raise InputError(
            "a native checkpoint has its own tokenizer, special ids and names of "
            "tensors: leave them out."
        )
    return read_native(folder, device, told.fields)


def _marian(files: Files, told: Given, device: torch.device) -> Checkpoint:
    path = files[0].path
    folder = path if path.is_dir() else path.parent
    if told.names:
        raise InputError("names= is for files of weights: a Marian folder needs none.")
    if not (folder / CONFIG).is_file():
        raise CheckpointError(
            f"{files[0].name} holds weights of transformers' Marian without "
            f"their {CONFIG}: choose the folder that holds both."
        )
    return read_marian_folder(folder, told, device)


READERS: dict[str, Reader] = {  # layout -> what opens a checkpoint of it
    "native": _native,
    "handout": partial(read_tutorial, "handout"),
    "d2l": partial(read_tutorial, "d2l"),
    "labml": partial(read_tutorial, "labml"),
    "modular": partial(read_tutorial, "modular"),
    "scratch": partial(read_tutorial, "scratch"),
    "torch": partial(read_tutorial, "torch"),
    "marian": _marian,
}
_ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")


def load(
    path: Location,
    *,
    layout: str | None = None,
    heads: int | None = None,
    pad: int | tuple[int, int] | None = None,
    bos: int | None = None,
    eos: int | None = None,
    tokenizer: str | Path | tuple[str | Path, str | Path] | None = None,
    names: Mapping[str, str] | None = None,
    device: str | None = None,
    **config: Any,
) -> Checkpoint:
    """Open a checkpoint: a folder, a file of weights, or d2l's encoder and decoder.

    ``layout`` is a key of ``READERS``, recognised where not given; ``pad`` an id, or
    the source's and the target's; ``tokenizer`` a sentencepiece model or ``vocab.json``
    or one for each side (ids typed as numbers without one); ``names`` what a file calls
    its embeddings, positions and output, for all layouts but native and marian;
    ``device`` as torch names it, by default the best there is. ``config`` are fields of
    ModelConfig, or the tutorials' own words for them; they win over a config.json
    beside the file, and that over options that lie in it. What the tensors tell is not
    asked, and what nobody told is listed in ``assumed``: only ``heads`` is mandatory.
    Raises CheckpointError with one sentence about what is wrong or missing, InputError
    for an unknown layout, device or keyword.
    """
    if layout is not None and layout not in READERS:
        raise InputError(
            f"there is no layout “{short(layout)}”: choose from {', '.join(READERS)}."
        )
    told = given(
        config, heads=heads, pad=pad, bos=bos, eos=eos, tokenizer=tokenizer, names=names
    )
    where = choose_device(device)
    with _said_if_too_large(path, where):
        layout, files = _resolved(path, layout)
        return READERS[layout](files, told, where)


def load_told(path: str, told: Told, device: str = "") -> Checkpoint:
    """Open a checkpoint with what the window was told of it."""
    location, words = location_and_keywords(path, told)
    return load(location, device=device or None, **words)


def form(path: str, told: Told, *, every: bool = False) -> Form | None:
    """Return what is to be asked before a file is opened; None where nothing is.

    ``every`` asks again what was told. Folders tell all by themselves. Raises
    CheckpointError where no answer could open the file, InputError as ``load``.
    """
    location, words = location_and_keywords(path, told)
    layout = words.pop("layout", None)
    own = ("heads", "pad", "bos", "eos", "tokenizer", "names")
    known = given(words, **{name: words.pop(name, None) for name in own})
    with _said_if_too_large(location, torch.device("cpu")):
        layout, files = _resolved(location, layout)
        if layout not in HABITS:
            return None
        return form_for(layout, read_parts(layout, files, known), every=every)


@contextlib.contextmanager
def _said_if_too_large(path: Location, where: torch.device) -> Iterator[None]:
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise CheckpointError(
            f"{_name(path)} does not fit into the memory of {where}: close other "
            "programs or choose a smaller model."
        ) from error


def _name(path: Location) -> str:
    return short(Path(path[0] if isinstance(path, tuple) else path).resolve().name)


def _resolved(path: Location, layout: str | None) -> tuple[str, Files]:
    """Return the layout, and the folder or the files of weights that a path means."""
    if isinstance(path, tuple | list):
        files = tuple(WeightFile(Path(part)) for part in path)
        return layout or _recognised(files) or "d2l", files
    path = Path(path)
    folder = path if _is(path, Path.is_dir) else path.parent
    stands_for_it = path == folder or path.name in (CONFIG, *WEIGHT_FILES)
    if stands_for_it and (kind := _kind(folder)):
        return layout or kind, (WeightFile(folder),)
    files = tuple(map(WeightFile, _weights_of(path, folder)))
    layout = layout or (_recognised(files) if files else "") or "native"
    whole = layout == "native" and path == folder
    return layout, (WeightFile(path),) if whole or not files else files


def _weights_of(path: Path, folder: Path) -> tuple[Path, ...]:
    """Return the file itself, or the only file of weights in a folder."""
    if path != folder and path.name != CONFIG:
        return (path,) if _is(path, Path.exists) else ()
    inside = folder.iterdir() if _is(folder, Path.is_dir) else iter(())
    found = [
        file for file in inside if file.suffix in _ENDINGS and _is(file, Path.is_file)
    ]
    return tuple(found) if len(found) == 1 else ()


def _recognised(files: Files) -> str:
    """Return the layout that the tensors' names tell; "" where they tell none."""
    names = list(joined(files))
    if what := foreign(names):
        raise CheckpointError(f"{files[0].name} holds {what}: {READS}.")
    found = recognise(names)
    return found.layout if found else ""


def _kind(folder: Path) -> str:
    """Return the layout that a folder's config.json names; "" where it names none."""
    if not _is(folder / CONFIG, Path.is_file):
        return ""
    config = read_json(folder / CONFIG)
    return "native" if "format" in config else "marian" * ("model_type" in config)


def checkpoint_folder(file: WeightFile) -> Path:
    """Return the checkpoint folder that a path means; CheckpointError where it is none.

    A folder means itself, its ``config.json`` or ``model.safetensors`` mean the folder.
    """
    path = file.path
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
    names = list(file.weights.tensors)
    if not any(".self_attention.query." in name for name in names):
        raise CheckpointError(
            f"{file.name} holds {_counted(names)}, which are no known model's: {READS}."
        )
    raise CheckpointError(
        f"{file.name} holds {_counted(names)} but not what model they make: "
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


def inspect(path: Location, **told: Any) -> dict[str, Any]:
    """Describe a checkpoint as plain data: what it is, or what is wrong with it.

    ``problem`` is the sentence that ``load`` would raise, or None; ``missing`` names
    the files that are not there; what cannot be known is None or empty. ``told`` are
    keywords of ``load``.
    """
    report = _nothing_known(path)
    try:
        report |= _described(load(path, **{"device": "cpu", **told}))
    except CheckpointError as error:
        report |= {"problem": str(error), "layout": _supposed(path)}
    stored = [_stored(Path(part)) for part in _parts(path)]
    for key in set.intersection(*map(set, stored)):
        report[key] = functools.reduce(operator.add, (part[key] for part in stored))
    return report


def _parts(path: Location) -> tuple[str | Path, ...]:
    return tuple(path) if isinstance(path, tuple | list) else (path,)


def _supposed(path: Location) -> str | None:
    """Return the layout of what cannot be opened, where its names tell."""
    try:
        layout, files = _resolved(path, None)
    except CheckpointError:
        return None
    own = _is(files[0].path / CONFIG, Path.exists)
    return layout if layout != "native" or own else None


def _nothing_known(path: Location) -> dict[str, Any]:
    single = ("layout", "name", "digest", "bytes", "parameters", "config", "special")
    several = ("tensors", "assumed", "findings", "missing")
    known: dict[str, Any] = {
        "path": clean(" and ".join(map(str, _parts(path)))),
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
        "findings": list(map(str, checkpoint.findings)),
    }


def _stored(path: Path) -> dict[str, Any]:
    """Describe the weights as they lie in the file, as far as they can be read."""
    missing: list[str] = []
    folder = path if _is(path, Path.is_dir) else path.parent
    if path in (folder, folder / CONFIG):
        names = [WEIGHTS, *(p.name for p in _weights_of(folder, folder))]
        there = [name for name in names if _is(folder / name, Path.exists)]
        own = WEIGHTS in there or not there  # else another program's, without a config
        missing = [
            n for n in (CONFIG, WEIGHTS) if own and not _is(folder / n, Path.exists)
        ]
        path = folder / next(iter(there), WEIGHTS)
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
