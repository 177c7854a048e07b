"""What heads do over a file of pairs: measures, and alignments against a gold file.

Letters: ``L`` layers, ``H`` heads, ``Q`` queries, ``K`` keys, ``D`` width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import numpy as np

from visformer.analysis.head_measures import measured_rows, rarest
from visformer.analysis.word_alignment import (
    Gold,
    aligned,
    errors,
    read_gold,
    words_of,
    written_spans,
)
from visformer.core.attribution import KnownRun
from visformer.core.decoding import Decoding
from visformer.core.importance import by_gradient
from visformer.core.models import Model, WorkDone
from visformer.core.scanning import read_sentences
from visformer.errors import InputError
from visformer.files import read_regular, short
from visformer.language import _
from visformer.values.arrays import Bools, Floats
from visformer.values.facts import SIDES, STACK_OF, Kind, SentenceSide
from visformer.values.heads_of_pairs import AT, MEAN, HeadsOfSome
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.scanned import PairLine
from visformer.values.trace import Trace

MOST_AT_ONCE = 64  # pairs of a part; the first ones are smaller, to be seen soon
HeadNumbers = dict[str, Floats]  # by kind [2, M, L, H]: sums and counts
Golds = Mapping[int, Gold]  # by line
Measuring = Generator[WorkDone | HeadsOfSome, None, None]


def gold_file(path: Path) -> Golds:
    """Read a file of gold alignments; InputError for a line that is none."""
    data = read_regular(path, 1 << 28)
    lines = data.decode(errors="replace").splitlines()
    return read_gold(lines, short(path.name))


def heads_of_file(model: Model, path: Path, change: Intervention) -> Measuring:
    """Measure every head in the pairs of a file."""
    told = list[str]()
    return heads_of_pairs(model, read_sentences(path, told.append), told, change)


def heads_of_pairs(
    model: Model,
    pairs: Sequence[PairLine],
    told: list[str],
    change: Intervention = NO_CHANGES,
    gold: Golds | None = None,
    *,
    only_aligned: bool = False,
) -> Measuring:
    """Measure every head in some pairs after the other; each yield is a place to stop.

    Sources without a reference are translated; ``only_aligned``: no measure is made but
    the alignment error rates, which takes a fraction of the time. The parts say which
    pairs cannot be run, and to which their gold alignment does not fit, as does
    ``told`` what was left out before. Raises InputError where no pair can be run.
    """
    counts = None if only_aligned else _counted(model, pairs)
    measured = _PairMeasure(model, counts, told, change, gold or {})
    some, most, kept = list[PairLine](), 1, list[HeadNumbers]()
    for at, pair in enumerate(pairs):
        yield WorkDone(at, len(pairs), _("pairs"))
        try:
            kept.append(measured.pair(pair))
            some.append(pair)
        except InputError as error:
            told.append(_("Line {n} is left out: {why}", n=pair.line, why=error))
        if len(some) == most or (pair is pairs[-1] and (some or told)):
            yield _joined(some, kept, told)
            some, kept, most = [], [], min(2 * most, MOST_AT_ONCE)
            told.clear()
    if not measured.done:
        raise InputError("None of the pairs can be run.")


def _joined(
    pairs: Sequence[PairLine], made: Sequence[HeadNumbers], told: Sequence[str]
) -> HeadsOfSome:
    kinds = made[0] if made else {}
    both = {kind: np.stack([one[kind] for one in made], 1) for kind in kinds}
    sums, counts = ({kind: each[at] for kind, each in both.items()} for at in (0, 1))
    return HeadsOfSome(
        pairs=tuple(pairs), sums=sums, counts=counts, left_out=tuple(told)
    )


def _counted(
    model: Model, pairs: Sequence[PairLine]
) -> dict[SentenceSide, Counter[int]]:
    """Count the pieces of the file."""
    counts: dict[SentenceSide, Counter[int]]
    counts = {"source": Counter(), "target": Counter()}
    for pair in pairs:
        try:
            counts["source"].update(model.vocabulary.read(pair.source).ids)
            counts["target"].update(model.vocabulary.reference(pair.reference or ""))
        except InputError:
            continue  # it is told when the pair's turn comes
    return counts


class _PairMeasure:
    """A model, and what it is measured against."""

    def __init__(
        self,
        model: Model,
        counts: Mapping[SentenceSide, Counter[int]] | None,  # None: it is only aligned
        told: list[str],
        change: Intervention,
        gold: Golds,
    ) -> None:
        self._model, self._counts, self._told = model, counts, told
        self._change, self._gold = change, gold
        self._outputs: dict[tuple[Kind, int], Floats | None] = {}
        self.done = 0

    def pair(self, pair: PairLine) -> HeadNumbers:
        """Return sums and counts of every head in a pair."""
        decoding = Decoding(self._model, pair.source, intervention=self._change)
        if pair.reference is None:
            trace = decoding.finish()
        else:
            trace = decoding.feed(pair.reference)
        shapes = {kind: (trace.layers(kind), trace.heads(kind)) for kind in trace.kinds}
        made: HeadNumbers = {
            kind: np.zeros((2, len(AT), *shape), np.float32)
            for kind, shape in shapes.items()
        }
        if self._counts is not None:
            self._measure(trace, self._counts, made)
            self._importance(decoding.known, made)
        if "cross" in made and self._gold:
            made[MEAN] = np.zeros_like(made["cross"][..., :1])
            self._aligned(pair, trace, made)
        self.done += 1
        return made

    def _measure(
        self,
        trace: Trace,
        counts: Mapping[SentenceSide, Counter[int]],
        made: HeadNumbers,
    ) -> None:
        for kind in trace.kinds:
            counted = counts[SIDES[kind][1]]
            for layer in range(trace.layers(kind)):
                for name, rows in self._rows(trace, kind, layer, counted).items():
                    known = ~np.isnan(rows)  # [H, Q]
                    into = made[kind][:, AT[name], layer]
                    into[0] = np.where(known, rows, 0).sum(-1)
                    into[1] = known.sum(-1)

    def _rows(
        self, trace: Trace, kind: Kind, layer: int, counted: Counter[int]
    ) -> HeadNumbers:
        read, keys = SIDES[kind]
        ids = {"source": trace.source_ids, "target": trace.target_ids}
        inner = {side: ~np.isin(ids[side], self._model.ends) for side in ids}  # words
        rows: Bools = inner[read]
        if kind == "cross":  # its rows are named by what is written there
            chosen = [step.id for step in trace.steps]
            rows = ~np.isin(np.array(chosen, np.int64), self._model.ends)
        sink = ~inner["source"] if keys == "source" else np.arange(len(trace)) == 0
        return measured_rows(
            trace.attention(kind, layer),
            rows,
            inner[keys],
            own=kind != "cross",
            rare=rarest(ids[keys].tolist(), inner[keys], counted),
            sink=sink,
            norms=self._norms(trace, kind, layer),
        )

    def _norms(self, trace: Trace, kind: Kind, layer: int) -> Floats | None:
        """Return the lengths of v W_O, [H, K]; None where they are not known."""
        if (kind, layer) not in self._outputs:
            weights, own = self._model.extras.weights, None
            if weights is not None:
                made = weights(STACK_OF[kind], layer)
                other = made.cross_attention if kind == "cross" else None
                own = (other or made.self_attention).output.weight  # [H d, D]
            self._outputs[kind, layer] = own
        output = self._outputs[kind, layer]
        if output is None or trace.intervention:  # which may change v, or its heads
            return None
        heads = trace.heads(kind)
        values = trace.values(kind, layer, list(range(heads)))  # [H, K, d]
        added = values @ output.reshape(heads, -1, output.shape[1])  # [H, K, D]
        norms: Floats = np.linalg.norm(added, axis=-1)
        return norms

    def _importance(self, run: KnownRun, made: HeadNumbers) -> None:
        try:
            estimates = by_gradient(self._model, run)[0]
        except InputError:  # another program runs it
            return
        for kind, changes in estimates.items():
            known = np.isfinite(changes)
            into = made[kind][:, AT["importance"]]
            into[0] = np.abs(np.where(known, changes, 0))
            into[1] = known * (len(run.chosen) - run.given)

    def _aligned(self, pair: PairLine, trace: Trace, made: HeadNumbers) -> None:
        gold = self._gold.get(pair.line)
        if gold is None:
            return
        spans = written_spans(trace.steps)
        written = words_of(spans, trace.text)
        source = words_of(trace.source_spans, trace.source_text)
        wanted = len((pair.reference or trace.text).split())
        fits = all(i < len(source) and j < wanted for i, j in gold.possible)
        if len(written) != wanted or not fits or not all(source):
            said = _(
                "Line {n}: its gold alignment does not fit its words.", n=pair.line
            )
            self._told.append(said)
            return
        last = len(trace) - 1  # the row that reads a word is the one after it
        read = [[at + 1 for at in word if at < last] for word in written]
        for layer in range(trace.layers("cross")):
            each = trace.attention("cross", layer)  # [H, Q, K]
            for kind, weights in (("cross", each), (MEAN, each.mean(0, keepdims=True))):
                for name, targets in (("awi", read), ("awo", written)):
                    found = errors(aligned(weights, targets, source), gold)
                    made[kind][:, AT[name], layer] = found
