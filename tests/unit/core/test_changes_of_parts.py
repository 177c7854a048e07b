"""Changes of heads, cells, rows, values, layers, words: against a forward by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.changes_by_hand import AHEAD, EFFECTS, SOURCE, TARGET, apart, by_hand, native
from tests.opened import opened_model
from tests.tiny_models import tiny_checkpoint
from tests.unit.session.sessions import TRACE, Engine, answer, take, translated
from visformer import open_trace
from visformer.analysis.sublayers import LayerRows, joined_heads
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.passes import run
from visformer.core.side_runs import layer_parameters
from visformer.errors import InputError
from visformer.session import runs, tree
from visformer.session.state import Session
from visformer.values.changes.weight_changes import HeadScale
from visformer.values.facts import KINDS, STACK_OF
from visformer.values.intervention import (
    CHANGES,
    NO_CHANGES,
    Intervention,
    examples,
    parse,
)
from visformer.values.trace import Trace

TEXTS = tuple(EFFECTS)


def passed(checkpoint: Checkpoint, text: str = "") -> Trace:
    return run(checkpoint, [SOURCE], [TARGET], intervention=text)[0]


@pytest.mark.parametrize("text", TEXTS)
def test_a_run_is_what_the_change_says(text: str) -> None:
    checkpoint = tiny_checkpoint()
    trace = passed(checkpoint, text)
    assert apart(trace, by_hand(native(checkpoint), EFFECTS[text])) < 2e-6
    assert np.abs(trace.logits - passed(checkpoint).logits).max() > 1e-3


@pytest.mark.parametrize("text", TEXTS)
def test_what_cannot_depend_on_the_change_stays_to_the_bit(text: str) -> None:
    checkpoint = tiny_checkpoint()
    trace, plain = passed(checkpoint, text), passed(checkpoint)
    kinds = {kind for change in trace.intervention for kind in change.kinds}
    if not kinds & {"encoder", "source"}:
        assert (trace.encoder_rows == plain.encoder_rows).all()
    first = EFFECTS[text].first_row
    assert (trace.decoder_rows[:first] == plain.decoder_rows[:first]).all()
    assert trace.intervention.reaches_back == (text in AHEAD)
    assert (passed(checkpoint).decoder_rows == plain.decoder_rows).all()


@pytest.mark.parametrize("text", TEXTS)
def test_no_later_token_changes_a_row_unless_the_change_says_so(text: str) -> None:
    checkpoint, rows = tiny_checkpoint(), []
    for last in (11, 12):
        target = [[*TARGET[:-1], last]]
        (made,) = run(checkpoint, [SOURCE], target, intervention=text)
        rows.append(made.decoder_rows[:-1])
    assert (rows[0] == rows[1]).all() or text in AHEAD


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_what_is_derived_is_what_the_run_had(
    text: str, norm_first: bool, tmp_path: Path
) -> None:
    checkpoint = tiny_checkpoint(norm_first=norm_first, final_norm=norm_first)
    trace = passed(checkpoint, text)
    trace.save(tmp_path / "a.vis")
    read = open_trace(tmp_path / "a.vis")
    assert read.intervention == trace.intervention == parse([text])
    for kind in KINDS:
        for layer in range(2):
            own = trace.attention(kind, layer)
            for head in range(2):
                one = read.attention(kind, layer, head)
                np.testing.assert_allclose(one, own[head], rtol=0, atol=1e-6)
                assert (one == read.attention(kind, layer)[head]).all()
                last = read.attention_heads(kind, layer, head).weights(slice(2, 4))
                assert (last[0] == one[2:4]).all()
            parameters = layer_parameters(checkpoint, STACK_OF[kind], layer)
            rows = LayerRows(read, parameters, slice(1, None))
            part = rows.cross_attention if kind == "cross" else rows.self_attention
            assert part is not None
            joined = joined_heads(read, kind, layer, slice(0, None))
            np.testing.assert_allclose(part.joined, joined[1:], rtol=0, atol=1e-6)
            made = rows.feed_forward.residual.output
            left = read.hidden(STACK_OF[kind], layer + 1)
            np.testing.assert_allclose(made, left[1:], rtol=0, atol=2e-5)


@pytest.mark.parametrize("text", TEXTS)
def test_decoding_is_the_pass_of_each_step(text: str) -> None:
    checkpoint = tiny_checkpoint()
    decoding = Decoding(checkpoint, SOURCE, limit=4, intervention=text)
    for _step in range(4):
        trace = decoding.step()
        ids = trace.target_ids.tolist()
        (full,) = run(checkpoint, [SOURCE], [ids], intervention=text)
        for name in ("encoder_rows", "memory_rows", "decoder_rows"):
            made, expected = getattr(trace, name), getattr(full, name)
            np.testing.assert_allclose(made, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("text", TEXTS)
def test_its_text_and_its_data_say_all(text: str) -> None:
    made = parse([text])
    assert set(str(made).split("; ")) == set(text.split("; "))
    assert parse([str(made)]) == made
    assert Intervention.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert {change.name for change in made} <= CHANGES.keys()


def test_every_example_is_written_as_it_is_read() -> None:
    for example in examples():
        made = parse([example])
        assert parse([str(made)]) == made
    listed = "head cross off @ L1H2,L2H1"
    assert parse(["head cross off@L1H2 , L2H1"]) == parse([listed])
    assert str(parse(["head cross off @ L1H2", "head cross off @ L2H1"])) == listed
    assert str(parse(["hide 3 @ L1", "hide 4 @ L2"])) == "hide 3 @ L1; hide 4 @ L2"
    assert len(parse(['embedding source 1 = ";"; hide 2'])) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("head cross of @ L2H5", "nearest valid form is “head cross off @ L2H5”"),
        ("cell cross 2 5 = x", "nearest valid form is “cell cross 2 5 off”"),
        ("head cross only", "nearest valid form is “head cross only @ L2H1,L2H5”"),
        ("head cross off @ L0H1", "no layer 0"),
        ("head cross off @ L1H0", "no head 0"),
        ("head cross off @ H5", "nearest valid form"),
        ("cell cross 1 2 = 1.5", "a number from 0 to 1"),
        ("cell cross 1 2 * -1", "a number from 0 to 1000"),
        ("cell cross 1 2 = 1e9 raw", "a number from −1000 to 1000"),
        ("head cross * inf", "a number"),
        ("head cross off @ L3H1", "the model has 2 such layers"),
        ("head cross off @ L2H3", "such a layer has 2 heads"),
        ("cell cross 1 2 off @ L1H3", "such a layer has 2 heads"),
        ("value encoder 5 off", "the source has 4 tokens"),
        ("cell cross 1 5 = 0.5", "the source has 4 tokens"),
        ("layer encoder off @ L3", "the model has 2 such layers"),
        ('embedding source 5 = "a"', "the source has 4 tokens"),
        ('embedding source 1 = "ab"', "it is split into a, b"),
        ('embedding target 1 = "猫"', "is not a token of this model"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        passed(tiny_checkpoint(), text)
    assert len(str(caught.value)) <= 200


def test_a_head_needs_its_layer() -> None:
    with pytest.raises(InputError, match="needs its layer"):
        HeadScale("cross", 0, head=1)


@pytest.mark.parametrize(
    "text", ["head cross off @ L1H1", "value cross 1 off", "cell cross 2 1 = 1"]
)
def test_nan_stays(text: str) -> None:
    checkpoint = tiny_checkpoint()
    output: Any = checkpoint.model.get_submodule(
        "decoder.layers.0.cross_attention.output"
    )
    with torch.no_grad():
        output.bias[0] = math.nan
    assert np.isnan(passed(checkpoint, text).logits).all()


def test_only_keeps_every_head_that_is_listed() -> None:
    checkpoint = tiny_checkpoint()
    both, plain = passed(checkpoint, "head cross only @ L2H1,L2H2"), passed(checkpoint)
    assert (both.decoder_rows == plain.decoder_rows).all()


def test_a_row_that_may_read_nothing_is_left_as_the_softmax_made_it() -> None:
    checkpoint = tiny_checkpoint()
    hidden = "hide 1; hide 2; hide 3; hide 4"
    plain = passed(checkpoint, hidden)
    made = passed(checkpoint, f"{hidden}; row cross 2 = uniform")
    np.testing.assert_allclose(made.decoder_rows, plain.decoder_rows, atol=1e-6)


def test_rows_are_pinned_beyond_the_block_that_is_computed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint, text = tiny_checkpoint(), "cell cross 4 2 = 0.5; head decoder * 2"
    whole = passed(checkpoint, text)
    monkeypatch.setattr("visformer.core.parts.QUERY_BLOCK", 2)
    made = passed(checkpoint, text)
    np.testing.assert_allclose(made.decoder_rows, whole.decoder_rows, atol=1e-6)


def test_it_is_undone() -> None:
    engine = Engine()
    session = Session(engine=engine)
    take(session, opened_model(TRACE.model, path="/m"))
    translated(session, engine)
    change = parse(["head cross off @ L1H1"])
    session.do(runs.change_run, change)
    assert session.state.intervention == engine.last.intervention == change
    answer(session, engine, replace(TRACE, intervention=change))
    session.do(tree.undo)
    assert session.state.intervention == NO_CHANGES
    session.do(tree.redo)
    assert session.state.intervention == change
