"""Opening checkpoints of every layout: what a path means, and the reader for it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from visformer.arguments import as_path, wrong_type, wrong_value
from visformer.core.checkpoint import Checkpoint, choose_device
from visformer.errors import CheckpointError, InputError
from visformer.files import (
    exists,
    is_file,
    is_folder,
    listed,
    read_json,
    short,
)
from visformer.formats.asking import questionnaire_for
from visformer.formats.fitting import (
    Fit,
    ReferencePair,
    best_fits,
    heads_by_loss,
    read_references,
)
from visformer.formats.foreign import foreign, way_in
from visformer.formats.found_vocabularies import VOCABULARY
from visformer.formats.given_options import GivenOptions, given_options
from visformer.formats.hugging_face.folder_files import WEIGHT_FILES
from visformer.formats.in_memory import name_in_memory, weights_in_memory
from visformer.formats.layout_spec import Files, LayoutSpec
from visformer.formats.layouts import LAYOUTS
from visformer.formats.layouts.marian import is_read
from visformer.formats.misfits import guessed_layout, remedy_where_needed
from visformer.formats.native_config import CONFIG
from visformer.formats.renaming import count_known, joined
from visformer.formats.tutorial_files import known_config, read_files
from visformer.formats.weight_file import WeightFile, WeightReader
from visformer.language import _
from visformer.values.questions import (
    Overrides,
    Questionnaire,
    location_and_keywords,
)
from visformer.values.trace_file import is_trace_file

Location = str | Path | tuple[str | Path, str | Path]
_BESIDE_WEIGHTS = re.compile(r"optimi[sz]er|scheduler|training_args|rng_state|scaler")
_RULES = ("rename", "ignore", "place", "pairs", "guessed")
_ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")


def load(
    path: Location | nn.Module | Mapping[str, Any],
    *,
    layout: str | None = None,
    heads: int | None = None,
    pad: int | tuple[int, int] | None = None,
    bos: int | None = None,
    eos: int | None = None,
    tokenizer: str | Path | tuple[str | Path, str | Path] | None = None,
    names: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    ignore: Iterable[str] | None = None,
    pairs: str | Path | None = None,
    device: str | torch.device | None = None,
    **config: Any,
) -> Checkpoint:
    """Open a checkpoint: a folder, a file of weights, or an encoder's and a decoder's.

    A module or a state dict is opened as it is now: its tensors are copied, and what is
    shown is the model of its layout with these weights, not the module's ``forward``.

    ``layout`` is a key of ``LAYOUTS``, recognised if not given; ``pad`` one id, or one
    for source and target each; ``tokenizer`` a sentencepiece model, a tokenizer.json or
    a vocabulary (JSON, text or pickle), or one for each side: without it, those in the
    file or beside it are used where they fit, else (or with "numbers") ids are typed as
    numbers; ``names`` what a file
    calls its embeddings, positions and output, for all layouts but native and marian;
    ``rename`` maps patterns (regular expressions) of names of tensors to replacements,
    and ``ignore`` lists patterns of names to leave out; ``pairs`` is a file of
    reference pairs (source, tab, target), and heads that nothing says are then those
    under which the references are likeliest; ``device`` as torch names it,
    by default the best available. ``config`` are fields of ModelConfig, or the
    tutorials' own names for them; they win over a config.json
    beside the file, which wins over options saved in the file. What the tensors
    determine need not be given, and what remains unknown is assumed and listed in
    ``assumed``: only ``heads`` is mandatory. Raises CheckpointError with one sentence
    about what is wrong or missing, InputError for an unknown layout, device or keyword.
    """
    options = given_options(
        config,
        heads=heads,
        pad=pad,
        bos=bos,
        eos=eos,
        tokenizer=tokenizer,
        names=names,
        rename=rename,
        ignore=ignore,
        pairs=pairs,
    )
    where = choose_device(device)
    if isinstance(path, nn.Module | Mapping):
        return _in_memory(path, layout, options).load(where)
    return opening(path, layout, options, WeightReader(options.rules)).load(where)


@dataclass(frozen=True)
class CheckpointFiles:
    """The checkpoint at a path, before it is opened: each file is read once."""

    path: Location
    spec: LayoutSpec
    files: Files
    options: GivenOptions

    def load(self, device: torch.device) -> Checkpoint:
        """Open it; CheckpointError says what is wrong or missing."""
        with _said_if_too_large(self.path, device):
            options, chosen = self._with_heads()
            checkpoint = self.spec.read(self.spec, self.files, options, device)
            self.files[0].reader.check_rules()
            assumed = (*chosen, *checkpoint.assumed)
            return replace(checkpoint, assumed=assumed) if chosen else checkpoint

    def fits(self) -> list[Fit]:
        """Return the settings under which ``pairs`` are likeliest, the best first.

        Raises CheckpointError where there are none, or no answer could open the file.
        """
        read = read_files(self.spec, self.files, self.options)
        pairs = self._pairs()
        return best_fits(self._read, read.options, known_config(read).d_model, pairs)

    def _pairs(self) -> tuple[ReferencePair, ...]:
        if self.options.pairs is None or not self.asks:
            raise InputError(
                _("pairs= is for files of weights that do not say their settings.")
            )
        return read_references(self.options.pairs)

    def _read(self, options: GivenOptions) -> Checkpoint:
        return self.spec.read(self.spec, self.files, options, torch.device("cpu"))

    def _with_heads(self) -> tuple[GivenOptions, tuple[str, ...]]:
        """Choose the heads by the references, where nothing says how many there are."""
        if self.options.pairs is None:
            return self.options, ()
        pairs = self._pairs()
        read = read_files(self.spec, self.files, self.options)
        if "heads" in read.options.fields:
            return self.options, ()
        width = known_config(read).d_model
        first, *others = heads_by_loss(self._read, self.options, width, pairs)
        fields = {**self.options.fields, **first.settings}
        words = _(
            "heads = {n} (loss {loss:.2f} of the reference pairs; {others})",
            n=first.settings["heads"],
            loss=first.loss,
            others=", ".join(f"{o.words}: {o.loss:.2f}" for o in others[:3]),
        )
        return replace(self.options, fields=fields), (words,)

    def proposed(self) -> dict[str, Any]:
        """Return keywords of ``load`` under which a misfit would fit; {} if none."""
        if not self.asks:
            return {}
        read = read_files(self.spec, self.files, self.options)
        remedy = remedy_where_needed(read)
        if remedy is None:
            return {}
        return {"rename": dict(remedy.rename), "ignore": [*remedy.ignore]}

    @property
    def guessed_heads(self) -> int:
        """The number of heads, if it is only the usual one; 0 if it is known."""
        guessed = "heads" in self.options.guessed
        return int(self.options.fields.get("heads", 0)) if guessed else 0

    @property
    def asks(self) -> bool:
        """Whether files of its layout may leave something open."""
        return bool(self.spec.title)

    def questionnaire(self, *, every: bool = False) -> Questionnaire | None:
        """Return what to ask before opening it; None if there is nothing to ask.

        ``every`` asks the answered questions again. Folders say everything themselves.
        Raises CheckpointError if no answer could open it.
        """
        if not self.asks:
            return None
        with _said_if_too_large(self.path, torch.device("cpu")):
            read = read_files(self.spec, self.files, self.options)
            return questionnaire_for(read, every=every)


def checkpoint_files(path: str, overrides: Overrides) -> CheckpointFiles:
    """Return the checkpoint at a path, with what the window knows about it.

    Raises CheckpointError and InputError as ``load``.
    """
    location, words = location_and_keywords(path, overrides)
    layout, options = layout_and_options(words)
    return opening(location, layout, options, WeightReader(options.rules))


def layout_and_options(words: dict[str, Any]) -> tuple[str | None, GivenOptions]:
    """Sort the keywords of ``load``, except the device."""
    layout = words.pop("layout", None)
    own = ("heads", "pad", "bos", "eos", "tokenizer", "names", *_RULES)
    return layout, given_options(words, **{key: words.pop(key, None) for key in own})


def _in_memory(
    source: nn.Module | Mapping[str, Any], layout: str | None, options: GivenOptions
) -> CheckpointFiles:
    """Return the checkpoint that a module or a state dict is."""
    _check_layout(layout)
    path = name_in_memory(source)
    with _said_if_too_large(path, torch.device("cpu")):
        reader = WeightReader(options.rules, {path: weights_in_memory(source)})
        files: Files = (WeightFile(path, reader),)
        name = layout or _recognised(files) or "native"
        reader.check_rules()
    return CheckpointFiles(path, LAYOUTS[name], files, options)


def opening(
    path: Location, layout: str | None, options: GivenOptions, reader: WeightReader
) -> CheckpointFiles:
    path = as_location(path)
    _check_layout(layout)
    with _said_if_too_large(path, torch.device("cpu")):
        name, files = resolved(path, layout, reader)
        reader.check_rules()
    return CheckpointFiles(path, LAYOUTS[name], files, options)


def _check_layout(layout: object) -> None:
    if not isinstance(layout, str | None):
        raise wrong_type("layout", layout, ", ".join(LAYOUTS))
    if layout is not None and layout not in LAYOUTS:
        raise InputError(
            _(
                "There is no layout “{layout}”. Choose from {choices}.",
                layout=short(layout),
                choices=", ".join(LAYOUTS),
            )
        )


def as_location(path: Location) -> Location:
    """Return the path of a checkpoint, or of its two halves, ``~`` expanded."""
    if not isinstance(path, tuple | list):
        return as_path("path", path)
    if len(path) != 2:
        allowed = _("one path, or those of an encoder and a decoder")
        raise wrong_value("path", path, allowed)
    return as_path("path[0]", path[0]), as_path("path[1]", path[1])


@contextlib.contextmanager
def _said_if_too_large(path: Location, where: torch.device) -> Iterator[None]:
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise CheckpointError(
            _(
                "{name} does not fit into the memory of {device}. Close other programs "
                "or choose a smaller model.",
                name=_name(path),
                device=where,
            )
        ) from error


def _name(path: Location) -> str:
    return short(Path(path[0] if isinstance(path, tuple) else path).resolve().name)


def resolved(
    path: Location, layout: str | None, reader: WeightReader
) -> tuple[str, Files]:
    """Return the layout, and the folder or the weight files that a path means."""
    for part in parts_of(path):
        if is_trace_file(Path(part)):
            raise CheckpointError(
                _(
                    "{file} is a recorded trace, not a model: open it with "
                    "visformer.open_trace, or in the window.",
                    file=_name(part),
                )
            )
    if isinstance(path, tuple | list):
        files = tuple(WeightFile(Path(part), reader) for part in path)
        return layout or _recognised(files) or _in_two_files(), files
    path = Path(path)
    folder = path if is_folder(path) else path.parent
    stands_for_it = path == folder or path.name in (CONFIG, *WEIGHT_FILES)
    if stands_for_it and (named := _named_layout(folder)):
        return layout or named, (WeightFile(folder, reader),)
    files = tuple(WeightFile(file, reader) for file in weights_of(path, folder))
    layout = layout or _recognised(files) or "native"
    whole = layout == "native" and path == folder
    return layout, (WeightFile(path, reader),) if whole or not files else files


def _in_two_files() -> str:
    """Return the layout whose models are saved in two files."""
    return next(name for name, spec in LAYOUTS.items() if spec.halves is not None)


def weights_of(path: Path, folder: Path) -> tuple[Path, ...]:
    """Return the file itself, or the only weight file in a folder."""
    if path != folder and path.name != CONFIG:
        return (path,) if exists(path) else ()
    inside = folder.iterdir() if is_folder(folder) else iter(())
    weights = [
        file
        for file in inside
        if file.suffix in _ENDINGS
        and is_file(file)
        and not VOCABULARY.search(file.stem)
        and not _BESIDE_WEIGHTS.match(file.stem)
    ]
    if len(weights) > 1 and not exists(folder / CONFIG):
        raise CheckpointError(
            _(
                "{folder} holds several files of weights ({names}). Choose one of "
                "them.",
                folder=short(folder.resolve().name),
                names=listed(sorted(file.name for file in weights), room=60),
            )
        )
    return tuple(weights) if len(weights) == 1 else ()


def _recognised(files: Files) -> str:
    """Return the layout that knows most of the tensors' names; "" if none does.

    Raises CheckpointError for the files of a known program that cannot be opened.
    """
    if not files:
        return ""
    names = list(dict.fromkeys(n for file in files for n in file.weights.tensors))
    if what := foreign(names):
        raise CheckpointError(
            _(
                "{file} holds {model}, which is not read. {way}",
                file=files[0].name,
                model=what,
                way=way_in(what),
            )
        )
    counts = {layout: _count_known(spec, files) for layout, spec in LAYOUTS.items()}
    most = max(counts.values())
    best = [layout for layout, count in counts.items() if count == most]
    alone = best[0] if len(best) == 1 else ""
    if 3 * most < len(names):  # another may fit better, under other names
        return _renamed(files) or alone
    return alone


def _renamed(files: Files) -> str:
    """Return the layout that files without any of its names may have; "" if none."""
    layouts = [spec for spec in LAYOUTS.values() if spec.title]
    return guessed_layout(files, layouts) if files else ""


def _count_known(spec: LayoutSpec, files: Files) -> int:
    try:
        names = list(joined(files, spec.halves_of))
    except CheckpointError:  # two files that are no halves of this layout
        return 0
    return max(count_known(spec.names, p, names) for p in spec.prefixes(names))


def _named_layout(folder: Path) -> str:
    """Return the layout that a folder's config.json names; "" if it names none."""
    if not is_file(folder / CONFIG):
        return ""
    config = read_json(folder / CONFIG)
    if "format" in config:
        return "native"
    if "model_type" not in config:
        return ""
    return "marian" if is_read(config) else "transformers"


def parts_of(path: Location) -> tuple[str | Path, ...]:
    return tuple(path) if isinstance(path, tuple | list) else (path,)
