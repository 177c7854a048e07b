"""Scans of pairs: losses by independent code, what is read, and the kinds of faults."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import visformer
from tests.tiny_models import BOS, EOS, VOCABULARY, tiny_checkpoint
from visformer.core.models import SourceTokens
from visformer.core.scanning import (
    IdPair,
    Scan,
    auroc,
    batches,
    covered,
    forced,
    halved,
    incoming,
    uncovered,
)
from visformer.errors import InputError
from visformer.values.scanned import (
    Calibration,
    PairLine,
    ScannedPair,
    kind_of,
    paired_difference,
    repeats,
)

PAIRS = [("cab", "bac"), ("hello", "olleh"), ("a", "a"), ("transformer", "x")]
USUAL = Calibration(
    layer=0, layers=1, auroc=1.0, pairs=9, loss=1.0, wrong_loss=6.0, ratio=1.0
)


def ids(text: str) -> list[int]:
    return [VOCABULARY[letter] for letter in text]


def rows_of(model: Any) -> list[IdPair]:
    vocabulary = model.vocabulary
    return [IdPair(vocabulary.read(a), vocabulary.reference(b)) for a, b in PAIRS]


def test_losses_are_those_of_a_pass_by_hand() -> None:
    checkpoint = tiny_checkpoint()
    found = visformer.scan(checkpoint, PAIRS)
    assert [one.line for one in found] == [1, 2, 3, 4]
    for one, (source, reference) in zip(found, PAIRS, strict=True):
        read = torch.tensor([[*ids(source), EOS]])
        fed = torch.tensor([[BOS, *ids(reference)]])
        with torch.no_grad():
            output = checkpoint.model(read, fed, 0)
            log_p = checkpoint.model.output(output)[0].log_softmax(-1)
        wanted = [*ids(reference), EOS]
        losses = [-float(log_p[t, id]) for t, id in enumerate(wanted)]
        np.testing.assert_allclose(one.loss, losses, atol=2e-5)
        assert one.tokens == (*reference, "</s>")
        assert one.mean == pytest.approx(sum(losses) / len(losses), abs=1e-5)
        assert one.worst == one.loss[one.worst_token] == max(one.loss)
        squares = sum(loss**2 for loss in losses) / len(losses)
        assert one.fault == pytest.approx(max(squares**0.5, losses[-1]), abs=1e-4)
        assert one.length_ratio == len(wanted) / (len(source) + 1)
        assert (one.source, one.reference) == (source, reference)
    assert [one.translation for one in found] == visformer.translate(
        [source for source, _reference in PAIRS], checkpoint
    )


def test_a_padded_batch_is_what_each_pair_is_alone() -> None:
    checkpoint = tiny_checkpoint()
    rows = rows_of(checkpoint)
    together = forced(checkpoint, rows, [0, 1])
    for row, one in zip(rows, together, strict=True):
        (alone,) = forced(checkpoint, [row], [0, 1])
        traced = visformer.Decoding(checkpoint, row.source.ids).feed(row.target)
        np.testing.assert_allclose(one.loss, alone.loss, atol=2e-5)
        np.testing.assert_allclose(one.loss, traced.loss, atol=2e-5)
        for layer in (0, 1):
            mean = traced.attention("cross", layer).mean(0)
            np.testing.assert_allclose(one.attention[layer], mean, atol=2e-5)


def test_what_would_read_padding_runs_alone() -> None:
    rows = rows_of(tiny_checkpoint())
    assert len(batches(tiny_checkpoint(), rows)) == 1
    rules: list[dict[str, Any]] = [{"mask_rule": "causal"}, {"position_axis": "batch"}]
    for rule in rules:
        assert len(batches(tiny_checkpoint(**rule), rows)) == len(rows)


def test_another_program_s_model_is_scanned_one_pair_at_a_time() -> None:
    """A wrapped module gives what the checkpoint around it gives."""
    checkpoint = tiny_checkpoint()

    def call(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        made = checkpoint.model(source, target, 0)
        logits: torch.Tensor = checkpoint.model.output(made)
        return logits

    def encode(text: str) -> list[int]:
        return [*ids(text), EOS]

    names = {id: token for token, id in VOCABULARY.items()}
    wrapped = visformer.wrap(
        call, bos=BOS, eos=EOS, encode=encode, decode=lambda i: [names[x] for x in i]
    )
    found, native = (
        visformer.scan(model, PAIRS, translations=False)
        for model in (wrapped, checkpoint)
    )
    for one, other in zip(found, native, strict=True):
        np.testing.assert_allclose(one.loss, other.loss, atol=2e-5)
        assert one.tokens == other.tokens
        assert one.coverage == pytest.approx(other.coverage, abs=1e-4)


def test_a_folder_of_transformers_is_scanned(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.system.formats.hugging_face.families import write_folder

    model = visformer.load(write_folder(tmp_path / "folder", "BART"))
    text = "a b"
    (one,) = visformer.scan(model, [(text, text)])
    traced = visformer.Decoding(model, text).feed(text)
    np.testing.assert_allclose(one.loss, traced.loss, atol=2e-5)


def test_the_checks_are_run_on_the_pair_of_the_largest_fault() -> None:
    pairs = [PairLine(at, *pair) for at, pair in enumerate(PAIRS, 1)]
    for axis, fails in (("restart", True), ("time", False)):
        made = Scan(tiny_checkpoint(position_axis=axis), pairs)
        found = [one for some in made for one in some]
        worst = max(found, key=lambda one: one.fault)
        wanted = f"Line {worst.line} fails the check “Cached steps go on with the"
        assert any(one.startswith(wanted) for one in made.checked) is fails
        assert len(made.checked) >= 1
    made = Scan(tiny_checkpoint(), pairs, checks=False)
    assert len([*made])
    assert not made.checked


def test_sources_alone_have_the_model_s_own_translations() -> None:
    checkpoint = tiny_checkpoint()
    found = visformer.scan(checkpoint, ["cab", "hello"])
    assert [one.reference for one in found] == ["", ""]
    assert [one.translation for one in found] == visformer.translate(
        ["cab", "hello"], checkpoint
    )
    for one in found:
        made = visformer.Decoding(checkpoint, one.source).finish()
        np.testing.assert_allclose(one.loss, made.loss, atol=2e-5)


def test_what_cannot_be_scanned_is_told(caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = tiny_checkpoint(max_positions=8)
    given = [("cab", "bac"), ("cab", "a" * 8), ("abcdefghijk", "a"), ("a", "b")]
    with caplog.at_level(logging.WARNING):
        found = visformer.scan(checkpoint, given)
    assert [one.line for one in found] == [1, 4]
    two, three = (one.getMessage() for one in caplog.records)
    assert two.startswith("Line 2 is left out: There are 9 target tokens, but at most")
    assert three.startswith("Line 3 is left out:")
    with pytest.raises(InputError, match="None of the pairs can be scanned"):
        visformer.scan(checkpoint, given[1:2])
    for wrong in (3, [], ["a", 3], [("a", "b", "c")], [("a", "b"), "c"]):
        with pytest.raises(TypeError, match="pairs is"):
            visformer.scan(checkpoint, wrong)  # type: ignore[arg-type]


def test_a_model_of_nan_and_one_without_cross_attention_are_refused() -> None:
    broken = tiny_checkpoint()
    with torch.no_grad():
        broken.model.output.weight[5] = torch.nan
    for given in (PAIRS, ["cab"]):
        with pytest.raises(InputError, match="not finite"):
            visformer.scan(broken, given)
    decoder = visformer.wrap(lambda target: None, bos=1, eos=2)
    decoder.__class__ = type("Alone", (type(decoder),), {"facts": _NoCross()})
    with pytest.raises(InputError, match="has no cross-attention"):
        Scan(decoder, [PairLine(1, "1", "2")])


class _NoCross:
    kinds = ("decoder",)


def test_coverage_by_hand() -> None:
    source = SourceTokens(
        [5, 6, 7, EOS], ("▁a", "▁big", "▁cat", "</s>"), text="a big cat"
    )
    source = source._replace(spans=((0, 1), (2, 5), (6, 9), (9, 9)))
    row = IdPair(source, [8, 9, EOS])
    attention = np.array(
        [[0.9, 0.05, 0.05, 0], [0.8, 0.1, 0.05, 0.05], [0, 0.5, 0.5, 0]], np.float32
    )
    read = incoming(row, attention, (EOS,))  # what the end reads does not count
    assert read == pytest.approx({0: 1.7, 1: 0.15, 2: 0.1})
    assert covered(read) == pytest.approx((1 * 0.15 * 0.1) ** (1 / 3))
    model = tiny_checkpoint()
    (found,) = uncovered(model, source, read, at_least_one=False)
    assert tuple(found) == (2, 9, "big cat")
    wide = dict.fromkeys(read, 0.5) | {1: 0.4}
    assert uncovered(model, source, wide, at_least_one=False) == ()
    (found,) = uncovered(model, source, wide, at_least_one=True)
    assert tuple(found) == (2, 5, "big")


def test_repeats_halves_and_auroc_by_hand() -> None:
    for text, count in (
        *(("ababab", 4), ("xababab", 4), ("aaaa", 3), ("abcabd", 0), ("abcabc", 3)),
        *(("", 0), ("a", 0), ("abab", 2), ("aab", 1)),
    ):
        assert repeats([ord(letter) for letter in text]) == count, text
    assert halved([5, 6, 7, 8, EOS], (EOS,)) == [5, 6, EOS]
    assert halved([5, 6, 7], (EOS,)) == [5]
    assert halved([5, EOS], (EOS,)) == [5, EOS]
    assert auroc([3, 2], [1, 2]) == (1 + 1 + 1 + 0.5) / 4
    assert auroc([3, 2 + 1e-6], [1, 2]) == auroc([3, 2], [1, 2])  # by rounding


def pair(loss: Sequence[float], **more: Any) -> ScannedPair:
    known: dict[str, Any] = {
        **{"line": 1, "source": "a", "reference": "b", "tokens": ("b",) * len(loss)},
        **{"loss": tuple(loss), "fault": 0.0, "mean": 0.0, "worst": max(loss)},
        **{"worst_token": 0, "coverage": 1.0, "uncovered": (), "stuck": 0},
        **{"length_ratio": 1.0, "rarest": 1, "translation": "", "chrf": None},
        **{"kind": None, **more},
    }
    return ScannedPair(**known)


@pytest.mark.parametrize(
    ("loss", "more", "kind"),
    [
        ((1, 1, 0.1), {}, None),
        ((1, 1, 9.0), {}, "left out"),
        ((5, 5, 0.1), {}, "unrelated or wrong"),
        ((5, 5, 0.1), {"stuck": 3}, "stuck"),
        ((1, 1, 5, 5, 5, 0.1), {"length_ratio": 2.0}, "too long"),
        ((6, 6, 6, 6, 6, 0.1), {"length_ratio": 2.0}, "unrelated or wrong"),
        ((1, 1, 1, 1, 1, 0.1), {"length_ratio": 2.0}, None),
        ((0, 9.5, 0, 0.1), {"uncovered": ((0, 1, "a"),)}, "left out"),
        ((0, 8.5, 0, 0.1), {"uncovered": ((0, 1, "a"),)}, None),
    ],
)
def test_kinds_by_the_rules(
    loss: Sequence[float], more: dict[str, Any], kind: str | None
) -> None:
    assert kind_of(pair(loss, **more), USUAL, ends=True) == kind


SOUND = (  # everyday sentences
    *(("I like tea.", "J'aime le thé."), ("Where do you live?", "Où habites-tu ?")),
    ("My brother bought a new car yesterday.", "Mon frère a acheté une voiture hier."),
    ("The children are playing in the garden.", "Les enfants jouent dans le jardin."),
    ("She told me that she was tired.", "Elle m'a dit qu'elle était fatiguée."),
    ("We have to leave before it rains.", "Nous devons partir avant qu'il pleuve."),
    ("Can you help me with my homework?", "Peux-tu m'aider à faire mes devoirs ?"),
    ("The book on the table is mine.", "Le livre sur la table est à moi."),
    ("He drinks coffee every morning.", "Il boit du café tous les matins."),
    ("I don't know what to say.", "Je ne sais pas quoi dire."),
)


@pytest.mark.slow
def test_planted_faults_are_named() -> None:
    """Of faults planted in a fifth of some pairs, most have the right kind."""
    sound = [*SOUND]
    other = [*SOUND[5:], *SOUND[:5]]
    planted = {
        None: sound,
        "unrelated or wrong": [
            (a, b) for (a, _), (_, b) in zip(SOUND, other, strict=True)
        ],
        "left out": [(a, " ".join(b.split()[: len(b.split()) // 2])) for a, b in SOUND],
        "stuck": [(a, f"{b} {' '.join(b.split()[-3:] * 4)}") for a, b in SOUND],
    }
    checkpoint = visformer.load("checkpoints/tatoeba-en-fr")
    for kind, faulty in planted.items():
        rest = sound * 4 if kind else []
        found = visformer.scan(checkpoint, [*faulty, *rest], translations=False)
        kinds = Counter(one.kind for one in found[: len(faulty)])
        assert kinds[kind] >= 8, (kind, kinds)  # type: ignore[index]
        if kind == "left out":
            assert all(one.uncovered for one in found if one.kind == kind)


def test_a_paired_bootstrap_tells_chance_from_a_difference() -> None:
    rng = np.random.default_rng(0)
    base = rng.gamma(2.0, 3.0, 200)

    def scanned(losses: NDArray[np.float64]) -> list[ScannedPair]:
        known: dict[str, Any] = dict.fromkeys(one.name for one in fields(ScannedPair))
        return [ScannedPair(**{**known, "loss": (x / 2, x / 2)}) for x in losses]

    noise = rng.normal(0.0, 1.0, 200)
    noise -= noise.mean()
    same = paired_difference(scanned(base + noise), scanned(base))
    assert same.p > 0.9  # the means are equal
    assert same.low < 0 < same.high
    worse = paired_difference(scanned(base + noise + 1.0), scanned(base))
    assert worse.p == pytest.approx(1 / 1001)
    assert worse.losses == pytest.approx((base.mean() + 1, base.mean()))
    # for so many pairs, as the normal distribution has it
    spread = 1.96 * noise.std() / np.sqrt(200)
    assert (worse.low, worse.high) == pytest.approx((1 - spread, 1 + spread), abs=0.02)
    itself = paired_difference(scanned(base), scanned(base))
    assert (itself.low, itself.high, itself.p) == (0.0, 0.0, 1.0)
