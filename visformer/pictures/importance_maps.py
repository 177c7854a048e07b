"""Pictures of importance: what log p does without each head, layer and source token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from visformer.language import N_, _, ngettext, sentences
from visformer.pictures.diagram.blocks import STACKS as STACK_NAMES
from visformer.pictures.picture import Matrix, Numbers, largest, signed_shade
from visformer.pictures.token_names import names
from visformer.values.arrays import Doubles, Floats
from visformer.values.facts import STACKS, Kind, SentenceSide, StackName
from visformer.values.measured import NOTHING, Importance, ImportanceOfPairs, Patched
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, decimals, head_words, number

WRITTEN = 0.005  # nats: a smaller change is written as 0.00


class _Head(NamedTuple):
    """A head, and the change without it."""

    change: float
    kind: Kind
    layer: int
    head: int


def importance_maps(
    made: Importance | ImportanceOfPairs,
) -> Iterator[tuple[Kind, list[Matrix]]]:
    """Yield each kind with its maps, a row per layer and a column per head.

    Of a run they are the exact change, its estimate where there is one, and what the
    estimate misses; over pairs the mean and the standard deviation. All have one scale.
    """
    kinds = _titled(made)
    reach = max(largest(one) for maps in kinds.values() for one in maps.values())
    for kind, maps in kinds.items():
        yield kind, [_map(*each, kind, reach) for each in maps.items()]


def _titled(made: Importance | ImportanceOfPairs) -> dict[Kind, dict[str, Floats]]:
    """Return the numbers of the maps of each kind, by their titles."""
    if isinstance(made, ImportanceOfPairs):
        of = {_("mean"): made.mean, _("standard deviation"): made.spread}
    else:
        missed = {k: made.heads[k] - made.gradient[k] for k in made.gradient}
        of = {
            _("head off, exact"): made.heads,
            _("by gradient"): made.gradient,
            _("exact − gradient"): missed,
        }
    return {
        kind: {
            title: changes[kind].astype(np.float32)
            for title, changes in of.items()
            if kind in changes
        }
        for kind in next(iter(of.values()))
    }


def _map(title: str, values: Floats, kind: Kind, reach: float) -> Matrix:
    return _scaled(
        values,
        reach,
        title=_("{kind}: {what}", kind=_(KIND_NAMES[kind]), what=title),
        sign=kind,
        rows=tuple(f"L{layer}" for layer in range(1, 1 + len(values))),
        columns=tuple(f"H{head}" for head in range(1, 1 + values.shape[1])),
        column_axis=_("head"),
    )


def _scaled(values: Floats, reach: float, **looks: Any) -> Matrix:
    return Matrix(
        values=values,
        shade=signed_shade(values, reach),
        row_axis=_("layer"),
        ends=(number(-reach, 2), number(reach, 2)),
        note=_("nats, linear"),
        signed=True,
        **looks,
    )


def patch_maps(patched: Patched, trace: Trace) -> Iterator[Matrix]:
    """Yield two maps of the encoder's stream, then of the decoder's: one scale for all.

    A row per layer, a column per token: what its stream does when it is taken from this
    run into the other, and from the other into this one.
    """
    both = patched.into_other, patched.from_other
    reach = max(float(np.abs(of[stack]).max()) for of in both for stack in STACKS)
    sides: dict[StackName, SentenceSide] = {"encoder": "source", "decoder": "target"}
    for stack, side in sides.items():
        stack_name = _(STACK_NAMES[stack])
        titles = (
            _("{stack}: this run's stream in the other", stack=stack_name),
            _("{stack}: the other's stream in this run", stack=stack_name),
        )
        for title, of in zip(titles, both, strict=True):
            values = of[stack].astype(np.float32)
            yield _scaled(
                values,
                reach or 1.0,
                title=title,
                rows=tuple(f"L{layer}" for layer in range(1, 1 + len(values))),
                columns=names(trace, side)[: values.shape[1]],
                column_axis=_("token"),
            )


def patch_words(made: Importance, other: str) -> str:
    """Say between which sums of log p streams are patched, or what that needs."""
    if made.patched is None:
        return _(
            "Pin a run whose source has as many tokens (in Runs) to see which place of "
            "the residual stream carries what differs."
        )
    return _(
        "In “{other}” the same tokens have {there} nats in all, here {here}: where the "
        "first maps come near {gap}, that place alone carries what differs.",
        other=other,
        there=decimals(made.patched.other, 2),
        here=decimals(made.total, 2),
        gap=decimals(made.total - made.patched.other, 2),
    )


def layer_numbers(made: Importance) -> Numbers:
    """Return the change with all heads of a layer off: a row per kind."""
    count = max(map(len, made.layers.values()))
    values = np.full((len(made.layers), count), np.nan, np.float32)
    for row, changes in zip(values, made.layers.values(), strict=True):
        row[: len(changes)] = changes
    return Numbers(
        rows=tuple(_(KIND_NAMES[kind]) for kind in made.layers),
        columns=tuple(f"L{layer + 1}" for layer in range(count)),
        values=values,
        axis="",
        by="all",
        kept=~np.isnan(values),
    )


def source_numbers(made: Importance, trace: Trace) -> Numbers | None:
    """Return the change with a source token hidden; None where that is not known."""
    if made.source is None or len(made.source) != len(trace.source):
        return None
    return Numbers(
        rows=(_("change in log p"),),
        columns=names(trace, "source"),
        values=made.source[None].astype(np.float32),
        axis="key",
    )


def importance_words(made: Importance | ImportanceOfPairs) -> str:
    """Say which head matters most, which harms, and how many do nothing."""
    if isinstance(made, ImportanceOfPairs):
        heads, idle = sorted(_heads(made.mean)), ""
        said = ngettext(
            "The mean log p of each token of {n:,} reference.",
            "The mean log p of each token of {n:,} references.",
            made.pairs,
        )
    else:
        heads = sorted(_heads(made.heads))
        said = ngettext(
            "The log p of the run's {n} token is {total} nats.",
            "The log p of the run's {n} tokens adds up to {total} nats.",
            len(made.log_p),
            total=decimals(made.total, 2),
        )
        idle = _(
            "{n} of {all} heads change it by less than {least}.",
            n=sum(abs(one.change) < NOTHING for one in heads),
            all=len(heads),
            least=NOTHING,
        )
        idle = idle if heads else ""  # all are NaN
    falls = rises = ""
    if heads and heads[0].change <= -WRITTEN:
        template = N_("It falls most without {head} of {kind} attention: by {change}.")
        falls = _(template, **_place(heads[0]))
    if heads and heads[-1].change >= WRITTEN:
        template = N_("It rises most without {head} of {kind} attention: by {change}.")
        rises = _(template, **_place(heads[-1]))
    return sentences((said, falls, rises, idle))


def agreement_words(made: Importance | ImportanceOfPairs) -> str:
    """Say how well the estimate orders the heads, and what is not known and why."""
    if isinstance(made, ImportanceOfPairs):
        return ""
    said = ""
    if made.gradient:
        each = (
            f"{_(KIND_NAMES[kind])} {decimals(made.agreement(kind), 2)}"
            for kind in made.gradient
        )
        said = _(
            "The gradient is the slope where the head is on: its estimate errs where "
            "log p bends on the way to off. Rank correlation of both: {each}.",
            each=", ".join(each),
        )
    return sentences((said, *made.reasons))


def _heads(changes: Mapping[Kind, Doubles]) -> Iterator[_Head]:
    for kind, values in changes.items():
        for layer, head in np.ndindex(values.shape):
            if np.isfinite(values[layer, head]):
                yield _Head(float(values[layer, head]), kind, layer, head)


def _place(one: _Head) -> dict[str, str]:
    return {
        "kind": _(KIND_NAMES[one.kind]),
        "head": head_words(one.layer, one.head),
        "change": decimals(abs(one.change), 2),
    }
