"""Files of the five tutorials and of torch.nn.Transformer: weights without config."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visformer.core.assembly import build_model
from visformer.core.checkpoint import Checkpoint
from visformer.errors import CheckpointError
from visformer.files import read_json
from visformer.formats.around import place_around, renamed_as_told
from visformer.formats.diagnoses import findings_of, table_order
from visformer.formats.layouts import HABITS, choices, usual_ids
from visformer.formats.options import Given, beside, need_heads, saved_with
from visformer.formats.recognition import (
    Spelling,
    in_our_names,
    joined,
    prefix_for,
    split_projections,
)
from visformer.formats.sizes import check_attention, sizes_of
from visformer.formats.weight_file import WeightFile, Weights
from visformer.tokenizers.sides import NumberSide, open_side, special_ids
from visformer.tokenizers.tokenizer import Side, Tokenizer
from visformer.values.config import ModelConfig

_TABLES = ("positions", "source_positions", "target_positions")


class Parts(NamedTuple):
    """A file's tensors under our names, and what was guessed to name them."""

    tensors: dict[str, Tensor]
    spelling: Spelling
    assumed: tuple[str, ...]


class Reading(NamedTuple):
    """Files as they were read, and all that is said of them."""

    name: str
    weights: list[Weights]
    parts: Parts
    told: Given


def read_parts(layout: str, files: Sequence[WeightFile], told: Given) -> Reading:
    """Read the files of a layout; nothing is needed yet that they do not tell."""
    name = " and ".join(file.name for file in files)
    weights = [file.weights for file in files]
    told = beside(told, config_beside(files[0].path))
    parts = _parts(layout, name, files, told)
    told = _told_inside(told, parts.tensors, weights)
    return Reading(name, weights, parts, told)


def read_tutorial(
    layout: str, files: Sequence[WeightFile], told: Given, device: torch.device
) -> Checkpoint:
    """Open one file, or d2l's two, of a layout; CheckpointError says what is wrong."""
    name, weights, parts, told = read_parts(layout, files, told)
    if half := lacking_half(layout, parts.tensors):
        there = "decoder" if half == "encoder" else "encoder"
        raise CheckpointError(
            f"{name} holds a d2l {there} and no {half}: give both files, as "
            "(encoder file, decoder file)."
        )
    config = config_of(layout, name, parts.tensors, told)
    if layout == "d2l":
        check_attention(parts.tensors, config.d_model, name, parts.spelling)
    table = _table(parts, config, name)
    model = build_model(
        config,
        {key: t for key, t in parts.tensors.items() if key != "positions"},
        device=device,
        name=name,
        spelling=parts.spelling,
        table=table,
    )
    tokenizer, guessed = tokenizer_for(layout, config, told)
    pads = (tokenizer.source_pad, tokenizer.pad)
    return Checkpoint(
        name=name,
        layout=layout,
        config=config,
        model=model,
        tokenizer=tokenizer,
        digest=_digest(weights),
        assumed=(
            *(
                f"{field} = {getattr(config, field)} (the file does not say)"
                for field in untold_fields(layout, parts.tensors, told)
            ),
            *parts.assumed,
            *guessed,
        ),
        findings=findings_of(layout, config, parts.tensors, pads, parts.spelling),
    )


def config_beside(path: Path) -> dict[str, Any]:
    """Read the config.json beside a file; an empty one where there is none of its own.

    A file of weights may lie in a folder of another model, whose config is not its.
    """
    place = path.with_name("config.json")
    if not place.is_file():
        return {}
    config = read_json(place)
    return {} if {"format", "model_type"} & config.keys() else config


def _told_inside(
    told: Given, tensors: Mapping[str, Tensor], weights: Sequence[Weights]
) -> Given:
    """Add the options that lie in the files beside the weights; what was told wins.

    Such options are all that a script was called with. What the tensors tell, they are
    not asked.
    """
    known = {
        *sizes_of(tensors),
        *(("max_positions",) if "positions" in tensors else ()),
    }
    for part in weights:
        told = saved_with(told, part.options, known)
    return told


def _digest(weights: Sequence[Weights]) -> str:
    if len(weights) == 1:
        return weights[0].digest
    return hashlib.sha256("".join(w.digest for w in weights).encode()).hexdigest()


def _parts(layout: str, name: str, files: Sequence[WeightFile], told: Given) -> Parts:
    """Name a file's tensors as our model does."""
    tensors = joined(files)
    prefix = prefix_for(list(tensors), layout)
    spelt: dict[str, str] = {}
    assumed: tuple[str, ...] = ()
    if layout == "torch":
        tensors, spelt, assumed = place_around(tensors, prefix, told.names, name)
        tensors = split_projections(tensors)
    made = in_our_names(layout, prefix, tensors)
    if layout != "torch":
        made = renamed_as_told(made, told.names)
    theirs = {ours: spelt.get(name, name) for ours, name in made.spelt.items()}
    if layout == "labml":
        _take_out_waves(made.tensors)
    found = {key: _flat(key, tensor) for key, tensor in made.tensors.items()}
    if layout == "torch" and "target_positions" in found:  # it may serve both sides
        found.setdefault("source_positions", found["target_positions"])
    return Parts(found, Spelling(layout, prefix, theirs), assumed)


