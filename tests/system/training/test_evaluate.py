"""What a model card says: BLEU, chrF and exact matches, and how long it took."""

from __future__ import annotations

import sys

import pytest

from tests.tiny_models import tiny_checkpoint
from visformer.core.translation import translate
from visformer.errors import InputError
from visformer.files import Pair
from visformer.training.card import duration, evaluate, score


def test_bleu_by_hand() -> None:
    scores = score(["a b c d e"], [["a b c d f"]])
    # 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 fours
    assert scores.bleu == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert scores.exact == 0
    assert scores.bleu_signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a")


def test_every_reference_counts_and_none_is_missed() -> None:
    made = ["the cat sat on the mat", "it is very cold today", "x y z w v"]
    expected = [
        ["a cat was sitting on a mat", "the cat sat on the mat"],
        ["it is very cold today"],
        ["no word in common here", "nor in this one", "x y z w q"],
    ]
    scores = score(made, expected)
    assert scores.exact == pytest.approx(2 / 3)
    assert scores.bleu_signature.startswith("nrefs:var")
    repeated = [[*known, *[known[-1]] * (3 - len(known))] for known in expected]
    same = score(made, repeated)  # a reference twice is a reference once
    assert scores.bleu == pytest.approx(same.bleu)
    assert scores.chrf == pytest.approx(same.chrf)
    assert score(made[:2], expected[:2]).bleu == pytest.approx(100)


def test_evaluate_translates_each_source_once() -> None:
    checkpoint = tiny_checkpoint(1, norm_first=True, final_norm=True)
    (made,) = translate(checkpoint, ["ab"], beam=2)
    pairs = [Pair("ab", "no"), Pair("cd", "no"), Pair("ab", made)]
    scores = evaluate(checkpoint, pairs, beam=2)
    assert (scores.sentences, scores.exact) == (2, 0.5)
    with pytest.raises(InputError, match="no pairs"):
        evaluate(checkpoint, [])


def test_without_sacrebleu_the_exact_share_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    scores = score(["a"], [["a"]])
    assert (scores.exact, scores.bleu, scores.chrf) == (1, None, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (29, "29 s"),
        (100, "2 min"),
        (3570, "1 h 00 min"),
        (7525, "2 h 05 min"),
    ],
)
def test_durations_are_rounded(seconds: float, text: str) -> None:
    assert duration(seconds) == text
