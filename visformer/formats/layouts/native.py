"""Visformer's own checkpoints: a folder of config, weights, tokenizer and model card.

``config.json`` is checked key by key, and the model that it describes is compared with
``model.safetensors`` tensor by tensor, before any memory is allocated for it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors.torch import save
from torch import Tensor, nn

from visformer.core.assembly import build_model
from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Transformer
from visformer.core.presets import BASE, Preset
from visformer.errors import CheckpointError, InputError
from visformer.files import (
    exists,
    inside,
    is_file,
    is_folder,
    listed,
    read_json,
    short,
    write_whole,
)
from visformer.formats.diagnoses import findings_of
from visformer.formats.foreign import READS
from visformer.formats.given_options import GivenOptions
from visformer.formats.layout_spec import Files, LayoutSpec
from visformer.formats.weight_file import WeightFile, Weights, read_weights
from visformer.tokenizers.tokenizer import (
    Tokenizer,
    TokenizerSide,
    read_sentencepiece,
    read_vocabulary,
)
from visformer.values.config import FORMER_NAMES, ModelConfig

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
VERSION = 1
SPECIAL = ("pad", "unk", "bos", "eos")
TEXTS = ("name", "source_language", "target_language")

_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
}

_FORMER_MODULES = {
    ".feed_forward.expand.": ".feed_forward.w1.",
    ".feed_forward.contract.": ".feed_forward.w2.",
}

TokenizerKind = Literal["sentencepiece", "vocabulary"]


class TokenizerFiles(NamedTuple):
    """A tokenizer as it lies in a folder."""

    kind: TokenizerKind
    source: str  # file name
    target: str  # file name; may be the source's
    contents: Mapping[str, bytes]  # by file name


def read_native(
    folder: Path,
    device: torch.device,
    changes: Mapping[str, Any] | None = None,
    *,
    read: Callable[[Path], Weights] = read_weights,
) -> Checkpoint:
    """Open a checkpoint folder; CheckpointError says what is wrong or missing.

    ``changes`` are fields of the model's config that win over the folder's; ``read``
    reads the file of weights.
    """
    config = read_config(folder)
    sizes, assumed = _model_config(config["model"])
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
    """Return what a tensor is called today; older folders have former names."""
    for former, name in _FORMER_MODULES.items():
        key = key.replace(former, name)
    return key


def read_config(folder: Path) -> dict[str, Any]:
    """Read ``config.json`` and check its top level; the model's part is left plain."""
    config = read_json(folder / CONFIG)
    if config.get("format") != "visformer":
        raise CheckpointError(
            f"{CONFIG} is not of a Visformer checkpoint: its “format” is not "
            "“visformer”. Choose a folder that Visformer wrote."
        )
    version = config.get("version")
    if type(version) is int and version > VERSION:
        raise CheckpointError(
            f"{CONFIG} has format version {short(str(version), 20)}, where this "
            f"Visformer reads {VERSION}: update it."
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
                f"{CONFIG}: “{where}{short(key)}” is not a known key. Remove it, or "
                "update Visformer."
            )
    for key, kind in known.items():
        if key not in config:
            if key in needed:
                raise CheckpointError(
                    f"{CONFIG}: “{where}{key}” is missing. Add it: {_WORDS[kind]}."
                )
        elif type(config[key]) is not kind:
            raise CheckpointError(
                f"{CONFIG}: “{where}{key}” must be {_WORDS[kind]}, not "
                f"{_shown(config[key])}."
            )


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):  # which may be nested deeper than can be written
        return "a list" if isinstance(value, list) else "an object"
    return short(json.dumps(value, ensure_ascii=False), 40)


