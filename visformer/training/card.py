"""The checkpoint folder of a trained model, and its model card."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from visformer.core.model import Transformer
from visformer.errors import InputError
from visformer.files import write_whole
from visformer.formats.layouts.native import (
    CARD,
    TokenizerFiles,
    read_native,
    write_native,
)
from visformer.training.data import Pair
from visformer.training.evaluate import Scores, evaluate
from visformer.training.tasks import SPECIAL
from visformer.values.config import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a model card tells, apart from the sizes and the measured quality."""

    name: str
    languages: tuple[str, str] = ("", "")
    data: str  # where the pairs come from
    licence: str = ""  # of the data and the weights
    pairs: str  # how many are trained on and held out
    training: Mapping[str, str] = field(default_factory=dict)  # what -> how


def publish(
    folder: Path,
    model: Transformer,
    card: Card,
    *,
    tokenizer: TokenizerFiles,
    test: Sequence[Pair],
    beam: int,
) -> Scores:
    """Write a checkpoint folder, measure what was stored, and write the model card.

    The card is written last: a folder that has one is complete.
    """
    write_native(
        folder,
        model,
        name=card.name,
        special=SPECIAL,
        tokenizer=tokenizer,
        languages=card.languages,
    )
    device = model.output.weight.device
    scores = evaluate(read_native(folder, device), test, beam=beam)
    if tokenizer.kind == "vocabulary":  # one “word” a text: BLEU and chrF say nothing
        scores = replace(scores, bleu=None, chrf=None)
    parameters = sum(p.numel() for p in model.parameters())
    text = card_text(card, model.config, parameters, scores, beam)
    try:
        write_whole(folder / CARD, text.encode())
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}.") from error
    return scores


def card_text(
    card: Card, config: ModelConfig, parameters: int, scores: Scores, beam: int
) -> str:
    """Return the model card, in Markdown."""
    rows = {
        "languages": " to ".join(filter(None, card.languages)),
        "data": card.data,
        "licence": card.licence,
        "pairs": card.pairs,
        "size": f"{parameters:,} parameters: {sizes(config)}",
        **card.training,
        **_measured(scores, beam),
    }
    lines = [f"| {what} | {how} |" for what, how in rows.items() if how]
    return "\n".join(
        [
            f"# {card.name}",
            "",
            "An encoder-decoder Transformer, written by `visformer train`. The quality "
            "was measured on the stored half-precision file, on pairs of which neither "
            "side was trained on.",
            "",
            "| | |",
            "|---|---|",
            *lines,
            "",
        ]
    )


def sizes(config: ModelConfig) -> str:
    """Describe a model's sizes in one line."""
    return (
        f"{config.encoder_layers} + {config.decoder_layers} layers, "
        f"{config.heads} heads, width {config.d_model}, "
        f"feed-forward {config.feed_forward}, "
        f"{config.target_vocabulary:,} tokens, {config.max_positions} positions"
    )


def summary(scores: Scores) -> str:
    """Describe the scores in one line."""
    parts = [f"{scores.exact:.2%} exact"]
    if scores.bleu is not None:
        parts = [f"BLEU {scores.bleu:.2f}", f"chrF {scores.chrf:.2f}", *parts]
    return f"{', '.join(parts)} on {scores.sentences:,} sentences"


def _measured(scores: Scores, beam: int) -> dict[str, str]:
    search = "greedy" if beam == 1 else f"beam {beam}"
    rows = {"quality": f"{summary(scores)}, {search}"}
    if scores.bleu is not None:
        rows["BLEU signature"] = f"`{scores.bleu_signature}`".replace("|", "\\|")
        rows["chrF signature"] = f"`{scores.chrf_signature}`".replace("|", "\\|")
    return rows


def hardware(device: torch.device, processes: int) -> str:
    """Name what a model is trained on."""
    if device.type == "cuda":
        what = torch.cuda.get_device_name(device)
    else:
        what = f"{_processor()}, {torch.get_num_threads()} of {os.cpu_count()} cores"
    return f"{processes} x {what}" if processes > 1 else what


def _processor() -> str:
    try:
        facts = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        facts = ""
    match = re.search(r"model name\s*: (.+)", facts)
    return match[1] if match else platform.processor() or platform.machine()


def duration(seconds: float) -> str:
    """Write a time for a reader: "2 h 05 min"."""
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"
