"""Questions about a file before it is opened: everything that the file does not say.

The defaults are those that ``load`` assumes, from the same tables.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from visformer.errors import CheckpointError
from visformer.files import short
from visformer.formats.found_vocabularies import FoundSides, sides_of
from visformer.formats.given_options import possible_heads
from visformer.formats.names import LAYER
from visformer.formats.proposing import Remedy, plain, remedy_where_needed
from visformer.formats.tutorial_files import TutorialFiles, known_config, sizes_of
from visformer.language import N_, _, ngettext, p_
from visformer.tokenizers.sides import special_ids
from visformer.values.config import LIMITS, Activation, ModelConfig
from visformer.values.questions import (
    BY_PAIRS,
    IGNORE,
    NAMES,
    OTHER,
    PAIRS,
    PLACE,
    RENAME,
    TARGET_PAD,
    TARGET_TOKENIZER,
    WEIGHTS,
    AnswerKind,
    Question,
    Questionnaire,
    Value,
)

_HALF = {  # the half in a file -> the question for the other one
    "encoder": (
        N_("Decoder file"),
        N_("This file holds only the encoder; the decoder was saved separately."),
    ),
    "decoder": (
        N_("Encoder file"),
        N_("This file holds only the decoder; the encoder was saved separately."),
    ),
}
_WORDS = {  # name of a question -> label and explanation
    WEIGHTS: (
        N_("Weights"),
        N_(
            "The file holds several sets of the same weights, such as the best and the "
            "last, or trained and averaged ones."
        ),
    ),
    "bos": (
        N_("Start id"),
        N_("The token that the target starts with, before anything is predicted."),
    ),
    "eos": (
        N_("End id"),
        N_("The token that ends a sentence: decoding stops when it is predicted."),
    ),
    TARGET_PAD: (
        N_("Target pad id"),
        N_("Needed only if source and target were padded with different ids."),
    ),
    "tokenizer": (
        N_("Tokenizer"),
        N_(
            "A sentencepiece model, a tokenizer.json, or a vocabulary as JSON, text or "
            "pickle. If it names pad, start and end tokens, they replace the ids left "
            "unchanged here."
        ),
    ),
    TARGET_TOKENIZER: (
        N_("Target tokenizer"),
        N_("Needed only if source and target have separate tokenizers."),
    ),
    PAIRS: (
        N_("Reference pairs"),
        N_(
            "A few sentences with their translations, separated by a tab. With them, "
            "the number of heads can be found: the true one has the lowest loss."
        ),
    ),
    "max_positions": (
        N_("Positions"),
        N_(
            "The length of the longest sentence in tokens: max_len or max_seq_len. "
            "Longer sentences are cut; shorter ones are not affected."
        ),
    ),
    "norm_first": (
        N_("Norm before each sublayer"),
        N_(
            "norm_first=True in nn.Transformer. The default of PyTorch and of the "
            "paper is a norm after the residual."
        ),
    ),
    "norm_eps": (
        N_("Epsilon of the norms"),
        N_("layer_norm_eps in nn.Transformer, which is added to the variance."),
    ),
    "activation": (
        N_("Activation"),
        N_("The function between the two matrices of each feed-forward layer."),
    ),
    "embedding_scale": (
        N_("Embeddings times sqrt(width)"),
        N_(
            "Whether the program around the Transformer multiplies its embeddings, as "
            "the paper and PyTorch's translation tutorial do."
        ),
    ),
    "positions": (
        N_("Position encoding"),
        N_("What the program adds to its embeddings; the file stores no such table."),
    ),
}
_POSITIONS: tuple[tuple[Value, str], ...] = (
    ("sinusoidal", N_("sine and cosine alternating")),
    ("halves", N_("all sines, then all cosines")),
    ("none", N_("none")),
)
_SWITCH: tuple[tuple[Value, str], ...] = ((False, N_("no")), (True, N_("yes")))


def questionnaire_for(
    files: TutorialFiles, *, every: bool = False
) -> Questionnaire | None:
    """Return the questions about files; None if nothing is open.

    ``every`` repeats the answered ones. Raises CheckpointError if no answer could help,
    because tensors are missing, surplus or misshapen.
    """
    remedy = None if files.half else remedy_where_needed(files)
    asking = _Asking(files if remedy is None else remedy.made, every)
    named = () if remedy is None else tuple(name_questions(remedy))
    asked = (*named, *asking.sets(), *asking.needed(), *asking.ids(), *asking.fields())
    if not asked and not every:
        return None
    optional = (*asking.around(), *asking.tokenizers())
    again = _("These are the values the file was opened with.")
    return Questionnaire(
        layout=_(files.spec.title),
        sizes=asking.sizes(),
        introduction=again if every else _(files.spec.introduction),
        questions=(*asked, *optional),
    )


class _Asking:
    """The questions about one file, in groups."""

    def __init__(self, files: TutorialFiles, every: bool) -> None:
        self.files, self.every = files, every
        self.options, self.spec = files.options, files.spec
        sizes = sizes_of(files.tensors)
        self.heads = possible_heads(
            self.options.fields.get("d_model", sizes["d_model"])
        )
        self.config: ModelConfig = known_config(files)

    def sizes(self) -> str:
        """Describe the sizes of the tensors."""
        config, half = self.config, self.files.half
        sizes = {
            "width": config.d_model,
            "feed_forward": config.feed_forward,
            "parameters": sum(t.numel() for t in self.files.parameters.values()),
        }
        if half:
            side = "source" if half == "encoder" else "target"
            return ngettext(
                "{half} of {n} layer, width {width:,}, feed-forward {feed_forward:,}, "
                "{tokens:,} tokens, {parameters:,} parameters",
                "{half} of {n} layers, width {width:,}, feed-forward {feed_forward:,}, "
                "{tokens:,} tokens, {parameters:,} parameters",
                getattr(config, f"{half}_layers"),
                half=_(half),
                tokens=getattr(config, f"{side}_vocabulary"),
                **sizes,
            )
        return _(
            "{encoder} + {decoder} layers, width {width:,}, feed-forward "
            "{feed_forward:,}, {source:,} source and {target:,} target tokens, "
            "{parameters:,} parameters",
            encoder=config.encoder_layers,
            decoder=config.decoder_layers,
            source=config.source_vocabulary,
            target=config.target_vocabulary,
            **sizes,
        )

    def sets(self) -> Iterator[Question]:
        """Ask which set of weights to read, if a file has several."""
        for part in self.files.weights:
            if part.others and (self.every or not self.options.rules.weights):
                names = (part.chosen, *part.others)
                choices = tuple((name, short(name)) for name in names)
                yield _question(WEIGHTS, "choice", default=names[0], choices=choices)

    def needed(self) -> Iterator[Question]:
        """Ask for settings without a default: the other file, the number of heads."""
        if self.files.half:
            yield _question(OTHER, "file", _HALF[self.files.half], mandatory=True)
        given = self.options.fields.get("heads")
        if given is None or self.every:
            usual = self.spec.preset.fields["heads"] if given is None else given
            yield Question(
                name="heads",
                label=p_("how many there are", "Heads"),
                kind="choice",
                why=_(
                    "The number of heads of each attention: num_heads, n_head, nhead "
                    "or h in the code. The tensors do not reveal it; it must divide "
                    "the width, {width:,}, evenly.",
                    width=self.config.d_model,
                ),
                default=usual if usual in self.heads else None,
                choices=(
                    *((n, str(n)) for n in self.heads),
                    (BY_PAIRS, _("found by the reference pairs below")),
                ),
                mandatory=True,
                guess=given is None or "heads" in self.options.guessed,
            )

    def ids(self) -> Iterator[Question]:
        """Ask for special ids that no tokenizer defines."""
        sides = self._sides()
        named = special_ids(sides.target) if sides and sides.given else {}
        words = {**_WORDS, "pad": (N_("Pad id"), self.spec.pad_words)}
        for name, usual in self.spec.usual_ids(named).items():
            given = getattr(self.options, name)
            if self.every or (given is None and name not in named):
                default = usual if given is None else given
                yield self._id(name, words[name], default)
            if name == "pad" and self.spec.two_pads:
                yield from self._target_pad(named)

    def _target_pad(self, named: Mapping[str, int]) -> Iterator[Question]:
        given = self.options.target_pad
        known = self.options.pad is not None or given is not None or "pad" in named
        if self.every or not known:
            question = self._id(TARGET_PAD, _WORDS[TARGET_PAD], given)
            yield dataclasses.replace(question, nothing=_("same as the source"))

    def _id(self, name: str, words: tuple[str, str], default: int | None) -> Question:
        config = self.config
        rows = config.source_vocabulary if name == "pad" else config.target_vocabulary
        most = max(rows - 1, default or 0)
        return _question(name, "integer", words, default=default, most=most)

    def _sides(self) -> FoundSides | None:
        config = self.config
        rows = (config.source_vocabulary, config.target_vocabulary)
        try:
            return sides_of(self.files, rows)
        except CheckpointError:  # reported on opening, unless another one is chosen
            return None

    def fields(self) -> Iterator[Question]:
        """Ask for model settings that the tensors do not reveal."""
        files = self.files
        if self.every:
            options = dataclasses.replace(self.options, fields={})
            files = dataclasses.replace(files, options=options)
        for name in files.left_open:
            value = getattr(self.config, name)
            kinds: dict[type, AnswerKind] = {int: "integer", float: "number"}
            yield _question(
                name,
                kinds.get(type(value), "choice"),
                default=value,
                choices=_choices(name, value),
                most=LIMITS.get(name, 0),
            )

    def around(self) -> Iterator[Question]:
        """Ask which tensor is which where a layout recognises them only by shape."""
        tensors, spelling = self.files.tensors, self.files.spelling
        tables = [
            spelling(key)
            for key, tensor in tensors.items()
            if key.removesuffix(".weight") in self.spec.around or key.startswith("?")
            if tensor.dim() == 2 and tensor.shape[1] == self.config.d_model
        ]
        if len(tables) < 2:
            return
        for part, words in self.spec.around.items():
            known = f"{part}.weight" in tensors
            name = spelling(f"{part}.weight") if known else ""
            shared = () if known else (("", _("the target embedding")),)
            yield _question(
                f"{NAMES}{part}",
                "choice",
                words,
                default=name,
                choices=(*shared, *((name, short(name)) for name in tables)),
            )

    def tokenizers(self) -> Iterator[Question]:
        """Ask for tokenizers and reference pairs, which are optional."""
        source, target = self.options.tokenizer or (None, None)
        sides = None if source else self._sides()
        found = sides.said[0] if sides and sides.given and sides.said else ""
        paths = {
            "tokenizer": (source, found or _("none: type token ids as numbers")),
            TARGET_TOKENIZER: (target if target != source else None, _("the same")),
            PAIRS: (self.options.pairs, _("none")),
        }
        for name, (path, nothing) in paths.items():
            default = None if path is None else str(path)
            yield _question(name, "file", default=default, nothing=nothing)


def _question(
    name: str, kind: AnswerKind, words: tuple[str, str] | None = None, **more: Any
) -> Question:
    """Return a question, by default in the words that the table has for its name."""
    label, why = words or _WORDS[name]
    return Question(name=name, label=_(label), kind=kind, why=_(why), **more)


def _choices(name: str, value: object) -> tuple[tuple[Value, str], ...]:
    if name == "activation":
        return tuple((activation, activation) for activation in get_args(Activation))
    switch = _SWITCH if type(value) is bool else ()
    pairs = _POSITIONS if name == "positions" else switch
    return tuple((choice, _(words)) for choice, words in pairs)


_SURPLUS: tuple[tuple[Value, str], ...] = ((True, N_("leave it out")),)


def name_questions(remedy: Remedy) -> Iterator[Question]:
    """Ask for the file's name of each unknown part, and about surplus tensors.

    If names differ everywhere by a few words, only these words are asked for.
    """
    if len(remedy.rename) < len(remedy.proposed.places):
        for pattern, replacement in remedy.rename.items():
            yield _choice_of_name(
                f"{RENAME}{pattern}",
                plain(pattern),
                _("The file has this in names where the layout has the other."),
                replacement,
                ((replacement, replacement.strip(".") or _("nothing")),),
            )
    else:
        for ours, theirs in remedy.proposed.places.items():
            yield _choice_of_name(
                f"{PLACE}{ours}",
                _readable(ours),
                _("Which tensor this is; those of its shape can be chosen."),
                theirs,
                tuple(
                    (name, _readable(name)) for name in remedy.proposed.choices[ours]
                ),
            )
    for pattern, name in zip(remedy.ignore, remedy.surplus, strict=True):
        yield _choice_of_name(
            f"{IGNORE}{pattern}",
            short(name),
            _("The layout has no such tensor, and the model runs without it."),
            True,
            tuple((value, _(words)) for value, words in _SURPLUS),
        )


def _choice_of_name(
    name: str,
    label: str,
    why: str,
    default: Value,
    choices: tuple[tuple[Value, str], ...],
) -> Question:
    return Question(
        name=name,
        label=short(label),
        kind="choice",
        why=why,
        default=default,
        choices=choices,
        mandatory=True,
    )


def _readable(name: str) -> str:
    return short(name.removesuffix(".weight").replace(LAYER, "…"))
