"""The handout of tutorial 000: a model whose last layer is a softmax."""

from visformer.core.presets import TUTORIAL, Preset, as_constructed
from visformer.formats.layout_spec import LayoutSpec
from visformer.formats.names import Names, layer_names
from visformer.formats.tutorials import DROPOUT, DROPPED, UNSCALED, read_tutorial
from visformer.language import N_
from visformer.values.finding import Finding

PRESET = Preset(
    name="handout",
    fields={
        **TUTORIAL,
        "source_vocabulary": 1000,
        "target_vocabulary": 1000,
        "d_model": 128,
        "heads": 4,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "feed_forward": 512,
        "max_positions": 5000,
        "embedding_scale": False,
        "softmax_output": True,
    },
    draw=as_constructed,
)
NAMES = Names(
    {
        "encoder_embed": "source_embedding",
        "decoder_embed": "target_embedding",
        "fc_output": "output",
        **layer_names(
            "encoder.layers.{l}. | decoder.layers.{l}.",
            attention="self_att | self_att cross_att",
            projections="W_q W_k W_v W_o",
            feed="ffn.linear1 ffn.linear2",
            norms="norm1 norm2 | norm1 norm2 norm3",
        ),
    },
    {"positional_encoding.pe": "positions"},
)
FINDINGS = (
    Finding(
        "000-2",
        N_("Output"),
        N_(
            "The model returns probabilities, so a loss that expects logits applies "
            "the softmax twice and learns little."
        ),
        N_("Return the logits, or train with nll_loss(log(p))."),
    ),
    Finding("000-3", *UNSCALED),
    Finding("000-4", *DROPOUT),
    Finding("000-6", *DROPPED),
)
HANDOUT = LayoutSpec(
    name="handout",
    title=N_("handout (tutorial 000): the model ends in a softmax"),
    preset=PRESET,
    names=NAMES,
    read=read_tutorial,
    findings=FINDINGS,
)
