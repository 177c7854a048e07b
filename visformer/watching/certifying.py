"""Several calls made of one: faults may show only at other lengths or batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from visformer.language import _, ngettext
from visformer.values.certificate import Certificate
from visformer.values.finding import Finding
from visformer.watching.captured import worst
from visformer.watching.certifying_watched import together
from visformer.watching.surroundings import same_chances
from visformer.values.watched_attention import HALF_TOLERANCE

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched, Watcher

LATER = "later-tokens-count"
LENGTHS = 1, 2, 12, 33, 129
APART = 1e-3  # of outputs that ought to be the same, relative to max(1, row magnitude)
ROWS = 3  # of the batch that one row is compared in
Given = tuple[tuple[Any, ...], dict[str, Any]]


def certified(
    watcher: Watcher, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Certificate:
    """Return what a call, and calls made of it, tell together."""
    first = watcher(*args, **kwargs)
    certificates, checks = [first.certificate], []
    if first.time_axis is None:
        checks.append(
            _(
                "No other lengths or batches were tried: it cannot be told which axis "
                "of the inputs counts tokens. Give several rows of several tokens."
            )
        )
    given: Given = args, kwargs
    with _without(watcher):
        for length in LENGTHS:
            try:
                watched = _at_length(watcher, first, given, length)
            except Exception:  # the model does not take this length
                watched = None
            if watched is None or not watched.attentions:
                continue
            certificates.append(watched.certificate)
            checks.append(
                ngettext(
                    "Length {length:,}: {n} attention, within {worst:.1e}.",
                    "Length {length:,}: {n} attentions, within {worst:.1e}.",
                    len(watched.attentions),
                    length=length,
                    worst=watched.certificate.worst,
                )
            )
        found: list[Finding] = []
        for check in (_row_alone, _prefix):
            try:
                finding, sentence = check(watcher, first, given)
            except Exception:  # the model does not take such a call
                continue
            checks += [sentence] if sentence else []
            found += [finding] if finding else []
    named = {one.id for c in certificates for one in c.findings}
    if "dropout-on" in named:  # every call gives other numbers
        found = []
    # what was found in the attention says why later tokens count
    found = [one for one in found if one.id != LATER or not named]
    return together(certificates, found, checks)


@contextmanager
def _without(watcher: Watcher) -> Iterator[None]:
    """Leave out what belongs to the one call: its tokens and labels."""
    kept = watcher.tokens, watcher.labels
    watcher.tokens, watcher.labels = (None, None), None
    try:
        yield
    finally:
        watcher.tokens, watcher.labels = kept


def _mapped(given: Given, change: Callable[[Tensor], Tensor]) -> Given:
    mapped: Given = tree_map(lambda x: change(x) if isinstance(x, Tensor) else x, given)
    return mapped


def _at_length(
    watcher: Watcher, first: Watched, given: Given, length: int
) -> Watched | None:
    """Watch the call with inputs of another length: repeated, or cut off.

    Whatever has a dimension as long as the source or the target follows it; masks that
    were given can only be cut off.
    """
    inputs = [x for x in (*first.sources[-1:], *first.targets[-1:]) if x.dim() > 1]
    axis = first.time_axis
    if not inputs or axis is None:
        return None
    old = {x.shape[axis] for x in inputs}
    unclear = inputs[0].shape[1 - axis] in old  # what of a mask's axes are tokens

    def stretched(x: Tensor) -> Tensor:
        is_input = any(_same(x, one) for one in inputs)
        for at in [axis] if is_input else _along(x, old):
            if (length > x.shape[at] or unclear) and not is_input:
                raise ValueError("a mask of another length cannot be made")
            index = torch.arange(length, device=x.device) % x.shape[at]
            x = x.index_select(at, index)
        if is_input and watcher.pad is not None and not x.is_floating_point():
            x = torch.where(x == watcher.pad, x.select(axis, 0).unsqueeze(axis), x)
        return x

    args, kwargs = _mapped(given, stretched)
    return watcher(*args, **kwargs)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.detach().cpu(), other)


def _along(x: Tensor, sizes: set[int]) -> list[int]:
    """Return the dimensions that are as long as the inputs, features left out."""
    features = x.dim() - 1 if x.is_floating_point() and x.dim() > 2 else -1
    square = x.dim() > 2 and x.shape[-1] == x.shape[-2]  # a mask
    return [
        at for at, n in enumerate(x.shape) if n in sizes and (at != features or square)
    ]


def _call(watcher: Watcher, given: Given) -> Tensor | None:
    """Call the model, unwatched; returns its first output."""
    args, kwargs = given
    with same_chances(watcher.model), torch.no_grad():
        torch.manual_seed(0)
        return first_tensor(watcher.model(*args, **kwargs))


def first_tensor(output: Any) -> Tensor | None:
    """Return the first tensor of numbers of what a model returned."""
    leaves: list[Tensor] = []
    tree_map(lambda x: leaves.append(x) if isinstance(x, Tensor) else None, output)
    return next((x for x in leaves if x.is_floating_point()), None)


def _row_alone(
    watcher: Watcher, first: Watched, given: Given
) -> tuple[Finding | None, str]:
    """Compare the last row of the batch alone with it in the batch."""
    if first.time_axis is None:
        return None, ""
    axis = 1 - first.time_axis
    inputs = (first.sources or first.targets)[-1]
    rows = inputs.shape[axis]

    def alike(x: Tensor, at: list[int]) -> Tensor:
        for dim in (axis, 0, 1):  # masks may count the batch along another axis
            if x.dim() > dim and x.shape[dim] == rows:
                return x.index_select(dim, torch.tensor(at, device=x.device))
        return x

    last = rows - 1
    alone = _call(watcher, _mapped(given, lambda x: alike(x, [last])))
    several = _call(watcher, _mapped(given, lambda x: alike(x, [last] * ROWS)))
    if alone is None or several is None:
        return None, ""
    of_output = next(
        (d for d in (axis, 0, 1) if several.shape[d] == ROWS and alone.shape[d] == 1),
        None,
    )
    if of_output is None:
        return None, ""
    differences = [worst(several.narrow(of_output, at, 1), alone) for at in range(ROWS)]
    limit = APART if several.dtype == torch.float32 else HALF_TOLERANCE
    sentence = _(
        "One row alone and in a batch: they differ by {worst:.1e}.",
        worst=max(differences),
    )
    if max(differences) <= limit:
        return None, sentence
    row = max(range(ROWS), key=differences.__getitem__)
    finding = Finding(
        "positions-along-batch",
        _("batch"),
        _(
            "The same sentence gives other numbers in row {row} of a batch than alone: "
            "they differ by {worst:.3g}, while row 1 differs by {first:.1e}. Positions "
            "run along the batch, or rows are mixed.",
            row=row + 1,
            worst=differences[row],
            first=differences[0],
        ),
        _("Add the position of each token along its own sentence."),
    )
    return finding, sentence


def _prefix(
    watcher: Watcher, first: Watched, given: Given
) -> tuple[Finding | None, str]:
    """Compare a causal pass with the pass of its first tokens alone."""
    inputs, axis = (first.targets or first.sources)[-1], first.time_axis
    if axis is None:
        return None, ""
    length, rows = inputs.shape[axis], inputs.shape[1 - axis]
    others = {x.shape[axis] for x in first.sources[-1:]} if first.targets else set()
    causal = any(one.kind == "decoder" for one in first.last_run)
    if not causal or length < 2 or length in {rows, *others}:
        return None, ""

    def cut(x: Tensor) -> Tensor:
        for at in _along(x, {length}):
            x = x.narrow(at, 0, length - 1)
        return x

    whole, part = _call(watcher, given), _call(watcher, _mapped(given, cut))
    if whole is None or part is None or whole.shape[axis] != length:
        return None, ""
    whole = whole.narrow(axis, 0, length - 1)
    if watcher.pad is not None and not inputs.is_floating_point():
        # rows of padding may do what they like
        real = (inputs != watcher.pad).all(axis).nonzero()[:, 0].to(whole.device)
        whole, part = (x.index_select(1 - axis, real) for x in (whole, part))
    apart = worst(whole, part)
    sentence = _(
        "A pass against the pass without its last token: they differ by {worst:.1e}.",
        worst=apart,
    )
    if apart <= (APART if whole.dtype == torch.float32 else HALF_TOLERANCE):
        return None, sentence
    finding = Finding(
        LATER,
        _("target"),
        _(
            "The rows before the last token change by {worst:.3g} when it is left out, "
            "so they depend on what comes after them.",
            worst=apart,
        ),
        _("Look for a norm, a shift or a mask that runs over the tokens."),
    )
    return finding, sentence
