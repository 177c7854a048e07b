"""Visformer's own checkpoints: a folder of config, weights, tokenizer and model card.

``config.json`` is checked key by key, and the model it describes is compared with
``model.safetensors`` tensor by tensor, before any memory is allocated.
"""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors.torch import save
from torch import Tensor, nn

from visformer.arguments import wrong_words
from visformer.core.assembly import build_model
from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Transformer
from visformer.core.presets import BASE, Preset
from visformer.errors import CheckpointError, InputError, VisformerError
from visformer.files import (
    exists,
    inside,
    is_file,
    is_folder,
    listed,
    read_json,
    read_regular,
    short,
    write_whole,
)
from visformer.formats.diagnoses import findings_of
from visformer.formats.foreign import remote_words, way_in
from visformer.formats.given_options import GivenOptions
from visformer.formats.layout_spec import Files, LayoutSpec
from visformer.formats.weight_file import WeightFile, Weights, read_weights
from visformer.language import N_, _, ngettext
from visformer.tokenizers.tokenizer import (
    Tokenizer,
    TokenizerSide,
    read_sentencepiece,
    read_vocabulary,
)
from visformer.tokenizers.vocabularies import fitting
from visformer.values.config import FIELD_TYPES, FORMER_NAMES, ModelConfig

WEIGHTS, CARD = "model.safetensors", "README.md"

_FORMER_MODULES = {
    ".feed_forward.expand.": ".feed_forward.w1.",
    ".feed_forward.contract.": ".feed_forward.w2.",
}

TokenizerKind = Literal["sentencepiece", "vocabulary"]
CONFIG = "config.json"
VERSION = 1
SPECIAL = ("pad", "unk", "bos", "eos")
TEXTS = ("name", "source_language", "target_language")

_KINDS = {  # type of a value -> what it is called
    str: N_("text"),
    int: N_("a whole number"),
    float: N_("a number"),
    bool: N_("true or false"),
    dict: N_("an object"),
}


class TokenizerFiles(NamedTuple):
    """A tokenizer as stored in a folder."""

    kind: TokenizerKind
    source: str  # file name
    target: str  # file name; may equal the source's
    contents: Mapping[str, bytes]  # by file name


def read_native(
    folder: Path,
    device: torch.device,
    changes: Mapping[str, Any] | None = None,
    *,
    read: Callable[[Path], Weights] = read_weights,
) -> Checkpoint:
    """Open a checkpoint folder; CheckpointError says what is wrong or missing.

    ``changes`` are fields of the model's config that override the folder's; ``read``
    reads the weight file.
    """
    config = read_config(folder)
    sizes, assumed = model_config(config["model"])
    sizes = dataclasses.replace(sizes, **changes or {})
    tokenizer = _tokenizer(folder, config, sizes)
    weights = read(inside(folder, WEIGHTS, key="weights"))
    spelt = {_todays_name(key): key for key in weights.tensors}
    model = build_model(
        sizes,
        {name: weights.tensors[key] for name, key in spelt.items()},
        device=device,
        name=WEIGHTS,
        spelling=lambda name: spelt.get(name, name),
    )
    return Checkpoint(
        name=config.get("name") or folder.resolve().name,
        layout="native",
        config=sizes,
        model=model,
        tokenizer=tokenizer,
        digest=weights.digest,
        assumed=assumed,
        findings=findings_of(
            sizes, dict(model.named_parameters()), (tokenizer.pad,) * 2
        ),
    )


def _todays_name(key: str) -> str:
    """Return the current name of a tensor whose name changed since it was written."""
    for former, name in _FORMER_MODULES.items():
        key = key.replace(former, name)
    return key


def _tokenizer(folder: Path, config: dict[str, Any], sizes: ModelConfig) -> Tokenizer:
    special, files = config["special"], config["tokenizer"]
    if files["kind"] not in ("sentencepiece", "vocabulary"):
        raise CheckpointError(
            "{file}: “tokenizer.kind” is “{kind}”, but must be “sentencepiece” or "
            "“vocabulary”.",
            file=CONFIG,
            kind=short(files["kind"]),
        )
    read = read_sentencepiece if files["kind"] == "sentencepiece" else read_vocabulary
    source: TokenizerSide = read(
        inside(folder, files["source"], key="tokenizer.source")
    )
    target: TokenizerSide = source
    if files["target"] != files["source"]:
        target = read(inside(folder, files["target"], key="tokenizer.target"))
    _check_side(source, sizes.source_vocabulary, special, files["source"])
    _check_side(target, sizes.target_vocabulary, special, files["target"])
    return Tokenizer(
        source, target, pad=special["pad"], bos=special["bos"], eos=special["eos"]
    )


