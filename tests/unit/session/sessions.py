"""A Session on an engine that only remembers what it is asked, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.opened import opened_model
from tests.traces import make_trace
from visformer.engine.messages import Event, Finished, Open, Request
from visformer.engine.mirror import Decoded
from visformer.session import receive, runs, tree
from visformer.session.state import Session, State
from visformer.values.changes.mask_changes import Causal, HideSource
from visformer.values.intervention import Intervention
from visformer.values.step import Strategy
from visformer.values.trace import Trace

OPEN = Intervention(masks=(Causal(None),))
HIDDEN = Intervention(masks=(HideSource(2),))
TRACE = make_trace(source=6, target=5)
OTHER = replace(TRACE.model, digest="other")


class Engine:
    """Numbers what it is asked, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def ask(self, request: Request) -> int:
        self.asked.append(request)
        return len(self.asked)

    def open(self, request: Open) -> int:
        return self.ask(request)

    def abandon(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    @property
    def last(self) -> Any:
        return self.asked[-1]


def take(session: Session, event: Event) -> State:
    session.do(receive.receive, event)
    return session.state


def answer(session: Session, engine: Engine, trace: Trace = TRACE) -> Trace:
    """Answer the last request, a decode, whole."""
    number = len(engine.asked)
    trace = replace(trace, source_text=engine.last.source)
    take(session, Decoded(number=number, trace=trace, limit=9))
    take(session, Finished(number=number, step_ms=2.0))
    return trace


def translated(session: Session, engine: Engine, text: str = "one two") -> Trace:
    session.do(runs.translate, text)
    return answer(session, engine)


def worked(session: Session, engine: Engine) -> State:
    """Make every sort of edit, the last one undone."""
    take(session, opened_model(TRACE.model, path="/m"))
    translated(session, engine)
    session.set(step=2, tab="masks", kind="decoder", head=1)
    session.do(runs.force, 7)
    answer(session, engine, make_trace(source=6, target=5, seed=2))
    session.do(runs.choose_tokens, Strategy(name="sample", seed=4), 9)
    answer(session, engine, make_trace(source=6, target=5, seed=3))
    session.do(runs.change_run, HIDDEN)
    answer(session, engine, replace(TRACE, intervention=HIDDEN))
    session.do(runs.translate, "three", reference="trois")
    answer(session, engine)
    answer(session, engine, replace(TRACE, intervention=HIDDEN))
    session.do(tree.undo)
    return session.state