def _model_config(config: dict[str, Any]) -> tuple[ModelConfig, tuple[str, ...]]:
    """Return the sizes, and what the file left to their defaults."""
    named = {FORMER_NAMES.get(key, key): value for key, value in config.items()}
    sizes = {key: _number(key, value) for key, value in named.items()}
    fields = {field.name: field for field in dataclasses.fields(ModelConfig)}
    kinds = {"int": int, "float": float, "bool": bool}
    types = {name: kinds.get(str(f.type), str) for name, f in fields.items()}
    needed = {
        n: t for n, t in types.items() if fields[n].default is dataclasses.MISSING
    }
    _check_keys(sizes, needed, optional=types, where="model.")
    assumed = tuple(
        f"{name} = {field.default} ({CONFIG} does not say)"
        for name, field in fields.items()
        if name not in sizes
    )
    return ModelConfig(**sizes), assumed


def _number(key: str, value: Any) -> Any:
    """Return a float for what stands for one: JSON has no infinity, and 0 is an int."""
    if key == "masked_value" and value == "-inf":
        return -math.inf
    if type(value) in (int, float) and not -(2.0**63) < value < 2.0**63:
        raise CheckpointError(f"{CONFIG}: “model.{short(key)}” is too large a number.")
    if key == "norm_eps" and type(value) in (int, float) and not 0 <= value <= 1:
        raise CheckpointError(f"{CONFIG}: “model.norm_eps” must lie between 0 and 1.")
    floating = key in ("norm_eps", "masked_value") and type(value) is int
    return float(value) if floating else value


def _tokenizer(folder: Path, config: dict[str, Any], sizes: ModelConfig) -> Tokenizer:
    special, files = config["special"], config["tokenizer"]
    if files["kind"] not in ("sentencepiece", "vocabulary"):
        raise CheckpointError(
            f"{CONFIG}: “tokenizer.kind” is “{short(files['kind'])}”: it must be "
            "“sentencepiece” or “vocabulary”."
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
    if side.size != rows:
        raise CheckpointError(
            f"{name} has {side.size:,} tokens and the model's embedding {rows:,} rows: "
            "they belong to different models. Copy the right one."
        )
    for key, id in special.items():
        if not 0 <= id < rows:
            raise CheckpointError(
                f"{CONFIG}: “special.{key}” is {short(str(id), 20)}, outside the "
                f"vocabulary: it must be from 0 to {rows - 1:,}."
            )
    if side.unknown != special["unk"]:
        raise CheckpointError(
            f"{CONFIG}: “special.unk” is {special['unk']}, but the unknown token of "
            f"{name} is {side.unknown}: correct it."
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
    """Write a checkpoint folder: each file whole or not at all, ``config.json`` last.

    ``special`` has the ids pad, unk, bos and eos, ``languages`` the source's and the
    target's, ``card`` the text of ``README.md``. InputError where it cannot be written.
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
    files = {WEIGHTS: save(_halved(model)), **tokenizer.contents, CARD: card.encode()}
    if not card:
        del files[CARD]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, data in {**files, CONFIG: text.encode()}.items():
            write_whole(folder / file, data)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}.") from error


def stored_config(config: ModelConfig) -> dict[str, Any]:
    """Return the sizes as JSON takes them."""
    fields = dataclasses.asdict(config)
    return fields | (
        {"masked_value": "-inf"} if config.masked_value == -math.inf else {}
    )


def _halved(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters, shared ones once, as float16 where its range allows."""
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
            "a native checkpoint has its own tokenizer, special ids and names of "
            "tensors: leave them out."
        )
    return read_native(folder, device, options.fields, read=files[0].reader)


def _folder(file: WeightFile) -> Path:
    """Return the checkpoint folder that a path means; CheckpointError where it is none.

    A folder means itself, its ``config.json`` or ``model.safetensors`` mean the folder.
    """
    path = file.path
    if is_folder(path):
        if exists(path / CONFIG):
            return path
        raise CheckpointError(
            f"{short(path.resolve().name)} is not a Visformer checkpoint: it has no "
            f"{CONFIG}. Choose the folder that holds {CONFIG} and {WEIGHTS}."
        )
    if not exists(path):
        raise CheckpointError(
            f"{short(path.name)} does not exist: check the spelling, or choose "
            "another file or folder."
        )
    if path.name in (CONFIG, WEIGHTS) and is_file(path.parent / CONFIG):
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
