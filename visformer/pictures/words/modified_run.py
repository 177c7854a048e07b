"""Descriptions of runs that differ from the model's own: modified or teacher-forced."""

import math
from dataclasses import dataclass

from visformer.analysis.change_report import no_effect_words
from visformer.language import N_, _, clauses, listed, ngettext, signed
from visformer.pictures.token_names import marks
from visformer.pictures.words.choices import is_best, short_choice, told_token
from visformer.values.arrays import SUMS_TO_ONE
from visformer.values.intervention import Intervention
from visformer.values.measured import ChangeReport
from visformer.values.pieces import plain
from visformer.values.step import step_origins
from visformer.values.trace import Trace
from visformer.words import decimals, number

MOST_LOSS = math.log(100)  # nats: the end of the colour scale, which clips


@dataclass(frozen=True, slots=True)
class Score:
    """How well a model predicts a reference under teacher forcing."""

    tokens: int
    agreed: int  # how many of them the model predicted
    total: float  # cross-entropy in nats: the sum of −ln p

    @property
    def mean(self) -> float:
        """The cross-entropy per token, in nats."""
        return self.total / self.tokens

    @property
    def perplexity(self) -> float:
        """The exponential of the mean cross-entropy: 1 is certain; ∞ on overflow."""
        return math.inf if self.mean >= 700 else math.exp(self.mean)


def loss_share(loss: float) -> float:
    """Return a loss as a share of the colour scale, in [0, 1]; 1 for NaN."""
    return min(1.0, max(0.0, loss / MOST_LOSS)) if loss == loss else 1.0


def is_taught(trace: Trace | None) -> bool:
    """Whether every token of a run was fed from a reference.

    The last one may be the model's own, as in a pass over ids.
    """
    steps = () if trace is None else trace.steps
    if not steps or steps[0].origin != "reference":
        return False  # avoids reading the other steps of a long run from its file
    return set(step_origins(steps)[:-1]) <= {"reference"}


def score(trace: Trace) -> Score | None:
    """Return how well the model predicts the reference; None without one."""
    if not is_taught(trace):
        return None
    steps = [
        step
        for step, pad in zip(trace.steps, trace.before_pads, strict=True)
        if step.origin == "reference" and step.computed and not pad
    ]
    if not steps:
        return None
    total = math.fsum(step.loss for step in steps)
    return Score(len(steps), sum(map(is_best, steps)), total)


def score_words(trace: Trace) -> str:
    """Report how well the model predicts the whole reference; "" without one."""
    found = score(trace)
    if found is None:
        return ""
    return ngettext(
        "Cross-entropy {mean} per token ({total} nats), perplexity {perplexity}, "
        "{agreed:,} of {n:,} as the model says",
        "Cross-entropy {mean} per token ({total} nats), perplexity {perplexity}, "
        "{agreed:,} of {n:,} as the model says",
        found.tokens,
        total=decimals(found.total, 2),
        mean=decimals(found.mean, 3),
        perplexity=number(found.perplexity, 3),
        agreed=found.agreed,
    )


def legend_ends() -> tuple[str, str]:
    """Name the ends of the colour scale of losses."""
    return "0", _("≥ {most}", most=decimals(MOST_LOSS, 1))


MOST_NAMED = 5  # forced tokens listed
ROUNDING = 1e-5  # of a probability, between a cached step and a full pass
_ORIGINAL = {  # by whether it is complete
    True: N_("Modified run: {changes}. Original text: “{text}”"),
    False: N_("Modified run: {changes}. Original text, without its end: “{text}”"),
}


def modified_words(
    requested: Intervention, trace: Trace | None, baseline: Trace | None, step: int = 0
) -> str:
    """Describe the changes and how the text differs; "" for the original run.

    ``trace`` is the whole run on screen; ``baseline`` is None until it is known.
    """
    shown = trace.intervention if trace is not None else None
    if not requested and not shown:
        return ""
    if requested and requested != shown:
        return _("Requested change: {changes}", changes=requested)
    if baseline is None or trace is None:
        return _("Modified run: {changes}", changes=shown)
    effect = effect_words(trace, baseline, step)
    changes = str(shown)
    if effect:
        changes = _("{changes} ({effect})", changes=changes, effect=effect)
    if baseline.text == trace.text:
        return _("Modified run: {changes}. The text stays the same.", changes=changes)
    words, eos = _ORIGINAL[True], baseline.model.eos
    if baseline.steps and eos >= 0 and baseline.steps[-1].id != eos:
        words = _ORIGINAL[False]  # it was stopped, or reached its limit
    return _(words, changes=changes, text=baseline.text)


