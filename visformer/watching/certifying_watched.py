"""The certificate of a watched model, from one call or several."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from visformer.analysis.checks.observation import Comparisons, Observation, StrangeToken
from visformer.analysis.checks.softmax import SUMS
from visformer.analysis.checks.table import causes, findings_of
from visformer.language import N_, _, ngettext
from visformer.values.arrays import Bools, Ids
from visformer.values.finding import Certificate
from visformer.values.watched_attention import (
    HALF_TOLERANCE,
    TOLERANCE,
    WatchedAttention,
)
from visformer.watching.inputs import (
    SOURCE_NAMES,
    TARGET_NAMES,
    counting_tables,
    goes_with_another,
)
from visformer.watching.ledger import SeenInstead
from visformer.watching.module_calls import same_chances
from visformer.watching.observing import observed
from visformer.watching.row_tokens import side_ids
from visformer.watching.traces import layers_of, not_in_traces

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched

TOGETHER = "together"  # a reason that is only reported if the window shows the result
_SIZES = re.compile(r" [\d,]+ ")
APART = 1e-3  # tolerance of weights; of outputs relative to max(1, row magnitude)
HALF_APART = 5e-2  # tolerance in half precision, which rounds in every layer


def certificate_of(watched: Watched, seen: Observation | None = None) -> Certificate:
    """Return the certificate of a watched call, given its observation ``seen``."""
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
    """Merge the certificates of several calls; equal findings are kept once."""
    outputs = [c.output_difference for c in certificates]
    compared = [one for one in outputs if one is not None]
    worst, tolerance = _agreement([(c.worst, c.tolerance) for c in certificates])
    said = dict.fromkeys(sentence for c in certificates for sentence in c.checks)
    first, *others = ([*c.missed] for c in certificates)
    known = {_SIZES.sub("", x) for x in first}  # ignoring the sizes of the calls
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
    """Return the largest difference and its tolerance; one that exceeds it wins."""
    over = [most for apart, most in several if apart > most]
    tolerance = min(over) if over else max((x for _a, x in several), default=TOLERANCE)
    return max((apart for apart, _most in several), default=0.0), tolerance


def _of_fast_paths(watched: Watched) -> list[str]:
    """Report where torch's fast path, which watching switches off, differs."""
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
    """Report mixed weights whose rows sum furthest from one."""
    furthest: tuple[float, str] = SUMS, ""
    for one in watched.last_run:
        if not (one.mixed and one.verified) or one.dropout or one.over != "keys":
            continue
        sums = np.nan_to_num(one.weights.sum(-1), nan=1.0).round(4)
        _batch, head, row = at = np.unravel_index(np.abs(sums - 1).argmax(), sums.shape)
        told = _(
            "“{module}”: its weights are mixed after the softmax, or a sink takes a "
            "share: row {row} of head {head} sums to {sum:.3g}.",
            module=one.module or type(watched.watcher.model).__name__,
            row=int(row) + 1,
            head=int(head) + 1,
            sum=float(sums[at]),
        )
        furthest = max(furthest, (float(abs(sums[at] - 1)), told))
    return [furthest[1]] if furthest[1] else []


def _missed(watched: Watched) -> list[str]:
    missed = (one for one in watched.seen if one.reason != TOGETHER)
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
        _(
            _INSTEAD["mixing"],
            module=name or type(module).__name__,
            operation=type(module).__name__,
        )
        for name, module in watched.watcher.model.named_modules()
        if isinstance(module, nn.RNNBase)
    ]
    reasons = {one.reason for one in watched.seen}
    if not watched.attentions and not reasons & {"axes", "nested"}:
        hidden = not watched.operations or reasons & {"kernel", "unknown"}
        sentences.append(
            _(
                "No attention was found. If a custom kernel computes it, or a graph in "
                "another format, switch to the eager implementation."
            )
            if hidden
            else _(
                "No attention was found: no softmax over products of two activations "
                "weighs others."
            )
        )
    return list(dict.fromkeys(sentences))


