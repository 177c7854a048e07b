"""The certificate of what was watched, from one call or several."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from visformer.analysis.checks.observation import Observation
from visformer.analysis.checks.softmax import SUMS
from visformer.analysis.checks.table import causes, findings_of
from visformer.language import _, ngettext
from visformer.values.finding import Certificate
from visformer.values.watched_attention import TOLERANCE, WatchedAttention
from visformer.watching.comparing_steps import compared_steps
from visformer.watching.observing import observed
from visformer.watching.row_tokens import side_ids
from visformer.watching.seen_instead import SeenInstead
from visformer.watching.traces import layers_of, not_in_traces

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched

TOGETHER = "together"  # what was seen of results that are put together, and shown
_SIZES = re.compile(r" [\d,]+ ")


def certificate_of(watched: Watched, seen: Observation | None = None) -> Certificate:
    """Return the certificate of what was watched; ``seen`` is what was observed."""
    checks = [*_of_fast_paths(watched), *_of_mixed_heads(watched)]
    checks += [_sentence(x, watched) for x in watched.seen if x.reason == TOGETHER]
    if seen is None:
        seen = observed(watched)
        steps = compared_steps(watched, seen) if watched.output is None else None
        if steps is not None:
            seen = replace(seen, compared=steps.comparisons)
            checks.append(steps.sentence)
    attentions = watched.attentions
    worst, tolerance = _agreement([(x.difference, x.tolerance) for x in attentions])
    return Certificate(
        worst=worst,
        output_difference=watched.output_difference,
        tolerance=tolerance,
        attentions=len(attentions),
        missed=tuple(_missed(watched)),
        checks=tuple(checks),
        findings=findings_of(seen),
    )


def together(certificates: Sequence[Certificate], checks: Sequence[str]) -> Certificate:
    """Return one certificate of several calls; of equal findings, the first."""
    outputs = [c.output_difference for c in certificates]
    compared = [one for one in outputs if one is not None]
    worst, tolerance = _agreement([(c.worst, c.tolerance) for c in certificates])
    said = dict.fromkeys(sentence for c in certificates for sentence in c.checks)
    first, *others = ([*c.missed] for c in certificates)
    known = {_SIZES.sub("", x) for x in first}  # whatever the sizes of the calls
    more = {_SIZES.sub("", x): x for several in reversed(others) for x in several}
    return replace(
        certificates[0],
        worst=worst,
        output_difference=max(compared, default=None),
        tolerance=tolerance,
        missed=(*first, *(x for told, x in more.items() if told not in known)),
        findings=causes(one for c in certificates for one in c.findings),
        checks=(*said, *checks),
    )


def _agreement(several: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the largest difference, and what it may be; less where one is too far."""
    over = [most for apart, most in several if apart > most]
    tolerance = min(over) if over else max((x for _a, x in several), default=TOLERANCE)
    return max((apart for apart, _most in several), default=0.0), tolerance


def _of_fast_paths(watched: Watched) -> list[str]:
    """Say where torch's fast path, off while watching, gives other numbers."""
    sentences = []
    for one in watched.fast_paths:
        module = one.module or type(watched.watcher.model).__name__
        if one.zeros:
            sentences.append(
                _(
                    "“{module}”: torch's fast path is off while the model is watched. "
                    "It gives zeros at {n:,} of {all:,} places.",
                    module=module,
                    n=one.zeros,
                    all=one.places,
                )
            )
        if one.elsewhere:
            sentences.append(
                _(
                    "“{module}”: torch's fast path is off while the model is watched. "
                    "Its numbers differ by up to {worst:.2g}.",
                    module=module,
                    worst=one.elsewhere,
                )
            )
    if sentences and TOLERANCE < watched.fast_difference < math.inf:
        sentences.append(
            _(
                "Unwatched, with that path, the output differs by up to {worst:.2g}.",
                worst=watched.fast_difference,
            )
        )
    return list(dict.fromkeys(sentences))