def effect_words(trace: Trace | None, baseline: Trace | None, step: int) -> str:
    """Say what a change does to the step shown, or where the tokens first differ.

    "" for the original run, and where the original's probability is not known.
    """
    if trace is None or baseline is None or not trace.intervention or not step:
        return ""
    read = zip(trace.target_ids[:step], baseline.target_ids, strict=False)
    common = next((t for t, (a, b) in enumerate(read) if a != b), None)
    row = min(step, len(baseline), len(trace), common or step) - 1
    now, was = trace.steps[row], baseline.steps[row]
    ids = [one.id for one in was.candidates]
    if now.id not in ids or math.isnan(now.probability + was.probability):
        return ""
    rank = ids.index(now.id)
    before = was.candidates[rank].probability
    if math.isclose(now.probability, before, rel_tol=ROUNDING):
        words = _("no effect on step {step}", step=row + 1)
        return ": ".join(filter(None, (words, no_effect_words(baseline, trace, row))))
    return _(
        "step {step}: log p of “{token}” {effect:+.3g}, rank {was} → {now}",
        token=told_token(trace, row),
        step=row + 1,
        effect=math.log(now.probability) - math.log(before),
        was=rank + 1,
        now=now.rank,
    )


def report_words(report: ChangeReport | None, trace: Trace | None) -> str:
    """Say what is known of the changes at the step shown, a line each; "" for nothing.

    ``trace`` is the run up to that step.
    """
    if report is None or trace is None:
        return ""
    apart, how = report.logit_difference, marks(trace, "target")
    said = [
        _(
            "log p of “{token}”: {was} → {now}, {effect} nats; rank {before} → {after}",
            token=plain(report.token, how),
            was=number(report.log_p[0]),
            now=number(report.log_p[1]),
            effect=signed(f"{report.log_p[1] - report.log_p[0]:+.3g}"),
            before=report.rank[0],
            after=report.rank[1],
        ),
        _(
            "its logit less that of “{other}”, the original's best other token: {was} "
            "→ {now}",
            other=plain(report.other, how),
            was=number(apart[0]),
            now=number(apart[1]),
        ),
        _(
            "KL(original || changed): {divergence} nats",
            divergence=number(report.divergence),
        ),
        _proof_words(report),
    ]
    if not report.moved:
        reason = report.reason or _("no row of the run is another")
        said = [_("nothing moved: {reason}", reason=reason), *said[-1:]]
    return "\n".join(said)


def _proof_words(report: ChangeReport) -> str:
    said = [
        ngettext(
            "{equal:,} of {n:,} row that cannot depend on the change is equal to the "
            "last bit",
            "{equal:,} of {n:,} rows that cannot depend on the change are equal to the "
            "last bit",
            report.independent,
            equal=report.equal,
        )
    ]
    if math.isnan(report.row_sums):
        said.append(_("some rows of weights are NaN"))
    elif report.row_sums < SUMS_TO_ONE:
        said.append(_("rows of weights sum to 1"))
    else:
        far = number(report.row_sums)
        said.append(_("rows of weights do not sum to 1: one is off by {far}", far=far))
    if report.lacking:
        said.append(
            ngettext(
                "{n:,} row stays: the other run has no such row",
                "{n:,} rows stay: the other run has no such rows",
                report.lacking,
            )
        )
    return clauses(said)


def export_words(trace: Trace | None) -> str:
    """State in an export how the run differs from the model's own; "" if not."""
    if trace is None:
        return ""
    said = [change_words(trace), *_fed_words(trace)]
    return clauses(said)


def change_words(trace: Trace | None) -> str:
    """Describe the changes of a run; "" if there are none."""
    changes = None if trace is None else trace.intervention
    return _("modified run: {changes}", changes=changes) if changes else ""


def _fed_words(trace: Trace) -> tuple[str, str]:
    origins = step_origins(trace.steps)
    forced = [row for row, origin in enumerate(origins) if origin == "forced"]
    count = origins.count("reference")
    fed = ngettext(
        "teacher forcing: {n:,} token is fed from the reference",
        "teacher forcing: {n:,} tokens are fed from the reference",
        count,
    )
    if origins and origins[-1] == "reference":
        choice = short_choice(trace)
        now = _("step {step}, {choice}", step=len(trace), choice=choice)
        fed = clauses((fed, now))
    named = listed(
        _("{step}: {token}", step=row + 1, token=told_token(trace, row))
        for row in forced[:MOST_NAMED]
    )
    more = len(forced) - MOST_NAMED
    if more > 0:
        named = _("{tokens} and {more:,} more", tokens=named, more=more)
    return (
        fed if count else "",
        _("by step, {tokens}", tokens=named) if forced else "",
    )
