"""A training series: the sentence on screen, run again by one checkpoint after another.

Every function here is pure, as those of ``runs``.
"""

from dataclasses import replace

from visformer.engine.messages import RunSeries
from visformer.language import _, ngettext, sentences
from visformer.pictures.attention.strips import source_line
from visformer.session import tree
from visformer.session.run import Run, Wish
from visformer.session.state import Next, Series, State
from visformer.values.facts import Kind
from visformer.values.measured import SeriesPoint
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, head_words, number


def follow(state: State, folder: str) -> Next:
    """Measure the checkpoints, or recorded runs, of a folder."""
    trace, source, reference = state.trace, "", ""
    if trace is not None and trace.steps:
        source, reference = source_line(trace), state.wish.reference or trace.text
    request = RunSeries(folder=folder, source=source, reference=reference)
    busy = _("running the series")
    series = Series(folder=folder)
    return Next(replace(state, series=series, busy=busy, error=""), (request,))


def arrived(
    state: State, request: RunSeries, part: tuple[SeriesPoint, Trace] | str | None
) -> State:
    """Keep one more point, whose run joins the tree, or why it is left out."""
    series = state.series or Series(folder="")
    if part is None:
        return state
    if isinstance(part, str):
        left_out = (*series.left_out, part)
        return replace(state, series=replace(series, left_out=left_out))
    point, trace = part
    wish = Wish(sentence=source_line(trace), reference=trace.text)
    run = Run(
        trace=trace,
        name=point.name,
        wish=wish if point.path else None,
        origin="recorded",
        path=point.path,
    )
    series = replace(
        series, points=(*series.points, point), keys=(*series.keys, run.key)
    )
    return replace(state, series=series, runs=(*state.runs, run))


def turn_to(state: State, at: int) -> Next:
    """Show the run of a point."""
    if state.series is None or not 0 <= at < len(state.series.keys):
        return Next(state)
    return tree.show(state, state.series.keys[at])


def place(state: State) -> int | None:
    """Return which point is on screen; None where it is another run."""
    keys = () if state.series is None else state.series.keys
    return keys.index(state.shown) if state.shown in keys else None


def heads_shape(series: Series, measure: str, kind: Kind) -> tuple[int, ...]:
    """Return how many layers and heads the largest of the models has."""
    grids = (point.heads[measure].get(kind) for point in series.points)
    return max((grid.shape for grid in grids if grid is not None), default=(0, 0))


def words(state: State) -> str:
    """Say what the series shows, what is left out, and which head is in colour."""
    series = state.series
    if series is None:
        return _(
            "Choose a folder that holds checkpoints of one training, or runs of one "
            "sentence that a training loop recorded: each becomes a point."
        )
    out = ngettext(
        "{n} entry is left out: {reason}",
        "{n} entries are left out, one of them because: {reason}",
        len(series.left_out),
        reason=series.left_out[0] if series.left_out else "",
    )
    said = [out] if series.left_out else []
    known = [point for point in series.points if point.loss == point.loss]
    if known:
        first, last = known[0], known[-1]
        best = min(known, key=lambda point: point.loss)
        said.insert(0, _loss_words(first, last, best))
    shape = heads_shape(series, "entropy", state.kind)
    if state.layer < shape[0] and state.head < shape[1]:
        said.append(
            _(
                "In colour: {kind}, {head}.",
                kind=_(KIND_NAMES[state.kind]),
                head=head_words(state.layer, state.head),
            )
        )
    return sentences(said)


def _loss_words(first: SeriesPoint, last: SeriesPoint, best: SeriesPoint) -> str:
    fields = {
        "first": number(first.loss, 3),
        "begin": first.step,
        "last": number(last.loss, 3),
        "end": last.step,
    }
    if first is last:
        return _("The sentence's loss is {first} nats per token.", **fields)
    if best is last:
        return _(
            "The sentence's loss falls from {first} nats per token at step {begin:,} "
            "to {last} at step {end:,}, its lowest.",
            **fields,
        )
    return _(
        "The sentence's loss goes from {first} nats per token at step {begin:,} to "
        "{last} at step {end:,}; it is lowest, {least}, at step {best:,}.",
        **fields,
        least=number(best.loss, 3),
        best=best.step,
    )
