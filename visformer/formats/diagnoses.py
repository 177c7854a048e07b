"""Faults of a checkpoint that its weights and sizes reveal."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from visformer.core.position_rules import halves, sinusoidal
from visformer.files import short
from visformer.language import N_, _, ngettext
from visformer.values.config import ModelConfig
from visformer.values.finding import Finding

UNTRAINED = N_("Train the model, or load the right file.")
MOST_NAMED = 8  # tensors listed individually
FEWEST = 1024  # elements needed to recognise an initialisation
LONGEST = 80  # characters of a tensor's name


class Seen(NamedTuple):
    """The tensors to examine under our names, with ``positions`` if it is stored."""

    config: ModelConfig
    tensors: Mapping[str, Tensor]
    pads: tuple[int, int]  # source and target
    spelling: Callable[[str], str]  # our name of a tensor -> the file's

    @property
    def tables(self) -> Iterator[tuple[str, Tensor, int]]:
        """Each side's embedding, with its title and pad id."""
        if self.config.shared_embedding:
            shared = self.tensors.get("target_embedding.weight")
            if shared is not None:
                yield _("Embedding"), shared, self.pads[1]
            return
        titles = {"source": _("Source embedding"), "target": _("Target embedding")}
        for (side, title), pad in zip(titles.items(), self.pads, strict=True):
            table = self.tensors.get(f"{side}_embedding.weight")
            if table is not None:
                yield title, table, pad


def findings_of(
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    pads: tuple[int, int],
    spelling: Callable[[str], str] = str,
) -> tuple[Finding, ...]:
    """Diagnose a checkpoint of any layout.

    ``tensors`` are floating-point, under our names; ``positions`` among them is the
    table that the file stores, if any. ``pads`` are the pad ids of source and target;
    ``spelling`` gives the file's own names.
    """
    seen = Seen(config, tensors, pads, spelling)
    return tuple(finding for look in _LOOKS for finding in look(seen))


def _norms_over_time(seen: Seen) -> Iterator[Finding]:
    """Report norms that average over all tokens of a sentence."""
    source, target = seen.config.encoder_norm_length, seen.config.decoder_norm_length
    if not source and not target:
        return
    of_source = ngettext("{n} source token", "{n} source tokens", source)
    of_target = ngettext("{n} target token", "{n} target tokens", target)
    tokens = of_source if source else of_target
    if source and target:
        tokens = _("{first} and {second}", first=of_source, second=of_target)
    what = _(
        "The norm covers {tokens} at once instead of each token alone, so no other "
        "length can run and later tokens change earlier ones.",
        tokens=tokens,
    )
    remedy = _("Build it with norm_shape = num_hiddens.")
    yield Finding("001-12", _("Norm"), what, remedy)


def _padding_row(seen: Seen) -> Iterator[Finding]:
    """Report a padding_idx other than the pad id: another token's row is zero."""
    for where, table, pad in seen.tables:
        row = _other_padding(table, pad)
        if row is not None:
            yield Finding(
                "003-8",
                where,
                _(
                    "Row {row} is zero but the pad id is {pad}, so token {row} was "
                    "treated as padding and never learned.",
                    row=row,
                    pad=pad,
                ),
                _(
                    "Construct it with padding_idx={pad}, or give pad={row} if that is "
                    "the pad.",
                    row=row,
                    pad=pad,
                ),
            )


def _other_padding(table: Tensor, pad: int) -> int | None:
    """Return the only row that is zero, among the usual special ids."""
    rows = [row for row in _zeros(table) if row < 4]
    return rows[0] if len(rows) == 1 and rows[0] != pad else None


def _zeros(table: Tensor) -> list[int]:
    rows: list[int] = (~table.any(1)).nonzero().flatten().tolist()
    return rows


