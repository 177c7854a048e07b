"""What a checkpoint's weights and sizes tell of its faults."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from visformer.core.position_rules import halves, sinusoidal
from visformer.files import short
from visformer.values.config import ModelConfig
from visformer.values.finding import Finding

UNTRAINED = "train the model, or load the right file"
MOST_NAMED = 8  # tensors that are named one by one
FEWEST = 1024  # numbers that show how they were drawn
LONGEST = 80  # characters of a tensor's name


class Seen(NamedTuple):
    """What is looked at: tensors under our names, ``positions`` where one is stored."""

    config: ModelConfig
    tensors: Mapping[str, Tensor]
    pads: tuple[int, int]  # the source's and the target's
    spelling: Callable[[str], str]  # our name of a tensor -> the file's

    @property
    def tables(self) -> Iterator[tuple[str, Tensor, int]]:
        """Each side's embedding, with the words for it and its pad."""
        if self.config.shared_embedding:
            shared = self.tensors.get("target_embedding.weight")
            if shared is not None:
                yield "Embedding", shared, self.pads[1]
            return
        for side, pad in zip(("source", "target"), self.pads, strict=True):
            table = self.tensors.get(f"{side}_embedding.weight")
            if table is not None:
                yield f"{side.capitalize()} embedding", table, pad


def findings_of(
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    pads: tuple[int, int],
    spelling: Callable[[str], str] = str,
) -> tuple[Finding, ...]:
    """Diagnose a checkpoint of any layout.

    ``tensors`` are floating-point, under our names; ``positions`` among them is the
    table that the file stores, where it stores one. ``pads`` are the source's and the
    target's pad id, ``spelling`` gives the file's own names.
    """
    seen = Seen(config, tensors, pads, spelling)
    return tuple(finding for look in _LOOKS for finding in look(seen))


def _norms_over_time(seen: Seen) -> Iterator[Finding]:
    """Notice norms over all tokens of a sentence at once."""
    lengths = {
        "source": seen.config.encoder_norm_length,
        "target": seen.config.decoder_norm_length,
    }
    tokens = " and ".join(f"{n} {side} tokens" for side, n in lengths.items() if n)
    if tokens:
        yield Finding(
            "001-12",
            "Norm",
            f"it runs over {tokens} at once, not over each token alone",
            "so that no other length can be run and later tokens change earlier ones",
            "build it with norm_shape = num_hiddens",
        )


def _padding_row(seen: Seen) -> Iterator[Finding]:
    """Notice a padding_idx that is not the pad's id: a zero row of another."""
    for where, table, pad in seen.tables:
        row = _other_padding(table, pad)
        if row is not None:
            yield Finding(
                "003-8",
                where,
                f"row {row} is zero and the pad id is {pad}",
                f"so that token {row} was taken for padding and never learnt",
                f"construct it with padding_idx={pad}, or give pad={row} if that is "
                "the pad",
            )


def _other_padding(table: Tensor, pad: int) -> int | None:
    """Return the one zero row among the ids that are usual for special tokens."""
    rows = [row for row in _zeros(table) if row < 4]
    return rows[0] if len(rows) == 1 and rows[0] != pad else None


def _zeros(table: Tensor) -> list[int]:
    rows: list[int] = (~table.any(1)).nonzero().flatten().tolist()
    return rows


def _unlearnt_rows(seen: Seen) -> Iterator[Finding]:
    """Notice tokens that were never given a vector, or only their first one."""
    for where, table, pad in seen.tables:
        zeros = _zeros(table)
        initial = _initial_rows(table)
        known = (pad, _other_padding(table, pad))
        for every, what in ((zeros, "zero"), (initial, "as they were first drawn")):
            rows = [row for row in every if row not in known]
            if rows:
                yield Finding(
                    "untrained-rows",
                    where,
                    f"{len(rows):,} of {len(table):,} rows are {what}, {rows[0]} the "
                    "first",
                    "so that the model knows nothing of these tokens",
                    "train it on text that has them, or load the right file",
                )


def _initial_rows(table: Tensor) -> list[int]:
    """Return the few rows within the bounds of xavier_uniform_, all others far outside.

    Training takes some number of a row out of the bounds, where a row has many; rows
    just beyond them leave it open which were trained.
    """
    count, width = table.shape
    bound = math.sqrt(6 / (count + width))
    largest = table.abs().amax(1)
    within = (largest > 0.8 * bound) & (largest <= _ROUNDING * bound)
    clear = bool((within | (largest > 1.1 * bound) | (largest == 0)).all())
    few = width >= 32 and int(within.sum()) <= count // 10
    return within.nonzero().flatten().tolist() if clear and few else []


