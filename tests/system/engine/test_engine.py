"""The engine process, for real: its answers, its death, its replacement."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import torch

from tests.system.engine.listener import SECONDS, Listener, decoded, process_id, request
from tests.system.formats import layout_models
from tests.system.formats.layout_models import state
from visformer.core.decoding import Decoding
from visformer.engine.handle import Engine
from visformer.engine.messages import (
    Asked,
    Batch,
    Done,
    Open,
    Opened,
    Refused,
    Replaced,
)
from visformer.engine.mirror import Decoded
from visformer.formats.loading import load
from visformer.values.step import Choice


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

    forced = (*(s.choice for s in trace.steps[:2]), Choice(7, "forced"))
    number = handle.ask(request("abc", prefix=forced))
    again = decoded(listener, number).trace
    assert [s.id for s in again.steps[:3]] == [trace.steps[0].id, trace.steps[1].id, 7]
    assert again.steps[2].origin == "forced"

    number = handle.ask(request("abc", reference="ba"))
    assert decoded(listener, number).trace.text == "ba"

    handle.ask(Batch(sources=("ab", "abcd")))
    batch = listener.wait_for(Done)
    assert isinstance(batch, Done)
    assert [len(row.source) for row in batch.value] == [5, 5]
    assert batch.value[0].source[-1] == "<pad>"

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
    assert "the engine does not start (killed by signal 9)" in refused.reason
    assert process_id(handle) == working


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


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_what_a_process_reads_as_it_starts_stays_out_of_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")  # the user's own
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    before = dict(os.environ)
    engine = Engine(lambda event: None)
    try:
        pid = engine._current.process.pid
        read = Path(f"/proc/{pid}/environ").read_text().split("\0")
    finally:
        engine.close()
    assert {"OPENBLAS_NUM_THREADS=3", "PYTHONSAFEPATH=1"} <= {*read}
    assert "GLIBC_TUNABLES=glibc.malloc.hugetlb=1" in read
    assert dict(os.environ) == before
