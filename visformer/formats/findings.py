"""What is unusual or wrong in a checkpoint: known from its layout, values or weights.

The ids are those of the project's list of faults, one per tutorial and number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from visformer.core.config import ModelConfig

_SCALED = "embeddings and positions have the sizes that training gave them"
_SHOWN = "nothing to do, Visformer computes them itself"


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosis."""

    id: str
    where: str
    what: str
    why: str
    remedy: str

    def __str__(self) -> str:
        """Say it in one sentence."""
        return f"{self.where}: {self.what}, {self.why}; {self.remedy}."


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


def findings_of(
    layout: str, config: ModelConfig, tensors: Mapping[str, Tensor], pad: int
) -> tuple[Finding, ...]:
    """Diagnose a checkpoint; ``tensors`` under our names, ``positions`` among them.

    ``positions`` is the table that the file stores, where it stores one.
    """
    batch = layout == "labml" and config.position_axis == "batch"
    return (
        *BY_LAYOUT.get(layout, ()),
        *((_BATCH,) if batch else ()),
        *(found for look in _LOOKS for found in look(config, tensors, pad)),
    )


def _padding_row(
    config: ModelConfig, tensors: Mapping[str, Tensor], pad: int
) -> Iterator[Finding]:
    """Notice padding_idx=1 where the pad is another id."""
    for side in ("source", "target"):
        table = tensors.get(f"{side}_embedding.weight")
        if table is None or len(table) < 2 or pad == 1 or bool(table[1].any()):
            continue
        yield Finding(
            "003-8",
            f"{side.capitalize()} embedding",
            f"row 1 is zero and the pad id is {pad}",
            "so that token 1 was taken for padding and never learnt",
            "construct it with padding_idx=pad",
        )


def _zero_rows(
    config: ModelConfig, tensors: Mapping[str, Tensor], pad: int
) -> Iterator[Finding]:
    """Notice tokens that were never given a vector."""
    for side in ("source", "target"):
        table = tensors.get(f"{side}_embedding.weight")
        if table is None:
            continue
        rows = (~table.any(1)).nonzero().flatten().tolist()
        rows = [row for row in rows if row not in (pad, 1)]
        if rows:
            yield Finding(
                "untrained-rows",
                f"{side.capitalize()} embedding",
                f"{len(rows):,} of {len(table):,} rows are zero, the first {rows[0]}",
                "so that the model cannot tell these tokens apart",
                "train it, or load the right file",
            )


def _untrained(
    config: ModelConfig, tensors: Mapping[str, Tensor], pad: int
) -> Iterator[Finding]:
    """Notice what only a fresh model has: untouched norms, biases equal by layer."""
    norms = {k: t for k, t in tensors.items() if "norm." in k}
    fresh = [bool((t == float(k.endswith("weight"))).all()) for k, t in norms.items()]
    if fresh and all(fresh):
        yield Finding(
            "untrained-norms",
            "Weights",
            "every norm has weight 1 and bias 0",
            "which training would have changed",
            "train the model, or load the right file",
        )
    if equal := _equal_biases(tensors):
        yield Finding(
            "002-14",
            "Weights",
            f"{len(equal)} biases are equal in all layers, {equal[0]} the first",
            "which only copies of one layer have that were not trained",
            "train the model, or load the right file",
        )


def _equal_biases(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the biases, not zero, that all layers of a stack share."""
    groups: dict[str, list[Tensor]] = {}
    for key, tensor in tensors.items():
        if key.endswith(".bias") and "norm" not in key and ".layers." in key:
            groups.setdefault(re.sub(r"layers\.\d+", "layers.*", key), []).append(
                tensor
            )
    return [
        key
        for key, (first, *others) in groups.items()
        if others and bool(first.any()) and all(torch.equal(first, t) for t in others)
    ]


def _damaged(
    config: ModelConfig, tensors: Mapping[str, Tensor], pad: int
) -> Iterator[Finding]:
    """Notice weights that are not numbers, or all one number."""
    for key, tensor in tensors.items():
        broken = int((~torch.isfinite(tensor)).sum()) if tensor.dim() else 0
        if broken:
            yield Finding(
                "not-finite",
                key,
                f"it holds NaN or infinite numbers: {broken:,} of {tensor.numel():,}",
                "which spread to everything that reads it",
                "load an earlier file of the training",
            )
        elif tensor.dim() > 1 and tensor.numel() > 2 and _constant(tensor):
            yield Finding(
                "constant",
                key,
                f"all of its {tensor.numel():,} numbers are equal",
                "so that it tells nothing apart",
                "train it, or load the right file",
            )


def _constant(tensor: Tensor) -> bool:
    return bool((tensor == tensor.flatten()[0]).all())


def _stored_table(
    config: ModelConfig, tensors: Mapping[str, Tensor], pad: int
) -> Iterator[Finding]:
    """Compare a stored position table with the two orders of the formula."""
    table = tensors.get("positions")
    if table is None or table.shape[-1] % 2:
        return
    order = table_order(table)
    if order is None:
        yield Finding(
            "positions-unknown",
            "Positions",
            "the stored table is neither of the known orders of sine and cosine",
            "so that it was learnt, changed or damaged",
            "nothing to do if that was meant: the stored one is used",
        )
    elif order != config.positions:
        yield _mixed_up(order)


def _mixed_up(order: str) -> Finding:
    return Finding(
        "positions-order",
        "Positions",
        f"the stored table has {_ORDERS[order]}, this layout {_ORDERS[_OTHER[order]]}",
        "and a mix-up yields fluent nonsense",
        "nothing to do here: the stored one is used",
    )


_ORDERS = {
    "sinusoidal": "sine and cosine in turn",
    "halves": "all sines before all cosines",
}
_OTHER = {"sinusoidal": "halves", "halves": "sinusoidal"}


def table_order(table: Tensor) -> str | None:
    """Tell how a table [P, D] orders the formula's values: a name of positions."""
    length, width = table.shape
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * 10_000 ** (
        -even / width
    )
    waves = torch.stack((angle.sin(), angle.cos()))  # [2, P, D / 2]
    made = {
        "sinusoidal": waves.permute(1, 2, 0).flatten(1),
        "halves": waves.permute(1, 0, 2).flatten(1),
    }
    # the tutorials compute in float32 (5e-4 at 5,000), and a file may be in halves
    near = (name for name, t in made.items() if bool((t - table).abs().max() < 4e-3))
    return next(near, None)


_LOOKS: tuple[
    Callable[[ModelConfig, Mapping[str, Tensor], int], Iterator[Finding]], ...
] = (_padding_row, _zero_rows, _untrained, _damaged, _stored_table)
