"""Every variant stepped, in every way there is: the numbers of the full pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.unit.core.variants import ODD, assert_same, difference, small
from visformer.core.decoding import Decoding
from visformer.core.incremental import DecoderState, remembered
from visformer.core.packed import Affine
from visformer.core.search import exhausted, search
from visformer.core.side_runs import run_texts
from visformer.engine.messages import Answer, Decode, Numbered, Refused
from visformer.engine.mirror import Decoded, Mirror
from visformer.engine.process import Server
from visformer.formats.loading import presets
from visformer.values.step import Choice
from visformer.values.trace import Trace


@pytest.mark.parametrize("preset", presets())
@pytest.mark.parametrize("choices", ODD.values(), ids=ODD)
def test_cached_decoding_equals_the_full_pass(
    preset: str, choices: dict[str, Any]
) -> None:
    if "positions" in choices:
        choices = {**choices, "position_axis": "time"}
    checkpoint = small(preset, seed=5, **choices)
    decoding = Decoding(checkpoint, [4, 5, 6, 7, 8], limit=9)
    trace = decoding.step(9)
    if checkpoint.config.position_axis == "restart":
        trace = decoding.feed([step.id for step in trace.steps])
    assert_same(trace, checkpoint)


@pytest.mark.parametrize("preset", presets())
@pytest.mark.parametrize("choices", ODD.values(), ids=ODD)
def test_one_sentence_equals_a_row_of_a_batch(
    preset: str, choices: dict[str, Any]
) -> None:
    """A sentence alone is multiplied by numpy, several by torch."""
    packed = small(preset, seed=1, **choices).packed
    assert packed is not None
    drawn = torch.Generator().manual_seed(0)
    memory = torch.randn(1, 5, packed.model.config.d_model, generator=drawn)
    readable = torch.ones(1, 5, dtype=torch.bool)
    alone = DecoderState(packed, remembered(packed, memory), readable, 6)
    twice = remembered(packed, memory.repeat(2, 1, 1))
    batch = DecoderState(packed, twice, readable.repeat(2, 1), 6)
    for id in (2, 7, 8, 4, 9):
        one = alone.extend(torch.tensor([[id]]))
        two = batch.extend(torch.tensor([[id], [id]]))
        assert one.shape == (1, 1, packed.columns.width("decoder"))
        assert difference(one[0], two[1]) <= 2e-5
        output = packed.columns.output("decoder")
        logits = packed.logits(one[0, :, output])
        assert difference(logits, packed.logits(two[:, 0, output])[:1]) <= 2e-5
    alone.shorten(2)
    batch.shorten(2)
    one = alone.extend(torch.tensor([[3]]))
    assert difference(one[0], batch.extend(torch.tensor([[3], [3]]))[0]) <= 2e-5


def test_weights_that_are_not_numbers_are_shown_without_a_warning() -> None:
    checkpoint = small("paper")
    with torch.no_grad():
        _, layer, *_ = checkpoint.model.decoder
        layer.self_attention.value.weight[0, 0] = np.nan
        layer.feed_forward.w1.weight[0] = np.inf
    trace = Decoding(checkpoint, [4, 5, 6], limit=3).step(3)
    assert not np.isnan(trace.hidden("decoder", 1)).any()
    assert np.isnan(trace.hidden("decoder", 2)).all()
    assert np.isnan(trace.steps[-1].probability)


@pytest.mark.parametrize("sizes", [((2, 3), (2, 1)), ((4, 1),)], ids=["wide", "tall"])
def test_products_by_hand(sizes: tuple[tuple[int, int], ...]) -> None:
    """Layers side by side, one without a bias; rows and a vector alike."""
    linears = [nn.Linear(*size, bias=index == 0) for index, size in enumerate(sizes)]
    with torch.no_grad():
        for linear in linears:
            count = linear.weight.numel()
            linear.weight.copy_(torch.arange(count).view_as(linear.weight))
        linears[0].bias.fill_(10)
        affine = Affine(*linears)
    x = np.arange(1, sizes[0][0] + 1, dtype=np.float32)
    expected = {2: [12, 18, 24, 2], 4: [30]}[len(x)]
    assert affine.product(x).tolist() == expected
    rows = affine(torch.from_numpy(x).expand(2, -1))
    assert rows.tolist() == [expected, expected]


@pytest.mark.parametrize("preset", presets())
@pytest.mark.parametrize("at", [0, 2])
def test_pads_in_source_and_target_at_every_step(preset: str, at: int) -> None:
    checkpoint = small(preset, seed=2)
    pad = checkpoint.tokenizer.pad
    decoding = Decoding(checkpoint, [4, pad, 6, 7, pad], limit=9)
    decoding.step(at)
    decoding.force(pad)
    lengths: list[int] = []
    while not decoding.ended and len(lengths) < 4:
        trace = decoding.step()
        lengths.append(len(trace))
        if checkpoint.config.position_axis != "restart":
            assert_same(trace, checkpoint)
    assert lengths == list(range(lengths[0], lengths[0] + len(lengths)))
    if checkpoint.config.position_axis != "restart":
        assert_same(decoding.back(2), checkpoint)
        assert_same(decoding.step(), checkpoint)


def test_a_padded_row_changes_the_rows_before_it_in_scratch() -> None:
    checkpoint = small("scratch", seed=2)
    decoding = Decoding(checkpoint, [4, 5, 6], limit=9)
    decoding.follow([(5, "forced"), (0, "forced"), (6, "forced")])
    before = decoding.trace
    after = decoding.follow([*((s.id, s.origin) for s in before.steps), (7, "forced")])
    assert decoding.kept == 0
    assert difference(after.decoder_rows[2], before.decoder_rows[2]) > 1e-3
    assert difference(after.decoder_rows[:2], before.decoder_rows[:2]) <= 2e-5
    choices = [(step.id, step.origin) for step in before.steps]
    assert_same(decoding.follow(choices), checkpoint)
    decoding.follow([(5, "forced"), (6, "forced")])
    assert_same(decoding.step(3), checkpoint)


class Pipe:
    """The window's end of the engine's pipe."""

    def __init__(self) -> None:
        self.mirror = Mirror()
        self.decoded: Decoded | None = None

    def poll(self) -> bool:
        return False

    def send(self, answer: Answer) -> None:
        assert not isinstance(answer, Refused), answer.reason
        if self.mirror.mirrors(answer):
            self.decoded = self.mirror.take(answer)

    def trace(self) -> Trace:
        assert self.decoded is not None
        return self.decoded.trace


@pytest.mark.parametrize("preset", presets())
def test_the_window_gets_the_rows_that_a_step_changed(preset: str) -> None:
    checkpoint, pipe = small(preset, seed=2), Pipe()
    server = Server(pipe)  # type: ignore[arg-type]
    server.model = checkpoint
    forced = (Choice(5, "forced"), Choice(0, "forced"))
    prefixes = [(), forced, (*forced, Choice(6, "forced")), forced, forced[:1]]
    for number, prefix in enumerate(prefixes):
        request = Decode(source="4 5 6", prefix=prefix, limit=7)
        server.answer(Numbered(number, request))
        made = pipe.trace()
        assert tuple(s.choice for s in made.steps[: len(prefix)]) == prefix
        again = Decoding(checkpoint, "4 5 6", limit=7)
        again.follow(prefix)
        expected = again.finish()
        assert difference(made.decoder_rows, expected.decoder_rows) <= 2e-5
        assert [s.id for s in made.steps] == [s.id for s in expected.steps]
        assert pipe.decoded is not None
        for length, one in enumerate(pipe.decoded.passes):
            again.follow([s.choice for s in expected.steps[:length]])
            assert difference(one.decoder_rows, again.trace.decoder_rows) <= 2e-5


@pytest.mark.parametrize("preset", presets())
def test_search_finds_what_decoding_finds(preset: str) -> None:
    checkpoint = small(preset, seed=7, max_positions=14)
    sources = [[4, 5, 6, 7], [8, 9], [10, 11, 12, 13, 4], [5, 9]]
    found = search(checkpoint, sources, beam=1)
    for source, made in zip(sources, found, strict=True):
        ids = made.best
        steps = Decoding(checkpoint, source).finish().steps
        assert [step.id for step in steps] == ids
        assert not set(ids) & {id for (id,) in checkpoint.generation.forbidden}
    assert len(search(checkpoint, sources, beam=3)) == 4
    traces = exhausted(run_texts(checkpoint, ["4 5 6", "7 8"]))
    assert [len(trace.source) for trace in traces] == [len(traces[0].source)] * 2


def test_a_start_token_that_is_padding_attends_to_all_in_the_handout() -> None:
    checkpoint = small("handout", seed=2)
    checkpoint.tokenizer.bos = 0
    decoding = Decoding(checkpoint, [4, 5, 6], limit=6)
    decoding.force(0)
    for _ in range(3):
        assert_same(decoding.step(), checkpoint)
        decoding.force(5)
    trace = decoding.step()
    assert np.allclose(trace.attention("decoder", 0)[:, :2], 1 / len(trace))
    assert_same(decoding.back(), checkpoint)