def _unlearned_rows(seen: Seen) -> Iterator[Finding]:
    """Report tokens whose vector is zero or still has its initial value."""
    for where, table, pad in seen.tables:
        known = (pad, _other_padding(table, pad))
        zeros = [row for row in _zeros(table) if row not in known]
        initial = [row for row in _initial_rows(table) if row not in known]
        if zeros:
            yield _unlearned(
                where,
                ngettext(
                    "{n:,} of {total:,} rows is zero (row {first}), so the model knows "
                    "nothing about this token.",
                    "{n:,} of {total:,} rows are zero (the first is row {first}), so "
                    "the model knows nothing about these tokens.",
                    len(zeros),
                    total=len(table),
                    first=zeros[0],
                ),
            )
        if initial:
            yield _unlearned(
                where,
                ngettext(
                    "{n:,} of {total:,} rows is still as initialised (row {first}), so "
                    "the model knows nothing about this token.",
                    "{n:,} of {total:,} rows are still as initialised (the first is "
                    "row {first}), so the model knows nothing about these tokens.",
                    len(initial),
                    total=len(table),
                    first=initial[0],
                ),
            )


def _unlearned(where: str, what: str) -> Finding:
    remedy = _("Train on text that contains them, or load the right file.")
    return Finding("untrained-rows", where, what, remedy)


def _initial_rows(table: Tensor) -> list[int]:
    """Return the few rows within the bounds of xavier_uniform_ that all others exceed.

    Training moves some element of a wide row out of the bounds. If rows lie just beyond
    them, it is unclear which were trained, and none is returned.
    """
    count, width = table.shape
    bound = math.sqrt(6 / (count + width))
    largest = table.abs().amax(1)
    within = (largest > 0.8 * bound) & (largest <= _ROUNDING * bound)
    clear = bool((within | (largest > 1.1 * bound) | (largest == 0)).all())
    few = width >= 32 and int(within.sum()) <= count // 10
    return within.nonzero().flatten().tolist() if clear and few else []


def _untrained(seen: Seen) -> Iterator[Finding]:
    """Report signs of an untrained model: initial norms, biases and matrices."""
    norms = {k: t for k, t in seen.tensors.items() if "norm." in k}
    fresh = [bool((t == float(k.endswith("weight"))).all()) for k, t in norms.items()]
    if fresh and all(fresh):
        yield Finding(
            "untrained-norms",
            _("Weights"),
            _("Every norm has weight 1 and bias 0, which training would have changed."),
            _(UNTRAINED),
        )
    if equal := _equal_biases(seen.tensors):
        yield Finding(
            "002-14",
            _("Weights"),
            ngettext(
                "{n} bias is the same in all layers ({first}), as in untrained copies "
                "of one layer.",
                "{n} biases are the same in all layers ({first} is the first), as in "
                "untrained copies of one layer.",
                len(equal),
                first=seen.spelling(equal[0]),
            ),
            _(UNTRAINED),
        )
    matrices = [k for k, t in seen.tensors.items() if t.dim() == 2 and k not in norms]
    drawn = [key for key in matrices if _is_drawn(seen.tensors[key])]
    if drawn:
        yield Finding(
            "initial-scale",
            _("Weights"),
            ngettext(
                "{n} of {total} matrices has the spread of a fresh one ({first}), "
                "which training would have widened.",
                "{n} of {total} matrices have the spread of fresh ones ({first} is the "
                "first), which training would have widened.",
                len(drawn),
                total=len(matrices),
                first=seen.spelling(drawn[0]),
            ),
            _(UNTRAINED),
        )


_ROUNDING = 1.004  # of a bound stored in bfloat16


def _is_drawn(matrix: Tensor) -> bool:
    """Whether a matrix exactly fills the bounds of PyTorch's or Xavier's uniform."""
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
    """Return the nonzero biases that are equal in all layers of a stack."""
    groups: dict[str, list[Tensor]] = {}
    for key, tensor in tensors.items():
        if key.endswith(".bias") and "norm" not in key and ".layers." in key:
            everywhere = re.sub(r"layers\.\d+", "layers.*", key)
            groups.setdefault(everywhere, []).append(tensor)
    return [
        key
        for key, (first, *others) in groups.items()
        if others and bool(first.any()) and all(torch.equal(first, t) for t in others)
    ]


