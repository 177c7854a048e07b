"""What is asked about a file before it is opened: that which it does not tell.

The defaults offered are those that ``load`` takes for granted, from the same tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from visformer.core.assembly import check_fit
from visformer.core.presets import PRESETS
from visformer.errors import CheckpointError
from visformer.files import short
from visformer.formats.layouts import HABITS, usual_ids
from visformer.formats.options import Given, possible_heads
from visformer.formats.sizes import sizes_of
from visformer.formats.tutorials import Reading, config_of, lacking_half, untold_fields
from visformer.tokenizers.sides import open_side, special_ids
from visformer.values.config import LIMITS, Activation, ModelConfig
from visformer.values.questions import (
    NAMES,
    OTHER,
    TARGET_PAD,
    TARGET_TOKENIZER,
    Form,
    Kind,
    Question,
    Told,
    Value,
)

_LAYOUTS = {
    "handout": "handout (tutorial 000): its model ends in a softmax",
    "d2l": "d2l (tutorial 001): valid lengths for masks, encoder and decoder apart",
    "labml": "labml (tutorial 002): norms before the sublayers, sequence first",
    "modular": "modular (tutorial 003): a class for each part, a LayerNorm of its own",
    "scratch": "scratch (tutorial 004): layers right on the model",
    "torch": "torch.nn.Transformer inside a model of its own",
}
_USUAL = (
    "The file does not tell the following. What stands there is {whose}: Enter opens "
    "the file with it."
)
_AGAIN = "What stands there is what the file was opened with."
_HEADS = (
    "How many heads each attention is cut into: num_heads, n_head, nhead or h where "
    "the model is made. No tensor tells it; it divides the width, {width:,}."
)
_PAD = {  # what the pad id does, by layout
    "d2l": "It fills up the shorter sentences of a batch; d2l masks by length.",
    "labml": "It fills up the shorter sentences of a batch; no mask of labml hides it.",
}
_IDS = {
    "pad": (
        "Pad id",
        "It fills up the shorter sentences of a batch, and masks are made from it.",
    ),
    "bos": ("Start id", "What the target begins with, before anything is predicted."),
    "eos": ("End id", "What ends a sentence: decoding stops when it is predicted."),
}
_FIELDS = {  # field of ModelConfig -> label and explanation
    "max_positions": (
        "Positions",
        "Tokens of the longest sentence: max_len or max_seq_len. Longer ones are cut; "
        "the numbers of shorter ones are the same whatever it is.",
    ),
    "norm_first": (
        "Norm before each sublayer",
        "norm_first=True of nn.Transformer. PyTorch's default, and the paper's, is "
        "after the residual.",
    ),
    "norm_eps": (
        "Epsilon of the norms",
        "layer_norm_eps of nn.Transformer, added to the variance.",
    ),
    "activation": (
        "Activation",
        "What the feed-forward layers apply between their two matrices.",
    ),
    "embedding_scale": (
        "Embeddings times sqrt(width)",
        "Whether the program around the Transformer multiplies its embeddings, as the "
        "paper and PyTorch's translation tutorial do.",
    ),
    "positions": (
        "Position encoding",
        "What the program adds to its embeddings; the file stores no table of it.",
    ),
}
_AROUND = {  # part around a torch.nn.Transformer -> label and explanation
    "source_embedding": (
        "Source embedding",
        "The table of the source's tokens, as found by shape and name.",
    ),
    "target_embedding": (
        "Target embedding",
        "The table of the target's tokens, as found by shape and name.",
    ),
    "output": (
        "Output matrix",
        "What makes the logits out of the decoder's output, as found by shape and "
        "name.",
    ),
}
_CHOICES: dict[str, tuple[tuple[Value, str], ...]] = {
    "activation": tuple((name, name) for name in get_args(Activation)),
    "positions": (
        ("sinusoidal", "sine and cosine in turn"),
        ("halves", "all sines, then all cosines"),
        ("none", "none"),
    ),
}
_SWITCH: tuple[tuple[Value, str], ...] = ((False, "no"), (True, "yes"))
_TOKENIZER = (
    "A sentencepiece model, or a vocab.json that gives each token its id. Where it "
    "names its pad, start and end tokens, they count instead of numbers left as they "
    "are here."
)


def location_and_keywords(
    path: str, told: Told
) -> tuple[str | tuple[str, str], dict[str, Any]]:
    """Return what ``load`` is given for a path and what was told of it."""
    words: dict[str, Any] = dict(told)
    other = words.pop(OTHER, None)
    target = words.pop(TARGET_TOKENIZER, None)
    if target is not None:
        words["tokenizer"] = (words.get("tokenizer", target), target)
    names = {key: words.pop(key) for key in dict(told) if key.startswith(NAMES)}
    if names:
        words["names"] = {k.removeprefix(NAMES): v for k, v in names.items() if v}
    if TARGET_PAD in words:
        words["tgt_pad_idx"] = words.pop(TARGET_PAD)
    return (path, str(other)) if other else path, words


def form_for(layout: str, reading: Reading, *, every: bool = False) -> Form | None:
    """Return the questions that files leave open; None where they leave none.

    ``every`` asks the answered ones again. Raises CheckpointError where no answer could
    help: tensors are missing, surplus or mis-shaped.
    """
    made = _Asking(layout, reading, every)
    made.check()
    asked = (*made.needed(), *made.ids(), *made.fields())
    if not asked and not every:
        return None
    optional = (*made.around(), *made.tokenizers())
    whose = "PyTorch's own" if layout == "torch" else "the tutorial's own"
    whose += ", or the usual where it has none"
    return Form(
        layout=_LAYOUTS[layout],
        sizes=made.sizes(),
        introduction=_AGAIN if every else _USUAL.format(whose=whose),
        questions=(*asked, *optional),
    )


class _Asking:
    """One file's questions, group by group."""

    def __init__(self, layout: str, reading: Reading, every: bool) -> None:
        self.layout, self.every = layout, every
        self.told: Given = reading.told
        self.reading = reading
        self.lacking = lacking_half(layout, reading.parts.tensors)
        self.found = sizes_of(reading.parts.tensors)
        width = self.told.fields.get("d_model", self.found["d_model"])
        self.heads = possible_heads(width)
        self.config = self._config()

    def _config(self) -> ModelConfig:
        """Return the config as far as it is known; the heads may be anybody's."""
        fields: Mapping[str, Any] = {"heads": 1, **self.told.fields}
        told = dataclasses.replace(self.told, fields=fields)
        reading = self.reading
        return config_of(self.layout, reading.name, reading.parts.tensors, told)

    def check(self) -> None:
        """Raise CheckpointError where the tensors make no such model."""
        if self.lacking:
            return
        parts = self.reading.parts
        tensors = {key: t for key, t in parts.tensors.items() if key != "positions"}
        check_fit(self.config, tensors, name=self.reading.name, spelling=parts.spelling)

    def sizes(self) -> str:
        """Say what the tensors tell."""
        config, tensors = self.config, self.reading.parts.tensors
        layers = f"{config.encoder_layers} + {config.decoder_layers} layers"
        tokens = (
            f"{config.source_vocabulary:,} source and {config.target_vocabulary:,} "
            "target tokens"
        )
        if self.lacking:
            there = "decoder" if self.lacking == "encoder" else "encoder"
            layers = f"{there} of {getattr(config, f'{there}_layers')} layers"
            tokens = f"{getattr(config, _VOCABULARY[there]):,} tokens"
        numbers = sum(t.numel() for key, t in tensors.items() if key != "positions")
        return (
            f"{layers}, width {config.d_model:,}, feed-forward "
            f"{config.feed_forward:,}, {tokens}, {numbers:,} parameters"
        )

    def needed(self) -> Iterator[Question]:
        """Ask for what nothing stands in for: the other file, the heads."""
        if self.lacking:
            there = "decoder" if self.lacking == "encoder" else "encoder"
            yield Question(
                name=OTHER,
                label=f"File of the {self.lacking}",
                kind="file",
                why=f"This file holds the {there} alone: each was saved by itself.",
                mandatory=True,
            )
        told = self.told.fields.get("heads")
        if told is None or self.every:
            usual = PRESETS[self.layout]["heads"] if told is None else told
            yield Question(
                name="heads",
                label="Heads",
                kind="choice",
                why=_HEADS.format(width=self.config.d_model),
                default=usual if usual in self.heads else None,
                choices=tuple((n, str(n)) for n in self.heads),
                mandatory=True,
            )

    def ids(self) -> Iterator[Question]:
        """Ask for the special ids that no tokenizer names."""
        named = self._named()
        for name, usual in usual_ids(self.layout, named).items():
            told = getattr(self.told, name)
            if self.every or (told is None and name not in named):
                label, why = _IDS[name]
                why = _PAD.get(self.layout, why) if name == "pad" else why
                yield self._id(name, label, why, usual if told is None else told)
            if name == "pad" and HABITS[self.layout].two_pads:
                yield from self._target_pad(named)

    def _target_pad(self, named: Mapping[str, int]) -> Iterator[Question]:
        told = self.told.target_pad
        known = self.told.pad is not None or told is not None or "pad" in named
        if self.every or not known:
            why = "Where source and target were padded with ids of their own."
            made = self._id(TARGET_PAD, "Pad id of the target", why, told)
            yield dataclasses.replace(made, nothing="as the source's")

    def _id(self, name: str, label: str, why: str, default: int | None) -> Question:
        config = self.config
        rows = config.source_vocabulary if name == "pad" else config.target_vocabulary
        return Question(
            name=name,
            label=label,
            kind="integer",
            why=why,
            default=default,
            most=max(rows - 1, default or 0),
        )

    def _named(self) -> dict[str, int]:
        """Return the special ids that the tokenizer names, as far as it can be read."""
        if self.told.tokenizer is None:
            return {}
        try:
            side = open_side(self.told.tokenizer[1], self.config.target_vocabulary)
        except CheckpointError:  # said on opening, if it is still the answer
            return {}
        return special_ids(side)

    def fields(self) -> Iterator[Question]:
        """Ask for the choices of the model that its tensors do not show."""
        told = self.told
        if self.every:
            told = dataclasses.replace(told, fields={})
        for name in untold_fields(self.layout, self.reading.parts.tensors, told):
            label, why = _FIELDS[name]
            value = getattr(self.config, name)
            kinds: dict[type, Kind] = {int: "integer", float: "number"}
            yield Question(
                name=name,
                label=label,
                kind=kinds.get(type(value), "choice"),
                why=why,
                default=value,
                choices=_CHOICES.get(name, _SWITCH if type(value) is bool else ()),
                most=LIMITS.get(name, 0),
            )

    def around(self) -> Iterator[Question]:
        """Ask which tensor is which around a torch.nn.Transformer, if several fit."""
        parts = self.reading.parts
        found = [
            parts.spelling(key)
            for key, tensor in parts.tensors.items()
            if key.removesuffix(".weight") in _AROUND or key.startswith("?")
            if tensor.dim() == 2 and tensor.shape[1] == self.config.d_model
        ]
        if self.layout != "torch" or len(found) < 2:
            return
        for part, (label, why) in _AROUND.items():
            known = f"{part}.weight" in parts.tensors
            name = parts.spelling(f"{part}.weight") if known else ""
            shared = () if known else (("", "the target embedding"),)
            yield Question(
                name=f"{NAMES}{part}",
                label=label,
                kind="choice",
                why=why,
                default=name,
                choices=(*shared, *((name, short(name)) for name in found)),
            )

    def tokenizers(self) -> Iterator[Question]:
        """Ask for tokenizers, which may stay away."""
        source, target = self.told.tokenizer or (None, None)
        yield Question(
            name="tokenizer",
            label="Tokenizer",
            kind="file",
            why=_TOKENIZER,
            default=_text(source),
            nothing="none: token ids are typed as numbers",
        )
        yield Question(
            name=TARGET_TOKENIZER,
            label="Tokenizer of the target",
            kind="file",
            why="Where source and target have files of their own.",
            default=_text(target if target != source else None),
            nothing="the same",
        )


_VOCABULARY = {"encoder": "source_vocabulary", "decoder": "target_vocabulary"}


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
