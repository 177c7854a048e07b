"""Changes of heads, cells, rows, values, layers, words: against a forward by hand."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.models import tiny_checkpoint
from tests.opened import opened_model
from tests.session.sessions import TRACE, Engine, answer, take, translated
from visformer import open_trace
from visformer.analysis.sublayers import LayerRows, joined_heads
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.passes import run
from visformer.core.side_runs import layer_parameters
from visformer.errors import InputError
from visformer.session import runs, tree
from visformer.session.state import Session
from visformer.values.change_text import examples, parse
from visformer.values.changes.head_scale import HeadScale
from visformer.values.facts import KINDS, STACK_OF, STACKS, Kind, StackName
from visformer.values.intervention import CHANGES, NO_CHANGES, Intervention
from visformer.values.trace import Trace

SOURCE, TARGET = [4, 5, 6, 7], [1, 8, 9, 10, 11]
At = tuple[Kind, int, int]  # a kind, a layer and a head, from 0


def _same(x: Any, *_: Any) -> Any:
    return x


@dataclass(frozen=True)
class Effect:
    """What a text should do, written out once more in float64."""

    ids: Callable[[str, list[int]], list[int]] = lambda _side, ids: ids
    allowed: Callable[[Tensor, At], Tensor] = _same  # [Q, K] of a head
    weights: Callable[[Tensor, At, Tensor], Tensor] = _same  # [Q, K]; its mask
    values: Callable[[Tensor, At], Tensor] = _same  # [K, d]
    z: Callable[[Tensor, At], Tensor] = _same  # [Q, d]
    skipped: tuple[tuple[StackName, int], ...] = ()
    stream: Callable[[Tensor, tuple[str, int]], Tensor] = _same  # [T, D]
    first_row: int = 0  # the first decoder row that may be another


def _filled(x: Tensor, at: Any, value: float | Tensor) -> Tensor:
    made = x.clone()
    made[at] = value
    return made


def _pinned(w: Tensor, query: int, key: int, weight: float) -> Tensor:
    others = w[query].sum() - w[query, key]
    row = w[query] / others * (1 - weight)
    return _filled(w, query, _filled(row, key, weight))


def _even(w: Tensor, query: int, mask: Tensor) -> Tensor:
    return _filled(w, query, mask[query].double() / mask[query].sum())


EFFECTS = {
    "head cross off @ L2H1": Effect(
        z=lambda z, at: 0 * z if at == ("cross", 1, 0) else z
    ),
    "head encoder off": Effect(z=lambda z, at: 0 * z if at[0] == "encoder" else z),
    "head decoder * -2.5 @ L1H2": Effect(
        z=lambda z, at: -2.5 * z if at == ("decoder", 0, 1) else z
    ),
    "head cross off @ L1H1,L2H2": Effect(
        z=lambda z, at: 0 * z if at in {("cross", 0, 0), ("cross", 1, 1)} else z
    ),
    "head decoder only @ L2H2": Effect(
        z=lambda z, at: 0 * z if at == ("decoder", 1, 0) else z
    ),
    "cell cross 3 2 off @ L2H1": Effect(
        allowed=lambda m, at: _filled(m, (2, 1), 0) if at == ("cross", 1, 0) else m,
        first_row=2,
    ),
    "cell encoder 1 1 off @ L1H1,L1H2": Effect(
        allowed=lambda m, at: _filled(m, (0, 0), 0) if at[:2] == ("encoder", 0) else m
    ),
    "cell decoder 2 4 on @ L1H2": Effect(
        allowed=lambda m, at: _filled(m, (1, 3), 1) if at == ("decoder", 0, 1) else m,
        first_row=1,
    ),
    "cell cross 3 2 = 0.75 @ L2H1": Effect(
        weights=lambda w, at, _: _pinned(w, 2, 1, 0.75) if at == ("cross", 1, 0) else w,
        first_row=2,
    ),
    "cell decoder 3 2 = 0": Effect(
        weights=lambda w, at, _: _pinned(w, 2, 1, 0) if at[0] == "decoder" else w,
        first_row=2,
    ),
    "cell decoder 2 5 = 0.5 @ L1H1": Effect(
        weights=lambda w, at, _: (
            _pinned(w, 1, 4, 0.5) if at == ("decoder", 0, 0) else w
        ),
        first_row=1,
    ),
    "cell encoder 2 3 = -1.5 raw @ L1": Effect(
        weights=lambda w, at, _: (
            _filled(w, (1, 2), -1.5) if at[:2] == ("encoder", 0) else w
        )
    ),
    "cell cross 4 1 * 0.25": Effect(
        weights=lambda w, at, _: (
            _pinned(w, 3, 0, float(w[3, 0]) / 4) if at[0] == "cross" else w
        ),
        first_row=3,
    ),
    "cell cross 4 1 * 3 raw @ L1H2": Effect(
        weights=lambda w, at, _: (
            _filled(w, (3, 0), 3 * w[3, 0]) if at == ("cross", 0, 1) else w
        ),
        first_row=3,
    ),
    "row cross 3 = uniform @ L2H2": Effect(
        weights=lambda w, at, mask: _even(w, 2, mask) if at == ("cross", 1, 1) else w,
        first_row=2,
    ),
    "row decoder 4 = uniform": Effect(
        weights=lambda w, at, mask: _even(w, 3, mask) if at[0] == "decoder" else w,
        first_row=3,
    ),
    "value cross 2 off": Effect(
        values=lambda v, at: _filled(v, 1, 0) if at[0] == "cross" else v
    ),
    "value encoder 4 off @ L1": Effect(
        values=lambda v, at: _filled(v, 3, 0) if at[:2] == ("encoder", 0) else v
    ),
    "value decoder 3 off @ L2": Effect(
        values=lambda v, at: _filled(v, 2, 0) if at[:2] == ("decoder", 1) else v,
        first_row=2,
    ),
    "layer encoder off @ L2": Effect(skipped=(("encoder", 1),)),
    "layer decoder off": Effect(skipped=(("decoder", 0), ("decoder", 1))),
    'embedding source 2 = "q"': Effect(
        ids=lambda side, ids: [4, 20, 6, 7] if side == "source" else ids
    ),
    'embedding target 3 = "</s>"': Effect(
        ids=lambda side, ids: [1, 8, 3, 10, 11] if side == "target" else ids,
        first_row=2,
    ),
    "row cross 2 = uniform @ L1; head cross off @ L2H1; value cross 1 off": Effect(
        weights=lambda w, at, mask: _even(w, 1, mask) if at[:2] == ("cross", 0) else w,
        values=lambda v, at: _filled(v, 0, 0) if at[0] == "cross" else v,
        z=lambda z, at: 0 * z if at == ("cross", 1, 0) else z,
    ),
}
AHEAD = {"cell decoder 2 4 on @ L1H2", "cell decoder 2 5 = 0.5 @ L1H1"}
TEXTS = tuple(EFFECTS)


def passed(checkpoint: Checkpoint, text: str = "") -> Trace:
    return run(checkpoint, [SOURCE], [TARGET], intervention=text)[0]


def attended(
    part: Any, effect: Effect, kind: Kind, layer: int, x: Tensor, memory: Tensor
) -> Tensor:
    mask = torch.ones(len(x), len(memory)).bool()
    mask = mask.tril() if kind == "decoder" else mask
    size, heads = x.shape[1] // part.heads, []
    for head in range(part.heads):
        at, own = (kind, layer, head), slice(head * size, (head + 1) * size)
        q = part.query(x)[:, own]
        k, v = part.key(memory)[:, own], part.value(memory)[:, own]
        allowed = effect.allowed(mask, at)
        scores = (q @ k.T / math.sqrt(size)).where(allowed, -1e9)
        weights = effect.weights(scores.softmax(-1), at, allowed)
        heads.append(effect.z(weights @ effect.values(v, at), at))
    added: Tensor = part.output(torch.cat(heads, 1))
    return added


@torch.no_grad()
def by_hand(checkpoint: Checkpoint, effect: Effect) -> dict[str, list[Tensor]]:
    """Return the residual streams, [T, D] each, and last the logits [T, V]; float64."""
    model: Any = copy.deepcopy(checkpoint.model).double()
    made: dict[str, list[Tensor]] = {}
    memory: Tensor | None = None
    for side, name, own in (
        ("source", "encoder", SOURCE),
        ("target", "decoder", TARGET),
    ):
        ids = torch.tensor(effect.ids(side, own))
        table = model.get_submodule(f"{side}_embedding")
        x = table(ids) * model.scale + model.positions[: len(ids)].double()
        streams = [x]
        for index, layer in enumerate(model.get_submodule(name)):
            if (name, index) in effect.skipped:
                streams.append(x)
                continue
            kind: Any = name
            read = attended(layer.self_attention, effect, kind, index, x, x)
            x = layer.self_attention_norm(x + read)
            if memory is not None:
                read = attended(
                    layer.cross_attention, effect, "cross", index, x, memory
                )
                x = layer.cross_attention_norm(x + read)
            x = layer.feed_forward_norm(x + layer.feed_forward(x))
            x = effect.stream(x, (name, index))
            streams.append(x)
        memory, made[name] = x, streams
    made["logits"] = [model.output(x)]
    return made


@pytest.mark.parametrize("text", TEXTS)
def test_a_run_is_what_the_change_says(text: str) -> None:
    checkpoint = tiny_checkpoint()
    trace, expected = passed(checkpoint, text), by_hand(checkpoint, EFFECTS[text])
    for stack in STACKS:
        for layer, stream in enumerate(expected[stack]):
            found = trace.hidden(stack, layer)
            np.testing.assert_allclose(found, stream.numpy(), rtol=0, atol=1e-5)
    found, logits = trace.logits, expected["logits"][0].numpy()
    np.testing.assert_allclose(found, logits, rtol=0, atol=1e-5)
    assert np.abs(found - passed(checkpoint).logits).max() > 1e-3


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
