"""What one engine process answers to one request after another."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.system.engine.listener import Listener, decoded, request
from visformer.core.decoding import Decoding
from visformer.core.importance import importance
from visformer.core.scanning import scan
from visformer.core.search import exhausted
from visformer.core.side_runs import layer_parameters
from visformer.engine.handle import Engine
from visformer.engine.messages import (
    CheckRun,
    Decode,
    Done,
    Effect,
    Event,
    Finished,
    Lens,
    MeasureHeads,
    Open,
    Opened,
    Parameters,
    Portion,
    Progressed,
    Refused,
    RunSeries,
    ScanPairs,
    SearchBeams,
    SwitchOff,
    SwitchOffOverPairs,
)
from visformer.engine.mirror import Decoded
from visformer.formats.loading import load
from visformer.session.run import asked_of
from visformer.values.heads_of_pairs import HeadsOfPairs
from visformer.values.intervention import parse
from visformer.values.measured import Importance, SeriesPoint
from visformer.values.scanned import ScannedPart
from visformer.values.step import Choice, Strategy


@pytest.fixture(scope="module")
def started(folder: Path) -> Iterator[tuple[Engine, Listener]]:
    """Start an engine and open a model in it."""
    listener = Listener()
    handle = Engine(listener)
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    yield handle, listener
    handle.close()


@pytest.fixture
def working(started: tuple[Engine, Listener]) -> tuple[Engine, Listener]:
    """Return that engine once all that tests before have asked is answered."""
    handle, listener = started
    decoded(listener, handle.ask(request("a")))
    listener.events.clear()
    return started


def test_a_bad_file_leaves_the_open_model_alone(
    working: tuple[Engine, Listener], tmp_path: Path
) -> None:
    handle, listener = working
    handle.open(Open(path=str(tmp_path)))
    refused = listener.wait_for(Refused)
    assert isinstance(refused, Refused)
    assert "no config.json" in refused.reason
    number = handle.ask(request("ab"))
    assert decoded(listener, number).trace.source[:2] == ("a", "b")


def test_the_newest_request_wins(
    working: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = working
    numbers = [handle.ask(request("ab" * (i % 9 + 1))) for i in range(60)]
    last = decoded(listener, numbers[-1])
    assert last.trace.source_text == "ab" * (59 % 9 + 1)
    assert not listener.events


def test_weights_disturb_no_decode_and_no_decode_them(
    working: tuple[Engine, Listener], folder: Path
) -> None:
    """Asked for before, amid and after decodes, all are answered, with their layer."""
    handle, listener = working
    number = handle.ask(request("abcdef", limit=60))
    for layer in (0, 1, 0, 1):
        asked = handle.ask(Parameters(stack="decoder", layer=layer))
    rows: list[Decoded] = []
    done: list[Done] = []

    def finished(event: Event) -> bool:
        if isinstance(event, Done):
            done.append(event)
        elif isinstance(event, Decoded):
            rows.append(event)
        return isinstance(event, Finished) and event.number == number

    listener.wait(finished)
    while not done or done[-1].number != asked:
        event = listener.wait_for(Done)
        assert isinstance(event, Done)
        done.append(event)
    whole = Decoding(load(folder), "abcdef", limit=60).finish()
    assert rows[-1].trace.target == whole.target
    made = done[-1].value
    assert made is not None
    assert (made.stack, made.layer) == ("decoder", 1)
    expected = layer_parameters(load(folder), "decoder", 1)
    weight = made.feed_forward.w2.weight
    assert (weight == expected.feed_forward.w2.weight).all()
    assert made.belong_to(rows[-1].trace.model)

    handle.ask(Parameters(stack="encoder", layer=9))
    none = listener.wait_for(Done)
    assert isinstance(none, Done)
    assert none.value is None


def test_a_lens_disturbs_no_decode_and_no_decode_it(
    working: tuple[Engine, Listener], folder: Path
) -> None:
    """Asked amid a decode and after it; rows of another model get none."""
    handle, listener = working
    checkpoint = load(folder)
    whole = Decoding(checkpoint, "abcdef", limit=60).finish()
    chosen = whole.target_ids[1:3]
    number = handle.ask(request("abcdef", limit=60))
    handle.ask(Lens(hidden=whole.streams([0, 1]), chosen=chosen, temperature=1.0))
    seen = listener.gather(Finished, Done)
    rows = [event for event in seen if isinstance(event, Decoded)]
    last = max(rows, key=lambda event: len(event.trace))
    assert last.number == number
    assert last.trace.target == whole.target
    done = next(event for event in seen if isinstance(event, Done))
    expected = whole.lens([0, 1])
    assert [look.tokens for look in done.value] == [look.tokens for look in expected]
    np.testing.assert_allclose(done.value[1].logits, expected[1].logits, atol=2e-5)
    assert done.value[0].chosen_ranks[-1] == whole.steps[0].rank

    odd = np.zeros((1, 9, 4), np.float32)
    handle.ask(Lens(hidden=odd, chosen=np.array([0]), temperature=1.0))
    none = listener.wait_for(Done)
    assert isinstance(none, Done)
    assert none.value == ()


def test_each_pass_of_an_altered_run_is_kept(
    working: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = working
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
    working: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = working
    made = parse(["multiply"])
    handle.ask(Decode(source="abc", reference="dd", intervention=made))
    event = listener.wait(lambda e: isinstance(e, Decoded) and len(e.trace) == 3)
    assert isinstance(event, Decoded)
    assert [len(trace) for trace in event.passes] == [0, 1, 2, 3]
    assert [step.token for step in event.trace.steps[:2]] == ["d", "d"]


def test_a_search_by_beams_and_a_run_along_its_best_hypothesis(
    working: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = working
    prefix = (Choice(5, "forced"),)
    handle.ask(SearchBeams(source="abc", beams=3, limit=6, prefix=prefix))
    event = listener.wait_for(Done, Refused)
    assert isinstance(event, Done)
    way = Strategy("beam", beams=3)
    decoding = Decoding(load(folder), "abc", limit=6, strategy=way)
    decoding.follow(prefix)
    own = decoding.finish()
    assert decoding.search is not None
    assert event.value.given == decoding.search.given
    assert event.value.finished == decoding.search.finished
    np.testing.assert_array_equal(event.value.ids, decoding.search.ids)
    best = event.value.ranked()[0]
    at = event.value.finished.index(best)
    assert own.text.endswith(event.value.texts[at])
    handle.ask(Decode(source="abc", limit=6, prefix=prefix, strategy=way))
    events = listener.gather(Portion, Finished)
    (told,) = [one for one in events if isinstance(one, Portion)]
    last = [one for one in events if isinstance(one, Decoded)][-1].trace
    assert told.value.best == event.value.best
    assert last.text == own.text
    origins = [step.origin for step in last.steps]
    assert origins == ["forced", *["beam"] * len(event.value.best)]
    ended = tuple(step.choice for step in last.steps)
    handle.ask(SearchBeams(source="abc", beams=3, limit=len(ended), prefix=ended))
    refused = listener.wait_for(Done, Refused)
    assert isinstance(refused, Refused)
    assert refused.reason == "Nothing follows the tokens that were chosen already."


def test_a_long_search_says_how_far_it_is_and_can_be_stopped(
    working: tuple[Engine, Listener],
) -> None:
    handle, listener = working
    handle.ask(SearchBeams(source="abcdefgh" * 7, beams=1000))
    progress = listener.wait_for(Progressed, Done, Refused)
    assert isinstance(progress, Progressed)
    assert progress.part == "steps at most"
    number = handle.ask(request("a"))
    event = listener.wait_for(Done, Finished)
    assert isinstance(event, Finished)
    assert event.number == number


def test_a_series_is_run_and_leaves_the_open_model(
    working: tuple[Engine, Listener], folder: Path, tmp_path: Path
) -> None:
    handle, listener = working
    shutil.copytree(folder, tmp_path / "step-20")
    (tmp_path / "step-3").mkdir()  # holds no model
    handle.ask(RunSeries(folder=str(tmp_path), source="ab", reference="ba"))
    answers = [listener.wait_for(Portion) for _point in range(3)]
    left_out, made, end = (one.value for one in answers if isinstance(one, Portion))
    assert "step-3" in left_out
    point, _trace = made
    assert isinstance(point, SeriesPoint)
    fed = Decoding(load(folder), "ab").feed("ba")
    assert point.loss == pytest.approx(np.mean([step.loss for step in fed.steps]))
    assert end is None
    assert [type(one) for one in answers] == [Portion, Portion, Done]
    number = handle.ask(request("ab"))
    assert decoded(listener, number).trace.source[:2] == ("a", "b")


def test_a_file_of_pairs_is_scanned_as_python_scans_it(
    working: tuple[Engine, Listener], folder: Path, tmp_path: Path
) -> None:
    handle, listener = working
    path = tmp_path / "pairs.tsv"
    path.write_text("ab\tba\nno pair\nabc\tcba\n", "utf-8")
    handle.ask(ScanPairs(path=str(path)))
    answers: list[ScannedPart] = []
    while not answers or answers[-1].usual is None:
        answer = listener.wait_for(Portion)
        assert isinstance(answer, Portion)
        answers.append(answer.value)
    pairs = [pair for one in answers for pair in one.pairs]
    wanted = scan(load(folder), path, translations=False)
    assert sorted(pairs, key=lambda pair: pair.line) == wanted
    (told,) = (told for one in answers for told in one.left_out)
    assert told.startswith("Line 2 of pairs.tsv is not a pair")
    handle.ask(ScanPairs(path=str(tmp_path / "nowhere.tsv")))
    refused = listener.wait_for(Refused)
    assert isinstance(refused, Refused)
    assert "nowhere.tsv cannot be read" in refused.reason
    number = handle.ask(request("ab"))  # the model is still open
    assert decoded(listener, number).trace.source[:2] == ("a", "b")


def test_heads_are_measured_over_a_file(
    working: tuple[Engine, Listener], tmp_path: Path
) -> None:
    handle, listener = working
    path = tmp_path / "pairs.tsv"
    path.write_text("ab\tba\nno pair\nabc\tcba\n", "utf-8")
    handle.ask(MeasureHeads(path=str(path)))
    found = HeadsOfPairs(path="", model="")
    while True:
        answer = listener.wait_for(Portion)
        assert isinstance(answer, Portion)
        if isinstance(answer, Done):
            break
        found = found.plus(answer.value)
    assert [pair.line for part in found.parts for pair in part.pairs] == [1, 3]
    assert [one[:21] for one in found.left_out] == ["Line 2 of pairs.tsv i"]
    assert np.isfinite(found.mean("confidence", "cross")).all()


def test_the_effect_of_a_change_is_what_a_decoding_tells(
    working: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = working
    change = parse(["head cross off @ L1H1"])
    own = Decoding(load(folder), "abc", limit=9, intervention=change)
    trace = own.step(3)
    asked = Effect(
        source=tuple(trace.source_ids.tolist()),
        chosen=tuple(step.choice for step in trace.steps),
        step=1,
        fed=False,
        intervention=change,
    )
    handle.ask(asked)
    done = listener.wait_for(Done)
    assert isinstance(done, Done)
    assert [*done.value] == [0, 1, 2]
    assert done.value[2] == own.change_report()
    assert all(one.independent == one.equal > 0 for one in done.value.values())
    listener.events.clear()
    handle.ask(replace(asked, source=(10**6,)))
    done = listener.wait_for(Done)
    assert isinstance(done, Done)
    assert done.value is None


def test_a_run_is_checked_with_its_change(
    working: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = working
    trace = Decoding(load(folder), "abcd", intervention="causal off").step(3)
    handle.ask(CheckRun(**asked_of(replace(trace, source_text="abcd"))))
    made = listener.wait_for(Done)
    assert isinstance(made, Done)
    faults = [one for one in made.value if one.verdict == "fault"]
    assert [one.id for one in faults] == ["not-causal"]
    assert faults[0].at is not None
    assert faults[0].at.kind == "decoder"


def test_heads_are_switched_off_in_turn(
    working: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = working
    decoding = Decoding(load(folder), "ab")
    trace = decoding.feed("ba")
    handle.ask(SwitchOff(**asked_of(replace(trace, source_text="ab"))))
    made = listener.wait_for(Done)
    assert isinstance(made, Done)
    expected = exhausted(importance(decoding.checkpoint, decoding.known))
    assert isinstance(made.value, Importance)
    for kind, changes in expected.heads.items():
        assert (made.value.heads[kind] == changes).all()
    handle.ask(SwitchOffOverPairs(path=str(folder / "none.tsv")))
    refused = listener.wait_for(Refused)
    assert isinstance(refused, Refused)
    assert "none.tsv" in refused.reason
