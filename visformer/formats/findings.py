"""What is unusual or wrong in every checkpoint of a layout.

The ids are those of the project's list of faults, one per tutorial and number.
"""

from __future__ import annotations

from visformer.values.config import ModelConfig
from visformer.values.finding import Finding

_SCALED = "embeddings and positions have the sizes that training gave them"
_SHOWN = "nothing to do, Visformer computes them itself"


_DROPPED = (
    "Attention",
    "the weights are computed and dropped",
    "so that the original program has nothing to show",
    _SHOWN,
)
_UNSCALED = (
    "Embeddings",
    "they are not multiplied by sqrt(d_model), where the paper does it",
    _SCALED,
    "keep it as trained",
)
_QUERY_ROWS = (
    "Masks",
    "padding is masked on query rows",
    "so that a padded row attends to every key alike, future ones included",
    "mask keys instead: unsqueeze(1).unsqueeze(2)",
)
_DROPOUT = (
    "Dropout",
    "a dropout argument is ignored",
    "which shows in training with another rate only",
    "pass it on to the part that drops",
)

BY_LAYOUT: dict[str, tuple[Finding, ...]] = {  # true of every checkpoint of a layout
    "handout": (
        Finding(
            "000-2",
            "Output",
            "the model returns probabilities",
            "so that a loss on logits applies the softmax twice and learns little",
            "return the logits, or train with nll_loss(log(p))",
        ),
        Finding("000-3", *_UNSCALED),
        Finding("000-4", *_DROPOUT),
        Finding("000-6", *_DROPPED),
    ),
    "d2l": (
        Finding(
            "001-4",
            "Positions",
            "they restart at 0 at each step of prediction",
            "so that step by step differs from the teacher-forced pass after step 0",
            "add row t of the table at step t",
        ),
        Finding(
            "001-5",
            "Decoder",
            "it is causal in training mode only",
            "so that a whole target in eval() is read in both directions",
            "use a causal mask whenever T > 1",
        ),
        Finding(
            "001-9",
            "Masks",
            "target padding is never masked",
            "which shows with pads inside or in front of a target",
            "make a key mask from the ids",
        ),
        Finding(
            "001-6",
            "Training",
            "lengths start at 1 even where the cache is not empty",
            "so that a new token does not see itself",
            "let lengths count from the cache's length on",
        ),
        Finding(
            "001-7",
            "Cache",
            "it keeps each block's input, before the key and value projections",
            "so that both are projected again at each step, and a state used twice "
            "carries the old target along",
            "keep keys and values, and begin each pass with a fresh state",
        ),
    ),
    "labml": (
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
        Finding("002-4", *_QUERY_ROWS),
        Finding("002-12", *_DROPOUT),
    ),
    "modular": (
        Finding(
            "003-4",
            "Norm",
            "the variance is over N - 1, with eps inside the root",
            "so that outputs are sqrt((N - 1) / N) of those of nn.LayerNorm",
            "run it as trained, take nn.LayerNorm for new models",
        ),
        Finding("003-7", *_UNSCALED),
        Finding("003-9", *_QUERY_ROWS),
        Finding("003-11", *_DROPPED),
        Finding("003-12", *_DROPOUT),
    ),
    "scratch": (
        Finding("004-2", *_QUERY_ROWS),
        Finding(
            "004-6",
            "Source",
            "it has no start and no end token, and the encoder runs again at each step",
            "so that the time per step grows with the length",
            "append nothing to the source, and keep the encoder's output",
        ),
        Finding("004-8", *_DROPPED),
    ),
}
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


def layout_findings(layout: str, config: ModelConfig) -> tuple[Finding, ...]:
    """Return what is true of every checkpoint of a layout with these choices."""
    labml = layout == "labml"
    return (
        *BY_LAYOUT.get(layout, ()),
        *((_BATCH,) if labml and config.position_axis == "batch" else ()),
        *((_GATE,) if labml and config.gated else ()),
        *_norms_over_time(config),
    )


def _norms_over_time(config: ModelConfig) -> tuple[Finding, ...]:
    lengths = {
        "source": config.encoder_norm_length,
        "target": config.decoder_norm_length,
    }
    told = " and ".join(f"{n} {side} tokens" for side, n in lengths.items() if n)
    if not told:
        return ()
    return (
        Finding(
            "001-12",
            "Norm",
            f"it runs over {told} at once, not over each token alone",
            "so that no other length can be run and later tokens change earlier ones",
            "build it with norm_shape = num_hiddens",
        ),
    )
