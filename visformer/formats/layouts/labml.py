"""labml's model, tutorial 002: pre-norm, sequence axis first."""

from collections.abc import Iterator

from visformer.core.model import Transformer
from visformer.core.presets import BASE, TUTORIAL, Preset, xavier
from visformer.formats.layout_spec import FileTensors, LayoutSpec, rename
from visformer.formats.names import NamedTensors, Names, layer_names
from visformer.formats.tutorials import DROPOUT, QUERY_ROWS, read_tutorial
from visformer.language import N_
from visformer.values.config import ModelConfig
from visformer.values.finding import Finding


def _cloned(model: Transformer) -> None:
    """Initialise all matrices with Xavier; the biases are the same in every layer.

    The layers are copies of one, and only two-dimensional tensors are reinitialised.
    """
    for stack in (model.encoder, model.decoder):
        first, *others = stack
        for layer in others:
            layer.load_state_dict(first.state_dict())
    xavier(model)


PRESET = Preset(
    name="labml",
    fields={
        **TUTORIAL,
        **BASE,
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
    draw=_cloned,
)
NAMES = Names(
    {
        "src_embed.linear": "source_embedding",
        "tgt_embed.linear": "target_embedding",
        "generator.projection": "output",
        "encoder.norm": "encoder.norm",
        "decoder.norm": "decoder.norm",
        **layer_names(
            "encoder.layers.{l}. | decoder.layers.{l}.",
            attention="self_attn | self_attn src_attn",
            projections="query.linear key.linear value.linear output",
            feed="feed_forward.layer1 feed_forward.layer2 feed_forward.linear_v",
            norms="norm_self_attn norm_ff | norm_self_attn norm_src_attn norm_ff",
        ),
    },
    {
        "src_embed.positional_encodings": "source_positions",
        "tgt_embed.positional_encodings": "target_positions",
    },
)
FINDINGS = (
    Finding(
        "002-6",
        N_("Training"),
        N_(
            "The notebook's loss pairs logits with labels of other tokens, because one "
            "is time-first and the other batch-first."
        ),
        N_("Transpose the output first."),
    ),
    Finding(
        "002-7",
        N_("Training"),
        N_(
            "The notebook trains the decoder to output the token it is given, so it "
            "learns to copy instead of to predict."
        ),
        N_("Feed tgt[:, :-1] and train on tgt[:, 1:]."),
    ),
    Finding(
        "002-9",
        N_("Attention"),
        N_("The softmax runs along axis 1, which holds the keys in this layout."),
        N_("Nothing to do: it is correct here."),
        "note",
    ),
    Finding(
        "002-10",
        N_("Norm"),
        N_(
            "There is a norm before each sublayer and one after each stack, although "
            "the notebook's slides show it after each sublayer."
        ),
        N_("Nothing to do: the model runs as written."),
        "note",
    ),
    Finding("002-4", *QUERY_ROWS),
    Finding("002-12", *DROPOUT),
)
_BATCH = Finding(
    "002-3",
    N_("Positions"),
    N_(
        "Positions run along the batch instead of along time, so the encoder does not "
        "see the order of the source."
    ),
    N_("Index the table by time."),
)
_GATE = Finding(
    "002-16",
    N_("Feed-forward"),
    N_(
        "It is gated, act(layer1 x) * linear_v x, but the file does not say which act, "
        "and the wrong one silently gives different numbers."
    ),
    N_("Give the activation unless it was nn.ReLU()."),
)


def findings_in(config: ModelConfig) -> Iterator[Finding]:
    """Yield the findings that apply to this config."""
    if config.position_axis == "batch":
        yield _BATCH
    if config.gated:
        yield _GATE


def rename_positions(names: Names, file: FileTensors) -> NamedTensors:
    """Rename by the table, and distinguish stored sinusoids from learned tables.

    Both have the same name; sinusoids are [1, P, D], a learned table is [P, 1, D].
    """
    named = rename(names, file)
    sides = ("source_positions", "target_positions")
    tables = [named.tensors.get(side) for side in sides]
    if all(t is not None and t.dim() == 3 and len(t) == 1 < t.shape[1] for t in tables):
        named.tensors["positions"] = named.tensors.pop(sides[0])
        del named.tensors[sides[1]]
    return named


LABML = LayoutSpec(
    name="labml",
    title=N_("labml (tutorial 002): norms before the sublayers, sequence first"),
    preset=PRESET,
    names=NAMES,
    read=read_tutorial,
    findings=FINDINGS,
    findings_in=findings_in,
    left_open=("activation", "max_positions"),
    pad_words=N_(
        "The token that fills up the shorter sentences of a batch; labml never masks "
        "it."
    ),
    rename=rename_positions,
)
