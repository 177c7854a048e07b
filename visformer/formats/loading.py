"""Open checkpoints of every layout: resolve a path and choose its reader."""

import contextlib
import functools
import hashlib
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from visformer import paths
from visformer.arguments import as_path, one_of, whole_number, wrong_type, wrong_value
from visformer.core.checkpoint import Checkpoint, choose_device
from visformer.core.presets import OTHERS, fresh
from visformer.errors import CheckpointError, InputError
from visformer.file_kinds import holds_runs
from visformer.files import exists, is_file, is_folder, listed, read_json, short
from visformer.formats.asking import questionnaire_for
from visformer.formats.fitting import (
    Fit,
    best_fits,
    far_off,
    plainest,
    read_references,
)
from visformer.formats.foreign import refuse_other_folders, refuse_other_tensors
from visformer.formats.found_vocabularies import VOCABULARY
from visformer.formats.given_options import GivenOptions, given_options
from visformer.formats.hugging_face.folder_files import WEIGHT_FILES
from visformer.formats.layout_spec import Files, LayoutSpec, count_known, joined
from visformer.formats.layouts import LAYOUTS
from visformer.formats.layouts.marian import is_read
from visformer.formats.layouts.native import CONFIG, WEIGHTS, stored_config
from visformer.formats.layouts.transformers import chosen
from visformer.formats.proposing import guessed_layout, remedy_where_needed
from visformer.formats.tutorial_files import TutorialFiles, known_config, read_files
from visformer.formats.weight_file import (
    INDEX,
    WeightFile,
    WeightReader,
    Weights,
    checked_state,
    options_of,
)
from visformer.formats.whole_model import modules, settings_of, tensors_of
from visformer.language import _
from visformer.text import clean
from visformer.tokenizers.vocabularies import vocabularies_in
from visformer.values.finding import Finding
from visformer.values.questions import (
    Overrides,
    Questionnaire,
    keyword,
    location_and_keywords,
)

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


def size_of_weights(path: str) -> int:
    """Return the bytes of the weights at a path; 0 where it is not plain which."""
    given = Path(path)
    try:
        inside = list(given.iterdir()) if is_folder(given) else [given]
        sizes = {f: f.stat().st_size for f in inside if f.suffix in _ENDINGS}
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return 0
    return sum(sizes.values()) if len({file.suffix for file in sizes}) == 1 else 0


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


