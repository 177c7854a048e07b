"""Certificate: how far what was watched is the model's own, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import nn

from visformer.language import _, ngettext
from visformer.values.finding import Finding
from visformer.watching.recorder import SeenInstead
from visformer.watching.traces import not_in_traces
from visformer.watching.watched_attention import TOLERANCE, WatchedAttention
from visformer.watching.watched_findings import findings_of

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was checked of one call, or of several."""

    worst: float  # the largest difference of an attention; 0 without any
    output_difference: float | None  # watched against unwatched; None: not compared
    tolerance: float  # what both may be
    attentions: int  # how many were found
    missed: tuple[str, ...]  # sentences about what is not shown
    findings: tuple[Finding, ...]
    checks: tuple[str, ...] = ()  # sentences about the calls that ``certify`` made

    @property
    def passed(self) -> bool:
        """Whether attention was found and all of it is the model's own."""
        return self.attentions > 0 and max(
            self.worst, self.output_difference or 0.0
        ) <= (self.tolerance)

    @property
    def sentence(self) -> str:
        """One sentence for a title or a page."""
        if not self.attentions:
            return _("No attention was found.")
        if not self.passed:
            return _(
                "Of {n:,} attentions the numbers differ from the model's own by up to "
                "{worst:.1e}.",
                n=self.attentions,
                worst=max(self.worst, self.output_difference or 0.0),
            )
        return _(
            "All numbers of {n:,} attentions are the model's own, within {worst:.1e}.",
            n=self.attentions,
            worst=max(self.worst, self.output_difference or 0.0),
        )

    def __str__(self) -> str:
        """Return the sentence, then what is not shown, then the findings."""
        return "\n".join((self.sentence, *self.missed, *map(str, self.findings)))


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
        case "weight scores":
            return _(
                "“{module}”: a softmax over {n:,} choices: its scores come from a "
                "weight, not from queries and keys.",
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
