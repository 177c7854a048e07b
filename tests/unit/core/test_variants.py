"""Every variant against its own reference: the same numbers, faults included."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import visformer
from tests.system.tutorials import handout, labml
from tests.system.tutorials.sizes import by_exponential, by_power
from tests.unit.core.variants import (
    SMALL,
    Result,
    difference,
    passed,
    small,
    torchs_own,
    tutorial,
)
from visformer.core.decoding import Decoding
from visformer.core.passes import run
from visformer.core.position_rules import fixed_table, sinusoidal
from visformer.errors import CheckpointError, InputError
from visformer.formats.loading import presets
from visformer.values.config import ModelConfig
from visformer.values.facts import KINDS, Kind
from visformer.values.trace import Trace


def assert_equal(traces: list[Trace], theirs: Result) -> None:
    """Compare encoder output, logits and every weight of every row of a batch."""
    for row, trace in enumerate(traces):
        assert difference(trace.encoder_output, theirs.memory[row]) <= 2e-5
        assert difference(trace.logits, theirs.logits[row]) <= 2e-5
        found = [(kind, layer) for kind in KINDS for layer in range(trace.layers(kind))]
        assert set(found) == set(theirs.maps)
        for kind, layer in found:
            weights = theirs.maps[kind, layer][row]
            assert difference(trace.attention(kind, layer), weights) <= 2e-5


SOURCE = torch.tensor([[4, 5, 6, 7, 8, 9], [10, 11, 12, 0, 0, 0], [3, 0, 4, 5, 0, 0]])
TARGET = torch.tensor([[2, 7, 8, 9], [2, 11, 0, 0], [2, 0, 12, 13]])
NOTHING = torch.tensor([[0, 0, 0], [4, 0, 5]])  # a source of pads only
CAUSAL = torch.ones(4, 4).triu(1).bool()  # True = may not attend
LEADING = torch.tensor([[0, 0, 5, 6], [0, 4, 5, 0]])  # pads at the target's start


@pytest.mark.parametrize(
    ("source", "target"), [(SOURCE, TARGET), (NOTHING, LEADING)], ids=["pads", "empty"]
)
def test_handout(source: Tensor, target: Tensor) -> None:
    checkpoint = small("handout")
    traces = run(checkpoint, source, target)
    own = passed(tutorial(checkpoint), source, target, *handout.masks(source, target))
    assert_equal(traces, replace(own, logits=own.logits.log()))
    assert difference(traces[0].probabilities.sum(-1), np.ones(4)) <= 1e-5
    assert difference(np.exp(traces[0].logits), traces[0].probabilities) <= 1e-5
    if source is NOTHING:
        assert np.allclose(traces[0].attention("encoder", 0), 1 / 3)
        assert np.allclose(traces[0].attention("decoder", 1)[:, 0], 1 / 4)


@pytest.mark.parametrize("lengths", [None, [6, 3, 0]])
@pytest.mark.parametrize("bias", ["none", "all"])
def test_d2l(lengths: list[int] | None, bias: str) -> None:
    checkpoint = small("d2l", encoder_bias=bias)
    valid = None if lengths is None else torch.tensor(lengths)
    own = tutorial(checkpoint, bias=bias == "all").train()  # else it is not causal
    theirs = passed(own, SOURCE, TARGET, valid)
    assert_equal(run(checkpoint, SOURCE, TARGET, source_lengths=lengths), theirs)


def test_d2l_restarts_its_positions_at_each_step() -> None:
    checkpoint = small("d2l", seed=3)
    source = [4, 5, 6, 7]
    decoding = Decoding(checkpoint, source, limit=8)
    steps = decoding.step(8)
    ids = torch.tensor([steps.target_ids.tolist()])
    own = tutorial(checkpoint)
    with torch.no_grad():
        state = own.decoder.init_state(own.encoder(torch.tensor([source]), None), None)
        theirs = torch.cat([own.decoder(id, state) for id in ids.split(1, 1)], 1)
    assert difference(steps.logits, theirs[0]) <= 2e-5
    assert steps.steps[-1].id == int(theirs[0, -1].argmax())
    whole = run(checkpoint, [source], ids)[0]
    assert difference(whole.logits[0], steps.logits[0]) <= 2e-5
    assert difference(whole.logits[1:], steps.logits[1:]) > 1e-2
    fed = decoding.feed([step.id for step in steps.steps])
    assert difference(fed.logits, whole.logits) <= 2e-5
    again = decoding.follow([(step.id, "forced") for step in steps.steps])
    assert difference(again.logits, steps.logits) <= 2e-5


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"gated": True, "activation": "silu"},
        {"gated": True, "gate_bias": False, "w1_bias": False},
        {"encoder_bias": "value_output", "decoder_bias": "value_output"},
        {"w2_bias": False, "activation": "tanh"},
        {"positions": "learned", "position_axis": "time", "max_positions": 50},
    ],
)
def test_labml(choices: dict[str, Any]) -> None:
    checkpoint = small("labml", **choices)
    learned = choices.get("positions") == "learned"
    biases = (choices.get(f"{part}_bias", True) for part in ("w1", "w2", "gate"))
    own = tutorial(
        checkpoint,
        {"silu": nn.SiLU(), "tanh": nn.Tanh()}.get(choices.get("activation", "")),
        bias="encoder_bias" not in choices,
        gated=choices.get("gated", False),
        biases=tuple(biases),
        learned=learned,
    )
    source, target = SOURCE[:, :4], TARGET  # S = T, as forward demands
    theirs = passed(own, source, target, *labml.masks(source, target))
    theirs = replace(
        theirs,
        memory=theirs.memory.transpose(0, 1),
        logits=theirs.logits.transpose(0, 1),
    )
    traces = run(checkpoint, source, target)
    assert_equal(traces, theirs)
    if not learned:  # the place in the batch decides
        alone = run(checkpoint, source[1:2], target[1:2])[0]
        assert difference(alone.logits, traces[1].logits) > 1e-3


def test_infinite_scores_of_a_masked_row_are_nan() -> None:
    checkpoint = small("labml")
    masks: dict[Kind, np.ndarray] = {
        "decoder": np.tril(np.ones((1, 3, 3), bool)),
        "encoder": np.ones((1, 4, 4), bool),
    }
    masks["decoder"][0, 1] = False
    trace = run(checkpoint, [[4, 5, 6, 7]], [[1, 5, 6]], masks=masks)[0]
    weights = trace.attention("decoder", 0)
    assert np.isnan(weights[:, 1]).all()
    assert np.isfinite(weights[:, 0]).all()
    # whoever reads the row is NaN too, and the weight 0 does not help
    assert np.isnan(trace.logits).any(-1).tolist() == [True, True, True]


@pytest.mark.parametrize("pads", [(1, 1), (0, 0), (0, 2)])
def test_modular(pads: tuple[int, int]) -> None:
    checkpoint = small("modular")
    with torch.no_grad():  # a row that is nearly constant shows what eps 1e-12 does
        checkpoint.model.source_embedding.weight[5] = 1e-7
    checkpoint.tokenizer.source_pad, checkpoint.tokenizer.pad = pads
    source = torch.where(SOURCE == 0, pads[0], SOURCE)
    target = torch.where(TARGET == 0, pads[1], TARGET)
    traces = run(checkpoint, source, target)
    assert_equal(traces, passed(tutorial(checkpoint, pads), source, target))
    assert np.allclose(traces[1].attention("encoder", 0)[:, 3:], 1 / 6)
    if pads[1] != 2:  # else the first row is padding too
        assert np.allclose(traces[1].attention("decoder", 0)[:, 2:], 1 / 4)
        assert np.allclose(traces[1].attention("cross", 2)[:, 2:], 1 / 6)


@pytest.mark.parametrize(
    ("source", "target"), [(SOURCE, TARGET), (NOTHING, LEADING)], ids=["pads", "empty"]
)
def test_scratch(source: Tensor, target: Tensor) -> None:
    checkpoint = small("scratch")
    traces = run(checkpoint, source, target)
    assert_equal(traces, passed(tutorial(checkpoint), source, target))
    row = target[-1].tolist().index(0)
    assert np.allclose(traces[-1].attention("decoder", 0)[:, row], 1 / 4)


def test_marian_starts_with_its_padding() -> None:
    """As torch's own layers have it: sines before cosines, a target's pads are read."""
    checkpoint = small("marian", decoder_layers=2)
    pad, model = checkpoint.tokenizer.pad, checkpoint.model
    assert checkpoint.tokenizer.bos == pad == 18
    source = torch.where(SOURCE == 0, pad, SOURCE)
    target = torch.tensor([[pad, 7, 8, 9], [pad, 11, 0, pad], [pad, 3, 12, 13]])
    angles = torch.arange(6)[:, None] / 10_000 ** (torch.arange(8) / 8)
    table = torch.cat([angles.sin(), angles.cos()], 1)
    made = torchs_own(checkpoint.model)(
        model.target_embedding(source) * 4 + table,
        model.target_embedding(target) * 4 + table[:4],
        tgt_mask=CAUSAL,
        src_key_padding_mask=source == pad,
        memory_key_padding_mask=source == pad,
    )
    logits = made @ model.target_embedding.weight.T + model.output.bias
    for row, trace in enumerate(run(checkpoint, source, target)):
        assert difference(trace.logits, logits[row].detach()) <= 2e-5


@pytest.mark.parametrize("preset", ["handout", "modular", "scratch", "d2l", "labml"])
def test_given_masks_replace_the_rule(preset: str) -> None:
    """The handout without masks is not causal, nor is d2l in eval mode."""
    checkpoint = small(preset)
    shapes: dict[Kind, tuple[int, ...]] = {
        "encoder": (3, 6, 6),
        "decoder": (3, 4, 4),
        "cross": (3, 4, 6),
    }
    masks = {kind: torch.rand(shape) > 0.4 for kind, shape in shapes.items()}
    for mask in masks.values():
        mask[..., 0] = True
    traces = run(checkpoint, SOURCE, TARGET, masks=masks)
    for row, trace in enumerate(traces):
        for kind, mask in masks.items():
            assert np.array_equal(trace.masks[kind], mask[row].numpy())
            assert not trace.attention(kind, 0)[:, ~mask[row].numpy()].any()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_torch_transformer(norm_first: bool, activation: str) -> None:
    checkpoint = small(
        "torch", norm_first=norm_first, activation=activation, decoder_layers=2
    )
    theirs = torchs_own(checkpoint.model)
    model, config = checkpoint.model, checkpoint.config
    table = by_exponential(6, config.d_model)
    source = model.source_embedding(SOURCE) * math.sqrt(config.d_model)
    target = model.target_embedding(TARGET) * math.sqrt(config.d_model)
    made = theirs(
        source + table,
        target + table[:4],
        tgt_mask=CAUSAL,
        src_key_padding_mask=SOURCE == 0,
        tgt_key_padding_mask=TARGET == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    logits = model.output(made).detach()
    for row, trace in enumerate(run(checkpoint, SOURCE, TARGET)):
        assert difference(trace.logits, logits[row]) <= 2e-5


def test_halves_by_hand() -> None:
    config = ModelConfig(
        source_vocabulary=5,
        target_vocabulary=5,
        d_model=6,
        heads=2,
        max_positions=400,
        positions="halves",
        position_form="power",
    )
    table = fixed_table(config)
    for position in (0, 1, 399):
        angles = [position / 10_000 ** (2 * i / 6) for i in range(3)]
        expected = [*map(math.sin, angles), *map(math.cos, angles)]
        assert table[position].tolist() == pytest.approx(expected, abs=1e-7)


def test_the_two_forms_differ_in_float32() -> None:
    exp, power = sinusoidal(5000, 512), sinusoidal(5000, 512, "power")
    assert torch.equal(exp, by_exponential(5000, 512))
    assert torch.equal(power, by_power(5000, 512))
    assert 1e-4 < float((exp - power).abs().max()) < 1e-3


def test_a_stored_table_replaces_the_computed_one() -> None:
    checkpoint = small("handout", max_positions=12)
    table = torch.randn(12, 16)
    checkpoint.model.replace_positions(table)
    trace = run(checkpoint, [[4, 5]], [[2, 3]])[0]
    rows = checkpoint.model.source_embedding.weight[[4, 5]] + table[:2]
    assert difference(trace.hidden("encoder", 0), rows.detach()) <= 1e-6
    with pytest.raises(ValueError, match="positions"):
        checkpoint.model.replace_positions(table[:5])


@pytest.mark.parametrize("preset", presets())
def test_presets_are_drawn_by_their_seed(preset: str) -> None:
    first, again = small(preset, seed=4).model, small(preset, seed=4).model
    other = small(preset, seed=5).model
    weight = first.output.weight
    assert torch.equal(weight, again.output.weight)
    assert not torch.equal(weight, other.output.weight)
    facts = small(preset).facts
    assert facts.config.mask_rule == presets()[preset].preset.fields.get(
        "mask_rule", "keys"
    )
    assert facts.layout == ("native" if preset == "paper" else preset)


def test_marks_of_fresh_models() -> None:
    modular = visformer.build("modular", device="cpu", **SMALL).model
    assert not modular.source_embedding.weight[1].any()
    labml = visformer.build("labml", device="cpu", **SMALL).model
    first, *others = labml.decoder
    for layer in others:
        assert torch.equal(layer.feed_forward.w1.bias, first.feed_forward.w1.bias)
        assert not torch.equal(
            layer.feed_forward.w1.weight, first.feed_forward.w1.weight
        )


@pytest.mark.parametrize(
    ("preset", "sizes", "words"),
    [
        ("bert", {}, "no preset"),
        ("paper", {"width": 3}, "“width”"),
        ("paper", {"norm": "batch"}, "norm is 'batch'"),
        ("paper", {"gated": 1}, "gated is 1"),
        ("paper", {"masked_value": math.nan}, "masked_value is nan"),
        ("handout", {"target_vocabulary": 2}, "too small"),
    ],
)
def test_models_that_cannot_be_built(
    preset: str, sizes: dict[str, Any], words: str
) -> None:
    with pytest.raises(CheckpointError, match=words):
        visformer.build(preset, **sizes)


def test_arguments_of_run_that_do_not_fit() -> None:
    handout, d2l = small("handout"), small("d2l")
    with pytest.raises(InputError, match="recognises padding by its id"):
        run(handout, [[4]], [[2]], source_lengths=[1])
    with pytest.raises(InputError, match="one per sentence"):
        run(d2l, [[4]], [[2]], source_lengths=[1, 2])
    with pytest.raises(InputError, match="must be bool"):
        run(d2l, [[4]], [[2]], masks={"cross": np.ones((1, 2, 2), bool)})
    with pytest.raises(InputError, match="masks is 'self', but must be one of"):
        run(d2l, [[4]], [[2]], masks={"self": np.ones((1, 1, 1), bool)})  # type: ignore[dict-item]
    tight = small("labml", max_positions=2)
    with pytest.raises(InputError, match="along the batch"):
        run(tight, [[4], [5], [6]], [[2], [2], [2]])


def test_facts_name_the_choices() -> None:
    facts = small("handout").facts
    assert (facts.config.softmax_output, facts.config.embedding_scale) == (True, False)
    assert (facts.config.norm, facts.config.activation, facts.config.gated) == (
        "layer",
        "relu",
        False,
    )
    assert small("modular").facts.config.norm == "unbiased"
