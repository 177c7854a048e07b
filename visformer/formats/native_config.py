"""The ``config.json`` of Visformer's own checkpoints, checked key by key."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from visformer.errors import CheckpointError
from visformer.files import read_json, short
from visformer.language import N_, _
from visformer.values.config import FORMER_NAMES, ModelConfig

CONFIG = "config.json"
VERSION = 1
SPECIAL = ("pad", "unk", "bos", "eos")
TEXTS = ("name", "source_language", "target_language")

_MISSING = {  # by the type of the value
    str: N_("{file}: “{key}” is missing. Add it as text."),
    int: N_("{file}: “{key}” is missing. Add it as a whole number."),
    float: N_("{file}: “{key}” is missing. Add it as a number."),
    bool: N_("{file}: “{key}” is missing. Add it as true or false."),
    dict: N_("{file}: “{key}” is missing. Add it as an object."),
}
_MISTYPED = {
    str: N_("{file}: “{key}” is {value}, but must be text."),
    int: N_("{file}: “{key}” is {value}, but must be a whole number."),
    float: N_("{file}: “{key}” is {value}, but must be a number."),
    bool: N_("{file}: “{key}” is {value}, but must be true or false."),
    dict: N_("{file}: “{key}” is {value}, but must be an object."),
}


def read_config(folder: Path) -> dict[str, Any]:
    """Read ``config.json`` and check its top level, but not the model's part."""
    config = read_json(folder / CONFIG)
    if config.get("format") != "visformer":
        raise CheckpointError(
            _(
                "{file} does not belong to a Visformer checkpoint: its “format” is not "
                "“visformer”. Choose a folder that Visformer wrote.",
                file=CONFIG,
            )
        )
    version = config.get("version")
    if type(version) is int and version > VERSION:
        raise CheckpointError(
            _(
                "{file} has format version {version}, but this Visformer reads "
                "versions up to {newest}. Update Visformer.",
                file=CONFIG,
                version=short(str(version), 20),
                newest=VERSION,
            )
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
                _(
                    (
                        "{file}: “{key}” is not a known key. Remove it, or update "
                        "Visformer."
                    ),
                    file=CONFIG,
                    key=where + short(key),
                )
            )
    for key, kind in known.items():
        if key not in config:
            if key in needed:
                raise CheckpointError(_(_MISSING[kind], file=CONFIG, key=where + key))
        elif type(config[key]) is not kind:
            value = _shown(config[key])
            raise CheckpointError(
                _(_MISTYPED[kind], file=CONFIG, key=where + key, value=value)
            )


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):  # may be nested too deeply to be written
        return _("a list") if isinstance(value, list) else _("an object")
    return short(json.dumps(value, ensure_ascii=False), 40)


def model_config(config: dict[str, Any]) -> tuple[ModelConfig, tuple[str, ...]]:
    """Return the sizes, and what the file left to the defaults."""
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
    """Return a float where one is meant: JSON has no infinity, and 0 is an int."""
    if key == "masked_value" and value == "-inf":
        return -math.inf
    if type(value) in (int, float) and not -(2.0**63) < value < 2.0**63:
        raise CheckpointError(
            _(
                "{file}: “model.{key}” is too large a number.",
                file=CONFIG,
                key=short(key),
            )
        )
    if key == "norm_eps" and type(value) in (int, float) and not 0 <= value <= 1:
        raise CheckpointError(
            _("{file}: “model.norm_eps” must be between 0 and 1.", file=CONFIG)
        )
    floating = key in ("norm_eps", "masked_value") and type(value) is int
    return float(value) if floating else value


def stored_config(config: ModelConfig) -> dict[str, Any]:
    """Return the sizes as JSON data."""
    fields = dataclasses.asdict(config)
    return fields | (
        {"masked_value": "-inf"} if config.masked_value == -math.inf else {}
    )
