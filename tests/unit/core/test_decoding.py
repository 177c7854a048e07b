"""Decoding step by step: its semantics, and that its cache equals the full pass."""

from __future__ import annotations

import gc
import math
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from tests.tiny_models import BOS, EOS, PAD, count_encodings, tiny_checkpoint
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.incremental import DecoderState
from visformer.core.passes import run
from visformer.core.sampling import choose, filtered
from visformer.errors import InputError
from visformer.values.arrays import Floats, softmax
from visformer.values.facts import KINDS
from visformer.values.step import Strategy
from visformer.values.trace import Trace

VARIANTS = [
    {"norm_first": False, "final_norm": False},
    {"norm_first": True, "final_norm": True},
    {"norm_first": False, "final_norm": True, "tied_output": True},
]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return tiny_checkpoint(1, norm_first=True, final_norm=True)


def close(ours: Floats, theirs: Floats) -> bool:
    """Whether two tensors differ by no more than the house's tolerance."""
    bound = 2e-5 * max(1.0, float(np.abs(theirs).max(initial=0)))
    return ours.shape == theirs.shape and bool((np.abs(ours - theirs) <= bound).all())


def assert_same(ours: Trace, theirs: Trace) -> None:
    assert ours.target == theirs.target
    assert ours.source_ids.tolist() == theirs.source_ids.tolist()
    assert close(ours.encoder_rows, theirs.encoder_rows)
    assert close(ours.memory_rows, theirs.memory_rows)
    assert close(ours.decoder_rows, theirs.decoder_rows)
    assert close(ours.logits, theirs.logits)
    for kind in KINDS:
        assert np.array_equal(ours.masks[kind], theirs.masks[kind])


