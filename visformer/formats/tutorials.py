"""Weight files without a config: the five tutorials and torch.nn.Transformer."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from visformer.core.assembly import build_model
from visformer.core.checkpoint import Checkpoint
from visformer.errors import CheckpointError
from visformer.files import read_json
from visformer.formats.diagnoses import findings_of
from visformer.formats.given_options import (
    GivenOptions,
    need_heads,
    with_config,
    with_saved,
)
from visformer.formats.layout_spec import Files, LayoutSpec, Tensors
from visformer.formats.names import Spelling
from visformer.formats.renaming import FileTensors, count_known, joined
from visformer.formats.sizes import sizes_of
from visformer.formats.weight_file import Weights
from visformer.language import N_, _
from visformer.tokenizers.sides import NumberSide, open_side, special_ids
from visformer.tokenizers.tokenizer import Tokenizer, TokenizerSide
from visformer.values.config import ModelConfig

_TABLES = ("positions", "source_positions", "target_positions")
_HALVES = ("encoder", "decoder")
_NUMBER = re.compile(r"\d\.")  # of a layer, in a name


@dataclass(frozen=True)
class TutorialFiles:
    """A layout's files as they were read, and everything known about them."""

    spec: LayoutSpec
    name: str
    weights: Sequence[Weights]
    tensors: Mapping[str, Tensor]  # under our names
    spelling: Spelling
    assumed: tuple[str, ...]  # a line for each name that was guessed
    options: GivenOptions  # by the caller, a config.json beside it, and saved ones

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The trained tensors: all but a stored table of positions."""
        return {key: t for key, t in self.tensors.items() if key != "positions"}

    @property
    def lacking_half(self) -> str:
        """The half of the model that is in another file: "encoder", "decoder" or ""."""
        if any(key[0] == "?" and _NUMBER.search(key) for key in self.tensors):
            return ""  # layers under names that are not known may be the other half
        lacking = [
            half
            for half in _HALVES
            if not any(key.startswith(f"{half}.layers.") for key in self.tensors)
        ]
        return lacking[0] if len(lacking) == 1 else ""

    @property
    def half(self) -> str:
        """The only half in the file: "encoder", "decoder", or "" for both."""
        lacking = self.lacking_half
        return next((h for h in _HALVES if h != lacking), "") if lacking else ""

    @property
    def left_open(self) -> tuple[str, ...]:
        """The fields of the config that neither the file nor the caller gives."""
        known = {*self.options.fields, *sizes_of(self.tensors)}
        if "positions" in self.tensors:
            known |= {"positions", "max_positions"}
        return tuple(
            field.name
            for field in dataclasses.fields(ModelConfig)
            if field.name in self.spec.left_open and field.name not in known
        )


def read_files(spec: LayoutSpec, files: Files, options: GivenOptions) -> TutorialFiles:
    """Read the files of a layout; what they do not say is not needed yet."""
    name = " and ".join(file.name for file in files)
    tensors = joined(files, spec.halves_of)
    names = list(tensors)
    prefix = max(
        spec.prefixes(names), key=lambda prefix: count_known(spec.names, prefix, names)
    )
    options = with_config(options, config_beside(files[0].path))
    named = spec.rename(spec.names, FileTensors(name, tensors, prefix, options.names))
    flat = {key: _flat(key, tensor) for key, tensor in named.tensors.items()}
    weights = [file.weights for file in files]
    return TutorialFiles(
        spec=spec,
        name=name,
        weights=weights,
        tensors=flat,
        spelling=Spelling(spec.names, prefix, named.theirs),
        assumed=named.assumed,
        options=_with_saved_options(options, flat, weights),
    )


def read_tutorial(
    spec: LayoutSpec, files: Files, options: GivenOptions, device: torch.device
) -> Checkpoint:
    """Open one file, or a model's two, of a layout; CheckpointError says what is wrong.

    Fields, ids and a tokenizer that are not given are assumed.
    """
    read = read_files(spec, files, options)
    if read.lacking_half:
        raise CheckpointError(_(_ONLY_HALF[read.half], file=read.name))
    config = config_of(read)
    spec.check(read.tensors, config.d_model, read.name, read.spelling)
    model = build_model(
        config,
        read.parameters,
        device=device,
        name=read.name,
        spelling=read.spelling,
        table=_table(read, config),
    )
    tokenizer, guessed = _tokenizer(read, config)
    pads = (tokenizer.source_pad, tokenizer.pad)
    return Checkpoint(
        name=read.name,
        layout=spec.name,
        config=config,
        model=model,
        tokenizer=tokenizer,
        digest=_digest(read.weights),
        assumed=(
            *(_assumed(field, getattr(config, field)) for field in read.left_open),
            *read.assumed,
            *(_assumed(name, value) for name, value in guessed.items()),
        ),
        findings=(
            *spec.findings_of(config),
            *findings_of(config, read.tensors, pads, read.spelling),
        ),
    )


_ONLY_HALF = {  # by the half that is there
    "encoder": N_(
        "{file} holds only an encoder; the decoder is missing. Give both files, as "
        "(encoder file, decoder file)."
    ),
    "decoder": N_(
        "{file} holds only a decoder; the encoder is missing. Give both files, as "
        "(encoder file, decoder file)."
    ),
}


def _assumed(name: str, value: object) -> str:
    return _("{name} = {value} (the file does not say)", name=name, value=value)


def config_beside(path: Path) -> dict[str, Any]:
    """Read the config.json beside a file; {} if it has none of its own.

    A weight file may be in the folder of another model, whose config is not for it.
    """
    place = path.with_name("config.json")
    if not place.is_file():
        return {}
    config = read_json(place)
    return {} if {"format", "model_type"} & config.keys() else config


def _with_saved_options(
    options: GivenOptions, tensors: Tensors, weights: Sequence[Weights]
) -> GivenOptions:
    """Add the options saved in the files beside the weights; given ones win.

    They are everything that a script was called with; what the tensors determine is not
    taken from them.
    """
    known = {
        *sizes_of(tensors),
        *(("max_positions",) if "positions" in tensors else ()),
    }
    for part in weights:
        options = with_saved(options, part.options, known)
    return options


def _digest(weights: Sequence[Weights]) -> str:
    if len(weights) == 1:
        return weights[0].digest
    return hashlib.sha256("".join(w.digest for w in weights).encode()).hexdigest()


def _flat(key: str, tensor: Tensor) -> Tensor:
    """Turn [1, P, D] and [P, 1, D] into [P, D], the shape of our tables."""
    if key in _TABLES and tensor.dim() == 3 and 1 in tensor.shape[:2]:
        return tensor.flatten(0, 1)
    return tensor


def config_of(read: TutorialFiles) -> ModelConfig:
    """Return the config from the layout, the tensors and, winning, given options."""
    fields = {
        **read.spec.choices,
        **sizes_of(read.tensors),
        **read.spec.config_fields(read.tensors),
        **read.options.fields,
    }
    need_heads(fields, read.name)
    return ModelConfig(**fields)


def _table(read: TutorialFiles, config: ModelConfig) -> Tensor | None:
    """Return the file's own positions [P, D]; CheckpointError if they do not fit."""
    table = read.tensors.get("positions")
    if table is None or config.positions == "learned":
        return None
    if table.dim() != 2 or table.shape[1] != config.d_model:
        raise CheckpointError(
            _(
                "{file} does not fit its config: {tensor} has shape {found} instead of "
                "{expected}.",
                file=read.name,
                tensor=read.spelling("positions"),
                found=list(table.shape),
                expected=[config.max_positions, config.d_model],
            )
        )
    if len(table) < config.max_positions:
        raise CheckpointError(
            _(
                "{file} stores {n:,} positions, fewer than max_positions = {most:,}. "
                "Give a smaller max_positions.",
                file=read.name,
                n=len(table),
                most=config.max_positions,
            )
        )
    return table[: config.max_positions]


