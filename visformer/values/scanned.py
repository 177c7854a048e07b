"""What a scan finds of a pair of sentences, and the rules that name its fault.

The numbers in the rules were measured on pairs that the bundled models have not seen
(test parts, 1,500 English-French and 1,000 Chinese-English) and on faults planted in a
tenth or a half of them: another sentence's reference, its second half missing, its last
three words five times, another reference appended, its middle third missing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np

from visformer.language import N_, _, ngettext

FaultKind = Literal["stuck", "too long", "unrelated or wrong", "left out"]
KINDS: dict[FaultKind, str] = {
    "left out": N_("left out"),
    "stuck": N_("stuck"),
    "too long": N_("too long"),
    "unrelated or wrong": N_("unrelated or wrong"),
}
# tokens that repeat: 1 at most in 1,200 sound pairs that do not repeat in the source
STUCK = 3
# nats of the token that ends the sentence: 0.1 in 99 % of sound pairs, 8.9 or more in
# 95 % of those without their second half
ENDS_EARLY = 3.0
# attention that a word gets in all: 1 to 2 % of sound pairs have a word below it, 68 to
# 80 % of those without their second half, 25 to 43 % of those without their middle
UNREAD = 0.2
# nats of the worst token, with such a word: at 6 it is 1 to 4 % of sound pairs, at 9
# half as many, and 20 to 30 % of those without their middle
SURPRISED = 9.0
# a share of the way from the losses of the file's pairs to those of exchanged
# references: 88 to 100 % of those are beyond it, and 1 to 3 % of sound pairs
WRONG = 0.7
# target tokens for each source token, by the file's median: 95 % of sound pairs have
# fewer; with a mean loss beyond the first share, and one below the second up to where a
# usual reference would end, it is 45 to 77 % of those to which another was appended
LONG, LONG_LOSS, LONG_HEAD = 1.5, 0.3, 0.5


class PairLine(NamedTuple):
    """A line of a file of pairs."""

    line: int  # from 1
    source: str
    reference: str | None  # None: the model's own translation is scanned


class Uncovered(NamedTuple):
    """Source words that hardly any target token reads."""

    start: int  # characters of the source
    end: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What is usual in a file of pairs, and the layer that tells what was left out."""

    layer: int  # of the cross-attention, from 0
    layers: int
    auroc: float  # of its coverage: pairs against the same without their second half
    pairs: int  # how many were tried
    loss: float  # lower quartile of the mean losses before the end: some may be wrong
    wrong_loss: float  # median of the same, of exchanged references
    ratio: float  # median of target tokens for each source token

    @property
    def sentence(self) -> str:
        """Which layer serves, and why."""
        return ngettext(
            "Layer {layer} of {layers} of the cross-attention tells what was left out: "
            "tried on {n} pair without its second half, AUROC {auroc:.2f}.",
            "Layer {layer} of {layers} of the cross-attention tells what was left out: "
            "tried on {n} pairs without their second half, AUROC {auroc:.2f}.",
            self.pairs,
            layer=self.layer + 1,
            layers=self.layers,
            auroc=self.auroc,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedPair:
    """A source and its reference, as a model sees them.

    ``loss`` is −ln p of each reference token, the end included, in nats. ``stuck``
    counts tokens that repeat those directly before them, beyond what the source does.
    ``fault`` is the largest of the losses' root mean square, the end's loss and
    ``stuck``. ``coverage``, in [0, 1], is the geometric mean of the attention that each
    source token gets in all, at most 1.
    """

    line: int  # of the file, from 1
    source: str
    reference: str  # "": the file has none, and the model's translation is scanned
    tokens: tuple[str, ...]  # of the reference, or of that
    loss: tuple[float, ...]
    fault: float
    mean: float
    worst: float
    worst_token: int  # from 0
    coverage: float
    uncovered: tuple[Uncovered, ...]
    stuck: int
    length_ratio: float  # target tokens for each source token
    rarest: int  # how often its rarest source token occurs in what is scanned
    translation: str  # "" where none was asked for
    chrf: float | None  # of the translation, 0 to 100; None without sacrebleu
    kind: FaultKind | None

    @property
    def kind_words(self) -> str:
        """The kind, with the words that were left out; "" for none."""
        if self.kind == "left out" and self.uncovered:
            words = ", ".join(one.words for one in self.uncovered)
            return _("left out: {words}", words=words)
        return _(KINDS[self.kind]) if self.kind else ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, as ``visformer scan --json`` prints it."""
        made = {field.name: getattr(self, field.name) for field in fields(self)}
        made |= {k: round(v, 4) for k, v in made.items() if isinstance(v, float)}
        made["loss"] = [round(one, 4) for one in self.loss]
        made["tokens"] = [*self.tokens]
        made["uncovered"] = [[*one] for one in self.uncovered]
        return made


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScannedPart:
    """Some pairs of a file; the last ones have what is usual."""

    pairs: tuple[ScannedPair, ...] = ()
    left_out: tuple[str, ...] = ()  # lines, a sentence for each
    usual: Calibration | None = None
    checked: tuple[str, ...] = ()  # what the checks find, with what is usual


# what pairs are sorted by, the most faulty first: lower is more faulty
SORTS: dict[str, Callable[[ScannedPair], float]] = {
    "fault": lambda one: -one.fault,
    "worst": lambda one: -one.worst,
    "mean": lambda one: -one.mean,
    "length": lambda one: -one.length_ratio,
    "coverage": lambda one: one.coverage,
    "stuck": lambda one: -one.stuck,
}


SAMPLES, SEED = 1000, 12345  # as sacrebleu has them


class PairedDifference(NamedTuple):
    """How much more two models lose on the same sentences, by a paired bootstrap.

    Sums of sentences are compared, since models may split a sentence differently.
    """

    pairs: int
    losses: tuple[float, float]  # mean sum of a sentence's losses, in nats
    low: float  # 95 % of the resampled differences, first minus second, lie between
    high: float
    p: float  # of a difference so large, if there were none (two-sided)


def paired_difference(
    one: Sequence[ScannedPair], other: Sequence[ScannedPair]
) -> PairedDifference:
    """Compare two scans of the same pairs, in the same order.

    Sentences are drawn ``SAMPLES`` times with replacement; p is the share of centred
    differences at least as large as the real one (Koehn 2004, "Statistical Significance
    Tests for Machine Translation Evaluation"), which itself counts as one.
    """
    sums = np.array([[sum(x.loss) for x in side] for side in (one, other)])  # [2, N]
    apart = sums[0] - sums[1]
    real = apart.mean()
    drawn = np.random.default_rng(SEED)
    picks = drawn.integers(0, len(apart), (SAMPLES, len(apart)))
    means = apart[picks].mean(1)  # [SAMPLES]
    extreme = int((np.abs(means - real) >= abs(real)).sum())
    low, high = np.quantile(means, (0.025, 0.975))
    return PairedDifference(
        pairs=len(apart),
        losses=(float(sums[0].mean()), float(sums[1].mean())),
        low=float(low),
        high=float(high),
        p=(extreme + 1) / (SAMPLES + 1),
    )


def body_loss(loss: Sequence[float], ends: bool) -> float:
    """Return the mean loss of the tokens before the end, if the last one ``ends``."""
    body = loss[:-1] if ends and len(loss) > 1 else loss
    return sum(body) / len(body)


def kind_of(pair: ScannedPair, usual: Calibration, ends: bool) -> FaultKind | None:
    """Name the fault of a pair; ``ends``: its last token ends the sentence."""
    way = usual.wrong_loss - usual.loss
    if pair.stuck >= STUCK:
        return "stuck"
    if way > 0:
        far = (body_loss(pair.loss, ends) - usual.loss) / way
        length = usual.ratio / pair.length_ratio * len(pair.loss)
        head = pair.loss[: max(1, round(length))]
        near = (sum(head) / len(head) - usual.loss) / way < LONG_HEAD
        if pair.length_ratio > LONG * usual.ratio and far > LONG_LOSS and near:
            return "too long"
        if far > WRONG:
            return "unrelated or wrong"
    unread = bool(pair.uncovered) and pair.worst > SURPRISED
    return "left out" if unread or (ends and pair.loss[-1] > ENDS_EARLY) else None


def repeats(ids: Sequence[int]) -> int:
    """Return how many ids in a row repeat those directly before them: 4 of ababab."""
    most = 0
    for period in range(1, len(ids) // 2 + 1):
        run = 0
        for at in range(period, len(ids)):
            run = run + 1 if ids[at] == ids[at - period] else 0
            most = max(most, run if run >= period else 0)
    return most