_RULES = ("rename", "ignore", "place", "pairs", "guessed", "weights")
_MOST_FITS = 8  # listed at most


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
    weights: str | None = None,
    device: str | torch.device | None = None,
    **config: Any,
) -> Checkpoint:
    """Open a checkpoint: a folder, a file, its two halves, or a bundled model's name.

    Folders in the format of transformers are run by transformers itself (extra ``hf``),
    except for ordinary Marian ones: the result is a ``FolderModel``. A module or a
    state dict is opened as it is now: its tensors are copied, a copy of a module is
    called once on ids [B, S] and [B, T] (or [S, B] and [T, B]), and the settings that
    agree with its attention are used; if none do, a finding says so.

    ``layout`` is a key of ``LAYOUTS``, recognised by default. ``pad`` is one id, or one
    each for source and target. ``tokenizer`` is a sentencepiece model, a tokenizer.json
    or a vocabulary (JSON, text or pickle), or one for each side; by default those in
    the file or beside it are used if they fit, otherwise (or with "numbers") ids are
    typed. ``names`` are the file's names of embeddings, positions and output.
    ``rename`` maps patterns (regular expressions) of tensor names to replacements;
    ``ignore`` lists patterns of names to leave out. ``pairs`` is a file of reference
    pairs (source, tab, target): unknown settings are then those under which the
    references are likeliest. ``weights`` names one of several sets in a file.
    ``source_language`` and ``target_language`` are codes of a multilingual tokenizer.
    ``device`` is by default the best one available. ``config`` are fields of
    ModelConfig, or the tutorials' own names for them.

    Keywords win over a config.json beside the file, which wins over options saved in
    the file. What the tensors do not show is assumed and listed in ``assumed``; only
    ``heads`` is mandatory. Raises CheckpointError with one sentence about what is wrong
    or missing, InputError for an unknown layout, device or keyword.
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
        weights=weights,
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
    module: nn.Module | None = None  # the module in memory that has the weights

    def load(self, device: torch.device) -> Checkpoint:
        """Open it; CheckpointError says what is wrong or missing."""
        with _said_if_too_large(self.path, device):
            if self.module is not None and self.asks:
                return self._agreeing(self.module, device)
            options, chosen, said = self._by_pairs()
            checkpoint = self.spec.read(self.spec, self.files, options, device)
            self.files[0].reader.check_rules()
            return _adding(checkpoint, chosen, said)

    def _agreeing(self, module: nn.Module, device: torch.device) -> Checkpoint:
        from visformer.formats.fitting import agreement  # seldom needed

        options, found = agreement(module, self.contents, self.options, self._read)
        checkpoint = replace(self, options=options, module=None).load(device)
        return _adding(checkpoint, (), found)

    @cached_property
    def contents(self) -> TutorialFiles:
        """The files with their tensors under our names."""
        return read_files(self.spec, self.files, self.options)

    @cached_property
    def fits(self) -> list[Fit]:
        """The settings under which ``pairs`` are likeliest, the best first.

        Raises CheckpointError if there are no pairs, or if no answer could open the
        file.
        """
        if self.options.pairs is None or not self.asks:
            raise InputError(
                "{given} is for files of weights that do not say their settings.",
                given=keyword("pairs"),
            )
        pairs = read_references(self.options.pairs)
        known = self.contents.options.fields
        fields = {"heads": 1, **known} | dict(self.options.fields)
        opened = self._read(replace(self.options, fields=fields))
        return best_fits(opened, known, pairs)

    def _read(self, options: GivenOptions) -> Checkpoint:
        return self.spec.read(self.spec, self.files, options, torch.device("cpu"))

    def _by_pairs(self) -> tuple[GivenOptions, tuple[str, ...], tuple[Finding, ...]]:
        """Choose unknown settings by the references, and report the losses."""
        if self.options.pairs is None:
            return self.options, (), ()
        first = plainest(self.fits)
        fields = {**self.options.fields, **first.settings}
        findings = far_off(first.loss, known_config(self.contents).target_vocabulary)
        others = [fit for fit in self.fits if fit != first][:3]
        words = _(
            "{settings} (loss {loss:.3g} of the reference pairs; {others})",
            settings=first.words.replace("=", " = "),
            loss=first.loss,
            others="; ".join(
                f"{o.words or _('as it is')}: {o.loss:.3g}" for o in others
            ),
        )
        chosen = (words,) if first.settings else ()
        return replace(self.options, fields=fields), chosen, findings

    def proposed(self) -> dict[str, Any]:
        """Return keywords of ``load`` that would make a misfit fit; {} if none."""
        if not self.asks:
            return {}
        remedy = remedy_where_needed(self.contents)
        if remedy is None:
            return {}
        return {"rename": dict(remedy.rename), "ignore": [*remedy.ignore]}

    @property
    def guessed_heads(self) -> int:
        """The number of heads if it is only assumed; 0 if it is known."""
        guessed = "heads" in self.options.guessed
        return int(self.options.fields.get("heads", 0)) if guessed else 0

    @property
    def asks(self) -> bool:
        """Whether files of its layout may leave settings open."""
        return bool(self.spec.title)

    def questionnaire(self, *, every: bool = False) -> Questionnaire | None:
        """Return the questions to ask before opening it; None if there are none.

        ``every`` repeats the answered questions. Folders need no questions. Raises
        CheckpointError if no answer could open it.
        """
        if self.spec.ask is not None:
            return self.spec.ask(self.files, self.options, every)
        if not self.asks:
            return None
        with _said_if_too_large(self.path, torch.device("cpu")):
            return questionnaire_for(self.contents, every=every)


def _adding(
    checkpoint: Checkpoint, assumed: tuple[str, ...], findings: tuple[Finding, ...]
) -> Checkpoint:
    """Add to what is assumed and found about a checkpoint."""
    if not assumed and not findings:
        return checkpoint
    return replace(
        checkpoint,
        assumed=(*assumed, *checkpoint.assumed),
        findings=(*checkpoint.findings, *findings),
    )


def checkpoint_files(path: str, overrides: Overrides) -> CheckpointFiles:
    """Return the checkpoint at a path, with the options that the window has collected.

    Raises CheckpointError and InputError like ``load``.
    """
    location, words = location_and_keywords(path, overrides)
    layout, options = layout_and_options(words)
    return opening(location, layout, options, WeightReader(options.rules))


def layout_and_options(words: dict[str, Any]) -> tuple[str | None, GivenOptions]:
    """Separate the layout from the other keywords of ``load``, without the device."""
    layout = words.pop("layout", None)
    own = ("heads", "pad", "bos", "eos", "tokenizer", "names", *_RULES)
    return layout, given_options(words, **{key: words.pop(key, None) for key in own})


def _in_memory(
    source: nn.Module | Mapping[str, Any], layout: str | None, options: GivenOptions
) -> CheckpointFiles:
    """Return the checkpoint of a module or a state dict."""
    if layout is not None:
        one_of("layout", layout, LAYOUTS)
    path = name_in_memory(source)
    with _said_if_too_large(path, torch.device("cpu")):
        reader = WeightReader(
            options.rules, {path: weights_in_memory(source, options.rules.weights)}
        )
        files: Files = (WeightFile(path, reader),)
        name = layout or recognised_layout(files) or "native"
        reader.check_rules()
    module = source if isinstance(source, nn.Module) else None
    return CheckpointFiles(path, LAYOUTS[name], files, options, module)


def opening(
    path: Location, layout: str | None, options: GivenOptions, reader: WeightReader
) -> CheckpointFiles:
    path = as_location(path)
    if layout is not None:
        one_of("layout", layout, LAYOUTS)
    with _said_if_too_large(path, torch.device("cpu")):
        name, files = resolved(path, layout, reader)
        reader.check_rules()
    if any(options.languages) and LAYOUTS[name].ask is None:
        chosen(None, options)
    return CheckpointFiles(path, LAYOUTS[name], files, options)


def as_location(path: Location) -> Location:
    """Return the path of a checkpoint, or of its two halves, with ``~`` expanded."""
    if not isinstance(path, tuple | list):
        return paths.model(as_path("path", path))
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
            "{name} does not fit into the memory of {device}. Close other programs or "
            "choose a smaller model.",
            name=name_of_files(path),
            device=where,
        ) from error


# ---- Models in memory: a torch module or a state dict --------------------------------


def name_in_memory(source: nn.Module | Mapping[str, Any]) -> Path:
    """Return the name that is used in place of a file name."""
    if isinstance(source, nn.Module):
        return Path(short(type(source).__name__))
    return Path("state_dict")


def weights_in_memory(
    source: nn.Module | Mapping[str, Any], wanted: str = ""
) -> Weights:
    """Copy a model's tensors, so that further training does not affect what is shown.

    Raises CheckpointError if there are none, or if one cannot be shown.
    """
    options: Mapping[str, Any]
    vocabularies: Mapping[str, Mapping[str, int]] = {}
    if isinstance(source, nn.Module):
        tree = list(modules(source, _look))
        tables = {k: t for k, t in tensors_of(tree).items() if torch.is_tensor(t)}
        value: Mapping[str, Any] = {**tables, **source.state_dict()}
        options = settings_of(tree)
    else:
        value, options = source, options_of(source)
        vocabularies = vocabularies_in(source)
    name = str(name_in_memory(source))
    state = checked_state(value, name, anywhere=True, wanted=wanted)
    tensors = {
        key: tensor.to("cpu", copy=True).contiguous()
        for key, tensor in state.tensors.items()
    }
    digest = hashlib.sha256()
    for key, tensor in tensors.items():
        digest.update(f"{key} {tensor.dtype} {list(tensor.shape)} ".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    made = digest.hexdigest()
    return Weights(tensors, made, options, vocabularies, state.name, state.others)


def _look(value: Any) -> tuple[str, Mapping[str, Any]] | None:
    if not isinstance(value, nn.Module):
        return None
    return type(value).__name__, vars(value)


# ---- A checkpoint described as plain data, or what is wrong with it ------------------


def inspect(path: Location, **overrides: Any) -> dict[str, Any]:
    """Describe a checkpoint as plain data, or what is wrong with it.

    ``problem`` is the message that ``load`` would raise, or None; ``missing`` lists
    missing files; ``proposed`` are keywords of ``load`` with which a file with unknown
    names would fit; ``fits``, if ``pairs=`` are given, the settings under which they
    are likeliest, the best first. Unknown values are None or empty. ``overrides`` are
    keywords of ``load``.
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
            report["fits"] = [
                {"settings": fit.words or _("as it is"), "loss": round(fit.loss, 4)}
                for fit in files.fits[:_MOST_FITS]
            ]
    except CheckpointError as error:
        report |= {"problem": str(error), "layout": _supposed(path, reader)}
        with contextlib.suppress(CheckpointError):
            report |= {"proposed": files.proposed()} if files is not None else {}
    stored = [_stored(Path(part), reader) for part in parts_of(path)]
    for key in set.intersection(*map(set, stored)):
        report[key] = functools.reduce(operator.add, (part[key] for part in stored))
    return report


