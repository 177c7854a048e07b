"""Sessions: several runs in one file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import visformer
from tests.general_traces import Shape, any_trace
from tests.traces import make_trace
from tests.unit.values.test_trace_file import assert_same
from tests.unit.values.vis_files import Blocks
from visformer import RunSelection, SavedRun, cli
from visformer.errors import CheckpointError, InputError
from visformer.trace_file.trace_file import write_session
from visformer.values.intervention import parse
from visformer.values.trace import Trace


def two_runs() -> tuple[Trace, Trace]:
    """Return a run, and the same sentence's modified run: the source's rows are one."""
    trace = make_trace(source=40, target=9)
    return trace, replace(trace.until(5), intervention=parse(["causal off"]))


def test_runs_come_back_with_all_that_is_said_of_them(tmp_path: Path) -> None:
    first, second = two_runs()
    other = any_trace(Shape(kinds=("decoder",)), captured=True)
    selection = RunSelection(kind="decoder", layer=1, head=1, step=3, tab="masks")
    modified = SavedRun(trace=second, name="modified", note="a note", parent=0)
    saved = [
        SavedRun(trace=first, name="baseline"),
        replace(modified, selection=selection),
        SavedRun(trace=other),
    ]
    visformer.save_session(tmp_path / "a.vis", saved, shown=1)
    session = visformer.open_session(tmp_path / "a.vis")
    assert session.names == ("baseline", "modified", "")
    assert (session.at, session.missing, session.version) == (1, "", (4, 0))
    assert (session.shown.note, session.shown.selection) == ("a note", selection)
    assert session.runs[2].selection is None
    assert [run.parent for run in session.runs] == [None, 0, None]
    for trace, run in zip(session.traces, saved, strict=True):
        assert_same(trace, run.trace)
    shown = visformer.open_trace(tmp_path / "a.vis")
    assert_same(shown, second)
    assert shown.intervention == second.intervention


@pytest.mark.parametrize("baseline", [None, 0, 1])
def test_the_run_that_others_are_compared_with_comes_back(
    tmp_path: Path, baseline: int | None
) -> None:
    runs = [SavedRun(trace=make_trace(seed=seed)) for seed in range(3)]
    write_session(runs, tmp_path / "a.vis", shown=2, baseline=baseline)
    session = visformer.open_session(tmp_path / "a.vis")
    assert (session.at, session.baseline) == (2, baseline)


def test_rows_that_runs_share_are_written_once(tmp_path: Path) -> None:
    runs = two_runs()
    visformer.save_session(tmp_path / "a.vis", runs)
    visformer.save_session(tmp_path / "b.vis", runs[:1])
    names = Blocks.of((tmp_path / "a.vis").read_bytes()).payloads
    assert not [name for name in names if name.startswith(("1/encoder", "1/memory"))]
    one, other = visformer.open_session(tmp_path / "a.vis").traces
    assert one.encoder_rows is other.encoder_rows
    assert one.memory_rows is other.memory_rows
    # and once more when a session that was read is saved
    visformer.save_session(tmp_path / "c.vis", (one, other))
    again = (tmp_path / "c.vis").read_bytes()
    assert again == (tmp_path / "a.vis").read_bytes()


def test_runs_may_share_the_encoder_and_not_what_is_made_of_it(tmp_path: Path) -> None:
    trace = make_trace(source=6, target=4)
    other = replace(trace, memory_rows=trace.memory_rows + 1)
    visformer.save_session(tmp_path / "a.vis", [trace, other])
    one, two = visformer.open_session(tmp_path / "a.vis").traces
    assert one.encoder_rows is two.encoder_rows
    assert_same(one, trace)
    assert_same(two, other)


def test_a_session_that_is_cut_keeps_the_runs_that_are_whole(tmp_path: Path) -> None:
    path, runs = tmp_path / "a.vis", [make_trace(seed=seed) for seed in range(3)]
    write_session([SavedRun(trace=run) for run in runs], path, shown=2)
    whole = path.read_bytes()
    kept = set()
    for size in range(0, len(whole), 50):
        path.write_bytes(whole[:size])
        try:
            session = visformer.open_session(path)
        except InputError:
            continue
        kept.add(len(session.runs))
        assert session.at in (0, 2)
        lengths = [len(trace) for trace in session.traces]
        assert bool(session.missing) == (lengths != [4, 4, 4])
        for trace, run in zip(session.traces, runs, strict=False):
            assert_same(trace, run.until(len(trace)))
    assert kept == {1, 2, 3}


def test_there_must_be_a_run_that_is_shown(tmp_path: Path) -> None:
    for runs, shown in (((), 0), ((make_trace(),), 1)):
        with pytest.raises(InputError, match=f"Run {shown} cannot be shown"):
            visformer.save_session(tmp_path / "a.vis", runs, shown=shown)
    alone = SavedRun(trace=make_trace(), parent=1)
    with pytest.raises(InputError, match="Run 1 cannot be shown, or be the parent"):
        visformer.save_session(tmp_path / "a.vis", [alone])


def test_inspect_describes_a_trace_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.vis"
    modified = two_runs()[1]
    visformer.save_session(path, [any_trace(captured=True), modified], shown=1)
    assert cli.main(["inspect", str(path), "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (report["problem"], report["version"], report["shown"]) == (None, "4.0", 2)
    assert report["bytes"] == path.stat().st_size
    first, second = report["runs"]
    assert first["attention"]["cross"] == {
        "layers": 2,
        "heads": 4,
        "key_heads": 2,
        "head_size": 3,
        "captured_layers": [1, 2],
    }
    assert (second["source_tokens"], second["target_tokens"]) == (40, 5)
    assert (second["text"], second["change"]) == (modified.text, "causal off")
    assert cli.main(["inspect", str(path)]) == 0
    assert "causal off" in capsys.readouterr().out
    blocks = Blocks.of(path.read_bytes())
    path.write_bytes(blocks.without("1/decoder/keys/0/0").whole())
    assert cli.main(["inspect", str(path)]) == 2
    assert "cut off or damaged" in capsys.readouterr().err
    path.write_bytes(path.read_bytes()[:30])
    assert cli.main(["inspect", str(path)]) == 2
    said = capsys.readouterr()
    assert "is missing" in said.err
    assert said.out == ""


def test_load_says_what_a_trace_file_is(tmp_path: Path) -> None:
    make_trace().save(tmp_path / "a.vis")
    (tmp_path / "a.vis").rename(tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match=r"model\.pt is a recorded trace, not a"):
        visformer.load(tmp_path / "model.pt")
