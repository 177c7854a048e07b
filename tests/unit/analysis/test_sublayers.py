"""A layer computed with numpy alone has the same output as the model's layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import nn

from tests.tiny_models import tiny_checkpoint
from visformer.analysis.sublayers import LayerRows, inactive_units
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.passes import run
from visformer.core.side_runs import layer_parameters
from visformer.errors import InputError
from visformer.values.arrays import Floats
from visformer.values.facts import StackName
from visformer.values.intervention import parse
from visformer.values.trace import Trace

MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm_first": True, "final_norm": True},
    "gated": {"gated": True, "activation": "silu", "norm_first": True},
    "gated without biases": {
        "gated": True,
        "w1_bias": False,
        "gate_bias": False,
        "w2_bias": False,
    },
    "variance over D - 1": {"norm": "unbiased", "norm_eps": 1e-12},
    "gelu": {"activation": "gelu"},
    "no attention biases": {"encoder_bias": "none", "decoder_bias": "none"},
    "some attention biases": {
        "encoder_bias": "value_output",
        "decoder_bias": "value_output",
    },
    "masked by -inf": {"masked_value": float("-inf"), "mask_rule": "source_keys"},
    "rows of pads": {"mask_rule": "rows_and_keys", "activation": "tanh"},
}


def passed(checkpoint: Checkpoint) -> Trace:
    """Run two rows, the second padded; return the padded one."""
    source = [[4, 5, 6, 7, 8, 3], [9, 4, 5, 3, 0, 0]]
    target = [[2, 10, 11, 12], [2, 9, 8, 0]]
    return run(checkpoint, source, target)[1]


def close(made: Floats, expected: Floats) -> bool:
    """Allow 2e-5 of the largest magnitude, which counts as at least 1."""
    if not np.isfinite(expected).all():
        return False
    bound = 2e-5 * max(1.0, float(np.abs(expected).max()))
    return made.shape == expected.shape and bool(
        (np.abs(made - expected) <= bound).all()
    )


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("name", MODELS)
def test_a_layer_leaves_what_the_model_leaves(name: str, stack: StackName) -> None:
    checkpoint = tiny_checkpoint(**MODELS[name])
    trace = passed(checkpoint)
    for layer in range(2):
        rows = LayerRows(trace, layer_parameters(checkpoint, stack, layer), slice(None))
        expected = trace.hidden(stack, layer + 1)
        assert close(rows.feed_forward.residual.output, expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_decoder_that_ran_alone_skips_its_cross_attention(name: str) -> None:
    checkpoint = tiny_checkpoint(**MODELS[name])
    trace = run(checkpoint, None, [[2, 10, 11, 12]])[0]
    for layer in range(2):
        parameters = layer_parameters(checkpoint, "decoder", layer)
        assert parameters.belong_to(trace.model)
        rows = LayerRows(trace, parameters, slice(None))
        assert rows.cross_attention is None
        output = rows.feed_forward.residual.output
        assert close(output, trace.hidden("decoder", layer + 1))


@pytest.mark.parametrize("name", MODELS)
def test_queries_keys_and_values_follow_from_what_is_read(name: str) -> None:
    checkpoint = tiny_checkpoint(**MODELS[name])
    trace, whole = passed(checkpoint), slice(None)
    for kind in ("encoder", "decoder", "cross"):
        stack: StackName = "encoder" if kind == "encoder" else "decoder"
        rows = LayerRows(trace, layer_parameters(checkpoint, stack, 1), whole)
        weights = rows.attention_weights(kind)
        reads, memory = rows.attention(kind).residual.reads, rows.memory(kind, whole)
        for head in range(2):
            part = slice(8 * head, 8 * head + 8)
            assert close(weights.query(reads)[:, part], trace.queries(kind, 1, head))
            assert close(weights.key(memory)[:, part], trace.keys(kind, 1, head))
            assert close(weights.value(memory)[:, part], trace.values(kind, 1, head))
            derived = trace.attention_heads(kind, 1, head).weights()[0]
            assert close(derived, trace.attention(kind, 1, head))
        assert close(rows.memory(kind, slice(1, 3)), memory[1:3])


def test_a_block_of_rows_is_those_rows_of_the_whole() -> None:
    checkpoint = tiny_checkpoint(norm_first=True)
    trace = Decoding(checkpoint, "abcdef", limit=9).finish()
    parameters = layer_parameters(checkpoint, "decoder", 0)
    whole = LayerRows(trace, parameters, slice(None)).feed_forward.residual.output
    block = LayerRows(trace, parameters, slice(3, 7)).feed_forward.residual.output
    assert close(block, whole[3:7])
    assert close(whole, trace.hidden("decoder", 1))


def test_residual_and_norm_by_hand() -> None:
    """Post-norm normalises x + added; pre-norm normalises x and returns x + added."""
    checkpoint = tiny_checkpoint()
    rows = LayerRows(
        passed(checkpoint), layer_parameters(checkpoint, "encoder", 0), slice(0, 1)
    )
    residual = rows.self_attention.residual
    assert (residual.reads == residual.x).all()
    assert (residual.summed == residual.x + residual.added).all()
    total = residual.summed[0].astype(np.float64)
    by_hand = (total - total.mean()) / np.sqrt(total.var() + 1e-5)
    norm = next(iter(checkpoint.model.encoder)).self_attention_norm
    assert isinstance(norm, nn.LayerNorm)
    by_hand = by_hand * norm.weight.detach().numpy() + norm.bias.detach().numpy()
    assert residual.output[0] == pytest.approx(by_hand, abs=1e-5)


def test_inactive_units_are_exact_zeros() -> None:
    active = np.array([[0, 0, 1, 0], [0, 2, 0, 0]], np.float32)
    rows, always = inactive_units(active)
    assert rows.tolist() == [0.75, 0.75]
    assert always == 0.5
    assert np.isnan(inactive_units(np.zeros((0, 4), np.float32))[1])


def test_an_unknown_layer_is_refused() -> None:
    checkpoint = tiny_checkpoint()
    with pytest.raises(InputError, match="no layer 2"):
        layer_parameters(checkpoint, "decoder", 2)


def test_weights_cannot_be_written() -> None:
    made = layer_parameters(tiny_checkpoint(), "encoder", 0)
    with pytest.raises(ValueError, match="read-only"):
        made.feed_forward.w1.weight[0, 0] = 1


def test_a_layer_is_masked_by_its_own_mask() -> None:
    """The causal mask is off in the second layer only."""
    checkpoint = tiny_checkpoint()
    change = parse(["causal off @ L2"])
    trace = run(checkpoint, [[4, 5, 3]], [[2, 6, 7]], intervention=change)[0]
    for layer, later in ((0, 0), (1, 3)):
        weights = trace.attention_heads("decoder", layer, 0).weights()[0]
        assert np.count_nonzero(np.triu(weights, 1)) == later
        rows = LayerRows(
            trace, layer_parameters(checkpoint, "decoder", layer), slice(None)
        )
        expected = trace.hidden("decoder", layer + 1)
        assert close(rows.feed_forward.residual.output, expected)