def _of_mixed_heads(watched: Watched) -> list[str]:
    """Say of weights that were mixed where a row's sum is furthest from one."""
    furthest: tuple[float, str] = SUMS, ""
    for one in watched.last_run:
        if not (one.mixed and one.verified) or one.dropout or one.over != "keys":
            continue
        sums = np.nan_to_num(one.weights.sum(-1), nan=1.0).round(4)
        _batch, head, row = at = np.unravel_index(np.abs(sums - 1).argmax(), sums.shape)
        told = _(
            "“{module}”: its weights are mixed after the softmax, or a sink takes a "
            "part: row {row} of head {head} sums to {sum:.3g}.",
            module=one.module or type(watched.watcher.model).__name__,
            row=int(row) + 1,
            head=int(head) + 1,
            sum=float(sums[at]),
        )
        furthest = max(furthest, (float(abs(sums[at] - 1)), told))
    return [furthest[1]] if furthest[1] else []


def _missed(watched: Watched) -> list[str]:
    missed = [one for one in watched.seen if one.reason != TOGETHER]
    sentences = [_sentence(seen, watched) for seen in missed]
    sentences += [one.problem for one in watched.attentions if one.problem]
    sentences += [
        _(
            "“{module}”: its attention is neither the encoder's nor the decoder's. "
            "Name the inputs with sources= and targets=.",
            module=one.module,
        )
        for one in watched.attentions
        if one.kind == "other"
    ]
    sentences += [
        _(
            "“{module}”: one softmax over {first:,} and {second:,} keys of two sides, "
            "which no Trace can hold. It is in watched.attentions.",
            module=one.module,
            first=one.border or 0,
            second=one.weights.shape[3] - (one.border or 0),
        )
        for one in watched.attentions
        if one.kind == "merged"
    ]
    sentences += [_of_no_trace(one, watched) for one in not_in_traces(watched)]
    sentences += _on_no_tab(watched)
    sentences += _of_tokens(watched)
    sentences += _not_whole(watched)
    sentences += [
        _mixing(name or type(module).__name__, type(module).__name__)
        for name, module in watched.watcher.model.named_modules()
        if isinstance(module, nn.RNNBase)
    ]
    told = any(one.reason in ("axes", "nested") for one in missed)
    if not watched.attentions and not told:
        sentences.append(
            _(
                "No attention was found. If a kernel of its own computes it, or a "
                "graph in another format, switch to the eager implementation."
            )
            if _may_be_hidden(watched)
            else _(
                "No attention was found: no softmax over products of two activations "
                "weighs others."
            )
        )
    return list(dict.fromkeys(sentences))


def _on_no_tab(watched: Watched) -> list[str]:
    """Say how many attentions of the last run no tab of the window shows."""
    others = [one for one in watched.last_run if one.kind in ("other", "merged")]
    n = len(others) + len(not_in_traces(watched))
    if not n:
        return []
    return [
        ngettext(
            "{n:,} of {all:,} attentions of the last run is on no tab.",
            "{n:,} of {all:,} attentions of the last run are on no tab.",
            n,
            all=len(watched.last_run),
        )
    ]


def _of_tokens(watched: Watched) -> list[str]:
    """Say where tokens have numbers for names, although ids were given."""
    ids, sides = side_ids(layers_of(watched.last_run)), watched.sides
    of = {"source": 0, "target": 0}  # what the tokens of either side depend on
    for one, shown in zip(watched.found, watched.attentions, strict=True):
        of["source" if shown.kind == "encoder" else "target"] |= one.marks[0]
        of["target" if shown.kind == "decoder" else "source"] |= one.marks[1]
    said = (
        (
            "source",
            sides.source & of["source"],
            _(
                "Which token of the source stands where could not be followed, so its "
                "positions are numbered."
            ),
        ),
        (
            "target",
            (sides.target or sides.source) & of["target"],
            _(
                "Which token of the target stands where could not be followed, so its "
                "positions are numbered."
            ),
        ),
    )
    return [
        sentence
        for side, marks, sentence in said
        if side in ids and ids[side] is None
        if any(one.marks & marks for one in watched.read)
        or any(x.tensor.dtype == torch.int64 for x in watched.given(marks))
    ]


