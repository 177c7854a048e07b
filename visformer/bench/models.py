"""Models with random weights in the two measured shapes."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from visformer.core.checkpoint import Checkpoint
from visformer.core.generation import Generation
from visformer.formats.fresh import build

SHAPES: dict[str, dict[str, int]] = {
    "small": {
        "d_model": 256,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "heads": 8,
        "feed_forward": 1024,
        "source_vocabulary": 8000,
        "target_vocabulary": 8000,
    },
    "opus": {  # of the OPUS-MT models
        "d_model": 512,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "heads": 8,
        "feed_forward": 2048,
        "source_vocabulary": 58_101,
        "target_vocabulary": 58_101,
    },
}
NEVER = -1e4  # logit of the tokens that would end a sentence


def random_checkpoint(**sizes: Any) -> Checkpoint:
    """Return a Marian model with random weights that never ends a sentence."""
    checkpoint = build("marian", device="cpu", **sizes)
    tokenizer, model = checkpoint.tokenizer, checkpoint.model
    model.output.bias[[tokenizer.eos, tokenizer.pad]] = NEVER
    # CTranslate2 assumes that Marian's decoder starts from a zero embedding
    model.target_embedding.weight[tokenizer.pad] = 0
    return dataclasses.replace(checkpoint, generation=Generation())


def random_source(checkpoint: Checkpoint, length: int) -> list[int]:
    """Return source ids without special tokens."""
    drawn = torch.Generator().manual_seed(0)
    size = checkpoint.config.source_vocabulary
    ids: list[int] = torch.randint(2, size - 1, (length,), generator=drawn).tolist()
    return ids
