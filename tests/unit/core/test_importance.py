"""Importance of heads, layers and source tokens, against the same model in float64."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import visformer
from tests.tiny_models import tiny_checkpoint
from tests.unit.core.test_attribution import attention, decoded, double, hooked, passed
from visformer.core import importance as measuring
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.importance import importance, importance_of_pairs
from visformer.core.model import Transformer
from visformer.core.search import exhausted
from visformer.errors import InputError
from visformer.values.changes.weight_changes import HeadScale
from visformer.values.facts import KINDS, STACKS, Kind
from visformer.values.intervention import Intervention
from visformer.values.measured import Importance

STEP = 1e-5
ALL = slice(None)


@pytest.fixture(params=[False, True], ids=["post-norm", "pre-norm"])
def checkpoint(request: pytest.FixtureRequest) -> Checkpoint:
    pre = {"norm_first": True, "final_norm": True} if request.param else {}
    return tiny_checkpoint(seed=2, shared_embedding=False, **pre)


def measured(decoding: Decoding) -> Importance:
    return exhausted(importance(decoding.checkpoint, decoding.known))


@contextmanager
def scaled(
    model: Transformer, kind: Kind, layer: int, head: int, by: float, row: Any = ALL
) -> Iterator[None]:
    """Multiply a head's slice of what W_O is given, of one row or of all."""
    part = attention(model, kind, layer)
    width = part.output.weight.shape[0] // part.heads

    def scale(_module: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
        z = given[0].clone()  # [1, Q, D]
        z[:, row, head * width : (head + 1) * width] *= by
        return (z,)

    handle = part.output.register_forward_pre_hook(scale)
    yield
    handle.remove()


@torch.no_grad()
def test_a_head_off_is_its_slice_before_w_o_at_zero(checkpoint: Checkpoint) -> None:
    decoding, model = decoded(checkpoint), double(checkpoint)
    found, trace = measured(decoding), decoding.trace
    before = passed(model, trace).log_p
    np.testing.assert_allclose(found.log_p, before, atol=1e-5)
    assert found.total == pytest.approx(float(before.sum()), abs=1e-5)
    for kind in KINDS:
        assert found.heads[kind].shape == (2, 2)
        for layer, head in np.ndindex(2, 2):
            with scaled(model, kind, layer, head, 0.0):
                change = float((passed(model, trace).log_p - before).sum())
            assert found.heads[kind][layer, head] == pytest.approx(change, abs=2e-5)
        for layer in range(2):
            with scaled(model, kind, layer, 0, 0.0), scaled(model, kind, layer, 1, 0.0):
                change = float((passed(model, trace).log_p - before).sum())
            assert found.layers[kind][layer] == pytest.approx(change, abs=2e-5)
        mean = found.mean(kind) * len(trace.target)
        np.testing.assert_allclose(mean, found.heads[kind])
    assert max(np.abs(found.heads[kind]).max() for kind in KINDS) > 0.1


@torch.no_grad()
def test_a_source_token_is_hidden_from_every_query(checkpoint: Checkpoint) -> None:
    decoding, model = decoded(checkpoint), double(checkpoint)
    trace, found = decoding.trace, measured(decoding).source
    before = passed(model, trace).log_p
    assert found is not None
    assert found.shape == (len(trace.source),)
    source = torch.tensor(trace.source_ids)[None]
    target = torch.tensor(trace.target_ids)[None]
    rows = target.shape[1]
    causal = torch.ones(1, rows, rows, dtype=torch.bool).tril()
    chosen = torch.tensor([step.id for step in trace.steps])
    for token, change in enumerate(found):
        seen = torch.ones(1, 1, source.shape[1], dtype=torch.bool)
        seen[..., token] = False
        memory = model.encode(source, seen).output
        made = model.decode(target, memory, causal, seen).output
        log_p = model.output(made)[0].log_softmax(-1)[torch.arange(rows), chosen]
        assert change == pytest.approx(float((log_p - before).sum()), abs=2e-5)


@torch.no_grad()
def test_estimates_are_slopes_of_a_heads_scale(checkpoint: Checkpoint) -> None:
    decoding, model = decoded(checkpoint), double(checkpoint)
    found, trace = measured(decoding), decoding.trace

    def slope(kind: Kind, layer: int, head: int, row: Any = ALL) -> float:
        ends = []
        for by in (1 + STEP, 1 - STEP):
            with scaled(model, kind, layer, head, by, row):
                ends.append(float(passed(model, trace).log_p.sum()))
        return (ends[0] - ends[1]) / (2 * STEP)

    for kind in KINDS:
        rows = range(len(trace.tokens(kind)[0]))
        for layer in range(2):
            slopes = [slope(kind, layer, head) for head in range(2)]
            np.testing.assert_allclose(
                found.gradient[kind][layer], np.negative(slopes), atol=2e-5
            )
            measure = np.array(
                [
                    np.mean([abs(slope(kind, layer, head, row=q)) for q in rows])
                    for head in range(2)
                ]
            )
            length = np.sqrt((measure**2).sum())
            np.testing.assert_allclose(
                found.sensitivity[kind][layer], measure / length, atol=1e-4
            )


@pytest.mark.parametrize(
    "sizes",
    [{}, {"position_axis": "batch"}, {"position_axis": "restart"}],
    ids=["time", "batch", "restart"],
)
@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("most", [1, measuring.MOST_NUMBERS])
def test_batches_equal_one_run_after_another(
    sizes: dict[str, Any], fed: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "MOST_NUMBERS", most)
    checkpoint = tiny_checkpoint(seed=3, **sizes)
    decoding = Decoding(checkpoint, "abcd", intervention="head cross * 0.5 @ L1")
    if fed:
        decoding.feed("kbza")
    else:
        decoding.finish()
    batches = measured(decoding)
    monkeypatch.setattr(measuring, "_in_batches", measuring._one_by_one)
    singles = measured(decoding)
    np.testing.assert_allclose(batches.log_p, singles.log_p, atol=1e-5)
    for kind in KINDS:
        for name in ("heads", "layers"):
            one, other = (getattr(each, name)[kind] for each in (batches, singles))
            np.testing.assert_allclose(one, other, atol=3e-5)
    assert batches.source is not None
    assert singles.source is not None
    np.testing.assert_allclose(batches.source, singles.source, atol=3e-5)


def test_a_head_that_is_off_already_changes_nothing(checkpoint: Checkpoint) -> None:
    decoding = Decoding(checkpoint, "abcd", intervention="head decoder off @ L2H1")
    decoding.finish()
    found = measured(decoding)
    assert found.heads["decoder"][1, 0] == pytest.approx(0, abs=1e-6)
    assert found.gradient["decoder"][1, 0] == 0
    assert found.sensitivity["decoder"][1].tolist() == [0, pytest.approx(1)]


def test_the_mean_and_the_spread_over_pairs(tmp_path: Path) -> None:
    checkpoint, path = tiny_checkpoint(seed=2), tmp_path / "pairs.tsv"
    path.write_text("abc\tcba\n\nza\tkkkk\n")
    made = visformer.importance(checkpoint, pairs=path)
    each = [
        visformer.importance(checkpoint, *pair)
        for pair in (("abc", "cba"), ("za", "kkkk"))
    ]
    assert made.pairs == 2
    for kind in KINDS:
        one, other = (single.heads[kind] / len(single.log_p) for single in each)
        np.testing.assert_allclose(made.mean[kind], (one + other) / 2, atol=1e-6)
        np.testing.assert_allclose(made.spread[kind], abs(one - other) / 2, atol=1e-6)
    path.write_text("\n")
    with pytest.raises(InputError, match=r"pairs\.tsv has no pair"):
        exhausted(importance_of_pairs(checkpoint, path))


@torch.no_grad()
def test_streams_of_another_run_are_patched_in_both_directions(
    checkpoint: Checkpoint,
) -> None:
    decoding, model = decoded(checkpoint), double(checkpoint)
    read = checkpoint.vocabulary.read("abxd")
    found = exhausted(importance(checkpoint, decoding.known, read)).patched
    assert found is not None
    here = decoding.trace
    there = replace(here, source_ids=np.array(read.ids))
    passes = {trace: passed(model, trace) for trace in (here, there)}
    assert found.other == pytest.approx(float(passes[there].log_p.sum()), abs=2e-5)
    ways = (found.into_other, here, there), (found.from_other, there, here)
    for changes, taken, into in ways:
        for stack, layers in zip(STACKS, (model.encoder, model.decoder), strict=True):
            hidden = passes[taken].stack(stack).hidden
            for (layer, token), change in np.ndenumerate(changes[stack]):
                stream = hidden[layer + 1][0, token]

                def patch(
                    _module: nn.Module, _given: Any, made: Any, *at: Any
                ) -> tuple[Tensor, Any]:
                    x = made[0].clone()
                    x[0, token] = stream  # noqa: B023
                    return x, made[1]

                with hooked(([*layers][layer], patch)):
                    after = passed(model, into).log_p
                expected = float((after - passes[into].log_p).sum())
                assert change == pytest.approx(expected, abs=3e-5)
    assert np.abs(found.into_other["encoder"][:, 2]).max() > 0.01
    longer = checkpoint.vocabulary.read("abcde")
    reasons = exhausted(importance(checkpoint, decoding.known, longer)).reasons
    assert "5 tokens, the other 6" in reasons[0]


def test_agreement_is_the_correlation_of_ranks() -> None:
    exact = np.array([[-3.0, 0.0], [0.0, 1.0]])  # ranks 1, 2.5, 2.5, 4
    made = Importance(
        log_p=np.zeros(1),
        heads={"cross": exact},
        layers={},
        gradient={"cross": np.array([[-9.0, 5.0], [1.0, 2.0]])},  # ranks 1, 4, 2, 3
        sensitivity={},
    )
    one, other = np.array([1, 2.5, 2.5, 4]) - 2.5, np.array([1, 4, 2, 3]) - 2.5
    expected = (one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum())
    assert made.agreement("cross") == pytest.approx(expected)
    assert np.isnan(made.agreement("encoder"))


def test_what_cannot_be_measured_is_said(checkpoint: Checkpoint) -> None:
    decoding = Decoding(checkpoint, "abcd")
    with pytest.raises(InputError, match="Nothing was decoded"):
        measured(decoding)
    with pytest.raises(InputError, match="left out where pairs are given"):
        visformer.importance(checkpoint, "abc", pairs="x.tsv")  # type: ignore[call-overload]


class InItsOwnProgram:
    """A model that is no native one, as the Model protocol has it."""

    def __init__(self, checkpoint: Checkpoint, *, hides: bool) -> None:
        self.facts, self.begin = checkpoint.facts, checkpoint.begin
        self._hides = hides

    def can(self, change: Intervention, source: object) -> None:
        if not (self._hides or all(isinstance(one, HeadScale) for one in change)):
            raise InputError("Its masks are out of reach.")


@pytest.mark.parametrize("hides", [False, True])
def test_other_models_are_measured_as_far_as_they_can_be(hides: bool) -> None:
    checkpoint = tiny_checkpoint(seed=2)
    decoding = decoded(checkpoint)
    other: Any = InItsOwnProgram(checkpoint, hides=hides)
    found, native = exhausted(importance(other, decoding.known)), measured(decoding)
    for kind in KINDS:
        np.testing.assert_allclose(found.heads[kind], native.heads[kind], atol=3e-5)
    assert found.gradient == found.sensitivity == {}
    assert (found.source is not None) is hides
    needs = "Importance by gradient needs a model that Visformer runs itself"
    assert needs in found.reasons[-1]
    assert (found.reasons[0] == "Its masks are out of reach.") is not hides