def _supposed(path: Location, reader: WeightReader) -> str | None:
    """Return the layout that tensor names suggest for files that cannot be opened."""
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
    """Describe the weights as stored in the file; {} if they cannot be read."""
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
    except CheckpointError:  # load raised the same error, or an earlier one
        return {"missing": missing}
    stored = [
        {"name": name, "shape": list(tensor.shape), "dtype": str(tensor.dtype)[6:]}
        for name, tensor in tensors.items()
    ]
    return {"missing": missing, "tensors": stored, "bytes": path.stat().st_size}


# ---- Fresh models by the names of their presets --------------------------------------


def presets() -> dict[str, LayoutSpec]:
    """Return the names that ``build`` accepts, each with its layout."""
    return {
        spec.preset.name: spec for spec in LAYOUTS.values() if spec.preset is not OTHERS
    }


def build(
    preset: str,
    *,
    seed: int = 0,
    device: str | torch.device | None = None,
    **sizes: Any,
) -> Checkpoint:
    """Return a fresh checkpoint, initialised like the preset's author does.

    ``sizes`` are fields of ``ModelConfig`` and override the preset's. Its tokens are
    numbers. Raises CheckpointError for an unknown preset, field or value.
    """
    known = presets()
    if not isinstance(preset, str):
        raise wrong_type("preset", preset, ", ".join(known))
    seed = whole_number("seed", seed, most=2**63 - 1)
    if preset not in known:
        raise CheckpointError(
            "There is no preset “{preset}”. Choose from {choices}.",
            preset=preset,
            choices=", ".join(known),
        )
    spec = known[preset]
    return fresh(spec.preset, layout=spec.name, seed=seed, device=device, **sizes)
