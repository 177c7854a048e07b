"""Questions beside the decode, without a window; the Session itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.opened import opened_model
from tests.tiny_models import tiny_checkpoint
from tests.unit.session.sessions import (
    HIDDEN,
    OTHER,
    TRACE,
    Engine,
    answer,
    take,
    translated,
)
from visformer.core.side_runs import layer_parameters
from visformer.engine.messages import (
    AllTokens,
    Attribute,
    Done,
    Effect,
    Event,
    Finished,
    Lens,
    Nearest,
    Opened,
    Parameters,
    Portion,
    Refused,
    Replaced,
    Request,
    Shuffle,
)
from visformer.engine.mirror import Decoded
from visformer.pictures.attention.reading import attention_map, reading, share_words
from visformer.pictures.selection import Look
from visformer.pictures.words.modified_run import report_words
from visformer.session import receive, runs, side_requests
from visformer.session.state import Next, Session, State
from visformer.values.facts import KINDS, StackName
from visformer.values.layer_weights import LayerParameters
from visformer.values.measured import (
    Attribution,
    AttributionPlace,
    ChangeReport,
    WholeDistribution,
)
from visformer.values.reply import Reply
from visformer.values.trace import Trace

ALL = WholeDistribution(
    ids=np.array([1, 0]), tokens=("b", "a"), probabilities=np.ones(2, np.float32)
)


def weights(layer: int, stack: StackName = "encoder") -> LayerParameters:
    """Return the weights of a layer of the model that made TRACE."""
    made = layer_parameters(tiny_checkpoint(), stack, 0)
    return replace(made, model=TRACE.model, layer=layer)


def test_a_layer_looked_at_before_is_not_asked_for_again(
    session: Session, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(session, opened_model(TRACE.model))
    translated(session, engine)
    session.set(tab="computation", stage="norms", kind="encoder")
    for layer in (0, 1):
        session.set(layer=layer)
        take(session, Done(number=len(engine.asked), value=weights(layer)))
    asked = len(engine.asked)
    session.set(layer=0)
    assert len(engine.asked) == asked
    assert not session.state.awaiting.side_requests
    monkeypatch.setattr(side_requests, "MOST_WEIGHTS", 0)  # room for the newest alone
    session.set(kind="cross")
    take(session, Done(number=asked + 1, value=weights(0, "decoder")))
    assert [known.stack for known in session.state.parameters] == ["decoder"]


def test_weights_of_another_model_are_not_kept() -> None:
    other = replace(weights(1), model=replace(TRACE.model, digest="other"))
    state = State(parameters=(weights(0), weights(1)))
    request = Parameters(stack="encoder", layer=1)
    made = side_requests.parameters_done(state, request, other)
    assert made.parameters == (other,)


def test_the_tab_in_sight_asks_once_for_what_it_lacks(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(TRACE.model))
    translated(session, engine)
    asked = len(engine.asked)
    session.set(tab="computation", stage="norms", layer=1, kind="encoder")
    session.set(step=2)
    assert engine.asked[asked:] == [Parameters(stack="encoder", layer=1)]
    state = take(session, Done(number=asked + 1, value=None))
    assert not state.awaiting.side_requests
    assert len(engine.asked) == asked + 1  # there are none: not asked for ever
    session.set(layer=0)
    assert engine.last == Parameters(stack="encoder", layer=0)
    session.set(tab="output")
    assert isinstance(engine.last, Lens)
    take(session, Done(number=len(engine.asked), value=()))
    count = len(engine.asked)
    session.set(step=3)
    assert len(engine.asked) == count  # it could not: not asked for ever
    take(session, Replaced(reason="x"))
    session.set(tab="computation")
    assert len(engine.asked) == count + 1  # the question had died with the engine


def test_every_token_is_asked_for_while_they_are_listed(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(TRACE.model))
    translated(session, engine)
    session.set(step=2)
    count = len(engine.asked)
    session.set(unfolded=True)
    request = engine.last
    assert isinstance(request, AllTokens)
    assert (request.target, request.row) == (tuple(TRACE.target_ids[:2].tolist()), 1)
    layers = TRACE.layers("decoder")
    assert (request.stream == TRACE.hidden("decoder", layers)[1]).all()
    session.set(step=3)  # one row at a time
    assert len(engine.asked) == count + 1
    two = take(session, Done(number=count + 1, value=ALL))
    assert len(engine.asked) == count + 2
    assert two.distribution is not None
    assert two.distribution.about == 2
    assert two.distribution.value is None
    three = take(session, Done(number=count + 2, value=ALL))
    assert three.distribution is not None
    assert three.distribution.is_of(TRACE.storage, 2)
    assert three.distribution.value is ALL
    session.set(tab="masks")
    assert len(engine.asked) == count + 2  # it is known
    session.set(step=1)
    take(session, Replaced(reason="x"))
    session.set(tab="output")
    asked = [r for r in engine.asked if isinstance(r, AllTokens)]
    assert [r.row for r in asked[2:]] == [0, 0]  # the question died with the engine
    take(session, Refused(number=engine.asked.index(asked[-1]) + 1, reason="no"))
    session.set(tab="masks")
    assert sum(isinstance(r, AllTokens) for r in engine.asked) == 4  # not for ever


def test_the_nearest_tokens_are_asked_for_again_by_a_new_engine(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(TRACE.model))
    translated(session, engine)
    session.set(tab="positions")
    assert isinstance(engine.last, Nearest)
    count = len(engine.asked)
    session.set(step=2)
    assert len(engine.asked) == count
    take(session, Replaced(reason="x"))  # the question died with the engine
    assert engine.asked[count:] == [engine.last]
    assert isinstance(engine.last, Nearest)
    take(session, Refused(number=count + 1, reason="no"))
    session.set(step=1)
    assert len(engine.asked) == count + 1  # not for ever


REPORT = ChangeReport(
    *("il", "elle", (-0.25, -1.5), (2.0, -0.5), 0.125, (1, 3), 1e-7, 22, 22, True, ""),
    lacking=2,
)


def changed_run(
    session: Session, engine: Engine, passes: tuple[Trace, ...] = ()
) -> Effect:
    """Change a run that is shown at its second step; return what is asked about it."""
    take(session, opened_model(TRACE.model))
    changed = replace(TRACE, intervention=HIDDEN)
    translated(session, engine)
    session.set(step=2)
    assert not any(isinstance(one, Effect) for one in engine.asked)
    session.do(runs.change_run, HIDDEN)
    number = len(engine.asked)
    take(session, Decoded(number=number, trace=changed, limit=9, passes=passes))
    take(session, Finished(number=number, step_ms=2.0))
    request = engine.last
    assert isinstance(request, Effect)
    assert request.source == tuple(TRACE.source_ids.tolist())
    assert (request.step, request.intervention) == (1, HIDDEN)
    return request


def test_the_effects_of_a_change_are_asked_for_once(
    session: Session, engine: Engine
) -> None:
    request = changed_run(session, engine)
    assert len(request.chosen) == len(TRACE)
    count = len(engine.asked)
    session.set(step=3)  # one question at a time
    assert len(engine.asked) == count
    state = take(session, Done(number=count, value={}))  # it was interrupted
    assert state.report is None
    assert len(engine.asked) == count + 1
    reports = {row: REPORT._replace(independent=row) for row in range(len(TRACE))}
    state = take(session, Done(number=count + 1, value=reports))
    assert state.report is reports[2]
    take(session, Replaced(reason="x"))
    for step in (1, 3, 2, len(TRACE), 2):
        session.set(step=step)
        assert session.state.report is reports[step - 1]
    session.set(step=0)
    assert session.state.report is None
    assert len(engine.asked) == count + 1  # the engine was asked nothing


def test_effects_are_asked_for_by_step_where_each_changes_the_rows_before(
    session: Session, engine: Engine
) -> None:
    passes = tuple(
        replace(
            TRACE.until(step),
            intervention=HIDDEN,
            decoder_rows=TRACE.decoder_rows[:step].copy(),
        )
        for step in range(len(TRACE) + 1)
    )
    request = changed_run(session, engine, passes)
    assert len(request.chosen) == 2
    count = len(engine.asked)
    take(session, Done(number=count, value={1: REPORT}))
    state = session.state
    assert state.report is REPORT
    session.set(step=3)
    assert session.state.report is None
    assert isinstance(engine.last, Effect)
    assert len(engine.last.chosen) == 3
    take(session, Done(number=count + 1, value=None))
    session.set(step=2)
    assert session.state.report is REPORT
    session.set(step=3)
    assert len(engine.asked) == count + 1  # it could not: not asked for ever


def test_the_question_about_a_change_dies_with_the_engine(
    session: Session, engine: Engine
) -> None:
    changed_run(session, engine)
    count = len(engine.asked)
    take(session, Replaced(reason="x"))
    session.set(tab="masks")
    assert len(engine.asked) == count + 1
    assert isinstance(engine.last, Effect)


def test_a_change_is_reported_in_words() -> None:
    assert report_words(REPORT, TRACE).splitlines() == [
        "log p of “il”: −0.25 → −1.5, −1.25 nats; rank 1 → 3",
        "its logit less that of “elle”, the original's best other token: 2 → −0.5",
        "KL(original || changed): 0.125 nats",
        "22 of 22 rows that cannot depend on the change are equal to the last bit; "
        "rows of weights sum to 1; 2 rows stay: the other run has no such rows",
    ]
    assert report_words(None, TRACE) == ""


def test_what_moved_nothing_says_why() -> None:
    still = REPORT._replace(moved=False, reason="it acts from step 3 on", lacking=0)
    broken = still._replace(row_sums=0.5, equal=20, reason="")
    first, second = (report_words(one, TRACE) for one in (still, broken))
    assert first.splitlines() == [
        "nothing moved: it acts from step 3 on",
        "22 of 22 rows that cannot depend on the change are equal to the last bit; "
        "rows of weights sum to 1",
    ]
    assert second.splitlines()[0] == "nothing moved: no row of the run is another"
    assert second.endswith("rows of weights do not sum to 1: one is off by 0.5")


def test_another_models_run_is_not_asked_about(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(OTHER))
    session.do(runs.show_trace, TRACE)
    session.set(tab="computation")
    session.set(tab="output", unfolded=True)
    assert engine.asked == []


def test_orders_differ_from_shuffle_to_shuffle(
    session: Session, engine: Engine
) -> None:
    translated(session, engine)
    session.do(side_requests.shuffle)
    session.do(side_requests.shuffle)
    seeds = [r.seed for r in engine.asked if isinstance(r, Shuffle)]
    assert len(set(seeds)) == 2
    state = take(session, Done(number=3, value=((0,), TRACE, TRACE)))
    assert state.shuffle is not None
    assert state.busy == ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greet(Request):
    """A request that no file of the program knows."""

    name: str


def test_a_new_answer_is_one_entry(
    session: Session, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greeted(state: State, request: Greet, words: str) -> State:
        return replace(state, notice=f"{words} {request.name}")

    monkeypatch.setitem(receive.ANSWERED, Greet, greeted)
    session.do(lambda state: Next(state, (Greet(name="you"),)))
    some = take(session, Portion(number=1, value="hello"))
    assert (some.notice, some.awaiting.waits(Greet)) == ("hello you", True)
    last = take(session, Done(number=1, value="bye"))
    assert (last.notice, last.awaiting.waits(Greet)) == ("bye you", False)
    assert take(session, Done(number=9, value="late")).notice == "bye you"


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        (Done(number=1, value=3), (3, "", True)),
        (Done(number=1, value=None), (None, "", True)),
        (Refused(number=1, reason="no."), (None, "no.", False)),
        (Done(number=9, value="late"), (None, "", False)),
    ],
)
def test_a_new_reply_is_one_entry(
    session: Session,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    event: Event,
    kept: tuple[object, ...],
) -> None:
    monkeypatch.setitem(receive.REPLIES, Greet, "checks")
    session.set(checks=Reply(of=(TRACE,), about="you"))
    session.do(lambda state: Next(state, (Greet(name="you"),)))
    reply = take(session, event).checks
    assert reply is not None
    assert (reply.value, reply.reason, reply.arrived) == kept
    assert reply.is_of((TRACE,), "you")
    assert not reply.is_of((replace(TRACE),), "you")
    assert not reply.is_of((TRACE,), "me")


def test_the_listener_hears_a_transition_once(engine: Engine) -> None:
    heard: list[State] = []
    session = Session(heard.append, engine, side_requests.needed)
    session.do(runs.translate, "a")
    assert len(heard) == 1
    opened: Opened = opened_model(TRACE.model, np.ones((3, 8), np.float32))
    take(session, opened)
    assert len(heard) == 2


# ---- what tokens do to the run ---------------------------------------------------


def measured(session: Session, engine: Engine) -> list[AttributionPlace]:
    """Answer all that is asked; return it."""
    asked = []
    while isinstance(engine.last, Attribute) and session.state.busy:
        asked.append(engine.last.place)
        values = np.ones((9, 9), np.float32)
        share = np.ones(5, np.float32) if engine.last.shared else None
        made = Attribution(values=values, share=share)
        take(session, Done(number=len(engine.asked), value=made))
    return asked


def test_a_measure_is_asked_for_of_each_kind_once_the_run_is_there(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(TRACE.model))
    session.set(look=Look(summary="zeroing"), kind="cross", layer=1)
    session.do(runs.translate, "one two")
    assert not isinstance(engine.last, Attribute)  # it is decoded first
    answer(session, engine)
    asked = measured(session, engine)
    layer = session.state.layer
    kinds = sorted(KINDS, key=lambda kind: kind != session.state.kind)
    assert asked == [AttributionPlace("zeroing", kind, layer) for kind in kinds]
    count = len(engine.asked)
    session.set(step=2)  # rows do not depend on later tokens
    session.set(look=Look(summary="mean"))
    session.set(look=Look(summary="zeroing"))
    assert len(engine.asked) == count
    session.set(look=Look(summary="gradient"))
    assert {place.layer for place in measured(session, engine)} == {0}
    shared = [one.shared for one in engine.asked if isinstance(one, Attribute)]
    assert shared.count(True) == 1  # it is of the run, whatever the measure
    state = session.state
    assert state.visible is not None
    assert "source share" in share_words(state.visible, state.selection, state.look)


def test_what_cannot_be_measured_says_why_in_its_place(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(TRACE.model))
    translated(session, engine)
    session.set(look=Look(summary="norms"))
    kind = session.state.kind
    take(session, Refused(number=len(engine.asked), reason="it has no W_O."))
    state = session.state
    shown = reading(state.visible, state.selection, state.look, kind)
    assert shown is not None
    assert shown.note == "it has no W_O."
    assert not state.error
    session.do(runs.stop)  # of the next kind
    assert session.state.look.summary == "head"
    assert not session.state.busy


def test_a_recorded_run_without_its_model_has_no_measure(
    session: Session, engine: Engine
) -> None:
    session.do(runs.show_trace, TRACE)
    session.set(look=Look(summary="norms"))
    state = session.state
    assert engine.asked == []
    for kind in KINDS:
        shown = reading(state.visible, state.selection, state.look, kind)
        assert shown is not None
        assert "is not open" in shown.note


def test_gradients_are_signed_and_sit_at_the_steps_rows(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(TRACE.model))
    translated(session, engine)
    session.set(look=Look(summary="gradient"), kind="cross", step=3)
    values = np.linspace(-2, 1, 30, dtype=np.float32).reshape(5, 6)
    share = np.array([1, 0.5, 0.25, 0.75, 0], np.float32)
    made = Attribution(values=values, share=share)
    take(session, Done(number=len(engine.asked), value=made))
    state = session.state
    shown = attention_map(state.visible, state.selection, state.look, "cross")
    assert shown is not None
    assert shown.signed
    assert np.array_equal(shown.values, values[:3])
    assert shown.ends == ("−2", "2")
    assert "source share of this step 25%" in shown.done
