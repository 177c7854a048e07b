"""The tree of runs in words: what each was made from, by what, and where it parts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from visformer.engine.messages import Decode
from visformer.language import _, listed, ngettext
from visformer.pictures.token_names import chosen_name
from visformer.pictures.words.translation_text import TextPart, first_difference
from visformer.text import visible
from visformer.values.intervention import Intervention
from visformer.values.step import GREEDY, Strategy, step_origins
from visformer.values.trace import Trace
from visformer.words import decimals, number

DEEPEST = 6  # levels that are indented
MOST_NAMED = 3  # forced tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What is said of a run, also once its numbers are let go."""

    source: str
    text: str  # the translation
    mean: float | None  # of log p of its tokens, in nats; None: there are none
    model: str  # its name
    digest: str  # and the digest of its weights
    forced: tuple[tuple[int, str], ...] = ()  # step, from 1, and token


class TreeRun(Protocol):
    """What the tree says of a run follows from this."""

    @property
    def key(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def trace(self) -> Trace | None: ...
    @property
    def change(self) -> Intervention: ...
    @property
    def request(self) -> Decode | None: ...
    @property
    def outline(self) -> Outline: ...


class TreeRow(NamedTuple):
    """A run in the tree, as it is written there."""

    key: int
    depth: int
    name: str
    made: str  # what was changed
    text: tuple[TextPart, ...]  # its first difference from its parent's is marked
    mean: str  # of log p
    signs: str  # what is done with it now


def outline(trace: Trace) -> Outline:
    """Return the outline of a run."""

    def make() -> Outline:
        model, origins = trace.model, step_origins(trace.steps)
        forced = [row for row, origin in enumerate(origins) if origin == "forced"]
        return Outline(
            source=trace.source_text,
            text=trace.text,
            mean=mean_log_p(trace),
            model=model.name,
            digest=model.digest,
            # plain text, as a kept session is written
            forced=tuple((row + 1, str(chosen_name(trace, row))) for row in forced),
        )

    return trace.memo.made((trace.steps,), "outline", make)


def mean_log_p(trace: Trace) -> float | None:
    """Return the mean of log p of the tokens written, in nats; None for none.

    Tokens of a prompt and padding are not counted. NaN where the model's numbers are.
    """
    pairs = [*zip(trace.steps, trace.before_pads.tolist(), strict=False)]
    written = pairs[max(0, trace.prompt - 1) :]
    losses = [step.loss for step, pad in written if step.computed and not pad]
    return -math.fsum(losses) / len(losses) if losses else None


def tree_rows(
    runs: Sequence[TreeRun],
    parents: Mapping[int, int],
    *,
    shown: int,
    pinned: int | None,
) -> tuple[TreeRow, ...]:
    """Return the rows of the tree, each below what it came from.

    ``parents``: the key of each run's parent, where that is among the ``runs``. A run
    of another sentence, or of another model, begins a tree of its own.
    """
    by_key, below, roots = {run.key: run for run in runs}, dict[int, list[int]](), []
    for run in runs:
        above = by_key.get(parents.get(run.key, 0))
        if above is not None and _is_branch(run, above):
            below.setdefault(above.key, []).append(run.key)
        else:
            roots.append(run.key)

    rows, waiting = list[TreeRow](), [(key, 0) for key in reversed(roots)]
    while waiting:
        key, depth = waiting.pop()
        run, above = by_key[key], by_key.get(parents.get(key, 0))
        signs = (
            _("on screen") if key == shown else "",
            _("baseline") if key == pinned else "",
            _("let go") if run.trace is None else "",
        )
        row = TreeRow(
            key,
            depth,
            run.name,
            made_words(run, above),
            _marked(run, above),
            _mean_words(run.outline.mean),
            listed(filter(None, signs)),
        )
        rows.append(row)
        deeper = min(depth + 1, DEEPEST)
        waiting += [(one, deeper) for one in reversed(below.get(key, ()))]
    return tuple(rows)


def _is_branch(run: TreeRun, above: TreeRun) -> bool:
    one, other = run.outline, above.outline
    return (one.source, one.digest) == (other.source, other.digest)


def made_words(run: TreeRun, above: TreeRun | None) -> str:
    """Say what was changed to make a run of another, or what it reads."""
    said, own = [], run.outline
    base = None if above is None else above.outline
    if base is None or base.source != own.source:
        said.append(_("“{text}”", text=visible(own.source)))
    if base is not None and base.digest != own.digest:
        said.append(_("by “{model}”", model=visible(own.model)))
    change = None if above is None else above.change
    if run.change and run.change != change:
        said.append(str(run.change))
    elif change and not run.change:
        said.append(_("without a change"))
    known = () if base is None else base.forced
    forced = [one for one in own.forced if one not in known]
    said += [
        _("step {step}: “{token}”", step=step, token=token)
        for step, token in forced[:MOST_NAMED]
    ]
    if len(forced) > MOST_NAMED:
        said.append(_("{n:,} more forced", n=len(forced) - MOST_NAMED))
    said += _wanted_words(run.request, None if above is None else above.request)
    return listed(said)


def _wanted_words(now: Decode | None, before: Decode | None) -> Iterator[str]:
    """Say how tokens are chosen, where that is known and differs."""
    if now is None:
        return
    if now.reference and (before is None or now.reference != before.reference):
        yield _("reference fed")
    elif before is not None and before.reference and not now.reference:
        yield _("decoded freely")
    if now.strategy != (GREEDY if before is None else before.strategy):
        yield _strategy_words(now.strategy)
    if now.limit != (None if before is None else before.limit):
        limit = now.limit
        yield _("no limit") if limit is None else _("at most {n:,} tokens", n=limit)


def _strategy_words(strategy: Strategy) -> str:
    if strategy == GREEDY:
        return _("greedy")
    if strategy.name == "beam":
        return ngettext("{n} beam", "{n} beams", strategy.beams)
    return _(
        "drawn, temperature {heat}, seed {seed}",
        heat=number(strategy.temperature),
        seed=strategy.seed,
    )


def _marked(run: TreeRun, above: TreeRun | None) -> tuple[TextPart, ...]:
    own, base = run.outline, None if above is None else above.outline
    text = visible(own.text.strip())
    if base is None or base.source != own.source:
        return (TextPart(text, differs=False),)
    return first_difference(text, visible(base.text.strip()))


def _mean_words(mean: float | None) -> str:
    return "" if mean is None else decimals(mean, 3)
