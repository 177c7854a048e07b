"""Seeded tiny checkpoints, built in memory."""

from __future__ import annotations

import string
from typing import Any

import pytest
import torch

from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Transformer
from visformer.tokenizers.tokenizer import Tokenizer, VocabularySide
from visformer.values.config import ModelConfig

PAD, UNK, BOS, EOS = range(4)
VOCABULARY = {
    token: id
    for id, token in enumerate(
        ("<pad>", "<unk>", "<s>", "</s>", *string.ascii_lowercase)
    )
}


def letters() -> Tokenizer:
    """Return a tokenizer of the letters a to z: ids 4 to 29."""
    side = VocabularySide(VOCABULARY, UNK)
    return Tokenizer(side, side, pad=PAD, bos=BOS, eos=EOS)


def tiny_config(**sizes: Any) -> ModelConfig:
    """Return a config of 2 + 2 layers, 2 heads and width 16; ``sizes`` win."""
    defaults = {
        "source_vocabulary": len(VOCABULARY),
        "target_vocabulary": len(VOCABULARY),
        "d_model": 16,
        "heads": 2,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "feed_forward": 32,
        "max_positions": 64,
    }
    return ModelConfig(**{**defaults, **sizes})


def tiny_model(seed: int = 0, **sizes: Any) -> Transformer:
    """Return a random model in eval mode; biases and norms are random too."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(tiny_config(**sizes))
        model.initialise()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "norm" in name or name.endswith("bias"):
                    parameter.add_(torch.randn_like(parameter) * 0.2)
                elif "layers" in name:
                    parameter.mul_(2)  # attention far from uniform
    return model.eval()


def tiny_checkpoint(seed: int = 0, **sizes: Any) -> Checkpoint:
    """Return a checkpoint of letters with random weights, untied from its embedding.

    Tied weights make a random model repeat the token it read, for ever.
    """
    model = tiny_model(seed, **{"tied_output": False, **sizes})
    return Checkpoint(
        name="tiny",
        layout="native",
        config=model.config,
        model=model,
        tokenizer=letters(),
        digest="",
    )


def count_encodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the tokens of each source that is encoded from now on."""
    encode, encoded = Transformer.encode, list[int]()

    def counted(self: Transformer, ids: torch.Tensor, mask: Any) -> Any:
        encoded.append(ids.shape[1])
        return encode(self, ids, mask)

    monkeypatch.setattr(Transformer, "encode", counted)
    return encoded