def _tokenizer(
    read: TutorialFiles, config: ModelConfig
) -> tuple[Tokenizer, dict[str, str]]:
    """Return the given tokenizer, or one of numbers, and what was assumed."""
    options, rows = read.options, (config.source_vocabulary, config.target_vocabulary)
    source: TokenizerSide = NumberSide(rows[0])
    target: TokenizerSide = NumberSide(rows[1])
    assumed: dict[str, str] = {}
    if options.tokenizer is None:
        assumed["tokenizer"] = "numbers"
    else:
        paths = options.tokenizer
        source = open_side(paths[0], rows[0])
        same = paths[0] == paths[1] and rows[0] == rows[1]
        target = source if same else open_side(paths[1], rows[1])
    ids, usual = _ids(read, config, target)
    tokenizer = Tokenizer(
        source,
        target,
        pad=ids["pad"] if options.target_pad is None else options.target_pad,
        bos=ids["bos"],
        eos=ids["eos"],
        source_pad=ids["pad"],
        ends_source=options.tokenizer is not None and read.spec.ends_source,
    )
    return tokenizer, assumed | {name: str(ids[name]) for name in usual}


def _ids(
    read: TutorialFiles, config: ModelConfig, target: TokenizerSide
) -> tuple[dict[str, int], list[str]]:
    """Return the special ids, and the names of those that are assumed."""
    options = read.options
    named = {} if options.tokenizer is None else special_ids(target)
    ids = read.spec.usual_ids(named)
    given = {n: id for n in ids if (id := getattr(options, n)) is not None}
    usual = [name for name in ids if name not in given and name not in named]
    ids |= given
    _check_ids(ids | {"target_pad": options.target_pad}, config)
    return ids, usual


def _check_ids(ids: Mapping[str, int | None], config: ModelConfig) -> None:
    for name, id in ids.items():
        rows = config.source_vocabulary if name == "pad" else config.target_vocabulary
        if id is not None and id >= rows:
            raise CheckpointError(
                _(
                    "{name} is {id}, which is outside the vocabulary. Give {name}=…, "
                    "an id from 0 to {high:,}.",
                    name=name,
                    id=id,
                    high=rows - 1,
                )
            )
