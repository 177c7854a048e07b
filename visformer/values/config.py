"""The sizes and choices that describe a model completely, apart from its weights."""

import math
from dataclasses import dataclass
from typing import Literal, get_args, get_origin, get_type_hints

from visformer.arguments import MOST, wrong_words
from visformer.errors import CheckpointError
from visformer.language import _

NormRule = Literal["layer", "unbiased", "rms"]
Positions = Literal["sinusoidal", "halves", "learned", "none"]
FrequencyForm = Literal["exp", "power"]
PositionAxis = Literal["time", "batch", "restart"]
Biases = Literal["all", "none", "value_output"]
Activation = Literal["relu", "gelu", "silu", "tanh"]
MaskRule = Literal[
    "keys", "source_keys", "lengths", "causal", "rows_and_keys", "target_rows"
]

FORMER_NAMES = {  # names of fields in older files -> today's
    "mask_fill": "masked_value",
    "expand_bias": "w1_bias",
    "contract_bias": "w2_bias",
}
LIMITS = {  # what a file may claim before anything is allocated for it
    "source_vocabulary": 1_000_000,
    "target_vocabulary": 1_000_000,
    "d_model": 16_384,
    "heads": 256,
    "encoder_layers": 128,
    "decoder_layers": 128,
    "feed_forward": 65_536,
    "max_positions": 65_536,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes and choices of one encoder-decoder Transformer.

    The defaults are those of "Attention Is All You Need" (Vaswani et al. 2017,
    sections 3.1 to 3.5) at a size that suits a laptop.
    """

    source_vocabulary: int
    target_vocabulary: int
    d_model: int = 256
    heads: int = 8
    encoder_layers: int = 4
    decoder_layers: int = 4
    feed_forward: int = 1024
    max_positions: int = 512
    norm_first: bool = False  # False: norm(x + f(x)), the paper; True: x + f(norm(x))
    final_norm: bool = False  # one more norm after the last layer of each stack
    norm_eps: float = 1e-5
    shared_embedding: bool = True  # source and target look tokens up in one table
    tied_output: bool = True  # the output projection is the target embedding
    masked_value: float = -1e9  # replaces a masked score, after scaling; may be -inf
    # unbiased: variance over D - 1, eps inside the root; rms: no mean, never a bias
    norm: NormRule = "layer"
    norm_bias: bool = True  # norms shift as well as scale
    embedding_scale: bool = True  # embeddings times sqrt(D)
    positions: Positions = "sinusoidal"  # halves: the sines first, then the cosines
    position_form: FrequencyForm = "exp"  # how frequencies are computed in float32
    position_axis: PositionAxis = "time"  # batch: labml's; restart: d2l's at each step
    encoder_bias: Biases = "all"  # of the attention's projections
    decoder_bias: Biases = "all"
    activation: Activation = "relu"
    gated: bool = False  # act(x W1) * (x V), V being the gate
    w1_bias: bool = True
    w2_bias: bool = True
    gate_bias: bool = True
    output_bias: bool = False
    softmax_output: bool = False  # the model itself ends in a softmax
    mask_rule: MaskRule = "keys"
    encoder_norm_length: int = 0  # source tokens normalised together; 0: each alone
    decoder_norm_length: int = 0  # target tokens

    def __post_init__(self) -> None:
        self._check_choices()
        for name, limit in LIMITS.items():
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= limit:
                raise self._wrong(name, _whole(1, limit))
        for name in ("encoder_norm_length", "decoder_norm_length"):
            value = getattr(self, name)
            limit = LIMITS["max_positions"]
            if type(value) is not int or not 0 <= value <= limit:
                raise self._wrong(name, _whole(0, limit))
            if value and self.norm != "layer":
                raise CheckpointError(
                    "{name} applies to norms of kind “layer” only.", name=name
                )
        if self.d_model % self.heads:
            raise CheckpointError(
                "d_model = {width:,} is not a multiple of heads = {heads:,}.",
                width=self.d_model,
                heads=self.heads,
            )
        if self.d_model % 2 and self.positions in ("sinusoidal", "halves"):
            raise CheckpointError(
                "d_model is {width:,}, but sinusoids need an even width.",
                width=self.d_model,
            )
        if self.shared_embedding and self.source_vocabulary != self.target_vocabulary:
            raise CheckpointError(
                "A shared embedding needs vocabularies of the same size, not "
                "{source:,} and {target:,} tokens.",
                source=self.source_vocabulary,
                target=self.target_vocabulary,
            )

    def _check_choices(self) -> None:
        for name, kind in FIELD_TYPES.items():
            value = getattr(self, name)
            if get_origin(kind) is Literal and value not in get_args(kind):
                choices = ", ".join(get_args(kind))
                raise self._wrong(name, _("one of {choices}", choices=choices))
            if kind is bool and type(value) is not bool:
                raise self._wrong(name, _("true or false"))
            if kind is float:
                fits = type(value) in (int, float) and not math.isnan(value)
                if not fits or MOST < abs(value) < math.inf:
                    raise self._wrong(name, _("a number that float32 holds"))
                object.__setattr__(self, name, float(value))  # torch takes no large int

    def _wrong(self, name: str, allowed: str) -> CheckpointError:
        return CheckpointError(wrong_words(name, getattr(self, name), allowed))

    @property
    def head_size(self) -> int:
        """Width of the query, key and value of one head."""
        return self.d_model // self.heads


FIELD_TYPES = get_type_hints(ModelConfig)


def _whole(low: int, high: int) -> str:
    return _("a whole number from {low} to {high:,}", low=low, high=high)