def _not_whole(watched: Watched) -> list[str]:
    """Say of how many sequences that were generated the Traces hold less."""
    n = watched.not_whole
    if not n:
        return []
    return [
        ngettext(
            "{n:,} of {all:,} sequences that “generate” returned was not read in one "
            "run, so no Trace holds all of it.",
            "{n:,} of {all:,} sequences that “generate” returned were not read in one "
            "run, so no Trace holds all of them.",
            n,
            all=len(watched.generated.sequences),
        )
    ]


def _may_be_hidden(watched: Watched) -> bool:
    """Whether a part of what ran could not be followed."""
    reasons = {one.reason for one in watched.seen}
    return not watched.operations or bool(reasons & {"kernel", "unknown"})


def _mixing(module: str, operation: str) -> str:
    return _(
        "“{module}”: “{operation}” mixes positions: no attention matrix here.",
        module=module,
        operation=operation,
    )


def _of_no_trace(one: WatchedAttention, watched: Watched) -> str:
    module = one.module or type(watched.watcher.model).__name__
    _rows, heads, queries, keys = one.weights.shape
    if one.queries.shape[1] != heads:
        return _(
            "“{module}”: {heads} heads are made of the weights of {all}, so no Trace "
            "can hold it. It is in watched.attentions.",
            module=module,
            heads=heads,
            all=one.queries.shape[1],
        )
    if one.kind != "cross" and keys > queries:
        return ngettext(
            "“{module}”: {n:,} more key than tokens, so no Trace can hold it. It is "
            "in watched.attentions.",
            "“{module}”: {n:,} more keys than tokens, so no Trace can hold it. It "
            "is in watched.attentions.",
            keys - queries,
            module=module,
        )
    return _(
        "“{module}”: {heads} heads, {queries:,} queries and {keys:,} keys do not fit "
        "the other layers, so no Trace holds it. It is in watched.attentions.",
        module=module,
        heads=heads,
        queries=queries,
        keys=keys,
    )


def _sentence(seen: SeenInstead, watched: Watched) -> str:
    module = seen.module or type(watched.watcher.model).__name__
    match seen.reason:
        case "no product":
            return _(
                "“{module}”: a softmax over {n:,} choices: no product after it.",
                module=module,
                n=seen.size,
            )
        case "other scores":
            return _(
                "“{module}”: a softmax over {n:,} choices: its scores do not follow "
                "from queries and keys in a way that is known.",
                module=module,
                n=seen.size,
            )
        case "no softmax":
            return _(
                "“{module}”: activations are multiplied without a softmax between "
                "them: no attention matrix here.",
                module=module,
            )
        case "mixing":
            return _mixing(module, seen.name)
        case "together":
            return _(
                "“{module}”: what two softmaxes give is added or subtracted, so their "
                "maps, which are shown one by one, count together.",
                module=module,
            )
        case "pieces":
            return _(
                "“{module}”: each query and key is a piece of a token's features, so "
                "its positions are not tokens. Where heads are meant, view as tokens "
                "by heads, then transpose.",
                module=module,
            )
        case "axes":
            return _(
                "“{module}”: a softmax over {n:,} choices: it is not clear which of "
                "its axes are batch, heads, queries and keys.",
                module=module,
                n=seen.size,
            )
    return _not_followed(seen, module)


def _not_followed(seen: SeenInstead, module: str) -> str:
    match seen.reason:
        case "nested":
            return _(
                "“{module}”: attention over these nested tensors is not followed. Give "
                "it padded ones to see it.",
                module=module,
            )
        case "outside":
            return _(
                "“{module}”: numbers enter that torch did not compute: what was done "
                "outside of it, with numpy say, is not seen.",
                module=module,
            )
        case "kernel":
            return _(
                "“{module}”: “{operation}” computes attention in a kernel of its own. "
                "Switch to the eager implementation to see it.",
                module=module,
                operation=seen.name,
            )
    return _(
        "“{module}”: “{operation}” could not be followed.",
        module=module,
        operation=seen.name,
    )
