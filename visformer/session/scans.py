"""A file of pairs that the open model scans, and its pairs one by one.

Every function here is pure, as those of ``runs``.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from visformer.engine.messages import ScanPairs
from visformer.files import short
from visformer.language import N_, _, ngettext, sentences
from visformer.session import runs
from visformer.session.state import Next, ScannedFile, State
from visformer.values.scanned import KINDS, FaultKind, ScannedPair, ScannedPart

Test = Callable[[ScannedPair], bool]


def scan(state: State, path: str) -> Next:
    """Scan the pairs of a file by the open model."""
    if state.opened is None:
        error = _("No model is open: open a checkpoint first.")
        return Next(replace(state, error=error))
    made = ScannedFile(path=path)
    state = replace(state, scan=made, busy=_("scanning"), error="")
    return Next(state, (ScanPairs(path=path),))


def arrived(state: State, request: ScanPairs, part: ScannedPart) -> State:
    """Keep some more pairs."""
    known = state.scan
    if known is None:
        return state
    tests = {**kinds(), **buckets()}.values()
    counts = known.counts or ((0, 0.0),) * len(tests)
    made = replace(
        known,
        counts=tuple(
            _counted(count, test, part.pairs)
            for count, test in zip(counts, tests, strict=True)
        ),
        pairs=(*known.pairs, *part.pairs),
        left_out=(*known.left_out, *part.left_out),
        usual=part.usual,
        checked=part.checked,
    )
    return replace(state, scan=made)


def show_pair(state: State, pair: ScannedPair) -> Next:
    """Feed a pair's reference, and go to its worst token in the attention."""
    text = pair.reference or pair.translation
    return show_text(state, pair.source, text, pair.worst_token + 1)


def show_text(state: State, source: str, reference: str, step: int) -> Next:
    """Feed a reference, or translate without one, and go to a step's attention."""
    made = runs.translate(state, source, reference=reference)
    if not made.requests:  # it was refused
        return made
    now = replace(made.state, cursor=step, seeks=False)
    begun = now.place._replace(step=step)
    return made._replace(state=replace(now, begun=begun, tab="attention"))


def json_lines(pairs: Sequence[ScannedPair]) -> str:
    """Write pairs as ``visformer scan --json`` does."""
    written = (json.dumps(one.to_dict(), ensure_ascii=False) for one in pairs)
    return "".join(f"{line}\n" for line in written)


# ---- groups of pairs -------------------------------------------------------------


def _bounds(
    title: str, ends: Sequence[float], of: Callable[[ScannedPair], float]
) -> dict[str, Test]:
    """Return tests by a number: below the first end, between two, from the last on."""
    made: dict[str, Test] = {}
    for low, high in zip((0, *ends), (*ends, math.inf), strict=True):
        name = _(title, low=f"{low:g}", high=f"{high:g}".replace("inf", "∞"))
        made[name] = partial(_within, of, low, high)
    return made


def _within(
    of: Callable[[ScannedPair], float], low: float, high: float, one: ScannedPair
) -> bool:
    return low <= of(one) < high


def buckets() -> dict[str, Test]:
    """Return groups by length, by the rarest source token and by the ratio."""
    return {
        **_bounds(
            N_("target tokens: {low} to below {high}"),
            (6, 11, 21, 41),
            lambda one: len(one.loss),
        ),
        **_bounds(
            N_("rarest source token: {low} to below {high} times"),
            (2, 5, 20, 100),
            lambda one: one.rarest,
        ),
        **_bounds(
            N_("target by source tokens: {low} to below {high}"),
            (0.5, 0.8, 1.25, 2),
            lambda one: one.length_ratio,
        ),
    }


def kinds() -> dict[str, Test]:
    """Return the kinds of faults, and pairs without any."""
    known = (*KINDS.items(), (None, N_("no fault was found")))
    return {_(title): partial(_is_of, kind) for kind, title in known}


def _is_of(kind: FaultKind | None, one: ScannedPair) -> bool:
    return one.kind == kind


def _counted(
    known: tuple[int, float], test: Test, pairs: Sequence[ScannedPair]
) -> tuple[int, float]:
    losses = [one.mean for one in pairs if test(one)]
    return known[0] + len(losses), known[1] + sum(losses)


def counted(found: ScannedFile, groups: Mapping[str, Test]) -> dict[str, str]:
    """Write each group that has pairs, with how many and their mean loss."""
    counts = dict(zip((*kinds(), *buckets()), found.counts, strict=False))
    return {
        name: _(
            "{group} ({n:,}; loss {loss:.2f})",
            group=name,
            n=counts[name][0],
            loss=counts[name][1] / counts[name][0],
        )
        for name in groups
        if name in counts and counts[name][0]
    }


def words(state: State) -> str:
    """Say what is scanned, how far, what was left out, and which layer serves."""
    found = state.scan
    if found is None:
        return _(
            "Choose a file with a source, a tab and a reference on each line, or with "
            "sources alone, whose translations are scanned. The model on screen reads "
            "it."
        )
    said = [
        ngettext(
            "{n:,} pair of {file}.",
            "{n:,} pairs of {file}.",
            len(found.pairs),
            file=short(Path(found.path).name),
        )
    ]
    if found.left_out:
        said.append(left_out_words(found.left_out))
    if found.usual is not None:
        said += [found.usual.sentence, *found.checked]
    return sentences(said)


def left_out_words(why: Sequence[str]) -> str:
    """Say how many lines are left out, and why the first one is."""
    return ngettext(
        "{n:,} line is left out: {reason}",
        "{n:,} lines are left out, the first because: {reason}",
        len(why),
        reason=why[0],
    )
