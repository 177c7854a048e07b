"""How well a checkpoint translates pairs that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from visformer.core.checkpoint import Checkpoint
from visformer.core.translation import translate
from visformer.errors import InputError
from visformer.language import _
from visformer.training.data import Pair, references


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Measured quality; BLEU and chrF are None if sacrebleu is not installed."""

    sentences: int  # different sources
    exact: float  # share whose translation equals one of the references, in [0, 1]
    bleu: float | None  # 0 to 100
    chrf: float | None  # 0 to 100
    bleu_signature: str = ""  # sacrebleu's, which states every choice
    chrf_signature: str = ""


def evaluate(checkpoint: Checkpoint, pairs: Sequence[Pair], *, beam: int = 4) -> Scores:
    """Translate every different source and compare with all of its targets."""
    if not pairs:
        raise InputError(_("There are no pairs to evaluate on."))
    gathered = references(pairs)
    translations = translate(checkpoint, list(gathered), beam=beam)
    return score(translations, list(gathered.values()))


def score(translations: Sequence[str], expected: Sequence[Sequence[str]]) -> Scores:
    """Compare each translation with its references, at least one each."""
    hits = sum(
        text in known for text, known in zip(translations, expected, strict=True)
    )
    exact = hits / len(translations)
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        return Scores(sentences=len(translations), exact=exact, bleu=None, chrf=None)
    bleu, chrf, streams = BLEU(), CHRF(), _streams(expected)
    return Scores(
        sentences=len(translations),
        exact=exact,
        bleu=float(bleu.corpus_score(list(translations), streams).score),
        chrf=float(chrf.corpus_score(list(translations), streams).score),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def _streams(expected: Sequence[Sequence[str]]) -> list[list[Any]]:
    """Transpose references for sacrebleu; None where a source has fewer."""
    most = max(map(len, expected))
    return [
        [known[i] if i < len(known) else None for known in expected]
        for i in range(most)
    ]
