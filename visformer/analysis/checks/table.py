"""The one table of checks: one function a fault, in the order in which they count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from visformer.analysis.checks import mask_checks, outputs, softmax, state_checks
from visformer.analysis.checks.observation import Observation
from visformer.values.finding import Finding

_BATCH = frozenset({"positions-along-batch", "batch-row-differs"})
_CALLS = _BATCH | {"later-tokens-count", "cached-steps-differ", "positions-restart"}
_RANDOM = _CALLS | {"calls-differ"}
_READS = frozenset({"padding-read", "not-causal", "causal-off-by-one"})
_UNUSED = frozenset({"source-not-used", "target-not-used"})
_NO_KEY = frozenset({"no-key", "rows-not-one", "fast-path-nan"})
_NUMBERS = _RANDOM | _READS | _UNUSED | _NO_KEY | {"overflow", "dead-head"}


class Check(NamedTuple):
    """A function that looks for one fault, and the findings that it explains.

    What a fault explains is not said besides: it is only its consequence.
    """

    look: Callable[[Observation], Finding | None]
    explains: frozenset[str] = frozenset()


CHECKS: dict[str, Check] = {  # by the id of the finding
    "nan-parameter": Check(state_checks.not_a_number, _NUMBERS | {"mask-inverted"}),
    "overflow": Check(state_checks.overflow, _CALLS | _READS | _UNUSED | _NO_KEY),
    "dropout-on": Check(state_checks.dropout, _RANDOM | {"rows-not-one"}),
    "dropout-always": Check(state_checks.dropout_always, _RANDOM | {"rows-not-one"}),
    "softmax-axis": Check(softmax.axis, _READS | _CALLS | {"rows-not-one"}),
    "mask-multiplied": Check(mask_checks.multiplied, _READS | _CALLS),
    "mask-inverted": Check(
        mask_checks.inverted, _READS | _CALLS | _UNUSED | _NO_KEY | {"not-scaled"}
    ),
    "causal-off-by-one": Check(
        mask_checks.off_by_one, frozenset({"not-causal", "padding-read", *_CALLS})
    ),
    "not-causal": Check(mask_checks.future, _CALLS | _NO_KEY),
    "padding-read": Check(mask_checks.padding, frozenset({"later-tokens-count"})),
    "no-key": Check(mask_checks.no_key, _CALLS | {"rows-not-one"}),
    "not-scaled": Check(softmax.not_scaled),
    "wrong-scale": Check(softmax.wrong_scale),
    "rows-not-one": Check(softmax.rows, frozenset({"later-tokens-count"})),
    "calls-differ": Check(state_checks.calls_differ, _CALLS),
    "positions-along-batch": Check(outputs.along_batch, _BATCH),
    "batch-row-differs": Check(outputs.row_differs, frozenset({"padding-read"})),
    "later-tokens-count": Check(outputs.later_tokens),
    "cross-reads-decoder": Check(
        outputs.cross_reads_decoder, frozenset({"source-not-used"})
    ),
    "source-not-used": Check(outputs.source_not_used),
    "target-not-used": Check(
        outputs.target_not_used, frozenset({"later-tokens-count"})
    ),
    "cached-steps-differ": Check(outputs.cached_steps),
    "cache-of-other-tokens": Check(outputs.strange_cache),
    "no-residual": Check(outputs.no_residual),
    "dead-head": Check(softmax.dead_heads),
    "equal-layers": Check(state_checks.equal_layers),
    "not-shifted": Check(outputs.not_shifted, frozenset({"predicts-given"})),
    "predicts-given": Check(outputs.predicts_given, frozenset({"vocabulary-permuted"})),
    "shifted-twice": Check(
        outputs.predicts_after_next, frozenset({"vocabulary-permuted"})
    ),
    "vocabulary-permuted": Check(outputs.permuted),
    "fast-path-nan": Check(state_checks.fast_path),
}


def findings_of(seen: Observation) -> tuple[Finding, ...]:
    """Return what is wrong, each fault once, with the place where it shows most."""
    found = (check.look(seen) for check in CHECKS.values())
    return causes(one for one in found if one is not None)


def causes(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Leave out what another finding explains, and all but the first of each fault."""
    named: dict[str, Finding] = {}
    for one in findings:
        named.setdefault(one.id, one)
    explained = {
        other
        for at, one in named.items()
        if at in CHECKS
        for other in CHECKS[at].explains - {at}
        # what may be meant so explains faults only where it changes every call
        if one.severity == "fault" or other in _CALLS or _is_note(named.get(other))
    }
    return tuple(one for one in named.values() if one.id not in explained)


def _is_note(finding: Finding | None) -> bool:
    return finding is not None and finding.severity == "note"
