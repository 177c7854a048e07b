"""The modular model of tutorial 003: one class per part, with a custom LayerNorm."""

from visformer.core.model import Transformer
from visformer.core.presets import BASE, TUTORIAL, Preset
from visformer.formats.layout_spec import LayoutSpec
from visformer.formats.names import Names, layer_names
from visformer.formats.tutorials import (
    DROPOUT,
    DROPPED,
    QUERY_ROWS,
    UNSCALED,
    read_tutorial,
)
from visformer.language import N_
from visformer.values.finding import Finding


def _without_row_one(model: Transformer) -> None:
    """Clear row 1 of the embeddings, whose padding_idx is always 1."""
    for table in (model.source_embedding, model.target_embedding):
        table.weight[1:2] = 0


PRESET = Preset(
    name="modular",
    fields={
        **TUTORIAL,
        **BASE,
        "source_vocabulary": 10_000,
        "target_vocabulary": 10_000,
        "max_positions": 512,
        "norm": "unbiased",
        "norm_eps": 1e-12,
        "embedding_scale": False,
        "position_form": "power",
        "mask_rule": "rows_and_keys",
    },
    ids={"pad": 1, "bos": 2, "eos": 3},
    draw=_without_row_one,
)
NAMES = Names(
    {
        "encoder.emb.tok_emb": "source_embedding",
        "decoder.emb.tok_emb": "target_embedding",
        "decoder.linear": "output",
        **layer_names(
            "encoder.layers.{l}. | decoder.layers.{l}.",
            attention="mha | mha1 mha2",
            projections="w_q w_k w_v fc",
            feed="ffn.fc1 ffn.fc2",
            norms="ln1 ln2 | ln1 ln2 ln3",
        ),
    },
    leaves=("gamma", "beta"),
)
FINDINGS = (
    Finding(
        "003-4",
        N_("Norm"),
        N_(
            "The variance is divided by N - 1, with eps inside the root, so outputs "
            "are sqrt((N - 1) / N) times those of nn.LayerNorm."
        ),
        N_("Run it as trained; use nn.LayerNorm for new models."),
    ),
    Finding("003-7", *UNSCALED),
    Finding("003-9", *QUERY_ROWS),
    Finding("003-11", *DROPPED),
    Finding("003-12", *DROPOUT),
)
MODULAR = LayoutSpec(
    name="modular",
    title=N_("modular (tutorial 003): one class per part, its own LayerNorm"),
    preset=PRESET,
    names=NAMES,
    read=read_tutorial,
    findings=FINDINGS,
    ends_source=True,
    two_pads=True,
)
