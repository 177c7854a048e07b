"""The one table of checks: one function a fault, in the order in which they count."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from visformer.analysis.checks import (
    mask_checks,
    outputs,
    run_checks,
    softmax,
    state_checks,
)
from visformer.analysis.checks.observation import Observation, decoder_places, padded
from visformer.language import N_, _
from visformer.values.finding import CheckResult, Finding

_BATCH = frozenset({"positions-along-batch", "batch-row-differs"})
_CALLS = _BATCH | {
    *("later-tokens-count", "cached-steps-differ", "positions-restart"),
    *("beam-order", "order-not-seen"),
}
_RANDOM = _CALLS | {"calls-differ"}
_READS = frozenset({"padding-read", "not-causal", "causal-off-by-one"})
_UNUSED = frozenset({"source-not-used", "target-not-used"})
_NO_KEY = frozenset({"no-key", "rows-not-one", "fast-path-nan"})
_ENDS = frozenset({"end-never-likely", "ended-by-limit"})
_NUMBERS = _RANDOM | _READS | _UNUSED | _NO_KEY | _ENDS
_NUMBERS |= {"overflow", "dead-head", "nan-result", "position-layout"}


Evidence = Callable[[Observation], tuple[str, float] | None]  # a sentence, its number


def _never(_seen: Observation) -> str:
    return ""


def _attentions(seen: Observation) -> str:
    return "" if seen.attentions else _("There is no attention to look at.")


def _known(name: str) -> Callable[[Observation], str]:
    """Return what says why a field of what was observed is missing; "" if it is not."""

    def why(seen: Observation) -> str:
        of = seen if hasattr(seen, name) else seen.compared
        found = getattr(of, name, None)
        if (
            found is not None
            and found is not False
            and not (isinstance(found, tuple) and not found)
        ):
            return ""
        return seen.why.get(name) or _("It is not known here.")

    return why


def _watched(seen: Observation) -> str:
    if seen.watched:
        return _attentions(seen)
    return _("Only the operations of a model that is watched would show it.")


def _sentence(seen: Observation) -> str:
    return _known("ran")(seen) or _known("words")(seen)


def _tied(seen: Observation) -> str:
    return "" if seen.state.ties else _("No tables are declared to be one.")


def _padded(seen: Observation) -> str:
    if any(padded(one, seen.pad) is not None for one in seen.attentions):
        return ""
    return seen.why.get("rows") or _("There is no padding here.")


def _decoder(seen: Observation) -> str:
    if decoder_places(seen)[0]:
        return ""
    return _("It has no decoder that reads its own tokens.")


class Check(NamedTuple):
    """A function that looks for one fault, and how what it found is shown."""

    look: Callable[[Observation], Finding | None]
    title: str = ""  # what ought to be so, marked with N_
    missing: Callable[[Observation], str] = _never  # why it cannot be looked at
    evidence: Evidence | None = None  # of what is as it ought to be


_apart = outputs.apart
CHECKS: dict[str, Check] = {  # by the id of the finding
    "nan-parameter": Check(state_checks.not_a_number, N_("All parameters are numbers")),
    "overflow": Check(
        state_checks.overflow, N_("Half precision does not overflow"), _watched
    ),
    "dropout-on": Check(state_checks.dropout, N_("Dropout is off")),
    "dropout-always": Check(
        state_checks.dropout_always, N_("No dropout outside training"), _watched
    ),
    "softmax-axis": Check(softmax.axis, N_("The softmax runs over the keys"), _watched),
    "mask-multiplied": Check(
        mask_checks.multiplied, N_("Masks replace scores"), _watched
    ),
    "mask-inverted": Check(
        mask_checks.inverted, N_("No mask is inverted"), _attentions
    ),
    "causal-off-by-one": Check(
        mask_checks.off_by_one, N_("No row reads one token ahead"), _decoder
    ),
    "not-causal": Check(
        *(mask_checks.future, N_("No row reads what comes after it"), _decoder),
        mask_checks.future_weight,
    ),
    "padding-read": Check(
        *(mask_checks.padding, N_("No token reads padding"), _padded),
        mask_checks.padding_weight,
    ),
    "no-key": Check(mask_checks.no_key, N_("Each row may read a key"), _attentions),
    "not-scaled": Check(softmax.not_scaled, N_("Scores are scaled"), _attentions),
    "wrong-scale": Check(
        softmax.wrong_scale, N_("The scale is 1/sqrt(d)"), _attentions, softmax.scales
    ),
    "rows-not-one": Check(
        softmax.rows, N_("Each row sums to 1"), _attentions, softmax.sums
    ),
    "nan-result": Check(
        run_checks.broken_results, N_("All results are numbers"), _known("finite")
    ),
    "calls-differ": Check(
        *(state_checks.calls_differ, N_("Two calls give the same")),
        *(_known("repeated"), _apart("repeated")),
    ),
    "positions-along-batch": Check(
        *(outputs.along_batch, N_("Equal rows of a batch give the same")),
        *(_known("alike"), _apart("alike")),
    ),
    "batch-row-differs": Check(
        *(outputs.row_differs, N_("A row of a batch equals the single sentence")),
        *(_known("rows"), _apart("rows")),
    ),
    "later-tokens-count": Check(
        *(outputs.later_tokens, N_("Later tokens change no earlier row")),
        *(_known("prefix"), _apart("prefix")),
    ),
    "cross-reads-decoder": Check(
        outputs.cross_reads_decoder, N_("Cross attention reads the source"), _attentions
    ),
    "source-not-used": Check(
        *(outputs.source_not_used, N_("The source is used")),
        *(_known("used"), _apart("used")),
    ),
    "target-not-used": Check(
        outputs.target_not_used, N_("The target is used"), _known("prefix")
    ),
    "order-not-seen": Check(
        *(run_checks.order_unseen, N_("The order of the source counts")),
        *(_known("reordered"), _apart("reordered")),
    ),
    "position-layout": Check(
        *(run_checks.other_layout, N_("The layout of positions fits the weights")),
        *(_known("layouts"), run_checks.layout_words),
    ),
    "positions-restart": Check(
        *(outputs.positions_restart, N_("Cached steps go on with the positions")),
        _known("cached"),
    ),
    "cached-steps-differ": Check(
        *(outputs.cached_steps, N_("Cached steps equal the full pass")),
        *(_known("cached"), _apart("cached")),
    ),
    "cache-of-other-tokens": Check(
        *(outputs.strange_cache, N_("The cache is of the loop's tokens")),
        _known("strange"),
    ),
    "beam-order": Check(
        *(run_checks.beam_order, N_("Beams are sorted, one beam is greedy")),
        *(_known("beams"), run_checks.beam_words),
    ),
    "no-residual": Check(
        outputs.no_residual, N_("Attention is added to the stream"), _watched
    ),
    "not-tied": Check(run_checks.broken_ties, N_("Tied tables are one"), _tied),
    "dead-head": Check(softmax.dead_heads, N_("No head is dead"), _attentions),
    "uniform-head": Check(
        *(run_checks.uniform, N_("No head is uniform"), _attentions),
        run_checks.entropies,
    ),
    "duplicate-heads": Check(
        *(run_checks.duplicate, N_("No two heads are the same"), _attentions),
        run_checks.closest,
    ),
    "collapsed-entropy": Check(
        *(run_checks.collapsed, N_("No layer's entropy has collapsed"), _attentions),
        run_checks.entropies,
    ),
    "equal-layers": Check(
        state_checks.equal_layers, N_("No layers are copies"), _watched
    ),
    "unknown-tokens": Check(
        run_checks.unknown_tokens, N_("All source tokens are known"), _known("words")
    ),
    "end-never-likely": Check(
        *(run_checks.no_end, N_("The end token gets likely"), _known("ran")),
        run_checks.end_words,
    ),
    "ended-by-limit": Check(
        *(run_checks.at_limit, N_("The run ends by itself"), _sentence),
        run_checks.end_words,
    ),
    "not-shifted": Check(
        outputs.not_shifted, N_("Labels are shifted"), _known("labels")
    ),
    "predicts-given": Check(
        *(outputs.predicts_given, N_("The token given is not what is predicted")),
        _known("best"),
    ),
    "shifted-twice": Check(
        outputs.predicts_after_next, N_("Labels are shifted once"), _known("labels")
    ),
    "vocabulary-permuted": Check(
        outputs.permuted, N_("Words and weights agree"), _known("labels")
    ),
    "fast-path-nan": Check(
        state_checks.fast_path, N_("torch's fast path gives numbers"), _watched
    ),
}
# by the id of a finding: those that are only its consequence, and not said besides
EXPLAINS: dict[str, frozenset[str]] = {
    "nan-parameter": _NUMBERS | {"mask-inverted"},
    "overflow": _CALLS | _READS | _UNUSED | _NO_KEY | {"nan-result"},
    "dropout-on": _RANDOM | {"rows-not-one"},
    "dropout-always": _RANDOM | {"rows-not-one"},
    "softmax-axis": _READS | _CALLS | {"rows-not-one"},
    "mask-multiplied": _READS | _CALLS,
    "mask-inverted": _READS | _CALLS | _UNUSED | _NO_KEY | {"not-scaled"},
    "causal-off-by-one": _CALLS | {"not-causal", "padding-read"},
    "not-causal": _CALLS | _NO_KEY,
    "padding-read": frozenset({"later-tokens-count"}),
    "no-key": _CALLS | {"rows-not-one", "nan-result"},
    "rows-not-one": frozenset({"later-tokens-count"}),
    "nan-result": _NUMBERS - {"no-key", "overflow"},
    "calls-differ": _CALLS,
    "positions-along-batch": _BATCH | {"order-not-seen"},
    "batch-row-differs": frozenset({"padding-read"}),
    "cross-reads-decoder": frozenset({"source-not-used"}),
    "source-not-used": frozenset({"order-not-seen"}),
    "target-not-used": frozenset({"later-tokens-count"}),
    "position-layout": _ENDS,
    "positions-restart": frozenset({"cached-steps-differ", "beam-order"}),
    "cached-steps-differ": frozenset({"beam-order"}),
    "wrong-scale": frozenset({"uniform-head"}),
    "not-scaled": frozenset({"collapsed-entropy"}),
    "dead-head": frozenset({"uniform-head"}),
    "end-never-likely": frozenset({"ended-by-limit"}),
    "not-shifted": frozenset({"predicts-given"}),
    "predicts-given": frozenset({"vocabulary-permuted"}),
    "shifted-twice": frozenset({"vocabulary-permuted"}),
}


def findings_of(seen: Observation) -> tuple[Finding, ...]:
    """Return what is wrong, each fault once, with the place where it shows most."""
    found = (check.look(seen) for check in CHECKS.values())
    return causes(one for one in found if one is not None)


def results_of(
    seen: Observation, known: Iterable[Finding] = ()
) -> tuple[CheckResult, ...]:
    """Return what every check says, in the order of the table.

    ``known`` are findings of this pass that a closer look has made already.
    """
    every = [*known, *filter(None, (check.look(seen) for check in CHECKS.values()))]
    said = {one.id: one for one in causes(every)}
    left = {one.id for one in every if one.id not in said}
    others = [_found(one, one.id) for one in said.values() if one.id not in CHECKS]
    return (*(_result(id, seen, said.get(id), id in left) for id in CHECKS), *others)


def _found(one: Finding, title: str) -> CheckResult:
    return CheckResult(
        one.id, title, one.severity, one.where, one.what, one.remedy, one.at
    )


def _result(
    id: str, seen: Observation, finding: Finding | None, explained: bool
) -> CheckResult:
    check = CHECKS[id]
    title = _(check.title)
    if finding is not None:
        return _found(finding, title)
    if explained:
        why = _("It follows from another finding.")
        return CheckResult(id, title, "not applicable", what=why)
    if why := check.missing(seen):
        return CheckResult(id, title, "not applicable", what=why)
    words, number = (check.evidence and check.evidence(seen)) or ("", None)
    if not words and check.missing in (_attentions, _watched, _decoder):
        words = _("{n} attentions were looked at.", n=len(seen.attentions))
    return CheckResult(id, title, "passed", what=words, measured=number)


def causes(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Leave out what another finding explains, and all but the first of each fault."""
    named: dict[str, Finding] = {}
    for one in findings:
        named.setdefault(one.id, one)
    explained = {
        other
        for at, one in named.items()
        for other in EXPLAINS.get(at, frozenset()) - {at}
        # what may be meant so explains faults only where it changes every call
        if one.severity == "fault" or other in _CALLS or _is_note(named.get(other))
    }
    return tuple(one for one in named.values() if one.id not in explained)


def _is_note(finding: Finding | None) -> bool:
    return finding is not None and finding.severity == "note"
