"""Find the layout of a path, and the files that belong to it."""

from __future__ import annotations

import re
from pathlib import Path

from visformer.errors import CheckpointError
from visformer.file_kinds import holds_runs
from visformer.files import exists, is_file, is_folder, listed, read_json, short
from visformer.formats.foreign import refuse_other_folders, refuse_other_tensors
from visformer.formats.found_vocabularies import VOCABULARY
from visformer.formats.hugging_face.folder_files import WEIGHT_FILES
from visformer.formats.layout_spec import Files, LayoutSpec, count_known, joined
from visformer.formats.layouts import LAYOUTS
from visformer.formats.layouts.marian import is_read
from visformer.formats.layouts.native import CONFIG
from visformer.formats.proposing import guessed_layout
from visformer.formats.weight_file import INDEX, WeightFile, WeightReader

Location = str | Path | tuple[str | Path, str | Path]
_BESIDE_WEIGHTS = re.compile(r"optimi[sz]er|scheduler|training_args|rng_state|scaler")
_PART = re.compile(r"-\d{5}-of-\d{5}(?=\.\w+$)")  # in the names of split weight files
_IN_TWO_FILES = next(name for name, spec in LAYOUTS.items() if spec.halves)
_ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")


def name_of_files(path: Location) -> str:
    """Return the name of the files at a path, for a sentence."""
    return short(Path(path[0] if isinstance(path, tuple) else path).resolve().name)


def resolved(
    path: Location, layout: str | None, reader: WeightReader
) -> tuple[str, Files]:
    """Return the layout, and the folder or the weight files of a path."""
    for part in parts_of(path):
        if holds_runs(Path(part)):
            raise CheckpointError(
                "{file} is a recorded trace, not a model: open it with "
                "visformer.open_trace, or in the window.",
                file=name_of_files(part),
            )
    if isinstance(path, tuple | list):
        files = tuple(WeightFile(Path(part), reader) for part in path)
        return layout or recognised_layout(files) or _IN_TWO_FILES, files
    path = Path(path)
    folder = path if is_folder(path) else path.parent
    if path == folder:
        _refuse_no_model(folder)
    named = _PART.sub("", path.name.removesuffix(INDEX))
    stands_for_it = path == folder or named in (CONFIG, *WEIGHT_FILES)
    if stands_for_it and (config := _named_layout(folder)):
        return layout or config, (WeightFile(folder, reader),)
    files = tuple(WeightFile(file, reader) for file in weights_of(path, folder))
    layout = layout or recognised_layout(files) or "native"
    whole = layout == "native" and path == folder
    return layout, (WeightFile(path, reader),) if whole or not files else files


def weights_of(path: Path, folder: Path) -> tuple[Path, ...]:
    """Return the file itself, or the only weight file in a folder."""
    if path != folder and path.name != CONFIG:
        whole = path.with_name(_PART.sub("", path.name) + INDEX)
        if not exists(path) or not _PART.search(path.name):
            return (path,) if exists(path) else ()
        if not is_file(whole):
            raise _without_index(path)
        return (whole,)
    weights = _weights_inside(folder)
    if len(weights) > 1 and not exists(folder / CONFIG):
        raise CheckpointError(
            "{folder} holds several files of weights ({names}). Choose one of them.",
            folder=short(folder.resolve().name),
            names=listed(sorted(file.name for file in weights), room=60),
        )
    return tuple(weights) if len(weights) == 1 else ()


def _weights_inside(folder: Path) -> list[Path]:
    """Return the weight files in a folder; an index stands for all its files."""
    inside = sorted(folder.iterdir()) if is_folder(folder) else []
    weights = [
        file
        for file in inside
        if file.name.removesuffix(INDEX).endswith(_ENDINGS)
        and is_file(file)
        and not VOCABULARY.search(file.stem)
        and not _BESIDE_WEIGHTS.match(file.stem)
    ]
    whole = {file.name.removesuffix(INDEX) for file in weights if INDEX in file.name}
    parts = [file for file in weights if _PART.search(file.name)]
    for file in parts:
        if _PART.sub("", file.name) not in whole:
            raise _without_index(file)
    return [file for file in weights if file not in parts]


def _without_index(part: Path) -> CheckpointError:
    return CheckpointError(
        "{file} is a part of a model, and the list of its parts is missing: copy "
        "{index} into the folder.",
        file=short(part.name),
        index=short(_PART.sub("", part.name) + INDEX, 60),
    )


def _refuse_no_model(folder: Path) -> None:
    """Raise CheckpointError for a known kind of folder without weights."""
    weights = [f for f in _weights_inside(folder) if not f.name.startswith("adapter_")]
    if weights:
        return
    refuse_other_folders(folder)
    inner = [f.name for f in folder.iterdir() if is_folder(f) and _weights_inside(f)]
    if inner and not exists(folder / CONFIG):
        raise CheckpointError(
            "{folder} holds no model itself, but folders with models. Choose one of "
            "them: {names}.",
            folder=short(folder.resolve().name),
            names=listed(sorted(inner), room=60),
        )


def recognised_layout(files: Files) -> str:
    """Return the layout that knows most of the tensors' names; "" if none knows any.

    Raises CheckpointError for files of a known program that cannot be opened.
    """
    if not files:
        return ""
    names = list(dict.fromkeys(n for file in files for n in file.weights.tensors))
    for file in files:
        held = file.reader.holds(file.path)
        refuse_other_tensors(file.weights.tensors, file.name, held=held)
    counts = {layout: _count_known(spec, files) for layout, spec in LAYOUTS.items()}
    most = max(counts.values())
    best = [layout for layout, count in counts.items() if count == most]
    alone = best[0] if len(best) == 1 else ""
    if 3 * most < len(names):  # a renamed layout may fit better
        layouts = [spec for spec in LAYOUTS.values() if spec.title]
        return guessed_layout(files, layouts) or alone
    return alone


def _count_known(spec: LayoutSpec, files: Files) -> int:
    try:
        names = list(joined(files, spec.halves_of))
    except CheckpointError:  # the files are not halves of this layout
        return 0
    return max(count_known(spec.names, p, names) for p in spec.prefixes(names))


def _named_layout(folder: Path) -> str:
    """Return the layout that a folder's config.json names; "" if it names none."""
    if not exists(folder / CONFIG):
        return ""
    config = read_json(folder / CONFIG)
    if "format" in config:
        return "native"
    if "model_type" not in config:
        return ""
    return "marian" if is_read(config) else "transformers"


def parts_of(path: Location) -> tuple[str | Path, ...]:
    return tuple(path) if isinstance(path, tuple | list) else (path,)