def _damaged(seen: Seen) -> Iterator[Finding]:
    """Report weights that are NaN, infinite or all equal."""
    broken = {
        key: int((~torch.isfinite(tensor)).sum())
        for key, tensor in seen.tensors.items()
        if not torch.isfinite(tensor.sum())  # the sum of finite numbers may overflow
    }
    damaged = [key for key, count in broken.items() if count]
    for key in damaged[:MOST_NAMED]:
        yield Finding(
            "not-finite",
            short(seen.spelling(key), LONGEST),
            ngettext(
                "{n:,} of {total:,} numbers is NaN or infinite, which spreads to "
                "everything that reads it.",
                "{n:,} of {total:,} numbers are NaN or infinite, which spreads to "
                "everything that reads them.",
                broken[key],
                total=seen.tensors[key].numel(),
            ),
            _("Load an earlier file from the training."),
        )
    if len(damaged) > MOST_NAMED:
        yield Finding(
            "not-finite",
            _("Weights"),
            ngettext(
                "{n:,} more tensor holds NaN or infinite numbers, which spread to "
                "everything that reads it.",
                "{n:,} more tensors hold NaN or infinite numbers, which spread to "
                "everything that reads them.",
                len(damaged) - MOST_NAMED,
            ),
            _("Load an earlier file from the training."),
        )
    for key in [k for k, t in seen.tensors.items() if _constant(t)][:MOST_NAMED]:
        yield Finding(
            "constant",
            short(seen.spelling(key), LONGEST),
            _(
                "All {n:,} numbers are equal, so the tensor cannot distinguish "
                "anything.",
                n=seen.tensors[key].numel(),
            ),
            _(UNTRAINED),
        )


def _constant(tensor: Tensor) -> bool:
    if tensor.dim() != 2 or tensor.numel() <= 2:
        return False
    first, row = tensor.flatten()[:1], tensor[0]  # one row suffices in nearly all cases
    return bool((row == first).all()) and bool((tensor == first).all())


def _stored_table(seen: Seen) -> Iterator[Finding]:
    """Compare a stored position table with both orders of the sinusoidal formula."""
    table = seen.tensors.get("positions")
    if table is None or table.shape[-1] % 2:
        return
    order = table_order(table)
    if order is None:
        yield Finding(
            "positions-unknown",
            _("Positions"),
            _(
                "The stored table has neither of the known orders of sine and cosine, "
                "so it was learned, modified or damaged."
            ),
            _("Nothing to do if that is intended: the stored table is used."),
            "note",
        )
    elif order != seen.config.positions:
        remedy = _("Nothing to do here: the stored table is used.")
        what = _(_MIXED_UP[order])
        yield Finding("positions-order", _("Positions"), what, remedy, "note")


_MIXED_UP = {  # by the order of the stored table
    "sinusoidal": N_(
        "The stored table alternates sine and cosine, but this layout puts all sines "
        "before all cosines; confusing the two gives fluent nonsense."
    ),
    "halves": N_(
        "The stored table has all sines before all cosines, but this layout alternates "
        "them; confusing the two gives fluent nonsense."
    ),
}


def table_order(table: Tensor) -> str | None:
    """Return the order of sine and cosine in a table [P, D], as in ``positions``."""
    length, width = table.shape
    orders = {
        "sinusoidal": sinusoidal(length, width, "power", torch.float64),
        "halves": halves(length, width),
    }
    # the tutorials compute in float32 (5e-4 at 5,000), and files may use half precision
    near = (name for name, t in orders.items() if bool((t - table).abs().max() < 4e-3))
    return next(near, None)


_LOOKS: tuple[Callable[[Seen], Iterator[Finding]], ...] = (
    _norms_over_time,
    _padding_row,
    _unlearned_rows,
    _untrained,
    _damaged,
    _stored_table,
)
