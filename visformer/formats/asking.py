"""What is asked about a file before it is opened: that which it does not say.

The defaults offered are those that ``load`` takes for granted, from the same tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from visformer.core.assembly import check_fit
from visformer.errors import CheckpointError
from visformer.files import short
from visformer.formats.given_options import possible_heads
from visformer.formats.sizes import sizes_of
from visformer.formats.tutorials import TutorialFiles, config_of
from visformer.tokenizers.sides import open_side, special_ids
from visformer.values.config import LIMITS, Activation, ModelConfig
from visformer.values.questions import (
    NAMES,
    OTHER,
    TARGET_PAD,
    TARGET_TOKENIZER,
    AnswerKind,
    Overrides,
    Question,
    Questionnaire,
    Value,
)

_USUAL = (
    "The file does not tell the following. What stands there is {whose}: Enter opens "
    "the file with it."
)
_AGAIN = "What stands there is what the file was opened with."
_HEADS = (
    "How many heads each attention is cut into: num_heads, n_head, nhead or h where "
    "the model is made. No tensor tells it; it divides the width, {width:,}."
)
_IDS = {
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
    path: str, overrides: Overrides
) -> tuple[str | tuple[str, str], dict[str, Any]]:
    """Return what ``load`` is given for a path and its overrides."""
    words: dict[str, Any] = dict(overrides)
    other = words.pop(OTHER, None)
    target = words.pop(TARGET_TOKENIZER, None)
    if target is not None:
        words["tokenizer"] = (words.get("tokenizer", target), target)
    names = {key: words.pop(key) for key in dict(overrides) if key.startswith(NAMES)}
    if names:
        words["names"] = {k.removeprefix(NAMES): v for k, v in names.items() if v}
    if TARGET_PAD in words:
        words["tgt_pad_idx"] = words.pop(TARGET_PAD)
    return (path, str(other)) if other else path, words


def questionnaire_for(
    files: TutorialFiles, *, every: bool = False
) -> Questionnaire | None:
    """Return the questions that files leave open; None where they leave none.

    ``every`` asks the answered ones again. Raises CheckpointError where no answer could
    help: tensors are missing, surplus or mis-shaped.
    """
    asking = _Asking(files, every)
    asking.check()
    asked = (*asking.needed(), *asking.ids(), *asking.fields())
    if not asked and not every:
        return None
    optional = (*asking.around(), *asking.tokenizers())
    whose = f"{files.spec.defaults}, or the usual where it has none"
    return Questionnaire(
        layout=files.spec.title,
        sizes=asking.sizes(),
        introduction=_AGAIN if every else _USUAL.format(whose=whose),
        questions=(*asked, *optional),
    )


class _Asking:
    """One file's questions, group by group."""

    def __init__(self, files: TutorialFiles, every: bool) -> None:
        self.files, self.every = files, every
        self.options, self.spec = files.options, files.spec
        sizes = sizes_of(files.tensors)
        self.heads = possible_heads(
            self.options.fields.get("d_model", sizes["d_model"])
        )
        self.config = self._config()

    def _config(self) -> ModelConfig:
        """Return the config as far as it is known; the heads may be anybody's."""
        fields: Mapping[str, Any] = {"heads": 1, **self.options.fields}
        options = dataclasses.replace(self.options, fields=fields)
        return config_of(dataclasses.replace(self.files, options=options))

    def check(self) -> None:
        """Raise CheckpointError where the tensors make no such model."""
        if not self.files.half:
            check_fit(
                self.config,
                self.files.parameters,
                name=self.files.name,
                spelling=self.files.spelling,
            )

    def sizes(self) -> str:
        """Say what sizes the tensors have."""
        config, half = self.config, self.files.half
        layers = f"{config.encoder_layers} + {config.decoder_layers} layers"
        tokens = (
            f"{config.source_vocabulary:,} source and {config.target_vocabulary:,} "
            "target tokens"
        )
        if half:
            layers = f"{half} of {getattr(config, f'{half}_layers')} layers"
            tokens = f"{getattr(config, _VOCABULARY[half]):,} tokens"
        numbers = sum(t.numel() for t in self.files.parameters.values())
        return (
            f"{layers}, width {config.d_model:,}, feed-forward "
            f"{config.feed_forward:,}, {tokens}, {numbers:,} parameters"
        )

    def needed(self) -> Iterator[Question]:
        """Ask for what nothing stands in for: the other file, the heads."""
        if self.files.half:
            yield Question(
                name=OTHER,
                label=f"File of the {self.files.lacking_half}",
                kind="file",
                why=(
                    f"This file holds the {self.files.half} alone: each was saved by "
                    "itself."
                ),
                mandatory=True,
            )
        given = self.options.fields.get("heads")
        if given is None or self.every:
            usual = self.spec.preset.fields["heads"] if given is None else given
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
        words = {"pad": ("Pad id", self.spec.pad_words), **_IDS}
        for name, usual in self.spec.usual_ids(named).items():
            given = getattr(self.options, name)
            if self.every or (given is None and name not in named):
                yield self._id(name, *words[name], usual if given is None else given)
            if name == "pad" and self.spec.two_pads:
                yield from self._target_pad(named)

    def _target_pad(self, named: Mapping[str, int]) -> Iterator[Question]:
        given = self.options.target_pad
        known = self.options.pad is not None or given is not None or "pad" in named
        if self.every or not known:
            why = "Where source and target were padded with ids of their own."
            question = self._id(TARGET_PAD, "Pad id of the target", why, given)
            yield dataclasses.replace(question, nothing="as the source's")

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
        if self.options.tokenizer is None:
            return {}
        try:
            side = open_side(self.options.tokenizer[1], self.config.target_vocabulary)
        except CheckpointError:  # said on opening, if it is still the answer
            return {}
        return special_ids(side)

    def fields(self) -> Iterator[Question]:
        """Ask for the choices of the model that its tensors do not show."""
        files = self.files
        if self.every:
            options = dataclasses.replace(self.options, fields={})
            files = dataclasses.replace(files, options=options)
        for name in files.left_open:
            label, why = _FIELDS[name]
            value = getattr(self.config, name)
            kinds: dict[type, AnswerKind] = {int: "integer", float: "number"}
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
        """Ask which tensor is which, where a layout knows some by shape alone."""
        tensors, spelling = self.files.tensors, self.files.spelling
        tables = [
            spelling(key)
            for key, tensor in tensors.items()
            if key.removesuffix(".weight") in self.spec.around or key.startswith("?")
            if tensor.dim() == 2 and tensor.shape[1] == self.config.d_model
        ]
        if len(tables) < 2:
            return
        for part, (label, why) in self.spec.around.items():
            known = f"{part}.weight" in tensors
            name = spelling(f"{part}.weight") if known else ""
            shared = () if known else (("", "the target embedding"),)
            yield Question(
                name=f"{NAMES}{part}",
                label=label,
                kind="choice",
                why=why,
                default=name,
                choices=(*shared, *((name, short(name)) for name in tables)),
            )

    def tokenizers(self) -> Iterator[Question]:
        """Ask for tokenizers, which may stay away."""
        source, target = self.options.tokenizer or (None, None)
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
