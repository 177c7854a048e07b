"""What the sentence is compared with follows what was done to the run."""

from __future__ import annotations

from dataclasses import replace

from tests.traces import fed
from tests.unit.session.sessions import HIDDEN, TRACE, Engine, answer, translated
from visformer.pictures.words.choices import has_fed
from visformer.session import runs
from visformer.session.runs import compared
from visformer.session.state import Session
from visformer.values.trace import Trace


def saying(trace: Trace, text: str) -> Trace:
    steps = tuple(replace(step, text=text) for step in trace.steps)
    return replace(trace, steps=steps)


def other(session: Session) -> tuple[str, str]:
    made = compared(session.state)
    return "".join(part.text for part in made.other), made.against


OWN = saying(TRACE, "un chat")
FORCED = saying(fed(TRACE, {1: "forced"}, wrong=(1,)), "un chien")
TAUGHT = saying(fed(TRACE, dict.fromkeys(range(5), "reference")), "le chat")


def test_a_run_of_the_models_own_is_compared_with_nothing(
    session: Session, engine: Engine
) -> None:
    assert compared(session.state).parts == ()
    session.do(runs.translate, "one two")
    answer(session, engine, OWN)
    assert other(session) == ("", "")
    assert compared(session.state).text == "un chat"


def test_a_forced_token_is_compared_with_the_run_before(
    session: Session, engine: Engine
) -> None:
    session.do(runs.translate, "one two")
    answer(session, engine, OWN)
    session.set(step=2)
    session.do(runs.force, 7)
    answer(session, engine, FORCED)
    assert other(session) == ("un chat", "before")
    session.do(runs.force, 8)
    answer(session, engine, FORCED)
    assert other(session) == ("un chat", "before")  # not with another forced one
    assert has_fed(FORCED.steps)
    session.do(runs.translate, "three")
    answer(session, engine, FORCED)
    assert other(session) == ("", "")  # another sentence's


def test_a_free_run_is_compared_with_the_reference(
    session: Session, engine: Engine
) -> None:
    session.do(runs.translate, "one two", reference="le chat")
    answer(session, engine, TAUGHT)
    assert other(session) == ("", "")
    session.do(runs.teach, fed=False)
    answer(session, engine, OWN)
    assert other(session) == ("le chat", "reference")
    session.do(runs.teach, fed=True)
    answer(session, engine, TAUGHT)
    assert other(session) == ("un chat", "before")


def test_a_changed_run_is_compared_with_the_original(
    session: Session, engine: Engine
) -> None:
    translated(session, engine)
    session.do(runs.change_run, HIDDEN)
    answer(session, engine, replace(OWN, intervention=HIDDEN))
    assert other(session) == (TRACE.text, "original")
