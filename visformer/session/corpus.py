"""What every head does over a file of pairs.

Every function here is pure, as those of ``runs``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from visformer.engine.messages import MeasureHeads
from visformer.files import short
from visformer.language import _, clauses, ngettext, sentences
from visformer.session import scans
from visformer.session.state import Next, State
from visformer.values.arrays import Doubles
from visformer.values.facts import KINDS, Kind
from visformer.values.heads_of_pairs import (
    AT,
    MEASURES,
    ROLES,
    HeadExample,
    HeadsOfPairs,
    HeadsOfSome,
)
from visformer.words import KIND_NAMES, number, percent, short_head


class HeadPoint(NamedTuple):
    """A head, and its two measures that are shown; layer and head from 0."""

    kind: Kind
    layer: int
    head: int
    x: float
    y: float
    roles: str  # what it is called, each role with its share

    @property
    def place(self) -> tuple[Kind, int, int]:
        return self[:3]

    @property
    def name(self) -> str:
        return short_head(self.layer, self.head)


def measure(state: State, path: str) -> Next:
    """Measure the heads of the open model over the pairs of a file."""
    if state.opened is None:
        error = _("No model is open: open a checkpoint first.")
        return Next(replace(state, error=error))
    made = HeadsOfPairs(path=path, model=state.opened.model.name)
    state = replace(state, heads=made, busy=_("measuring heads"), error="")
    return Next(state, (MeasureHeads(path=path, intervention=state.intervention),))


def arrived(state: State, request: MeasureHeads, part: HeadsOfSome | None) -> State:
    """Keep some more pairs; None: those were all."""
    if part is None or state.heads is None:
        return state
    return replace(state, heads=state.heads.plus(part))


def show_example(state: State, example: HeadExample) -> Next:
    """Run an example, and go to the attention of the head that is looked at."""
    pair = example.pair
    return scans.show_text(state, pair.source, pair.reference or "", 1)


def points(found: HeadsOfPairs, x: str, y: str) -> Iterator[HeadPoint]:
    """Yield every head with two measures; NaN is no data."""
    for kind in KINDS:
        if kind not in found.sums:
            continue
        across, up, shares = (
            found.mean(x, kind),
            found.mean(y, kind),
            found.shares(kind),
        )
        for layer, head in np.ndindex(across.shape):
            numbers = float(across[layer, head]), float(up[layer, head])
            roles = role_words(shares, (layer, head))
            yield HeadPoint(kind, layer, head, *numbers, roles)


def role_words(shares: Mapping[str, Doubles], at: tuple[int, ...]) -> str:
    """Name the roles of the head at a place, each with its share; "" for none."""
    return clauses(
        _(words, share=percent(shares[name][at]))
        for name, (least, words) in ROLES.items()
        if shares[name][at] >= least
    )


def known_measures(found: HeadsOfPairs) -> dict[str, str]:
    """Return the titles of the measures of which there is a number."""
    return {
        name: measure.title
        for name, measure in MEASURES.items()
        if any(counts[AT[name]].any() for counts in found.counts.values())
    }


def words(state: State) -> str:
    """Say what was measured, what was left out, and what the head looked at does."""
    found = state.heads
    if found is None:
        return _(
            "Choose a file with a source, a tab and a reference on each line: every "
            "head of the open model becomes a point."
        )
    said = [
        ngettext(
            "{n:,} pair of {file}, read by “{model}”.",
            "{n:,} pairs of {file}, read by “{model}”.",
            len(found),
            file=short(Path(found.path).name),
            model=short(found.model),
        )
    ]
    if found.left_out:
        said.append(scans.left_out_words(found.left_out))
    return sentences(said)


def head_line(found: HeadsOfPairs, kind: Kind, layer: int, head: int) -> str:
    """Say what one head does by every measure that is known of it."""
    numbers = {name: found.mean(name, kind)[layer, head] for name in MEASURES}
    place = {"kind": _(KIND_NAMES[kind]), "head": short_head(layer, head)}
    if all(number != number for number in numbers.values()):
        return _("{kind}, {head}: no data.", **place)
    return _(
        "{kind}, {head}: {numbers}.",
        **place,
        numbers=clauses(
            [role_words(found.shares(kind), (layer, head))]
            + [
                _(
                    "{measure} {value}",
                    measure=_(MEASURES[name].title),
                    value=number(v, 3),
                )
                for name, v in numbers.items()
                if v == v
            ]
        ),
    )