def full_pass(checkpoint: Checkpoint, trace: Trace) -> Trace:
    return run(checkpoint, [trace.source_ids.tolist()], [trace.target_ids.tolist()])[0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_cached_decoding_equals_the_full_pass(variant: dict[str, bool]) -> None:
    checkpoint = tiny_checkpoint(3, **variant)
    trace = Decoding(checkpoint, "transformer", limit=9).finish()
    assert trace.target_ids[0] == BOS
    assert_same(trace, full_pass(checkpoint, trace))


def test_decoding_equals_the_full_pass_with_pads(checkpoint: Checkpoint) -> None:
    decoding = Decoding(checkpoint, [4, 5, PAD, 6, EOS], limit=12)
    decoding.step(3)
    decoding.force(PAD)
    trace = decoding.step(4)
    assert_same(trace, full_pass(checkpoint, trace))
    at = trace.target_ids.tolist().index(PAD)
    assert not trace.mask("decoder", 0)[at:, at].any()


def test_teacher_forcing_in_one_pass_equals_stepping(checkpoint: Checkpoint) -> None:
    decoding = Decoding(checkpoint, "hello")
    trace = decoding.feed("olleh")
    assert [step.id for step in trace.steps] == [18, 15, 15, 8, 11, EOS]
    assert {step.origin for step in trace.steps} == {"reference"}
    one_by_one = Decoding(checkpoint, "hello")
    for _ in range(6):
        one_by_one.step()
        one_by_one.force(trace.steps[len(one_by_one.trace) - 1].id)
    assert_same(trace, one_by_one.trace)
    assert_same(trace, full_pass(checkpoint, trace))


def test_long_references_are_run_in_chunks(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Decoding(checkpoint, "hello").feed("abcdefghijkl")
    monkeypatch.setattr("visformer.core.incremental.CHUNK", 5)
    assert_same(Decoding(checkpoint, "hello").feed("abcdefghijkl"), whole)


@pytest.mark.parametrize("variant", VARIANTS)
def test_derived_attention_is_that_of_the_forward_pass(
    variant: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, seen = tiny_checkpoint(2, **variant), []
    real = torch.Tensor.softmax

    def spy(scores: torch.Tensor, dim: int) -> torch.Tensor:
        seen.append(real(scores, dim))
        return seen[-1]

    monkeypatch.setattr(torch.Tensor, "softmax", spy)
    trace = run(checkpoint, [[4, 5, 6, PAD]], [[BOS, 7, PAD]])[0]
    kinds = ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]
    layers = [0, 1, 0, 0, 1, 1]
    assert len(seen) >= 6
    for kind, layer, weights in zip(kinds, layers, seen, strict=False):
        derived = trace.attention(kind, layer)  # type: ignore[arg-type]
        assert close(derived, weights[0].numpy())
        assert close(derived[1], trace.attention(kind, layer, 1))  # type: ignore[arg-type]


def test_steps_describe_the_softmax_of_the_logits(checkpoint: Checkpoint) -> None:
    decoding = Decoding(checkpoint, "hello")
    decoding.step(2)
    decoding.force("q")
    trace = decoding.step(2)
    for step, logits in zip(trace.steps, trace.logits, strict=True):
        p = softmax(logits.astype(np.float32)).astype(np.float64)
        assert step.probability == pytest.approx(p[step.id], abs=1e-5)
        assert step.rank == 1 + int((p > p[step.id]).sum())
        assert step.entropy == pytest.approx(float(-(p * np.log2(p)).sum()), abs=1e-4)
        order = np.argsort(-p, kind="stable")
        assert [c.id for c in step.candidates] == order.tolist()
        found = [c.probability for c in step.candidates]
        assert found == pytest.approx(p[order].tolist(), abs=1e-5)
        assert step.token == checkpoint.tokenizer.target.token(step.id)
    assert trace.steps[1].origin == "forced"
    assert trace.steps[1].token == "q"


def test_decoding_begins_empty(checkpoint: Checkpoint) -> None:
    trace = Decoding(checkpoint, "abc").trace
    assert len(trace) == 0
    assert trace.text == ""
    assert trace.source == ("a", "b", "c", "</s>")
    assert trace.source_spans[0] == (0, 1)
    assert trace.attention("cross", 0).shape == (2, 0, 4)
    assert trace.attention("decoder", 1, 0).shape == (0, 0)
    assert trace.logits.shape == (0, 30)


def count_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the rows that any decoder state computes from now on."""
    counted: list[int] = []
    real = DecoderState.extend

    def extend(
        state: DecoderState, ids: torch.Tensor, visible: torch.Tensor | None = None
    ) -> torch.Tensor:
        counted.append(ids.shape[1])
        return real(state, ids, visible)

    monkeypatch.setattr(DecoderState, "extend", extend)
    return counted


def test_back_and_on_compute_nothing(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding = Decoding(checkpoint, "hello", strategy=Strategy(name="sample"), limit=9)
    counted = count_rows(monkeypatch)
    made = decoding.step(4)
    assert counted == [1, 1, 1, 1]
    assert len(decoding.back()) == 3
    assert len(decoding.back(99)) == 0
    again = decoding.step(4)
    assert counted == [1, 1, 1, 1]
    assert [s.id for s in again.steps] == [s.id for s in made.steps]
    decoding.step()
    assert len(counted) == 5


def test_force_drops_the_tail_and_leaves_old_traces(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding = Decoding(checkpoint, "hello", limit=12)
    first = decoding.step(5)
    rows, ids = first.decoder_rows.copy(), [s.id for s in first.steps]
    decoding.back(2)
    counted = count_rows(monkeypatch)
    forced = decoding.force("z")
    assert not counted  # the forced token is read by the next row
    assert [s.id for s in forced.steps] == [*ids[:2], 29]
    assert forced.steps[-1].origin == "forced"
    assert decoding.step().target[-1] == "z"
    decoding.step(3)
    assert np.array_equal(first.decoder_rows, rows)
    assert [s.id for s in first.steps] == ids


def test_force_before_the_first_step(checkpoint: Checkpoint) -> None:
    trace = Decoding(checkpoint, "hello").force(9)
    assert [step.id for step in trace.steps] == [9]
    assert trace.target == ("<s>",)


def test_earlier_snapshots_share_the_storage(checkpoint: Checkpoint) -> None:
    decoding = Decoding(checkpoint, "hello", limit=8)
    early, late = decoding.step(2), decoding.step(2)
    assert np.shares_memory(early.decoder_rows, late.decoder_rows)
    assert np.array_equal(early.decoder_rows, late.decoder_rows[:2])
    with pytest.raises(ValueError, match="read-only"):
        early.decoder_rows[0, 0] = 1


def test_follow_reuses_what_is_common(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding = Decoding(checkpoint, "hello")
    decoding.follow([(5, "forced"), (6, "forced"), (7, "forced")])
    counted = count_rows(monkeypatch)
    trace = decoding.follow(
        [(5, "forced"), (6, "forced"), (8, "forced"), (9, "forced")]
    )
    assert counted == [1]
    assert trace.target_ids.tolist() == [BOS, 5, 6, 8]
    assert_same(trace, full_pass(checkpoint, trace))
    assert decoding.common([(5, "forced"), (9, "forced")]) == 1
    assert len(decoding.follow([])) == 0


def test_restart_is_a_new_sentence(checkpoint: Checkpoint) -> None:
    decoding = Decoding(checkpoint, "hello", limit=5)
    decoding.finish()
    decoding.restart("abc", limit=5)
    fresh = Decoding(checkpoint, "abc", limit=5)
    assert len(decoding.trace) == 0
    assert_same(decoding.finish(), fresh.finish())


def test_finish_stops_at_the_end_of_the_sentence(checkpoint: Checkpoint) -> None:
    decoding = Decoding(checkpoint, "hello")
    decoding.step(2)
    decoding.force(EOS)
    assert decoding.ended
    assert len(decoding.finish()) == 2
    assert "</s>" not in decoding.text


def test_limits() -> None:
    checkpoint = tiny_checkpoint(max_positions=20)
    assert Decoding(checkpoint, "abc").limit == 20
    assert Decoding(tiny_checkpoint(), "abc").limit == 58  # 2 * 4 + 50
    assert Decoding(checkpoint, "abc", limit=21).limit == 20  # the model's positions
    decoding = Decoding(checkpoint, "abc", limit=3)
    never_ends = [(7, "forced")] * 3
    decoding.follow(never_ends)  # type: ignore[arg-type]
    assert decoding.ended
    assert len(decoding.step()) == 3
    cut = Decoding(checkpoint, "a" * 50).trace
    assert len(cut.source) == 20
    assert cut.truncated_from == 51
    assert cut.source[-1] == "</s>"


@pytest.mark.parametrize("source", ["", " \n", [], [4, 30], [-1]])
def test_sources_that_cannot_be_used(
    checkpoint: Checkpoint, source: str | list[int]
) -> None:
    with pytest.raises(InputError):
        Decoding(checkpoint, source)


def test_tokens_that_cannot_be_forced(checkpoint: Checkpoint) -> None:
    decoding = Decoding(checkpoint, "hello", limit=4)
    decoding.step(2)
    for token in ("ab", "", "é", 30, -1):
        with pytest.raises(InputError):
            decoding.force(token)
    with pytest.raises(InputError, match="limit is 0"):
        decoding.restart("a", limit=0)
    with pytest.raises(InputError, match="5 target tokens"):
        decoding.feed("abcd")
    assert len(decoding.trace) == 2


def test_sampling_is_reproducible_by_seed(checkpoint: Checkpoint) -> None:
    def drawn(seed: int) -> list[int]:
        strategy = Strategy(name="sample", temperature=3.0, seed=seed)
        trace = Decoding(checkpoint, "hello", strategy=strategy, limit=8).finish()
        return [step.id for step in trace.steps]

    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(5)}) > 1


def test_filtering_by_hand() -> None:
    p = torch.tensor([0.1, 0.4, 0.2, 0.3])
    found = filtered(p.log(), 2, 1.0)
    torch.testing.assert_close(found, torch.tensor([0, 4 / 7, 0, 3 / 7]))
    torch.testing.assert_close(filtered(p.log(), 0, 1.0), p)
    # 0.4 + 0.3 reach 0.7; 0.4 alone does not reach 0.5
    torch.testing.assert_close(filtered(p.log(), 0, 0.5), found)
    assert filtered(p.log(), 0, 0.1).tolist() == pytest.approx([0, 1, 0, 0])
    assert filtered(p.log(), 3, 0.6).count_nonzero() == 2


def test_greedy_and_top_one_take_the_best() -> None:
    logits = torch.tensor([0.0, 2.0, 1.0])
    assert choose(logits, Strategy(), 0) == (1, "model", None)
    one = choose(logits, Strategy(name="sample", top_k=1), 5)
    assert one == (1, "drawn", (1.0, 1.0, 1, 1.0))


@pytest.mark.parametrize(
    "strategy",
    [
        {"temperature": 0},
        {"temperature": -1},
        {"top_p": 0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"temperature": math.nan},
        {"temperature": math.inf},
    ],
)
def test_strategies_out_of_range(strategy: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(strategy))} is .* but must be"):
        Strategy(**strategy)


def test_a_batch_equals_its_sentences(checkpoint: Checkpoint) -> None:
    source = [[4, 5, 6, EOS], [7, EOS, PAD, PAD]]
    target = [[BOS, 9, 10], [BOS, 11, PAD]]
    first, second = run(checkpoint, source, target)
    assert_same(first, run(checkpoint, source[:1], target[:1])[0])
    alone = run(checkpoint, [[7, EOS]], [[BOS, 11]])[0]
    assert close(second.decoder_rows[:2], alone.decoder_rows)
    assert close(second.attention("cross", 1)[:, :2, :2], alone.attention("cross", 1))
    assert second.target == ("<s>", "h", "<pad>")
    assert not second.attention("cross", 0)[:, :, 2:].any()


def test_batches_that_cannot_be_run(checkpoint: Checkpoint) -> None:
    for source, target in (
        ([[4]], [[2], [2]]),
        ([[4] * 65], [[2]]),
        ([[4]], [[30]]),
    ):
        with pytest.raises(InputError):
            run(checkpoint, source, target)


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    logits = torch.tensor([0.25, 0.5, 0.125, 0.125]).log()
    # 0.5 alone reaches 0.5: what comes after it is not needed
    assert filtered(logits, 0, 0.5).tolist() == [0, 1, 0, 0]
    assert filtered(logits, 0, 0.75).tolist() == pytest.approx([1 / 3, 2 / 3, 0, 0])
    assert filtered(logits, 0, 0.76)[2] > 0
    # top-k first: 0.5 of the 0.75 that it leaves is two thirds
    assert filtered(logits, 2, 2 / 3 - 0.01).tolist() == [0, 1, 0, 0]
    assert filtered(logits, 2, 0.7)[0] > 0


def test_released_rows_of_the_source_are_computed_again_once_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded = count_encodings(monkeypatch)
    decoding = Decoding(tiny_checkpoint(), "abcdef", limit=8)
    before = decoding.step(2)
    decoding.release()
    decoding.step(2)
    np.testing.assert_array_equal(decoding.trace.memory_rows, before.memory_rows)
    assert encoded == [7]
    trace = decoding.trace
    copied = pickle.loads(pickle.dumps(trace))
    assert encoded == [7, 7]
    np.testing.assert_array_equal(copied.encoder_rows, before.encoder_rows)
    expected = Decoding(tiny_checkpoint(), "abcdef", limit=8).step(4)
    for kind in KINDS:
        np.testing.assert_array_equal(
            trace.attention(kind, 1), expected.attention(kind, 1)
        )
    assert encoded == [7, 7, 7]  # the last is of what it is compared with
    run = weakref.ref(decoding._run)
    gc.disable()
    try:
        del decoding
        assert run() is None  # it does not wait for a collection
    finally:
        gc.enable()
