"""A window on a wrapped model: this program answers what is typed there."""

from __future__ import annotations

import queue
import threading
from multiprocessing import Pipe
from typing import Any

import numpy as np
import pytest
from torch import Tensor

import visformer
from tests.system.watching.comparing import apart
from tests.system.watching.faulty_models import built
from tests.system.watching.test_wrapped import decode, encode
from visformer.app import App
from visformer.engine.handle import RemoteEngine
from visformer.engine.messages import (
    AllTokens,
    Closed,
    Decode,
    Done,
    FindTokens,
    Finished,
    Open,
    Opened,
    Parameters,
    Refused,
    Shuffle,
)
from visformer.engine.process import serve_model
from visformer.ui.views import VIEWS
from visformer.values.intervention import NO_CHANGES
from visformer.values.step import Choice

SECONDS = 15


class Served:
    """A wrapped model that is served on a thread, and a handle to it."""

    def __init__(self, call: Any) -> None:
        self.wrapped = visformer.wrap(
            call, bos=2, eos=1, pad=0, encode=encode, decode=decode
        )
        self.near, self.far = Pipe()
        self.events: queue.Queue[Any] = queue.Queue()
        self.thread = threading.Thread(
            target=serve_model, args=(self.wrapped, self.far), daemon=True
        )
        self.thread.start()

    def handle(self) -> RemoteEngine:
        return RemoteEngine(self.events.put, self.near)

    def until(self, kind: type) -> list[Any]:
        """Return the events up to the first of a kind."""
        seen: list[Any] = []
        while not seen or not isinstance(seen[-1], kind):
            seen.append(self.events.get(timeout=SECONDS))
        return seen


def healthy() -> Any:
    model = built("healthy")
    return lambda src, tgt: model(src, tgt)


@pytest.fixture
def served() -> Served:
    return Served(healthy())


def test_it_is_opened_typed_into_and_forced(served: Served) -> None:
    engine = served.handle()
    engine.open(Open(path="mine"))
    (opened,) = served.until(Opened)
    assert opened.model.name == "Healthy"
    assert opened.numbers == 0
    engine.ask(Decode(source="d e f", limit=4))
    *decoded, finished = served.until(Finished)
    own = visformer.Decoding(served.wrapped, "d e f", limit=4).finish()
    assert [len(one.trace) for one in decoded] == list(range(len(own) + 1))
    assert decoded[-1].trace.text == own.text
    assert isinstance(finished, Finished)
    engine.ask(
        AllTokens(
            stream=np.zeros(0, np.float32),
            source=tuple(own.source_ids.tolist()),
            target=tuple(own.target_ids.tolist()),
            intervention=NO_CHANGES,
            row=len(own) - 1,
        )
    )
    whole, best = served.until(Done)[-1].value, own.steps[-1].candidates
    assert whole.tokens[: len(best)] == best.tokens
    assert whole.probabilities.sum() == pytest.approx(1, abs=1e-5)
    engine.ask(Decode(source="d e f", limit=4, prefix=(Choice(7, "forced"),)))
    trace = served.until(Finished)[-2].trace
    assert (trace.steps[0].id, trace.steps[0].origin) == (7, "forced")
    assert trace.target_ids[1] == 7
    engine.ask(Decode(source="d e f", reference="h i"))
    trace = served.until(Finished)[-2].trace
    assert [step.origin for step in trace.steps] == ["reference"] * 3
    engine.close()


def test_what_cannot_be_done_is_refused(served: Served) -> None:
    engine = served.handle()
    change = visformer.parse_change("positions none")
    for request in (
        Shuffle(source="d e f", target=(2,)),
        Decode(source="d e f", intervention=change),
        Decode(source=""),
    ):
        engine.ask(request)
        (refused,) = served.until(Refused)
        assert refused.reason.endswith(".")
    engine.close()


def test_tokens_are_found_by_name(served: Served) -> None:
    engine = served.handle()
    engine.open(Open(path="mine"))
    engine.ask(FindTokens(text="k"))
    assert served.until(Done)[-1].value == ((encode("k")[0], "k"),)
    engine.ask(Parameters(stack="encoder", layer=0))
    assert served.until(Done)[-1].value is None
    engine.close()


def test_what_the_model_raises_is_told_and_it_goes_on() -> None:
    inner, calls = healthy(), []

    def call(src: Tensor, tgt: Tensor) -> Any:
        calls.append(src)
        if (src == 5).any():
            raise ZeroDivisionError("no fives")
        return inner(src, tgt)

    served = Served(call)
    engine = served.handle()
    engine.ask(Decode(source="f g", limit=3))  # f is 5 + 2
    served.until(Finished)
    engine.ask(Decode(source="d e"))
    refused = served.until(Refused)[-1]
    assert refused.reason == "Your model raised ZeroDivisionError: no fives."
    engine.ask(Decode(source="f g", limit=3))
    served.until(Finished)
    engine.close()


def test_when_the_program_ends_the_window_keeps_what_it_has() -> None:
    near, far = Pipe()
    events: queue.Queue[Any] = queue.Queue()
    engine = RemoteEngine(events.put, near)
    far.close()
    closed = events.get(timeout=SECONDS)
    assert isinstance(closed, Closed)
    assert "has ended" in closed.reason
    number = engine.ask(Decode(source="d"))  # goes nowhere, and says so
    refused = events.get(timeout=SECONDS)
    assert (refused.number, refused.reason) == (number, closed.reason)
    engine.stop()
    assert events.empty()


def test_a_real_window_types_steps_and_forces(qtbot: Any) -> None:
    served = Served(healthy())
    app = App(["visformer"], served=served.near)
    app.window.show()
    app.window.open("mine", given=(), then="d e f g")

    def state() -> Any:
        return app.window.session.state

    def has_begun() -> None:
        assert state().trace is not None
        assert len(state().trace.whole) > 2

    qtbot.waitUntil(has_begun, timeout=20_000)
    app.window.stop()
    qtbot.waitUntil(lambda: not state().busy, timeout=20_000)
    trace = state().trace.whole
    own = visformer.Decoding(served.wrapped, "d e f g").step(len(trace))
    assert trace.source == ("d", "e", "f", "g")
    assert trace.text == own.text
    for kind in trace.kinds:
        assert apart(trace.attention(kind, 1), own.attention(kind, 1)) == 0
    for tab in (view.name for view in VIEWS):
        app.window.session.set(tab=tab)
        qtbot.wait(1)
        assert not state().error, tab
    app.close()
