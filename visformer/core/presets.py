"""The combinations of choices that have a name, and fresh models of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from visformer.core.checkpoint import Checkpoint, choose_device
from visformer.core.generation import Generation
from visformer.core.model import Transformer
from visformer.errors import CheckpointError
from visformer.tokenizers.sides import NumberSide
from visformer.tokenizers.tokenizer import Tokenizer
from visformer.values.config import ModelConfig

Choices = dict[str, Any]

_BASE: Choices = {  # the size of the paper's base model
    "d_model": 512,
    "heads": 8,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "feed_forward": 2048,
}
_TUTORIAL: Choices = {  # what the five have in common: tables and output apart
    "shared_embedding": False,
    "tied_output": False,
    "output_bias": True,
}

PRESETS: dict[str, Choices] = {
    "handout": {
        **_TUTORIAL,
        "source_vocabulary": 1000,
        "target_vocabulary": 1000,
        "d_model": 128,
        "heads": 4,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "feed_forward": 512,
        "max_positions": 5000,
        "embedding_scale": False,
        "softmax_output": True,
    },
    "d2l": {
        **_TUTORIAL,
        "source_vocabulary": 200,
        "target_vocabulary": 200,
        "d_model": 32,
        "heads": 4,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "feed_forward": 64,
        "max_positions": 1000,
        "position_form": "power",
        "position_axis": "restart",
        "encoder_bias": "none",
        "decoder_bias": "none",
        "mask_rule": "lengths",
        "masked_value": -1e6,
    },
    "labml": {
        **_TUTORIAL,
        **_BASE,
        "source_vocabulary": 100,
        "target_vocabulary": 100,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "max_positions": 5000,
        "norm_first": True,
        "final_norm": True,
        "position_axis": "batch",
        "mask_rule": "causal",
        "masked_value": float("-inf"),
    },
    "modular": {
        **_TUTORIAL,
        **_BASE,
        "source_vocabulary": 10_000,
        "target_vocabulary": 10_000,
        "max_positions": 512,
        "norm": "unbiased",
        "norm_eps": 1e-12,
        "embedding_scale": False,
        "position_form": "power",
        "mask_rule": "rows_and_keys",
    },
    "scratch": {
        **_TUTORIAL,
        **_BASE,
        "source_vocabulary": 10_000,
        "target_vocabulary": 10_000,
        "max_positions": 100,
        "mask_rule": "target_rows",
    },
    "paper": {
        **_BASE,
        "source_vocabulary": 37_000,
        "target_vocabulary": 37_000,
        "max_positions": 512,
    },
    "marian": {
        **_BASE,
        "source_vocabulary": 32_000,
        "target_vocabulary": 32_000,
        "max_positions": 512,
        "positions": "halves",
        "position_form": "power",
        "activation": "silu",
        "output_bias": True,
        "mask_rule": "source_keys",
    },
    "torch": {
        **_TUTORIAL,
        **_BASE,
        "source_vocabulary": 10_000,
        "target_vocabulary": 10_000,
        "max_positions": 512,
        "final_norm": True,
        "masked_value": float("-inf"),
    },
}


class Special(NamedTuple):
    """A preset's own ids; the tutorials without any are given the usual ones."""

    pad: int = 0
    bos: int = 1
    eos: int = 2


_SPECIAL = {"d2l": Special(1, 2, 3), "modular": Special(1, 2, 3)}


def build(
    preset: str, *, seed: int = 0, device: str | None = None, **sizes: Any
) -> Checkpoint:
    """Return a checkpoint of fresh weights, drawn as the preset's author draws them.

    ``sizes`` are fields of ``ModelConfig`` and win over the preset's. Its tokens are
    numbers. Raises CheckpointError for an unknown preset, field or value.
    """
    if preset not in PRESETS:
        known = ", ".join(PRESETS)
        raise CheckpointError(f"there is no preset “{preset}”: choose from {known}.")
    fields = {**PRESETS[preset], **sizes}
    if unknown := set(fields) - set(ModelConfig.__dataclass_fields__):
        raise CheckpointError(f"“{min(unknown)}” is no size or choice of a model.")
    config = ModelConfig(**fields)
    tokenizer = _numbers(preset, config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(config)
        with torch.no_grad():
            _DRAW.get(preset, Transformer.initialise)(model)
    model = model.requires_grad_(False).eval().to(choose_device(device))
    return Checkpoint(
        name=preset,
        layout=preset if preset != "paper" else "native",
        config=config,
        model=model,
        tokenizer=tokenizer,
        digest="",
        generation=_rules(preset, tokenizer),
    )


def _rules(preset: str, tokenizer: Tokenizer) -> Generation:
    never = ((tokenizer.pad,),) if preset == "marian" else ()
    return Generation(forbidden=never)


def _numbers(preset: str, config: ModelConfig) -> Tokenizer:
    special = _SPECIAL.get(preset, Special())
    if preset == "marian":  # <pad> comes last, and the decoder starts with it
        last = config.target_vocabulary - 1
        special = Special(last, last, 0)
    smallest = min(config.source_vocabulary, config.target_vocabulary)
    if smallest <= max(special):
        raise CheckpointError(
            f"{smallest} tokens are too few for {preset}, whose special ids go up to "
            f"{max(special)}."
        )
    return Tokenizer(
        NumberSide(config.source_vocabulary),
        NumberSide(config.target_vocabulary),
        pad=special.pad,
        bos=special.bos,
        eos=special.eos,
        ends_source=preset == "marian",  # typed ids go in as they are
    )


def _as_constructed(model: Transformer) -> None:
    """Leave PyTorch's own initial weights."""


def _without_row_one(model: Transformer) -> None:
    """Clear row 1 of the embeddings, whose padding_idx is always 1."""
    for table in (model.source_embedding, model.target_embedding):
        table.weight[1:2] = 0


def _cloned(model: Transformer) -> None:
    """Draw all matrices by Xavier; let layers share the biases they were copied with.

    The layers are copies of one, and only tensors of two dimensions are drawn anew.
    """
    for stack in (model.encoder, model.decoder):
        first, *others = stack
        for layer in others:
            layer.load_state_dict(first.state_dict())
    _xavier(model)


def _xavier(model: Transformer) -> None:
    """Draw all matrices by Xavier."""
    for parameter in _matrices(model):
        nn.init.xavier_uniform_(parameter)


def _narrow(model: Transformer) -> None:
    """Draw all matrices from a normal distribution of deviation 0.02; biases 0."""
    model.initialise()
    for parameter in _matrices(model):
        nn.init.normal_(parameter, std=0.02)


def _matrices(model: Transformer) -> Iterator[nn.Parameter]:
    named = model.named_parameters()
    return (p for name, p in named if p.dim() > 1 and "norm" not in name)


_DRAW: dict[str, Callable[[Transformer], None]] = {  # others: as the paper's
    "handout": _as_constructed,
    "d2l": _as_constructed,
    "labml": _cloned,
    "modular": _without_row_one,
    "scratch": _as_constructed,
    "marian": _narrow,
    "torch": _xavier,
}
