"""Fresh models: combinations of choices that have a name, and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from visformer.core.checkpoint import Checkpoint, choose_device
from visformer.core.generation import Generation
from visformer.core.model import Transformer
from visformer.errors import CheckpointError
from visformer.tokenizers.sides import NumberSide
from visformer.tokenizers.tokenizer import Tokenizer
from visformer.values.config import ModelConfig

USUAL_IDS = {"pad": 0, "bos": 1, "eos": 2}
BASE: Mapping[str, Any] = {  # the size of the paper's base model
    "d_model": 512,
    "heads": 8,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "feed_forward": 2048,
}
TUTORIAL: Mapping[str, Any] = {  # common to all five: separate tables and output
    "shared_embedding": False,
    "tied_output": False,
    "output_bias": True,
}


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A model's choices and usual sizes, its special ids and its initialisation."""

    name: str
    fields: Mapping[str, Any]  # of ModelConfig
    ids: Mapping[str, int] = field(default_factory=lambda: dict(USUAL_IDS))
    draw: Callable[[Transformer], None] = Transformer.initialise
    ends_source: bool = False  # typed ids are used as they are
    never_pads: bool = False  # whether decoding never chooses the pad


# of models that are read from files alone, and are never made here
OTHERS = Preset(name="", fields={}, ids={})


def fresh(
    preset: Preset,
    *,
    layout: str,
    seed: int,
    device: str | torch.device | None,
    **sizes: Any,
) -> Checkpoint:
    """Return a checkpoint of fresh weights, initialised as the preset's author does.

    ``sizes`` are fields of ``ModelConfig`` and override the preset's. Its tokens are
    numbers. Raises CheckpointError for an unknown field or value.
    """
    fields = {**preset.fields, **sizes}
    if unknown := set(fields) - set(ModelConfig.__dataclass_fields__):
        raise CheckpointError(
            "“{name}” is not an option of a model. Use fields of ModelConfig.",
            name=min(unknown),
        )
    config = ModelConfig(**fields)
    tokenizer = _numbers(preset, config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(config)
        with torch.no_grad():
            preset.draw(model)
    model = model.requires_grad_(False).eval().to(choose_device(device))
    return Checkpoint(
        name=preset.name,
        layout=layout,
        config=config,
        model=model,
        tokenizer=tokenizer,
        digest="",
        generation=Generation(
            forbidden=((tokenizer.pad,),) if preset.never_pads else ()
        ),
    )


def _numbers(preset: Preset, config: ModelConfig) -> Tokenizer:
    """Return a tokenizer of numbers; negative ids count from the end."""
    size = config.target_vocabulary
    ids = {name: id if id >= 0 else size + id for name, id in preset.ids.items()}
    smallest = min(config.source_vocabulary, size)
    if smallest <= max(ids.values()):
        raise CheckpointError(
            "A vocabulary of {n:,} is too small for {preset}, whose special ids go up "
            "to {most}.",
            n=smallest,
            preset=preset.name,
            most=max(ids.values()),
        )
    return Tokenizer(
        NumberSide(config.source_vocabulary),
        NumberSide(size),
        **ids,
        ends_source=preset.ends_source,
    )


def as_constructed(model: Transformer) -> None:
    """Leave PyTorch's own initial weights."""


def xavier(model: Transformer) -> None:
    """Initialise all matrices with Xavier."""
    for parameter in matrices(model):
        nn.init.xavier_uniform_(parameter)


def matrices(model: Transformer) -> Iterator[nn.Parameter]:
    """Yield all two-dimensional parameters except those of norms."""
    named = model.named_parameters()
    return (p for name, p in named if p.dim() > 1 and "norm" not in name)
