"""Checkpoint folders and tokenizer models, made by the tests themselves."""

from __future__ import annotations

import functools
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sentencepiece

from tests.tiny_models import BOS, EOS, PAD, UNK, VOCABULARY, tiny_model
from visformer.core.model import Transformer
from visformer.formats.layouts.native import TokenizerFiles, write_native

PIECES = 48
SPECIAL = {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS}
_WORDS = (
    "the cat dog saw red house tree big small bird fish water street animal river "
    "mountain window morning flower kitchen garden summer winter yellow purple"
)


@functools.cache
def pieces(language: str = "en") -> bytes:
    """Return a sentencepiece model of 48 pieces, trained here."""
    made = random.Random(language)
    words = _WORDS.split()
    sentences = [" ".join(made.choices(words, k=6)) for _ in range(200)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        vocab_size=PIECES,
        minloglevel=2,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
    )
    return model.getvalue()


def letters_file() -> TokenizerFiles:
    """Return the files of a tokenizer of the letters a to z."""
    contents = {"vocab.json": json.dumps(VOCABULARY).encode()}
    return TokenizerFiles("vocabulary", "vocab.json", "vocab.json", contents)


def write_letters(folder: Path, model: Transformer | None = None) -> Path:
    """Write a native checkpoint of the letters a to z."""
    write_native(
        folder,
        model or tiny_model(),
        name="letters a>z",
        special=SPECIAL,
        tokenizer=letters_file(),
        languages=("a", "z"),
        card="# Letters\n",
    )
    return folder


def edit_config(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a folder's ``config.json``."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))
