"""labml's model, tutorial 002: norms before the sublayers, sequence first."""

from __future__ import annotations

from collections.abc import Iterator

from visformer.core.model import Transformer
from visformer.core.presets import BASE, TUTORIAL, Preset, xavier
from visformer.formats import shared_findings as shared
from visformer.formats.layout_spec import LayoutSpec
from visformer.formats.names import NamedTensors, Names, layer_names
from visformer.formats.renaming import FileTensors, rename
from visformer.formats.tutorials import read_tutorial
from visformer.values.config import ModelConfig
from visformer.values.finding import Finding


def _cloned(model: Transformer) -> None:
    """Draw all matrices by Xavier; let layers share the biases they were copied with.

    The layers are copies of one, and only tensors of two dimensions are drawn anew.
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
            "encoder",
            "encoder.layers.{l}.",
            attention="self_attn",
            projections="query.linear key.linear value.linear output",
            feed="feed_forward.layer1 feed_forward.layer2 feed_forward.linear_v",
            norms="norm_self_attn norm_ff",
        ),
        **layer_names(
            "decoder",
            "decoder.layers.{l}.",
            attention="self_attn src_attn",
            projections="query.linear key.linear value.linear output",
            feed="feed_forward.layer1 feed_forward.layer2 feed_forward.linear_v",
            norms="norm_self_attn norm_src_attn norm_ff",
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
        "Training",
        "the notebook's loss pairs logits and labels of different tokens",
        "since one runs time first and the other batch first",
        "transpose the output first",
    ),
    Finding(
        "002-7",
        "Training",
        "the notebook's decoder is asked for the token that it is given",
        "so that it learns to copy and not to predict",
        "put in tgt[:, :-1] and ask for tgt[:, 1:]",
    ),
    Finding(
        "002-9",
        "Attention",
        "the softmax runs along axis 1",
        "which are the keys in this layout",
        "it is right here, nothing to do",
    ),
    Finding(
        "002-10",
        "Norm",
        "it comes before each sublayer, and once more after each stack",
        "where the notebook's slides show it after each sublayer",
        "nothing to do, it is run as it was written",
    ),
    Finding("002-4", *shared.QUERY_ROWS),
    Finding("002-12", *shared.DROPOUT),
)
_BATCH = Finding(
    "002-3",
    "Positions",
    "they run along the batch, not along time",
    "so that the encoder does not notice the order of the source",
    "index the table by time",
)
_GATE = Finding(
    "002-16",
    "Feed-forward",
    "it is gated, act(layer1 x) * linear_v x, and the file does not say by which act",
    "so that the wrong one gives other numbers without a word",
    "give activation=… where it was not nn.ReLU()",
)


def findings_in(config: ModelConfig) -> Iterator[Finding]:
    """Yield what is true of a model with these choices."""
    if config.position_axis == "batch":
        yield _BATCH
    if config.gated:
        yield _GATE


def rename_positions(names: Names, file: FileTensors) -> NamedTensors:
    """Name tensors by the table, and tell stored waves [1, P, D] from learned tables.

    Both have one name; a learned table is [P, 1, D].
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
    title="labml (tutorial 002): norms before the sublayers, sequence first",
    preset=PRESET,
    names=NAMES,
    read=read_tutorial,
    findings=FINDINGS,
    findings_in=findings_in,
    left_open=("activation", "max_positions"),
    pad_words=(
        "It fills up the shorter sentences of a batch; no mask of labml hides it."
    ),
    rename=rename_positions,
)
