"""Openings, without a window: what is asked, what is done once a model is open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.general_traces import Shape, any_trace
from tests.opened import opened_model
from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace
from tests.unit.session.sessions import (
    HIDDEN,
    OPEN,
    OTHER,
    TRACE,
    Engine,
    answer,
    take,
    translated,
)
from visformer.core.decoding import Decoding
from visformer.engine.messages import Asked, Decode, Open, OpenProgressed, Refused
from visformer.engine.mirror import Decoded
from visformer.pictures.words.scene import telling_head
from visformer.session import openings, runs, side_requests, tree
from visformer.session.runs import fixed_words
from visformer.session.state import Next, Session
from visformer.values.facts import Description, ModelFacts
from visformer.values.intervention import NO_CHANGES
from visformer.values.questions import Questionnaire


def test_a_recorded_trace_of_the_model_is_taken_over(
    session: Session, engine: Engine
) -> None:
    session.do(runs.show_trace, TRACE)
    session.set(step=3)
    assert session.state.recorded
    assert session.state.model == TRACE.model
    state = take(session, opened_model(TRACE.model))
    assert engine.last.prefix == tuple(s.choice for s in TRACE.steps)
    assert state.about is state.opened
    half = take(session, Decoded(number=1, trace=TRACE.until(2), limit=9))
    assert half.recorded  # until the engine has come as far
    state = take(session, Decoded(number=1, trace=TRACE, limit=9))
    assert not state.recorded
    assert state.step == 3


def test_a_recorded_trace_of_another_model_keeps_its_name(
    session: Session, engine: Engine
) -> None:
    session.do(runs.show_trace, TRACE)
    state = take(session, opened_model(OTHER))
    assert engine.asked == []
    assert (state.model, state.about, state.positions) == (TRACE.model, None, None)
    session.do(runs.translate, "more")
    assert session.state.notice == (
        "Translated by “random”: “random”, which made the recorded run, is not open."
    )
    answer(session, engine, replace(TRACE, model=OTHER))
    assert session.state.model == OTHER
    assert session.state.positions is not None


@pytest.mark.parametrize("reference", ["", "other words"])
def test_the_sentence_of_a_recorded_trace_is_answered_by_no_other_model(
    reference: str, session: Session, engine: Engine
) -> None:
    trace = replace(TRACE, source_text="9 9 9")
    session.do(runs.show_trace, trace)
    take(session, opened_model(OTHER))
    session.do(runs.translate, "9 9 9", reference=reference)
    assert engine.asked == []
    assert "the model that made it is not open" in session.state.error
    assert session.state.trace is trace
    take(session, opened_model(TRACE.model))
    session.do(runs.translate, "9 9 9", reference=reference)
    assert (len(engine.asked) > 0, session.state.notice) == (True, "")


def test_a_recorded_trace_leaves_the_passes_of_another_run(
    session: Session, engine: Engine
) -> None:
    translated(session, engine)
    session.do(runs.change_run, OPEN)
    passes = tuple(TRACE.until(length) for length in range(4))
    take(session, Decoded(number=2, trace=passes[-1], limit=9, passes=passes))
    recorded = make_trace(source=4, target=3, seed=1)
    session.do(runs.show_trace, recorded)
    session.set(step=2)
    assert session.state.visible is not None
    assert session.state.visible.target == recorded.target[:2]
    assert session.state.visible.source == recorded.source


def test_a_recording_without_an_encoder_is_shown_and_not_run_again(
    session: Session, engine: Engine
) -> None:
    facts = Description.of(TRACE.model.config, ("decoder",))._asdict()
    alone = any_trace(Shape(kinds=("decoder",)))
    session.do(runs.show_trace, replace(alone, model=replace(TRACE.model, **facts)))
    assert (session.state.kind, session.state.step) == ("decoder", 4)
    state = take(session, opened_model(TRACE.model))
    assert engine.asked == []  # the engine would run the encoder too
    assert state.recorded
    assert "only part of the model ran" in fixed_words(state)


def test_a_recording_without_any_attention_is_refused(session: Session) -> None:
    session.do(runs.show_trace, any_trace(Shape(kinds=())))
    assert session.state.trace is None
    assert "no attention" in session.state.error


def test_what_was_asked_before_the_model_was_there_is_answered(
    session: Session, engine: Engine
) -> None:
    session.do(openings.open_checkpoint, "/m", given=())
    session.do(runs.translate, "one")
    state = take(session, opened_model(TRACE.model, path="/m"))
    assert [type(request) for request in engine.asked] == [Open, Decode]
    assert state.busy == "decoding"
    answer(session, engine)
    assert session.state.step == telling_head(TRACE).step


def test_reopening_runs_the_sentence_again_without_changes(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(TRACE.model))
    translated(session, engine)
    session.do(runs.change_run, HIDDEN)
    session.do(openings.open_checkpoint, "/model", "cpu", ())
    assert engine.last == Open(path="/model", device="cpu")
    state = take(session, opened_model(OTHER, number=3))
    assert engine.last == Decode(source="one two")
    assert state.intervention == NO_CHANGES
    assert state.history.undo == ()
    assert state.trace is not None  # until the new model's comes
    assert state.positions is None  # those of the new model are not its own
    assert state.model == TRACE.model
    changed = Decoded(number=2, trace=make_trace(target=1), limit=9)
    assert take(session, changed).trace is state.trace  # of the engine that is gone
    assert take(session, Refused(number=4, reason="no")).trace is None


def test_a_reference_is_fed_to_no_model_of_another_vocabulary(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(TRACE.model))
    session.do(runs.translate, "one two", reference="un deux")
    answer(session, engine)
    later = replace(TRACE.model, digest="later")  # in the same training
    take(session, opened_model(later, path="/later"))
    assert engine.last.reference == "un deux"
    answer(session, engine, replace(TRACE, model=later))
    config = replace(TRACE.model.config, target_vocabulary=7, shared_embedding=False)
    other = replace(OTHER, known=config)
    state = take(session, opened_model(other, path="/other"))
    assert (engine.last.source, engine.last.reference) == ("one two", "")
    assert (state.wish.reference, state.wish.fed) == ("un deux", False)
    answer(session, engine, replace(TRACE, model=other))
    session.do(runs.teach, fed=True)
    assert engine.last.reference == "un deux"


def test_a_sentence_that_the_new_model_cannot_read_is_left(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(TRACE.model))
    translated(session, engine)
    state = take(session, opened_model(OTHER, numbers=99))
    assert len(engine.asked) == 1
    assert state.trace is None
    assert state.wish.sentence == ""


def test_a_text_follows_its_opening_through_the_questions(
    session: Session, engine: Engine
) -> None:
    session.do(openings.open_checkpoint, "/m.pt", "cuda", then="abc")
    assert engine.last == Open(path="/m.pt", device="cuda", ask="open")
    form = Questionnaire(layout="l", sizes="s", introduction="i", questions=())
    state = take(session, Asked(number=1, path="/m.pt", form=form))
    assert state.asked is not None
    assert state.busy == ""
    session.do(openings.answer, {"heads": 2})
    overrides = (("heads", 2),)
    assert engine.last == Open(path="/m.pt", device="cuda", overrides=overrides)
    state = take(session, opened_model(TRACE.model, number=2, path="/m.pt"))
    assert state.asked is None
    assert engine.last == Decode(source="abc")
    assert state.answers.about("/m.pt") == overrides
    session.do(openings.open_checkpoint, "/m.pt", "cpu")
    assert engine.last == Open(path="/m.pt", device="cpu", overrides=overrides)
    take(session, Refused(number=4, reason="They no longer do."))
    assert engine.last == Open(path="/m.pt", device="cpu", ask="open")
    assert session.state.error == ""
    state = take(session, Refused(number=5, reason="It is gone."))
    assert state.error == "It is gone."


def test_a_sentence_that_waits_for_a_model_outlasts_questions_and_refusals(
    session: Session, engine: Engine
) -> None:
    session.do(runs.show_trace, TRACE)
    session.do(openings.open_checkpoint, "/m.pt")
    session.do(runs.translate, "typed")
    form = Questionnaire(layout="l", sizes="s", introduction="i", questions=())
    take(session, Asked(number=1, path="/m.pt", form=form))
    assert take(session, Refused(number=2, reason="No model is open.")).error == ""
    session.do(openings.answer, {"heads": 2})
    take(session, opened_model(OTHER, number=3, path="/m.pt"))
    assert engine.last == Decode(source="typed")


def test_a_sentence_that_waited_in_vain_hides_no_reason(session: Session) -> None:
    session.do(runs.show_trace, TRACE)
    session.do(openings.open_checkpoint, "/m", given=())
    session.do(runs.translate, "typed")
    take(session, Refused(number=1, reason="It is broken."))
    state = take(session, Refused(number=2, reason="No model is open."))
    assert state.error == "It is broken."
    assert not state.awaiting.decoding


def test_it_is_said_how_far_an_opening_is(session: Session, engine: Engine) -> None:
    session.do(openings.open_checkpoint, "/m/big", given=())
    told = OpenProgressed(number=1, seconds=12)
    assert take(session, told).busy == "opening big: 12 s"
    told = replace(told, read=3_400_000, size=1_200_000_000)
    assert take(session, told).busy == "opening big: 12 s, 3.4 MB of 1.2 GB read"
    take(session, opened_model(TRACE.model))
    assert take(session, told).busy == ""  # too late
    session.do(openings.open_checkpoint, "/m/other", given=())
    session.do(runs.translate, "one")  # by the model that is open
    assert take(session, replace(told, number=2)).busy == "decoding"
    answer(session, engine)
    assert take(session, replace(told, number=2, size=0)).busy == "opening other: 12 s"


def test_the_open_model_is_asked_about_and_opened_anew_on_its_device(
    session: Session, engine: Engine
) -> None:
    on_gpu = replace(TRACE.model, device="cuda:1")
    take(session, opened_model(on_gpu, path="/m.pt"))
    session.do(openings.ask_again)
    assert engine.last == Open(path="/m.pt", device="cuda:1", ask="always")
    session.do(openings.open_with, {"heads": 2})
    overrides = (("heads", 2),)
    assert engine.last == Open(path="/m.pt", device="cuda:1", overrides=overrides)


def test_a_cancelled_opening_leaves_the_open_model(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(TRACE.model))
    session.do(openings.open_checkpoint, "/other")
    session.do(openings.cancel)
    state = take(session, Refused(number=1, reason="late"))
    assert (state.error, state.busy, state.opening) == ("", "", None)
    assert state.opened is not None
    assert state.opened.path == "/model"


def test_nothing_is_asked_again_where_nothing_is_open(session: Session) -> None:
    for transition in (openings.ask_again, tree.undo, side_requests.shuffle):
        assert transition(session.state) == Next(session.state)
    assert openings.open_with(session.state, {"heads": 2}).requests == ()
    assert openings.answer(session.state, {}).requests == ()


def test_what_went_wrong_is_still_said_when_a_model_is_open(
    session: Session, engine: Engine
) -> None:
    """``visformer broken.vis`` opens the bundled model too, unasked."""
    session.do(openings.open_checkpoint, "/m", given=())
    session.set(error="broken.vis is damaged.")
    assert take(session, opened_model(TRACE.model, path="/m")).error == (
        "broken.vis is damaged."
    )
    session.do(runs.translate, "one")  # the user has gone on
    assert session.state.error == ""


@pytest.mark.parametrize("model", [TRACE.model, OTHER])
def test_a_damaged_recording_is_told_until_the_user_goes_on(
    session: Session, engine: Engine, model: ModelFacts
) -> None:
    session.do(openings.open_checkpoint, "/m", given=())
    words = "half.vis is cut off: 5 of 9 target tokens could be read."
    session.do(runs.show_trace, replace(TRACE, missing=words))
    state = take(session, opened_model(model, path="/m"))
    assert state.notice == words
    session.do(runs.translate, "one")
    assert words not in session.state.notice


@pytest.mark.parametrize(
    ("change", "changes"),
    [("", False), ("causal off", True), ("causal +1", True), ("hide 2", False)],
)
def test_a_recording_whose_steps_had_rows_of_their_own_says_whose_it_has(
    session: Session, change: str, changes: bool
) -> None:
    checkpoint = tiny_checkpoint()
    decoding = Decoding(checkpoint, "abcd", limit=5, intervention=change or None)
    trace, last = decoding.finish(), len(decoding.trace)
    ways = [decoding.back(1) for _step in range(1, last)]  # as the live window has them
    apart = [
        one.decoder_rows.tobytes() != trace.until(len(one)).decoder_rows.tobytes()
        for one in ways
    ]
    assert any(apart) == changes
    session.do(runs.show_trace, trace)
    assert ("its file has those of the last step, 5" in session.state.notice) == changes
    assert take(session, opened_model(OTHER)).notice.startswith("Each step") == changes


def test_a_damaged_recording_is_not_told_again(session: Session) -> None:
    session.do(runs.show_trace, replace(TRACE, missing="half.vis is cut off."))
    session.set(notice="")  # the user has read it
    assert take(session, opened_model(OTHER)).notice == ""


def test_nothing_is_being_opened_after_a_refusal(session: Session) -> None:
    session.do(openings.open_checkpoint, "/m", given=())
    state = take(session, Refused(number=1, reason="It is broken."))
    assert (state.opening, state.busy, state.error) == (None, "", "It is broken.")


def test_a_path_is_opened_as_it_is_and_shown_without_orders(
    session: Session, engine: Engine
) -> None:
    path = "/a\x1b/b\x1b[2J\u202e"
    session.do(openings.open_checkpoint, path, "cpu")
    assert engine.last.path == path
    assert session.state.busy == "opening b[U+001B][2J[U+202E]"