def _on_no_tab(watched: Watched) -> list[str]:
    """Report how many attentions of the last run no tab can show."""
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
    """Report tokens that are shown as numbers although ids were given."""
    ids, sides = side_ids(layers_of(watched.last_run)), watched.sides
    of = {"source": 0, "target": 0}  # the marks of all inputs of either side
    for one, shown in zip(watched.found, watched.attentions, strict=True):
        of["source" if shown.kind == "encoder" else "target"] |= one.marks[0]
        of["target" if shown.kind == "decoder" else "source"] |= one.marks[1]
    said = (
        (
            "source",
            sides.source & of["source"],
            _(
                "The order of the source tokens could not be traced, so positions are "
                "numbered instead."
            ),
        ),
        (
            "target",
            (sides.target or sides.source) & of["target"],
            _(
                "The order of the target tokens could not be traced, so positions are "
                "numbered instead."
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
    """Report how many generated sequences the Traces only partly cover."""
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


def _of_no_trace(one: WatchedAttention, watched: Watched) -> str:
    module = one.module or type(watched.watcher.model).__name__
    _rows, heads, queries, keys = one.weights.shape
    if one.queries.shape[1] != heads:
        return _(
            "“{module}”: {heads} heads are computed from the weights of {all}, so no "
            "Trace can hold it. It is in watched.attentions.",
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


_INSTEAD = {  # by the reason of a SeenInstead
    "no product": N_("“{module}”: a softmax over {n:,} choices: no product after it."),
    "other scores": N_(
        "“{module}”: a softmax over {n:,} choices: its scores are no known function of "
        "queries and keys."
    ),
    "no softmax": N_(
        "“{module}”: activations are multiplied without a softmax between them: no "
        "attention matrix here."
    ),
    "mixing": N_(
        "“{module}”: “{operation}” mixes positions: no attention matrix here."
    ),
    TOGETHER: N_(
        "“{module}”: the outputs of two softmaxes are added or subtracted, so their "
        "maps, which are shown separately, act together."
    ),
    "pieces": N_(
        "“{module}”: each query and key is a piece of a token's features, so its "
        "positions are not tokens. Where heads are meant, view as tokens by heads, "
        "then transpose."
    ),
    "axes": N_(
        "“{module}”: a softmax over {n:,} choices: it is not clear which of its axes "
        "are batch, heads, queries and keys."
    ),
    "nested": N_(
        "“{module}”: attention over these nested tensors is not followed. Give it "
        "padded ones to see it."
    ),
    "outside": N_(
        "“{module}”: it reads numbers that torch did not compute: what was done "
        "outside torch, with numpy for example, is not seen."
    ),
    "kernel": N_(
        "“{module}”: “{operation}” computes attention in a custom kernel. Switch to "
        "the eager implementation to see it."
    ),
    "unknown": N_("“{module}”: “{operation}” could not be followed."),
}


def _sentence(seen: SeenInstead, watched: Watched) -> str:
    named = {"module": seen.module or type(watched.watcher.model).__name__}
    return _(_INSTEAD[seen.reason], n=seen.size, operation=seen.name, **named)


# ---- Comparing steps: the steps of a cached loop against one full pass of the model --


class StepsCompared(NamedTuple):
    """The comparisons, None if they were impossible, and a sentence about them."""

    comparisons: Comparisons | None
    sentence: str


class _NotCompared(Exception):
    """Steps could not be compared; the message gives the reason to the user."""


def compared_steps(watched: Watched, seen: Observation) -> StepsCompared | None:
    """Compare a cached loop with one full pass over the same tokens.

    Returns None without such a loop. If the comparison failed, the sentence says why.
    """
    if not _is_joined(watched):
        return None
    strange = _strange_token(watched, seen.attentions)
    comparisons = None if strange is None else Comparisons(limit=APART, strange=strange)
    try:
        if strange is not None:
            raise _NotCompared(_("the cache has other tokens than the loop"))
        if seen.state.dropping or seen.state.dropping_always:
            raise _NotCompared(_("numbers are dropped at random"))
        return _compared(watched, seen.attentions)
    except _NotCompared as error:
        why = str(error)
    except Exception:  # the model does not accept such a call
        why = _("the model does not take all tokens in one call")
    sentence = _("Cached steps were not compared with one full pass: {why}.", why=why)
    return StepsCompared(comparisons, sentence)


def _is_joined(watched: Watched) -> bool:
    """Whether the last run consists of several steps with new queries."""
    steps = {(one.module, one.weights.shape[2]) for one in watched.attentions}
    return any((x.module, x.weights.shape[2]) not in steps for x in watched.last_run)


def _strange_token(
    watched: Watched, steps: Sequence[WatchedAttention]
) -> StrangeToken | None:
    """Return a cached token that differs from the token now at its position.

    This is known if the last step was given the end of longer rows.
    """
    own = next((x.query_ids for x in steps if x.kind == "decoder"), None)
    places = counting_tables(watched.read)
    for one in reversed(watched.read):
        if own is None or one.before is None or one.table in places:
            continue
        now = torch.cat([one.before, one.ids], 1).numpy()
        ends = [0, *range(one.before.shape[1], now.shape[1])]  # must agree
        if now.shape != own.shape or not np.array_equal(now[:, ends], own[:, ends]):
            continue
        for row, at in np.argwhere(now != own)[:1].tolist():
            return StrangeToken(row, at, int(own[row, at]), int(now[row, at]))
        return None
    return None


def _compared(watched: Watched, steps: Sequence[WatchedAttention]) -> StepsCompared:
    own = [one for one in steps if one.kind == "decoder"]
    encoder = [one for one in steps if one.kind == "encoder"]
    source = encoder[0].query_ids if encoder else None
    read = own[0].query_ids if own else None
    if read is None or (watched.targets and source is None):
        raise _NotCompared(_("the tokens that were read are unknown"))
    if any(one.masked.all(2).any() for one in own):
        raise _NotCompared(_("a mask hides some of the keys from all queries"))
    target = _as_given(watched, read)
    whole = _pass(watched, source, target)
    passed = [one for one in whole.last_run if one.kind == "decoder" and one.verified]
    if not _agree(encoder, whole.last_run):
        raise _NotCompared(_("the encoder reads something else in one call"))
    limit = HALF_APART if any(x.tolerance >= HALF_TOLERANCE for x in steps) else APART
    real: Bools = np.ones(target.shape, bool)
    if watched.watcher.pad is not None:
        real = target != watched.watcher.pad
    cached, worst = _furthest(own, passed, real, limit)
    outputs = _outputs_apart(watched, whole, real)
    if cached is None or (cached[2] <= limit and outputs is not None):
        cached = max(
            (x for x in (cached, outputs) if x), key=itemgetter(2), default=None
        )
    if cached is None:
        raise _NotCompared(_("its attention has other sizes in one call"))
    if cached[2] > limit and (others := _others(watched)):
        names = ", ".join(others)
        raise _NotCompared(_("the steps were also given {names}", names=names))
    if cached[2] > limit and not _is_prefix_free(
        watched, source, target, passed, limit
    ):
        raise _NotCompared(_("a pass over fewer tokens gives other numbers by itself"))
    sentence = _(
        "Cached steps against one full pass: they differ by {worst:.1e}.",
        worst=max(worst, cached[2]),
    )
    restarts = cached[2] > limit and _restarts(watched, source, target, own[0])
    compared = Comparisons(limit=limit, cached=cached, restarts=restarts)
    return StepsCompared(compared, sentence)


def _others(watched: Watched) -> list[str]:
    """Name inputs of the steps that a full pass lacks; not positions, empty masks."""
    sides = watched.sides.source | watched.sides.target
    others = [
        x
        for x in watched.inputs
        if x.name and (goes_with_another(x.name) or not x.mark & sides)
    ]
    said = [
        x for x in others if "position" not in x.name and bool((x.tensor != 1).any())
    ]
    return [*dict.fromkeys(x.name for x in said if x.tensor.dim() < 3)]


def _outputs_apart(
    watched: Watched, whole: Watched, real: Bools
) -> tuple[str, int, float] | None:
    """Return the row of logits that differs most from the full pass, if known."""
    pair = [x.logits_of(x.last_rows) for x in (watched, whole)]
    if pair[0] is None or pair[1] is None:
        return None
    first, second = (x.logits.numpy() for x in pair if x is not None)
    if first.shape != second.shape or first.shape[:2] != real.shape:
        return None
    known = (pair[0].known & pair[1].known).numpy() & real
    size = np.abs(second).max(2).clip(1)
    apart = np.where(known, np.nan_to_num(np.abs(first - second).max(2), nan=np.inf), 0)
    rows = (apart / size).max(0)
    row = int(rows.argmax())
    return _("output"), row, float(rows[row])


def _is_prefix_free(
    watched: Watched,
    source: Ids | None,
    target: Ids,
    passed: Sequence[WatchedAttention],
    limit: float,
) -> bool:
    """Whether a shorter full pass gives the same rows, as caching requires."""
    short = target[:, :-1]
    before = [x for x in _pass(watched, source, short).last_run if x.kind == "decoder"]
    cut = [x.weights[:, :, :-1, :-1] for x in passed]
    return len(cut) == len(before) and all(
        x.weights.shape == y.shape and float(np.abs(x.weights - y).max()) <= limit
        for x, y in zip(before, cut, strict=True)
    )


def _as_given(watched: Watched, read: Ids) -> Ids:
    """Return the ids of the last call if complete, else those that were read."""
    given = (watched.targets or watched.sources)[-1]
    if given.shape == read.shape and not given.is_floating_point():
        ids: Ids = given.numpy()
        return ids
    return read


def _pass(watched: Watched, source: Ids | None, target: Ids) -> Watched:
    """Call the model once with all ids; raises if its attention reads other ids."""
    from visformer.watching.watcher import watch

    model = watched.watcher.model
    parameters = [
        one
        for one in inspect.signature(model.forward).parameters.values()
        if one.kind == one.POSITIONAL_OR_KEYWORD
    ]
    names = [one.name for one in parameters]
    needed = [one.name for one in parameters if one.default is one.empty]
    several = [x for x in (source, target) if x is not None]
    tensors = [torch.from_numpy(np.array(x)) for x in several]
    device = next(model.parameters()).device
    args: list[Tensor] = [x.to(device) for x in tensors]
    kwargs: dict[str, Any] = {}
    if len(needed) != len(args) and len(args) == 2:
        named = [
            [name for name in names if name in known]
            for known in (SOURCE_NAMES, TARGET_NAMES)
        ]
        if not all(named):
            raise _NotCompared(_("the model takes more than a source and a target"))
        kwargs = {own[0]: x for own, x in zip(named, args, strict=True)}
        args = []
    with same_chances(model), torch.no_grad(), watch(model) as whole:
        model(*args, **kwargs)
    own = [one for one in whole.last_run if one.verified and one.kind == "decoder"]
    ids = [one.query_ids for one in own]
    if not ids or not all(x is not None and np.array_equal(x, target) for x in ids):
        raise _NotCompared(_("in one call, its attention is of other tokens"))
    return whole


def _agree(
    encoder: Sequence[WatchedAttention], whole: Sequence[WatchedAttention]
) -> bool:
    others = [one for one in whole if one.kind == "encoder"]
    return len(encoder) == len(others) and all(
        one.weights.shape == other.weights.shape
        and np.allclose(one.weights, other.weights, atol=APART)
        for one, other in zip(encoder, others, strict=True)
    )


def _furthest(
    own: Sequence[WatchedAttention],
    others: Sequence[WatchedAttention],
    real: Bools,
    limit: float,
) -> tuple[tuple[str, int, float] | None, float]:
    """Return the first difference (module, row, size) and the largest one."""
    if [x.weights.shape for x in own] != [x.weights.shape for x in others]:
        return None, 0.0
    first: tuple[str, int, float] | None = None
    worst = 0.0
    for one, other in zip(own, others, strict=True):
        apart = np.abs(one.weights - other.weights).max((1, 3))  # [B, Q]
        apart = np.nan_to_num(apart, nan=np.inf) * real
        most = float(apart.max())
        if first is None or first[2] <= limit:
            rows = apart.max(0)  # the first row above the limit, in the first layer
            row = int((rows > limit).argmax()) if most > limit else int(rows.argmax())
            first = one.module or "forward", row, float(rows[row])
        worst = max(worst, most)
    return first, worst


def _restarts(
    watched: Watched, source: Ids | None, target: Ids, own: WatchedAttention
) -> bool:
    """Whether the last step computed its queries for position 0."""
    turned = _pass(watched, source, target[:, ::-1])
    first = next(one for one in turned.last_run if one.kind == "decoder")
    return np.allclose(own.queries[:, :, -1], first.queries[:, :, 0], atol=APART)