def lacking_half(layout: str, tensors: Mapping[str, Tensor]) -> str:
    """Return which half of a d2l model is not there: "encoder", "decoder" or ""."""
    stacks = [
        stack
        for stack in ("encoder", "decoder")
        if not any(key.startswith(f"{stack}.layers.") for key in tensors)
    ]
    return stacks[0] if layout == "d2l" and len(stacks) == 1 else ""


def _take_out_waves(tensors: dict[str, Tensor]) -> None:
    """Tell a fixed table that labml stored, [1, P, D], from a learned one.

    Both have one name; the learned one is [P, 1, D].
    """
    tables = [tensors.get(name) for name in _TABLES[1:]]
    if all(t is not None and t.dim() == 3 and len(t) == 1 < t.shape[1] for t in tables):
        tensors["positions"] = tensors.pop(_TABLES[1])
        del tensors[_TABLES[2]]


def _flat(key: str, tensor: Tensor) -> Tensor:
    """Make [1, P, D] and [P, 1, D] into [P, D], the shape of our tables."""
    if key in _TABLES and tensor.dim() == 3 and 1 in tensor.shape[:2]:
        return tensor.flatten(0, 1)
    return tensor


def config_of(
    layout: str, name: str, tensors: Mapping[str, Tensor], told: Given
) -> ModelConfig:
    """Return the config: a layout's choices, what tensors tell, what was given."""
    fields = choices(layout) | sizes_of(tensors)
    one = layout == "torch"  # where tensors may be shared, which others never do
    fields["shared_embedding"] = one and "source_embedding.weight" not in tensors
    fields["tied_output"] = one and "output.weight" not in tensors
    if layout == "torch" and "positions" in tensors:
        fields["positions"] = table_order(tensors["positions"]) or "sinusoidal"
    fields |= told.fields
    need_heads(fields, name)
    return ModelConfig(**fields)


def _table(parts: Parts, config: ModelConfig, name: str) -> Tensor | None:
    """Return the file's own positions; CheckpointError where they do not fit."""
    table = parts.tensors.get("positions")
    if table is None or config.positions == "learned":
        return None
    if table.dim() != 2 or table.shape[1] != config.d_model:
        raise CheckpointError(
            f"{name} does not fit its config; mis-shaped: "
            f"{parts.spelling('positions')} {list(table.shape)}, not "
            f"{[config.max_positions, config.d_model]}."
        )
    if len(table) < config.max_positions:
        raise CheckpointError(
            f"{name} stores {len(table):,} positions, fewer than max_positions = "
            f"{config.max_positions:,}: ask for no more."
        )
    return table[: config.max_positions]


def tokenizer_for(
    layout: str, config: ModelConfig, told: Given
) -> tuple[Tokenizer, tuple[str, ...]]:
    """Return the tokenizer given, or one of numbers, and what was taken for granted."""
    rows = (config.source_vocabulary, config.target_vocabulary)
    source: Side = NumberSide(rows[0])
    target: Side = NumberSide(rows[1])
    assumed: dict[str, str] = {}
    if told.tokenizer is None:
        assumed["tokenizer"] = "numbers"
    else:
        source = open_side(told.tokenizer[0], rows[0])
        same = told.tokenizer[0] == told.tokenizer[1] and rows[0] == rows[1]
        target = source if same else open_side(told.tokenizer[1], rows[1])
    ids = _ids(layout, config, told, target, assumed)
    made = Tokenizer(
        source,
        target,
        pad=ids["pad"] if told.target_pad is None else told.target_pad,
        bos=ids["bos"],
        eos=ids["eos"],
        source_pad=ids["pad"],
        ends_source=told.tokenizer is not None and HABITS[layout].ends_source,
    )
    return made, tuple(f"{k} = {v} (the file does not say)" for k, v in assumed.items())


def _ids(
    layout: str,
    config: ModelConfig,
    told: Given,
    target: Side,
    assumed: dict[str, str],
) -> dict[str, int]:
    """Return the special ids: as given, as the tokenizer has them, as usual."""
    named = {} if told.tokenizer is None else special_ids(target)
    made = usual_ids(layout, named)
    for name, usual in made.items():
        id = getattr(told, name)
        if id is None and name not in named:
            assumed[name] = str(usual)
        made[name] = usual if id is None else id
    _check_ids(made | {"target_pad": told.target_pad}, config)
    return made


def _check_ids(ids: Mapping[str, int | None], config: ModelConfig) -> None:
    for name, id in ids.items():
        rows = config.source_vocabulary if name == "pad" else config.target_vocabulary
        if id is not None and id >= rows:
            raise CheckpointError(
                f"{name} is {id}, outside the vocabulary: give {name}=…, an id from 0 "
                f"to {rows - 1:,}."
            )


def untold_fields(
    layout: str, tensors: Mapping[str, Tensor], told: Given
) -> tuple[str, ...]:
    """List the fields that neither the file nor the caller told."""
    known = {*told.fields, *sizes_of(tensors)}
    if "positions" in tensors:
        known |= {"positions", "max_positions"}
    return tuple(
        field.name
        for field in dataclasses.fields(ModelConfig)
        if field.name in HABITS[layout].untold and field.name not in known
    )
