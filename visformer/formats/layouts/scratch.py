"""The model from scratch of tutorial 004: the layers are direct submodules."""

from visformer.core.presets import BASE, TUTORIAL, Preset, as_constructed
from visformer.formats.layout_spec import LayoutSpec
from visformer.formats.names import Names, layer_names
from visformer.formats.tutorials import DROPPED, QUERY_ROWS, read_tutorial
from visformer.language import N_
from visformer.values.finding import Finding

PRESET = Preset(
    name="scratch",
    fields={
        **TUTORIAL,
        **BASE,
        "source_vocabulary": 10_000,
        "target_vocabulary": 10_000,
        "max_positions": 100,
        "mask_rule": "target_rows",
    },
    draw=as_constructed,
)
NAMES = Names(
    {
        "encoder_embedding": "source_embedding",
        "decoder_embedding": "target_embedding",
        "fc_out": "output",
        **layer_names(
            "encoder_layers.{l}. | decoder_layers.{l}.",
            attention="self_attn | self_attn cross_attn",
            projections="W_q W_k W_v W_o",
            feed="feed_forward.fc1 feed_forward.fc2",
            norms="norm1 norm2 | norm1 norm2 norm3",
        ),
    },
    {"pos_encoding.pe": "positions"},
)
FINDINGS = (
    Finding("004-2", *QUERY_ROWS),
    Finding(
        "004-6",
        N_("Source"),
        N_(
            "The source has neither a start nor an end token, and the encoder runs "
            "again at each step, so the time per step grows with the length."
        ),
        N_("Append nothing to the source, and keep the encoder's output."),
    ),
    Finding("004-8", *DROPPED),
)
SCRATCH = LayoutSpec(
    name="scratch",
    title=N_("scratch (tutorial 004): the model holds the layers directly"),
    preset=PRESET,
    names=NAMES,
    read=read_tutorial,
    findings=FINDINGS,
)
