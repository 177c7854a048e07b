"""The certificate of what was watched, from one call or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from visformer.language import _, ngettext
from visformer.values.certificate import Certificate
from visformer.values.finding import Finding
from visformer.watching.seen_instead import SeenInstead
from visformer.watching.traces import not_in_traces
from visformer.values.watched_attention import TOLERANCE, WatchedAttention
from visformer.watching.watched_findings import findings_of

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched


def certificate_of(watched: Watched) -> Certificate:
    """Return the certificate of what was watched."""
    attentions = watched.attentions
    return Certificate(
        worst=max((one.difference for one in attentions), default=0.0),
        output_difference=watched.output_difference,
        tolerance=max((one.tolerance for one in attentions), default=TOLERANCE),
        attentions=len(attentions),
        missed=tuple(_missed(watched)),
        findings=tuple(findings_of(watched)),
    )


def together(
    certificates: Sequence[Certificate],
    findings: Sequence[Finding],
    checks: Sequence[str],
) -> Certificate:
    """Return one certificate of several calls; of equal findings, the first."""
    outputs = [c.output_difference for c in certificates]
    compared = [one for one in outputs if one is not None]
    every = [*findings, *(one for c in certificates for one in c.findings)]
    named = {one.id: one for one in reversed(every)}
    return replace(
        certificates[0],
        worst=max(c.worst for c in certificates),
        output_difference=max(compared, default=None),
        tolerance=max(c.tolerance for c in certificates),
        missed=tuple(dict.fromkeys(s for c in certificates for s in c.missed)),
        findings=tuple(reversed(named.values())),
        checks=tuple(checks),
    )


def _missed(watched: Watched) -> list[str]:
    sentences = [_sentence(seen, watched) for seen in watched.seen]
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
    sentences += [
        _mixing(name or type(module).__name__, type(module).__name__)
        for name, module in watched.watcher.model.named_modules()
        if isinstance(module, nn.RNNBase)
    ]
    if not watched.attentions:
        sentences.append(
            _(
                "No attention was found. If a kernel of its own computes it, or a "
                "graph in another format, switch to the eager implementation."
            )
        )
    return list(dict.fromkeys(sentences))


def _mixing(module: str, operation: str) -> str:
    return _(
        "“{module}”: “{operation}” mixes positions: no attention matrix here.",
        module=module,
        operation=operation,
    )


def _of_no_trace(one: WatchedAttention, watched: Watched) -> str:
    module = one.module or type(watched.watcher.model).__name__
    _rows, heads, queries, keys = one.weights.shape
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
        case "kernel":
            return _(
                "“{module}”: “{operation}” computes attention in a kernel of its own. "
                "Switch to the eager implementation to see it.",
                module=module,
                operation=seen.name,
            )
        case "axes":
            return _(
                "“{module}”: a softmax over {n:,} choices: it is not clear which of "
                "its axes are batch, heads, queries and keys.",
                module=module,
                n=seen.size,
            )
    return _(
        "“{module}”: “{operation}” could not be followed.",
        module=module,
        operation=seen.name,
    )
