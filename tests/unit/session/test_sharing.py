"""What leaves the window makes the same run again: files, commands, Python."""

from __future__ import annotations

import io
import itertools
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visformer
from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_model
from tests.unit.session.sessions import HIDDEN, TRACE, Engine, answer, translated
from visformer import Strategy, cli, offscreen
from visformer.core.decoding import Decoding
from visformer.errors import InputError
from visformer.session import runs, sharing, tree
from visformer.session.run import Run, Wish
from visformer.session.state import Next, Session, State
from visformer.trace_file.trace_file import write_session
from visformer.values.intervention import parse
from visformer.values.questions import options_of
from visformer.values.step import Choice
from visformer.values.trace import Trace

WISHES = {
    "as it is": Wish(sentence="hello"),
    "changed": Wish(sentence="don't"),
    "fed": Wish(sentence="hello", reference="hallo"),
    "forced": Wish(sentence="hello", prefix=(Choice(7, "model"), Choice(9, "forced"))),
    "searched": Wish(sentence="hello", strategy=Strategy("beam", beams=3)),
    "drawn": Wish(sentence="hello", strategy=Strategy("sample", seed=3), limit=9),
}
CHANGE = parse(["hide 2; head cross off @ L2H1"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tiny_model(tied_output=False)
    return write_letters(tmp_path_factory.mktemp("letters"), model)


def made(folder: Path, name: str) -> tuple[State, Trace]:
    """Return a State with a run, as the engine makes it."""
    wish, change = WISHES[name], CHANGE if name == "changed" else parse([])
    model = visformer.load(folder)
    if name == "forced":  # the first choice is to be the model's own
        first = Decoding(model, wish.sentence).step().steps[0].choice
        wish = replace(wish, prefix=(first, wish.prefix[1]))
    request = wish.request(change)
    decoding = Decoding(
        model,
        request.source,
        strategy=request.strategy,
        limit=request.limit,
        intervention=request.intervention,
    )
    if request.reference:
        trace = decoding.feed(request.reference)
    else:
        decoding.follow(request.prefix)
        trace = decoding.finish()
    run = Run(trace=trace, wish=wish, change=change, path=str(folder), name="run 1")
    state = State(runs=(run,), shown=run.key, wish=wish, intervention=change)
    return replace(state, step=2, tab="attention", kind="cross"), trace


def assert_same(one: Trace, other: Trace) -> None:
    assert one.text == other.text
    assert one.intervention == other.intervention
    assert [step.choice[:2] for step in one.steps] == [
        step.choice[:2] for step in other.steps
    ]
    for kind in one.kinds:
        np.testing.assert_allclose(
            one.attention(kind), other.attention(kind), rtol=0, atol=2e-5
        )


@pytest.mark.parametrize("name", WISHES)
def test_python_makes_the_run_again(folder: Path, name: str) -> None:
    state, trace = made(folder, name)
    known: dict[str, Any] = {}
    exec(sharing.as_python(state, state.shown), known)
    assert_same(known["trace"], trace)


@pytest.mark.parametrize("name", ["as it is", "changed", "fed", "forced"])
def test_a_command_makes_the_run_again(
    folder: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, trace = made(folder, name)
    words = shlex.split(sharing.as_command(state, state.shown))
    assert words[:2] == ["visformer", "render"]
    seen: list[State] = []
    telling = runs.look_at_telling_head

    def look(state: State) -> Next:
        seen.append(state)
        return telling(state)

    monkeypatch.setattr(offscreen, "look_at_telling_head", look)
    monkeypatch.chdir(tmp_path)
    assert cli.main(words[1:]) == 0
    assert (tmp_path / "run.png").is_file()
    (drawn,) = seen
    assert drawn.trace is not None
    assert_same(drawn.trace, trace)


def test_a_searched_run_is_a_translation(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state, trace = made(folder, "searched")
    said, _bar, command = sharing.as_command(state, state.shown).partition(" | ")
    (_echo, sentence), words = shlex.split(said), shlex.split(command)
    assert words[:2] == ["visformer", "translate"]
    lines = io.TextIOWrapper(io.BytesIO(f"{sentence}\n".encode()))
    monkeypatch.setattr("sys.stdin", lines)
    assert cli.main(words[1:]) == 0
    (best,) = json.loads(capsys.readouterr().out)["hypotheses"]
    assert (best["text"], best["tokens"]) == (
        trace.text,
        [s.token for s in trace.steps],
    )


def test_no_command_draws_tokens(folder: Path) -> None:
    state, _trace = made(folder, "drawn")
    with pytest.raises(InputError, match="Copy it as Python"):
        sharing.as_command(state, state.shown)


CONTROLS = [*map(chr, (*range(0x20), *range(0x7F, 0xA0)))]


def test_no_command_holds_a_control_character(folder: Path) -> None:
    """A terminal obeys what is pasted, also between quotes: ^C ends them."""
    ways = Strategy(), Strategy("beam", beams=3)
    for character, way in itertools.product(CONTROLS, ways):
        text = f"hello{character}\ntouch PWN\n"
        for wish, path in (
            (Wish(sentence=text, strategy=way), str(folder)),
            (Wish(sentence="hello", reference=text), str(folder)),
            (Wish(sentence="hello", strategy=way), f"{folder}{character}"),
        ):
            run = Run(trace=TRACE, wish=wish, path=path)
            state = State(runs=(run,), shown=run.key, wish=wish)
            with pytest.raises(InputError, match=r"control character\. Copy it as Py"):
                sharing.as_command(state, run.key)
            assert set(sharing.as_python(state, run.key)) & {*CONTROLS} == {"\n"}


def test_a_run_of_a_file_is_not_copied() -> None:
    run = Run(trace=TRACE, origin="recorded")
    state = State(runs=(run,), shown=run.key)
    for copied in (sharing.as_command, sharing.as_python):
        with pytest.raises(InputError, match="Nothing can be copied"):
            copied(state, run.key)


def test_a_checkpoint_is_opened_as_it_was() -> None:
    overrides = (
        ("heads", 4),
        ("other", "decoder.pt"),
        ("tokenizer", "a.model"),
        ("target_tokenizer", "b.model"),
        ("names.output", "head.weight"),
        ("rename.^enc", "encoder"),
        ("ignore.^lm", True),
        ("guessed.heads", True),
        ("norm_first", True),
        ("position_axis", "batch"),
    )
    words = options_of("encoder.pt", overrides)
    given = cli.command_parser("render").parse_args(
        [*words, "--text", "a", "-o", "a.png"]
    )
    from visformer.commands.load_options import overrides as read

    assert given.checkpoint == ["encoder.pt", "decoder.pt"]
    left = [pair for pair in overrides if not pair[0].startswith("guessed")]
    assert sorted(read(given)) == sorted(left)


def grown(session: Session, engine: Engine) -> list[int]:
    translated(session, engine)
    session.do(runs.change_run, HIDDEN)
    answer(session, engine, replace(TRACE, intervention=HIDDEN))
    session.do(runs.force, 7)
    answer(session, engine, replace(TRACE, intervention=HIDDEN))
    return [run.key for run in session.state.tree]


def test_runs_are_saved_together_with_their_parents(
    session: Session, engine: Engine, tmp_path: Path
) -> None:
    first, _second, third = grown(session, engine)
    session.do(tree.rename, first, "the original")
    write_session(sharing.saved(session.state, [third, first]), tmp_path / "a.vis")
    found = visformer.open_session(tmp_path / "a.vis")
    assert found.names == ("the original", "run 3")
    assert [run.parent for run in found.runs] == [None, 0]
    session.set(
        runs=tuple(
            run.let_go() if run.key == first else run for run in session.state.runs
        )
    )
    with pytest.raises(InputError, match="“the original” are no longer kept"):
        sharing.saved(session.state, [first])


def test_json_says_all_that_is_known(session: Session, engine: Engine) -> None:
    first, second, _third = grown(session, engine)
    listed = json.loads(sharing.runs_json(session.state, [first, second]))
    assert [one["name"] for one in listed] == ["run 1", "run 2"]
    assert [one["parent"] for one in listed] == [None, "run 1"]
    assert [one["change"] for one in listed] == ["", "hide 3"]
    (step, *_steps) = listed[0]["steps"]
    assert step["logprob"] == pytest.approx(-TRACE.steps[0].loss)
    assert step["id"] == TRACE.steps[0].id
    mean = -sum(one.loss for one in TRACE.steps) / len(TRACE)
    assert listed[1]["mean_logprob"] == pytest.approx(mean)