def _check_side(
    side: TokenizerSide, rows: int, special: dict[str, int], name: str
) -> None:
    name = short(name)
    fitting(side, rows, name)
    for key, id in special.items():
        if not 0 <= id < rows:
            allowed = _("an id of the vocabulary, from 0 to {high:,}", high=rows - 1)
            argument = f"{CONFIG}: “special.{key}”"
            raise CheckpointError(wrong_words(argument, id, allowed))
    if side.unknown != special["unk"]:
        raise CheckpointError(
            "{config}: “special.unk” is {id}, but the unknown token of {file} is "
            "{unknown}. Correct it.",
            config=CONFIG,
            id=special["unk"],
            file=name,
            unknown=side.unknown,
        )


def write_native(
    folder: Path,
    model: Transformer,
    *,
    name: str,
    special: Mapping[str, int],
    tokenizer: TokenizerFiles,
    languages: tuple[str, str] = ("", ""),
    card: str = "",
) -> None:
    """Write a checkpoint folder: each file atomically, ``config.json`` last.

    ``special`` are the ids pad, unk, bos and eos; ``languages`` are those of source and
    target; ``card`` is the text of ``README.md``. Raises InputError if writing fails.
    """
    tokens = {"kind": tokenizer.kind, "source": tokenizer.source}
    config = {
        "format": "visformer",
        "version": VERSION,
        "name": name,
        "source_language": languages[0],
        "target_language": languages[1],
        "model": stored_config(model.config),
        "special": {key: special[key] for key in SPECIAL},
        "tokenizer": {**tokens, "target": tokenizer.target},
    }
    text = json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    files = {WEIGHTS: save(halved(model)), **tokenizer.contents, CARD: card.encode()}
    if not card:
        del files[CARD]
    write_files(folder, {**files, CONFIG: text.encode()})


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by name, each atomically; InputError if one cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, data in files.items():
            write_whole(folder / file, data)
    except OSError as error:
        raise InputError(
            "{path} cannot be written: {reason}.", path=folder, reason=error.strerror
        ) from error


def halved(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters, shared ones once, as float16 if its range suffices."""
    half = {key: p.detach().half() for key, p in model.named_parameters()}
    for key, parameter in model.named_parameters():
        if bool((half[key].isinf() & parameter.isfinite()).any()):
            half[key] = parameter.detach()
    return {key: tensor.cpu().contiguous() for key, tensor in half.items()}


def _read(
    spec: LayoutSpec, files: Files, options: GivenOptions, device: torch.device
) -> Checkpoint:
    folder = _folder(files[0])
    if not options.empty:
        raise InputError(
            "A native checkpoint has its own tokenizer, special ids and tensor names. "
            "Leave these options out."
        )
    return read_native(folder, device, options.fields, read=files[0].reader)


def _folder(file: WeightFile) -> Path:
    """Return the checkpoint folder of a path; CheckpointError if it is not one.

    Its ``config.json`` and ``model.safetensors`` stand for the folder, too.
    """
    path = file.path
    if is_folder(path):
        if exists(path / CONFIG):
            return path
        raise CheckpointError(
            "{folder} is not a Visformer checkpoint: it has no {config}. Choose the "
            "folder that holds {config} and {weights}.",
            folder=short(path.resolve().name),
            config=CONFIG,
            weights=WEIGHTS,
        )
    if not exists(path) and not file.reader.holds(path):
        if words := remote_words(str(path)):
            raise CheckpointError(words)
        raise CheckpointError(
            "{path} does not exist. Check the spelling, or choose another file or "
            "folder.",
            path=short(str(path), 90),
        )
    if path.name in (CONFIG, WEIGHTS) and is_file(path.parent / CONFIG):
        return path.parent
    names = list(file.weights.tensors)
    if not any(".self_attention.query." in name for name in names):
        raise CheckpointError(
            ngettext(
                "{file} holds {n:,} tensor ({names}), which does not match any known "
                "model. {way}",
                "{file} holds {n:,} tensors ({names}), which do not match any known "
                "model. {way}",
                len(names),
                file=file.name,
                names=listed(names, room=24, width=24),
                way=way_in(held=file.reader.holds(path)),
            )
        )
    raise CheckpointError(
        ngettext(
            "{file} holds {n:,} tensor ({names}) but not the config of its model. "
            "Choose the folder that holds it and its {config}.",
            "{file} holds {n:,} tensors ({names}) but not the config of their model. "
            "Choose the folder that holds them and their {config}.",
            len(names),
            file=file.name,
            names=listed(names, room=30),
            config=CONFIG,
        )
    )


PRESET = Preset(
    name="paper",
    fields={
        **BASE,
        "source_vocabulary": 37_000,
        "target_vocabulary": 37_000,
        "max_positions": 512,
    },
)
NATIVE = LayoutSpec(name="native", preset=PRESET, read=_read)
MOST_BYTES = 1 << 18
_SMOOTHING = re.compile(r"\b(?:label )?smoothing[ =:]{1,3}(0(?:\.\d{1,6})?)\b")


# our wording on a model card, and the key in a transformers config
_DROPOUT = re.compile(r"\bdropout(?:_rate)?\b\"?[ =:]{1,3}(0(?:\.\d{1,6})?)\b")


def label_smoothing(checkpoint: Path) -> float | None:
    """Return the label smoothing used in training; None if no card states it."""
    found = _SMOOTHING.search(_text(checkpoint / CARD))
    return float(found[1]) if found else None


def dropout_rates(checkpoint: Path) -> tuple[float, ...]:
    """Return the dropout rates that a model's files state, each in [0, 1).

    Several if it was trained in stages; () if none is stated.
    """
    texts = _text(checkpoint / CARD), _text(checkpoint / CONFIG)
    found = (float(rate) for text in texts for rate in _DROPOUT.findall(text))
    return tuple(sorted(set(found)))


def _text(file: Path) -> str:
    """Return the text of a file; "" if it cannot be read."""
    try:
        return read_regular(file, MOST_BYTES).decode("utf-8", "replace")
    except VisformerError:
        return ""


# ---- The ``config.json`` of Visformer's own checkpoints, checked key by key ----------


def read_config(folder: Path) -> dict[str, Any]:
    """Read ``config.json`` and check its top level, but not the model's part."""
    config = read_json(folder / CONFIG)
    if config.get("format") != "visformer":
        raise CheckpointError(
            "{file} does not belong to a Visformer checkpoint: its “format” is not "
            "“visformer”. Choose a folder that Visformer wrote.",
            file=CONFIG,
        )
    version = config.get("version")
    if type(version) is int and version > VERSION:
        raise CheckpointError(
            "{file} has format version {version}, but this Visformer reads versions "
            "up to {newest}. Update Visformer.",
            file=CONFIG,
            version=short(str(version), 20),
            newest=VERSION,
        )
    needed = {"format": str, "version": int, "model": dict}
    needed |= {"special": dict, "tokenizer": dict}
    _check_keys(config, needed, optional=dict.fromkeys(TEXTS, str), where="")
    _check_keys(config["special"], dict.fromkeys(SPECIAL, int), where="special.")
    names = dict.fromkeys(("kind", "source", "target"), str)
    _check_keys(config["tokenizer"], names, where="tokenizer.")
    return config | {key: short(config[key], 80) for key in TEXTS if key in config}


def _check_keys(
    config: dict[str, Any],
    needed: Mapping[str, type],
    *,
    where: str,
    optional: Mapping[str, type] | None = None,
) -> None:
    """Raise CheckpointError at the first key that is missing, unknown or mistyped."""
    known = {**needed, **(optional or {})}
    for key in config:
        if key not in known:
            raise CheckpointError(
                "{file}: “{key}” is not a known key. Remove it, or update Visformer.",
                file=CONFIG,
                key=where + short(key),
            )
    for key, kind in known.items():
        if key not in config and key in needed:
            raise CheckpointError(
                "{file}: “{key}” is missing. Add it as {allowed}.",
                file=CONFIG,
                key=where + key,
                allowed=_(_KINDS[kind]),
            )
        if key in config and type(config[key]) is not kind:
            raise CheckpointError(
                "{argument} is {given}, but must be {allowed}.",
                argument=f"{CONFIG}: “{where}{key}”",
                given=_shown(config[key]),
                allowed=_(_KINDS[kind]),
            )


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):  # possibly too deep to print
        return _("a list") if isinstance(value, list) else _("an object")
    return short(json.dumps(value, ensure_ascii=False), 40)


