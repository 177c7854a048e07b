"""Edits in place of a part of some numbers: what is known of the whole follows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from visformer.watching.ledger import Ledger, ViewKey, place_of
from visformer.watching.score_trail import Again, ScoreTrail, doing_again


def follow_edit(
    ledger: Ledger, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Add an edit of its first argument to the trails of what that is a part of."""
    part, views = args[0], ledger.views(args[0])
    edited = place_of(part)
    wholes = {
        place: known
        for place, known in views.items()
        if known.trail is not None and place != edited and _reaches(place, edited)
    }
    if not wholes:
        return
    # what it takes from beside the part may be edited later
    own = [
        x.clone() if isinstance(x, Tensor) and ledger.views(x) is views else x
        for x in args[1:]
    ]
    edit = doing_again(func, (part, *own), kwargs, part)
    for place, known in wholes.items():
        assert known.trail is not None
        trail = ScoreTrail(
            product=known.trail.product,
            before=known.trail,
            again=_in_part(edit, place, edited),
            operation=func._schema.name.rpartition("::")[2],
            random=any(ledger.known(x).random for x in own if isinstance(x, Tensor)),
        )
        views[place] = replace(known, trail=trail)


def _span(place: ViewKey) -> int:
    """Return how many numbers lie between the first and the last of a view."""
    _offset, shape, strides = place
    return 1 + sum((n - 1) * by for n, by in zip(shape, strides, strict=True))


def _reaches(whole: ViewKey, part: ViewKey) -> bool:
    """Whether a part lies between the first and the last number of a view."""
    start = part[0] - whole[0]
    return 0 not in part[1] and start >= 0 and start + _span(part) <= _span(whole)


def _in_part(edit: Again, whole: ViewKey, part: ViewKey) -> Again:
    """Return an edit of a part as a function of the whole."""

    def again(given: Tensor) -> Tensor:
        numbers = given.new_zeros(_span(whole))  # as they lay in memory
        numbers.as_strided(*whole[1:]).copy_(given.reshape(whole[1]))
        inner = numbers.as_strided(*part[1:], part[0] - whole[0])
        inner.copy_(edit(inner))
        return numbers.as_strided(*whole[1:])

    return again