def _untrained(seen: Seen) -> Iterator[Finding]:
    """Notice what only a fresh model has: norms, biases and matrices not yet moved."""
    norms = {k: t for k, t in seen.tensors.items() if "norm." in k}
    fresh = [bool((t == float(k.endswith("weight"))).all()) for k, t in norms.items()]
    if fresh and all(fresh):
        yield Finding(
            "untrained-norms",
            "Weights",
            "every norm has weight 1 and bias 0",
            "which training would have changed",
            UNTRAINED,
        )
    if equal := _equal_biases(seen.tensors):
        yield Finding(
            "002-14",
            "Weights",
            f"{len(equal)} biases are equal in all layers, {seen.spelling(equal[0])} "
            "the first",
            "which only copies of one layer have that were not trained",
            UNTRAINED,
        )
    matrices = [k for k, t in seen.tensors.items() if t.dim() == 2 and k not in norms]
    drawn = [key for key in matrices if _is_drawn(seen.tensors[key])]
    if drawn:
        yield Finding(
            "initial-scale",
            "Weights",
            f"{len(drawn)} of {len(matrices)} matrices have the spread that fresh ones "
            f"are drawn with, {seen.spelling(drawn[0])} the first",
            "which training would have widened",
            UNTRAINED,
        )


_ROUNDING = 1.004  # of a bound in bfloat16


def _is_drawn(matrix: Tensor) -> bool:
    """Whether a matrix fills just the bounds that PyTorch or Xavier draw within."""
    rows, columns = matrix.shape
    if matrix.numel() < FEWEST:
        return False
    largest = float(matrix.abs().max())
    joint = 3 * columns  # rows of torch.nn.MultiheadAttention's in_proj_weight
    for square in (1 / columns, 6 / (rows + columns), 6 / (joint + columns)):
        bound = math.sqrt(square)
        if 0.95 * bound < largest <= _ROUNDING * bound:
            spread = float(matrix.float().std()) * math.sqrt(3) / bound
            if abs(spread - 1) < 0.1:
                return True
    return False


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


def _damaged(seen: Seen) -> Iterator[Finding]:
    """Notice weights that are not numbers, or all one number."""
    broken = {
        key: int((~torch.isfinite(tensor)).sum())
        for key, tensor in seen.tensors.items()
        if not torch.isfinite(tensor.sum())  # it may still be: of very large numbers
    }
    damaged = [key for key, count in broken.items() if count]
    for key in damaged[:MOST_NAMED]:
        yield Finding(
            "not-finite",
            short(seen.spelling(key), LONGEST),
            f"it holds NaN or infinite numbers: {broken[key]:,} of "
            f"{seen.tensors[key].numel():,}",
            "which spread to everything that reads it",
            "load an earlier file of the training",
        )
    if len(damaged) > MOST_NAMED:
        yield Finding(
            "not-finite",
            "Weights",
            f"{len(damaged) - MOST_NAMED:,} more tensors hold NaN or infinite numbers",
            "which spread to everything that reads them",
            "load an earlier file of the training",
        )
    for key in [k for k, t in seen.tensors.items() if _constant(t)][:MOST_NAMED]:
        yield Finding(
            "constant",
            short(seen.spelling(key), LONGEST),
            f"all of its {seen.tensors[key].numel():,} numbers are equal",
            "so that it tells nothing apart",
            UNTRAINED,
        )


def _constant(tensor: Tensor) -> bool:
    if tensor.dim() != 2 or tensor.numel() <= 2:
        return False
    first, row = tensor.flatten()[:1], tensor[0]  # one row tells nearly all apart
    return bool((row == first).all()) and bool((tensor == first).all())


def _stored_table(seen: Seen) -> Iterator[Finding]:
    """Compare a stored position table with the two orders of the formula."""
    table = seen.tensors.get("positions")
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
    elif order != seen.config.positions:
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
    orders = {
        "sinusoidal": sinusoidal(length, width, "power", torch.float64),
        "halves": halves(length, width),
    }
    # the tutorials compute in float32 (5e-4 at 5,000), and a file may be in halves
    near = (name for name, t in orders.items() if bool((t - table).abs().max() < 4e-3))
    return next(near, None)


_LOOKS: tuple[Callable[[Seen], Iterator[Finding]], ...] = (
    _norms_over_time,
    _padding_row,
    _unlearnt_rows,
    _untrained,
    _damaged,
    _stored_table,
)
