"""The checkpoint folder of a trained model, and its model card."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Transformer
from visformer.core.translation import translate
from visformer.errors import InputError
from visformer.files import Pair
from visformer.formats.layouts import TUTORIALS
from visformer.formats.layouts.native import (
    CARD,
    TokenizerFiles,
    write_files,
    write_native,
)
from visformer.formats.loading import load
from visformer.formats.tutorials import write_tutorial
from visformer.language import _, ngettext
from visformer.training.loop import references
from visformer.training.prepare import SPECIAL
from visformer.values.config import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The content of a model card, apart from the sizes and the measured quality."""

    name: str
    languages: tuple[str, str] = ("", "")
    data: str  # where the pairs come from
    licence: str = ""  # of the data and the weights
    pairs: str  # numbers of training, validation and test pairs
    training: Mapping[str, str] = field(default_factory=dict)  # what -> how


def publish(
    folder: Path,
    model: Transformer,
    card: Card,
    *,
    tokenizer: TokenizerFiles,
    test: Sequence[Pair],
    beam: int,
    layout: str = "",
) -> Scores:
    """Write a checkpoint folder, measure the stored model, and write the model card.

    ``layout`` is that of a tutorial, "" for Visformer's own. The card is written last:
    a folder that has one is complete.
    """
    write_checkpoint(folder, model, card, tokenizer, layout)
    device = model.output.weight.device
    scores = evaluate(load(folder, device=device), test, beam=beam)
    if tokenizer.kind == "vocabulary":  # one word per text: BLEU and chrF are useless
        scores = replace(scores, bleu=None, chrf=None)
    parameters = sum(p.numel() for p in model.parameters())
    text = card_text(card, model.config, parameters, scores, beam)
    write_files(folder, {CARD: text.encode()})
    return scores


def write_checkpoint(
    folder: Path,
    model: Transformer,
    card: Card,
    tokenizer: TokenizerFiles,
    layout: str = "",
) -> None:
    """Write a checkpoint folder, without its card."""
    if layout:
        write_tutorial(folder, TUTORIALS[layout], model, tokenizer)
        return
    write_native(
        folder,
        model,
        name=card.name,
        special=SPECIAL,
        tokenizer=tokenizer,
        languages=card.languages,
    )


def card_text(
    card: Card, config: ModelConfig, parameters: int, scores: Scores, beam: int
) -> str:
    """Return the model card, in Markdown."""
    source, target = card.languages
    rows = {
        _("languages"): _("{source} to {target}", source=source, target=target)
        if source and target
        else source or target,
        _("data"): card.data,
        _("licence"): card.licence,
        _("pairs"): card.pairs,
        _("size"): _("{n:,} parameters: {sizes}", n=parameters, sizes=sizes(config)),
        **card.training,
        **_measured(scores, beam),
    }
    lines = [f"| {what} | {how} |" for what, how in rows.items() if how]
    return "\n".join(
        [
            f"# {card.name}",
            "",
            _(
                "An encoder-decoder Transformer, trained with `visformer train`. The "
                "quality was measured on the stored half-precision file, with pairs of "
                "which neither side was in the training data."
            ),
            "",
            "| | |",
            "|---|---|",
            *lines,
            "",
        ]
    )


def sizes(config: ModelConfig) -> str:
    """Describe a model's sizes in one line."""
    return _(
        "{encoder} + {decoder} layers, {heads} heads, width {width:,}, feed-forward "
        "{feed_forward:,}, {tokens:,} tokens, {positions:,} positions",
        encoder=config.encoder_layers,
        decoder=config.decoder_layers,
        heads=config.heads,
        width=config.d_model,
        feed_forward=config.feed_forward,
        tokens=config.target_vocabulary,
        positions=config.max_positions,
    )


def summary(scores: Scores) -> str:
    """Describe the scores in one line."""
    if scores.bleu is None:
        return ngettext(
            "{exact:.2%} exact on {n:,} sentence",
            "{exact:.2%} exact on {n:,} sentences",
            scores.sentences,
            exact=scores.exact,
        )
    return ngettext(
        "BLEU {bleu:.2f}, chrF {chrf:.2f}, {exact:.2%} exact on {n:,} sentence",
        "BLEU {bleu:.2f}, chrF {chrf:.2f}, {exact:.2%} exact on {n:,} sentences",
        scores.sentences,
        bleu=scores.bleu,
        chrf=scores.chrf,
        exact=scores.exact,
    )


def _measured(scores: Scores, beam: int) -> dict[str, str]:
    quality = (
        _("{scores}, greedy", scores=summary(scores))
        if beam == 1
        else _("{scores}, {n} beams", scores=summary(scores), n=beam)
    )
    rows = {_("quality"): quality}
    if scores.bleu is not None:
        bleu, chrf = _("BLEU signature"), _("chrF signature")
        rows[bleu] = f"`{scores.bleu_signature}`".replace("|", "\\|")
        rows[chrf] = f"`{scores.chrf_signature}`".replace("|", "\\|")
    return rows


def hardware(device: torch.device) -> str:
    """Describe the hardware that a model is trained on."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return _(
        "{processor}, {threads} of {cores} cores",
        processor=_processor(),
        threads=torch.get_num_threads(),
        cores=os.cpu_count(),
    )


def _processor() -> str:
    try:
        facts = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        facts = ""
    match = re.search(r"model name\s*: (.+)", facts)
    return match[1] if match else platform.processor() or platform.machine()


def duration(seconds: float) -> str:
    """Format a duration: "2 h 05 min"."""
    minutes = round(seconds / 60)
    if minutes >= 60:
        return _("{h} h {min:02} min", h=minutes // 60, min=minutes % 60)
    return _("{n} min", n=minutes) if minutes else _("{n:.0f} s", n=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Measured quality; BLEU and chrF are None if sacrebleu is not installed."""

    sentences: int  # different sources
    exact: float  # share whose translation equals one of the references, in [0, 1]
    bleu: float | None  # 0 to 100
    chrf: float | None  # 0 to 100
    bleu_signature: str = ""  # sacrebleu's, which records every setting
    chrf_signature: str = ""


def evaluate(checkpoint: Checkpoint, pairs: Sequence[Pair], *, beam: int = 4) -> Scores:
    """Translate every distinct source and compare with all of its targets."""
    if not pairs:
        raise InputError("There are no pairs to evaluate on.")
    gathered = references(pairs)
    translations = translate(checkpoint, list(gathered), beam=beam)
    return score(translations, list(gathered.values()))


def score(translations: Sequence[str], expected: Sequence[Sequence[str]]) -> Scores:
    """Compare each translation with its references (at least one each)."""
    hits = sum(
        text in known for text, known in zip(translations, expected, strict=True)
    )
    exact = hits / len(translations)
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        return Scores(sentences=len(translations), exact=exact, bleu=None, chrf=None)
    bleu, chrf, streams = BLEU(), CHRF(), _streams(expected)
    return Scores(
        sentences=len(translations),
        exact=exact,
        bleu=float(bleu.corpus_score(list(translations), streams).score),
        chrf=float(chrf.corpus_score(list(translations), streams).score),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def _streams(expected: Sequence[Sequence[str]]) -> list[list[Any]]:
    """Transpose references for sacrebleu; None where a source has fewer than others."""
    most = max(map(len, expected))
    return [
        [known[i] if i < len(known) else None for known in expected]
        for i in range(most)
    ]
