"""Runs under an Intervention, against runs that reach the same another way."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.tiny_models import tiny_checkpoint, tiny_model
from visformer import open_trace
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.modified import modified_checkpoint
from visformer.core.passes import run
from visformer.errors import InputError
from visformer.values.arrays import softmax
from visformer.values.facts import KINDS, Kind
from visformer.values.intervention import Intervention, parse
from visformer.values.trace import Trace

SOURCE, TARGET = [4, 5, 6, 7], [1, 8, 9, 10, 11]


def altered_run(checkpoint: Checkpoint, *changes: str, **given: Any) -> Trace:
    made = parse(changes)
    return run(checkpoint, [SOURCE], [TARGET], intervention=made, **given)[0]


def same(one: Trace, other: Trace, tolerance: float = 0.0) -> None:
    for name in ("encoder_rows", "memory_rows", "decoder_rows"):
        found, expected = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(one.logits, other.logits, rtol=0, atol=tolerance)


def test_nothing_changed_is_the_plain_run_to_the_bit() -> None:
    checkpoint = tiny_checkpoint()
    same(altered_run(checkpoint), run(checkpoint, [SOURCE], [TARGET])[0])
    plain = Decoding(checkpoint, SOURCE, limit=6).finish()
    untouched = Decoding(checkpoint, SOURCE, limit=6, intervention=Intervention())
    same(untouched.finish(), plain)


@pytest.mark.parametrize("norm_first", [False, True])
def test_mask_changes_are_the_masks_they_say(norm_first: bool) -> None:
    checkpoint = tiny_checkpoint(norm_first=norm_first, final_norm=norm_first)
    everything = np.ones((1, 5, 5), bool)
    same(
        altered_run(checkpoint, "causal off"),
        run(checkpoint, [SOURCE], [TARGET], masks={"decoder": everything})[0],
    )
    hidden: dict[Kind, Any] = {
        "encoder": np.ones((1, 4, 4), bool),
        "cross": np.ones((1, 5, 4), bool),
    }
    for mask in hidden.values():
        mask[..., 2] = False
    same(
        altered_run(checkpoint, "hide 3"),
        run(checkpoint, [SOURCE], [TARGET], masks=hidden)[0],
    )


def test_a_change_of_one_layer_leaves_the_others() -> None:
    checkpoint = tiny_checkpoint()
    trace = altered_run(checkpoint, "hide 3 @ L2", "cell decoder 1 4 on @ L1")
    assert trace.attention("cross", 0)[..., 2].min() > 0
    assert trace.attention("cross", 1)[..., 2].max() == 0
    assert trace.attention("encoder", 1)[..., 2].max() == 0
    assert trace.attention("decoder", 0)[:, 0, 3].min() > 0
    assert trace.attention("decoder", 1)[:, 0, 1:].max() == 0
    assert trace.masks["cross"].shape == (2, 5, 4)
    assert trace.until(3).mask("cross", 1).shape == (3, 4)
    plain = run(checkpoint, [SOURCE], [TARGET])[0]
    assert (trace.hidden("encoder", 1) == plain.hidden("encoder", 1)).all()
    assert not np.allclose(trace.hidden("encoder", 2), plain.hidden("encoder", 2))


def test_multiplying_by_the_mask_leaks() -> None:
    trace = altered_run(tiny_checkpoint(), "multiply")
    causal = np.tri(5, dtype=bool)
    for layer in range(2):
        scores = trace.scores("decoder", layer)
        weights = trace.attention("decoder", layer)
        np.testing.assert_allclose(weights, softmax(scores * causal), atol=1e-6)
        assert weights[:, ~causal].min() > 0
    assert trace.model.config.masked_value == 0


@pytest.mark.parametrize("factor", [None, 2.0, -0.5, 0.0])
def test_another_scale_is_that_of_other_queries(factor: float | None) -> None:
    checkpoint, plain = tiny_checkpoint(), tiny_checkpoint()
    d = checkpoint.config.head_size
    text = "off" if factor is None else f"{factor:g}"
    ratio = d**0.5 if factor is None else factor
    with torch.no_grad():  # q scaled in the second layers scales their scores
        for stack in (plain.model.encoder, plain.model.decoder):
            layer = list(stack)[1]
            for part in ("self_attention", "cross_attention"):
                if hasattr(layer, part):
                    getattr(layer, part).query.weight.mul_(ratio)
                    getattr(layer, part).query.bias.mul_(ratio)
    made = altered_run(checkpoint, f"scale {text} @ L2")
    other = run(plain, [SOURCE], [TARGET])[0]
    np.testing.assert_allclose(made.logits, other.logits, atol=2e-5)
    for kind in KINDS:
        for at in range(2):
            weights = made.attention(kind, at)
            np.testing.assert_allclose(weights, other.attention(kind, at), atol=2e-5)
            scores = np.asarray(made.scores(kind, at))
            np.testing.assert_allclose(scores, other.scores(kind, at), atol=2e-4)
    own = 1 / d**0.5
    assert made.scale("cross", 0) == pytest.approx(own)
    assert made.scale("cross", 1) == pytest.approx(own * ratio)
    untouched = run(checkpoint, [SOURCE], [TARGET])[0]
    assert not np.allclose(made.logits, untouched.logits, atol=1e-3)
    same(untouched, run(tiny_checkpoint(), [SOURCE], [TARGET])[0])


def test_a_scaled_run_is_read_from_its_file(tmp_path: Path) -> None:
    made = altered_run(tiny_checkpoint(), "scale off; scale 3 @ L1")
    made.save(tmp_path / "scaled.vis")
    read = open_trace(tmp_path / "scaled.vis")
    assert str(read.intervention) == "scale off; scale 3 @ L1"
    for kind in KINDS:
        for layer in range(2):
            np.testing.assert_allclose(
                read.attention(kind, layer), made.attention(kind, layer), atol=1e-5
            )


def test_decoding_under_changed_masks_is_the_pass_of_each_step() -> None:
    checkpoint = tiny_checkpoint()
    masks = "causal +1", "hide 2", "multiply", "cell cross 2 1 off @ L2"
    for text in (*masks, "scale off", "scale 2 @ L1"):
        made = parse([text])
        decoding = Decoding(checkpoint, SOURCE, limit=5, intervention=made)
        for _ in range(5):
            trace = decoding.step()
            target = trace.target_ids.tolist()
            full = run(checkpoint, [SOURCE], [target], intervention=made)[0]
            same(trace, full, 2e-5)
            for kind in KINDS:
                assert (trace.masks[kind] == full.masks[kind]).all()
        earlier = decoding.back(3)
        target = earlier.target_ids.tolist()
        same(run(checkpoint, [SOURCE], [target], intervention=made)[0], earlier, 2e-5)
        assert str(earlier.intervention) == text


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_positions_change_in_the_whole_model(positions: Any) -> None:
    checkpoint = tiny_checkpoint(positions=positions)
    without = dataclasses.replace(checkpoint.config, positions="none")
    bare = tiny_model(positions="none", tied_output=False)
    weights = checkpoint.model.state_dict()
    bare.load_state_dict({key: weights[key] for key in bare.state_dict()})
    plain = dataclasses.replace(checkpoint, config=without, model=bare.eval())
    same(
        altered_run(checkpoint, "positions none"),
        run(plain, [SOURCE], [TARGET])[0],
    )
    made = parse(["positions none"])
    decoding = Decoding(checkpoint, SOURCE, limit=5, intervention=made)
    same(decoding.finish(), Decoding(plain, SOURCE, limit=5).finish())


def test_without_positions_a_shuffled_source_is_a_bag_of_words() -> None:
    made = parse(["positions none"])
    checkpoint, order = tiny_checkpoint(), [2, 0, 3, 1]
    shuffled = [SOURCE[i] for i in order]
    one = run(checkpoint, [SOURCE], [TARGET], intervention=made)[0]
    other = run(checkpoint, [shuffled], [TARGET], intervention=made)[0]
    np.testing.assert_allclose(
        other.encoder_output, one.encoder_output[order], atol=1e-5
    )
    np.testing.assert_allclose(other.logits, one.logits, atol=1e-5)
    plain = run(checkpoint, [shuffled], [TARGET])[0]
    assert not np.allclose(
        plain.logits, run(checkpoint, [SOURCE], [TARGET])[0].logits, atol=1e-3
    )


def test_weights_are_shared_and_the_plain_model_stays() -> None:
    checkpoint = tiny_checkpoint(positions="learned")
    before = {key: p.clone() for key, p in checkpoint.model.state_dict().items()}
    made = parse(["positions none; masked score -5"])
    decoding = Decoding(checkpoint, SOURCE, intervention=made)
    other = modified_checkpoint(checkpoint, made).model
    assert (
        other.target_embedding.weight.data_ptr()
        == checkpoint.model.target_embedding.weight.data_ptr()
    )
    decoding.finish()
    for key, weight in checkpoint.model.state_dict().items():
        assert torch.equal(weight, before[key])
    assert checkpoint.config.masked_value != -5


def test_what_does_not_fit_is_refused() -> None:
    checkpoint = tiny_checkpoint()
    for text in ("hide 5", "causal off @ L3"):
        with pytest.raises(InputError, match=text):
            Decoding(checkpoint, SOURCE, intervention=parse([text]))
        with pytest.raises(InputError, match=text):
            altered_run(checkpoint, text)


def test_an_altered_trace_is_kept_in_its_file(tmp_path: Any) -> None:
    trace = altered_run(tiny_checkpoint(), "causal off; hide 2 @ L1; positions none")
    trace.save(tmp_path / "a.vis")

    again = open_trace(tmp_path / "a.vis")
    assert again.intervention == trace.intervention
    for kind in KINDS:
        assert (again.masks[kind] == trace.masks[kind]).all()
        original, derived = trace.attention(kind, 0), again.attention(kind, 0)
        assert np.allclose(derived, original, rtol=0, atol=1e-6)