def model_config(config: dict[str, Any]) -> tuple[ModelConfig, tuple[str, ...]]:
    """Return the model's config, and the fields left to their defaults."""
    named = {FORMER_NAMES.get(key, key): value for key, value in config.items()}
    sizes = {key: _number(key, value) for key, value in named.items()}
    fields = {field.name: field for field in dataclasses.fields(ModelConfig)}
    plain = int, float, bool
    types = {n: kind if kind in plain else str for n, kind in FIELD_TYPES.items()}
    needed = {
        n: t for n, t in types.items() if fields[n].default is dataclasses.MISSING
    }
    _check_keys(sizes, needed, optional=types, where="model.")
    assumed = tuple(
        _(
            "{name} = {value} ({file} does not say)",
            name=name,
            value=field.default,
            file=CONFIG,
        )
        for name, field in fields.items()
        if name not in sizes
    )
    return ModelConfig(**sizes), assumed


def _number(key: str, value: Any) -> Any:
    """Convert an int to float where the field is a float; JSON has no infinity."""
    if key == "masked_value" and value == "-inf":
        return -math.inf
    if type(value) in (int, float) and not -(2.0**63) < value < 2.0**63:
        raise CheckpointError(
            "{file}: “model.{key}” is too large a number.", file=CONFIG, key=short(key)
        )
    if key == "norm_eps" and type(value) in (int, float) and not 0 <= value <= 1:
        raise CheckpointError(
            "{file}: “model.norm_eps” must be between 0 and 1.", file=CONFIG
        )
    floating = key in ("norm_eps", "masked_value") and type(value) is int
    return float(value) if floating else value


def stored_config(config: ModelConfig) -> dict[str, Any]:
    """Return the config as JSON data."""
    fields = dataclasses.asdict(config)
    return fields | (
        {"masked_value": "-inf"} if config.masked_value == -math.inf else {}
    )
