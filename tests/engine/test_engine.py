"""The engine process, for real: its answers, its death, its replacement."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import torch

from tests.engine.listener import (
    SECONDS,
    Listener,
    decoded,
    process_id,
    request,
)
from tests.formats import layout_models
from tests.formats.layout_models import state
from visformer.core.decoding import Decoding
from visformer.core.layer_export import layer_parameters
from visformer.core.lens_rows import lens
from visformer.engine.events import Event, Replaced
from visformer.engine.handle import Engine
from visformer.engine.messages import (
    Asked,
    Batch,
    BatchDone,
    Decode,
    Finished,
    Lens,
    LensDone,
    Open,
    Opened,
    Parameters,
    ParametersDone,
    Refused,
)
from visformer.engine.mirror import Decoded
from visformer.formats.loading import load
from visformer.values.change_text import parse
from visformer.values.lens import streams


def test_session(engine: tuple[Engine, Listener], folder: Path) -> None:
    """Open, decode, force, feed, run a batch, ask for nonsense, die, go on."""
    handle, listener = engine
    handle.open(Open(path=str(folder)))
    opened = listener.wait_for(Opened)
    assert isinstance(opened, Opened)
    assert opened.positions.shape == (
        opened.model.config.max_positions,
        opened.model.config.d_model,
    )

    number = handle.ask(request("abc"))
    trace = decoded(listener, number).trace
    expected = Decoding(load(folder), "abc").finish()
    assert trace.text == expected.text
    assert (trace.decoder_rows == expected.decoder_rows).all()
    assert trace.output_weight is None

    forced = (*((s.id, s.origin) for s in trace.steps[:2]), (7, "forced"))
    number = handle.ask(request("abc", prefix=forced))
    again = decoded(listener, number).trace
    assert [s.id for s in again.steps[:3]] == [trace.steps[0].id, trace.steps[1].id, 7]
    assert again.steps[2].origin == "forced"

    number = handle.ask(request("abc", reference="ba"))
    assert decoded(listener, number).trace.text == "ba"

    handle.ask(Batch(sources=("ab", "abcd")))
    batch = listener.wait_for(BatchDone)
    assert isinstance(batch, BatchDone)
    assert [len(row.source) for row in batch.traces] == [5, 5]
    assert batch.traces[0].source[-1] == "<pad>"

    handle.ask(request("   "))
    refused = listener.wait_for(Refused)
    assert isinstance(refused, Refused)
    assert "The source is empty" in refused.reason

    number = handle.ask(request("abcdef", limit=60))
    listener.wait_for(Decoded)
    os.kill(process_id(handle), signal.SIGKILL)
    listener.wait_for(Replaced)
    full = Decoding(load(folder), "abcdef", limit=60).finish()
    assert decoded(listener, number).trace.target == full.target


def test_a_bad_file_leaves_the_open_model_alone(
    engine: tuple[Engine, Listener], folder: Path, tmp_path: Path
) -> None:
    handle, listener = engine
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    handle.open(Open(path=str(tmp_path)))
    refused = listener.wait_for(Refused)
    assert isinstance(refused, Refused)
    assert "no config.json" in refused.reason
    number = handle.ask(request("ab"))
    assert decoded(listener, number).trace.source[:2] == ("a", "b")


def test_a_reader_that_dies_leaves_the_open_model_alone(
    engine: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = engine
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    working = process_id(handle)
    handle.open(Open(path=str(folder)))
    for _ in range(2):  # before they have started, which is tried twice
        opening = handle._opening
        assert opening is not None
        opening.worker.process.kill()
        opening.worker._threads[0].join(SECONDS)
    refused = listener.wait_for(Refused)
    assert isinstance(refused, Refused)
    assert "the engine does not start (signal 9)" in refused.reason
    assert process_id(handle) == working


def test_the_newest_request_wins(engine: tuple[Engine, Listener], folder: Path) -> None:
    handle, listener = engine
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    numbers = [handle.ask(request("ab" * (i % 9 + 1))) for i in range(60)]
    last = decoded(listener, numbers[-1])
    assert last.trace.source_text == "ab" * (59 % 9 + 1)
    assert not listener.events


def test_weights_disturb_no_decode_and_no_decode_them(
    engine: tuple[Engine, Listener], folder: Path
) -> None:
    """Asked for before, amid and after decodes, all are answered, with their layer."""
    handle, listener = engine
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    number = handle.ask(request("abcdef", limit=60))
    for layer in (0, 1, 0, 1):
        asked = handle.ask(Parameters(stack="decoder", layer=layer))
    rows: list[Decoded] = []
    done: list[ParametersDone] = []

    def finished(event: Event) -> bool:
        if isinstance(event, ParametersDone):
            done.append(event)
        elif isinstance(event, Decoded):
            rows.append(event)
        return isinstance(event, Finished) and event.number == number

    listener.wait(finished)
    while not done or done[-1].number != asked:
        event = listener.wait_for(ParametersDone)
        assert isinstance(event, ParametersDone)
        done.append(event)
    whole = Decoding(load(folder), "abcdef", limit=60).finish()
    assert rows[-1].trace.target == whole.target
    made = done[-1].parameters
    assert made is not None
    assert (made.stack, made.layer) == ("decoder", 1)
    expected = layer_parameters(load(folder), "decoder", 1)
    weight = made.feed_forward.w2.weight
    assert (weight == expected.feed_forward.w2.weight).all()
    assert made.belong_to(rows[-1].trace.model)

    handle.ask(Parameters(stack="encoder", layer=9))
    none = listener.wait_for(ParametersDone)
    assert isinstance(none, ParametersDone)
    assert none.parameters is None


def test_a_lens_disturbs_no_decode_and_no_decode_it(
    engine: tuple[Engine, Listener], folder: Path
) -> None:
    """Asked amid a decode and after it; rows of another model get none."""
    handle, listener = engine
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    checkpoint = load(folder)
    whole = Decoding(checkpoint, "abcdef", limit=60).finish()
    chosen = whole.target_ids[1:3]
    number = handle.ask(request("abcdef", limit=60))
    handle.ask(Lens(hidden=streams(whole, [0, 1]), chosen=chosen, temperature=1.0))
    seen = listener.gather(Finished, LensDone)
    rows = [event for event in seen if isinstance(event, Decoded)]
    last = max(rows, key=lambda event: len(event.trace))
    assert last.number == number
    assert last.trace.target == whole.target
    done = next(event for event in seen if isinstance(event, LensDone))
    expected = lens(checkpoint, whole, [0, 1])
    assert [look.tokens for look in done.rows] == [look.tokens for look in expected]
    np.testing.assert_allclose(done.rows[1].logits, expected[1].logits, atol=2e-5)
    assert done.rows[0].chosen_ranks[-1] == whole.steps[0].rank

    odd = np.zeros((1, 9, 4), np.float32)
    handle.ask(Lens(hidden=odd, chosen=np.array([0]), temperature=1.0))
    none = listener.wait_for(LensDone)
    assert isinstance(none, LensDone)
    assert none.rows == ()


def test_each_pass_of_an_altered_run_is_kept(
    engine: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = engine
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    made = parse(["causal off"])
    number = handle.ask(Decode(source="abc", limit=4, intervention=made))
    last: Decoded | None = None
    while not isinstance(event := listener.wait_for(Decoded, Finished), Finished):
        assert isinstance(event, Decoded)
        last = event
    assert last is not None
    assert last.number == number
    assert [len(trace) for trace in last.passes] == list(range(len(last.trace) + 1))
    decoding = Decoding(load(folder), "abc", limit=4, intervention=made)
    for trace in last.passes[1:]:
        expected = decoding.step()
        assert trace.target == expected.target
        np.testing.assert_allclose(trace.decoder_rows, expected.decoder_rows, atol=1e-5)
        assert trace.masks["decoder"].all()
    handle.ask(Decode(source="abc", limit=4))
    plain = listener.wait(lambda e: isinstance(e, Decoded) and len(e.trace) == 4)
    assert isinstance(plain, Decoded)
    assert not plain.passes
    assert not plain.trace.intervention


def test_a_reference_under_an_altered_run_goes_by_passes(
    engine: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = engine
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    made = parse(["multiply"])
    handle.ask(Decode(source="abc", reference="dd", intervention=made))
    event = listener.wait(lambda e: isinstance(e, Decoded) and len(e.trace) == 3)
    assert isinstance(event, Decoded)
    assert [len(trace) for trace in event.passes] == [0, 1, 2, 3]
    assert [step.token for step in event.trace.steps[:2]] == ["d", "d"]


def test_a_file_is_asked_about_and_opened(
    engine: tuple[Engine, Listener], folder: Path, tmp_path: Path
) -> None:
    handle, listener = engine
    path = tmp_path / "m.pt"
    torch.save(state(layout_models.handout), path)
    handle.open(Open(path=str(path), ask="open"))
    asked = listener.wait_for(Asked)
    assert isinstance(asked, Asked)
    assert [q.name for q in asked.form.questions][:4] == ["heads", "pad", "bos", "eos"]
    number = handle.open(Open(path=str(path), overrides=(("heads", 3),)))
    refused = listener.wait_for(Refused)
    assert isinstance(refused, Refused)
    assert refused.number == number
    assert "d_model = 8 is not a multiple of heads = 3" in refused.reason
    handle.open(Open(path=str(path), overrides=(("heads", 2),)))
    opened = listener.wait_for(Opened)
    assert isinstance(opened, Opened)
    assert (opened.model.config.heads, opened.numbers) == (2, 11)
    assert "pad = 0 (the file does not say)" in opened.assumed
    handle.open(Open(path=str(folder), ask="open"))  # it tells all by itself
    handle.abandon()
    handle.open(Open(path=str(path), overrides=(("heads", 2),), ask="always"))
    asked = listener.wait_for(Asked, Opened)  # nothing came of what was abandoned
    assert isinstance(asked, Asked)
    assert asked.form.questions[0].default == 2
    decoded(listener, handle.ask(request("5 7 3")))  # the open model is still there
    handle.open(Open(path=str(folder), ask="open"))
    assert isinstance(listener.wait_for(Asked, Opened), Opened)
