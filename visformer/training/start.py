"""Where a training starts: from random weights, or from those of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from visformer.core.model import Transformer
from visformer.errors import InputError
from visformer.files import inside, read_regular
from visformer.formats.layouts.native import read_native
from visformer.formats.native_config import read_config
from visformer.language import _
from visformer.tokenizers.tokenizer import MAX_TOKENIZER
from visformer.training.growth import grow_model
from visformer.training.tasks import SPECIAL
from visformer.values.config import ModelConfig


class Start(NamedTuple):
    """A checkpoint whose training continues, perhaps on other pairs."""

    model: Transformer
    sentencepiece: bytes  # its joint tokenizer


def read_start(folder: Path) -> Start:
    """Open a checkpoint that ``visformer train`` wrote from pairs.

    Raises InputError for one with other tokenizers or special tokens, and
    CheckpointError for one that cannot be opened.
    """
    config = read_config(folder)
    tokenizer, special = config["tokenizer"], config["special"]
    joint = tokenizer["source"] == tokenizer["target"]
    if tokenizer["kind"] != "sentencepiece" or not joint or special != dict(SPECIAL):
        raise InputError(
            _(
                "{folder} lacks a joint sentencepiece tokenizer with the usual special "
                "tokens. Start from a checkpoint that visformer train wrote.",
                folder=folder,
            )
        )
    path = inside(folder, tokenizer["source"], key="tokenizer.source")
    model = read_native(folder, torch.device("cpu")).model
    return Start(model, read_regular(path, MAX_TOKENIZER))


def make_model(config: ModelConfig, start: Start | None, dropout: float) -> Transformer:
    """Return a model to train: a fresh one, or one with the start's weights.

    With a start, only the size of the vocabulary, which may have grown, is taken from
    ``config``.
    """
    begun = grow_model(start.model, config.target_vocabulary) if start else None
    model = Transformer(begun.config if begun else config, dropout=dropout)
    if begun:
        model.load_state_dict(begun.state_dict())
    else:
        model.initialise()
    return model
