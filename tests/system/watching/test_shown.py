"""What was watched in the window, in files and in About; weights one already has."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from io import StringIO
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visformer
from tests.system.watching.faulty_models import built
from visformer import app
from visformer.trace_file.saved_session import SavedRun, SavedSession
from visformer.trace_file.trace_file import describe_file
from visformer.ui.window import session_files

SECONDS = 15
SRC, TGT = torch.randint(1, 24, (2, 7)), torch.randint(1, 24, (2, 5))


class Given(StringIO):
    """The pipe to a process, which reads all of it when it is closed."""

    def __init__(self, take: Callable[[str], None]) -> None:
        super().__init__()
        self._take = take

    def close(self) -> None:
        if not self.closed:
            self._take(self.getvalue())
        super().close()


class Asked:
    """Instead of the window's process: reads the session that it is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sessions: list[Any] = []
        self.waited: list[bool] = []
        self.files: list[Path] = []
        self.ended = threading.Event()
        monkeypatch.setattr(subprocess, "Popen", self.start)

    def start(
        self, command: list[str], *, start_new_session: bool, **_pipe: Any
    ) -> Any:
        """Be the process: Ctrl+C in the script must not reach it."""
        assert start_new_session
        assert command[:3] == [sys.executable, "-P", "-c"]
        assert "from visformer.app import run_handed" in command[3]
        self.stdin = Given(self.take)
        return self

    def take(self, given: str) -> None:
        """Read the file that is named."""
        (path,) = json.loads(given)["arguments"]
        session = visformer.open_session(path)
        weights = [trace.attention("cross", 0) for trace in session.traces]
        self.sessions.append((session, weights))
        self.files.append(Path(path))

    def wait(self) -> int:
        self.waited.append(threading.current_thread() is threading.main_thread())
        self.ended.wait(SECONDS)
        return 0


def test_what_was_watched_is_shown_by_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(monkeypatch)
    watched = visformer.watch(built("not-causal"), pad=0)(SRC, TGT)
    assert visformer.show(watched, block=False) == 0  # returns at once
    asked.ended.set()
    assert visformer.show(watched) == 0
    assert sorted(asked.waited) == [False, True]
    for session, weights in asked.sessions:
        assert len(session.runs) == 2
        cross = [one for one in watched.attentions if one.kind == "cross"]
        assert np.allclose(weights[1], cross[0].weights[1], atol=2e-5)
        certificate = session.traces[0].certificate
        assert certificate == watched.certificate
        assert [finding.id for finding in certificate.findings] == ["not-causal"]


def test_nothing_is_left_in_the_folder_of_temporary_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not when the window has ended, however it did, nor when it does not begin."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    asked = Asked(monkeypatch)
    watched = visformer.watch(built("healthy"), pad=0)(SRC, TGT)
    asked.ended.set()
    visformer.show(watched)
    assert not asked.files[0].parent.exists()
    monkeypatch.setattr(subprocess, "Popen", lambda *_it, **_more: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        visformer.show(watched)
    assert list(tmp_path.iterdir()) == []


def test_the_window_removes_the_file_that_it_is_handed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program that wrote it may have ended long before."""
    path = tmp_path / "folder" / "watched.vis"
    path.parent.mkdir()
    watched = visformer.watch(built("healthy"), pad=0)(SRC, TGT)
    visformer.save_session(path, watched.traces)
    given: list[Any] = []
    monkeypatch.setattr(app, "run", lambda path, handed: given.append((path, handed)))
    app.run_handed(str(path))
    assert list(tmp_path.iterdir()) == []
    ((name, session),) = given
    assert name is None
    cross = session.traces[1].attention("cross", 1)  # read after it is gone
    assert np.allclose(cross, watched.traces[1].attention("cross", 1))


def test_what_is_handed_is_in_no_file(qtbot: Any, monkeypatch: Any) -> None:
    """Ctrl+S asks where, and does not write to a file that is gone."""
    watched = visformer.watch(built("healthy"), pad=0)(SRC, TGT)
    runs = tuple(SavedRun(trace=trace) for trace in watched.traces)
    near, _far = Pipe()  # no engine is needed
    program = app.App(["visformer"], served=near)
    program.window.show()
    program.start(handed=SavedSession(runs=runs))
    shown = program.window.session.state.trace
    assert shown is not None
    assert shown.whole.model.name == "Healthy"
    asked: list[str] = []
    monkeypatch.setattr(
        session_files, "ask_where", lambda _window, _title, near: asked.append(near)
    )
    program.window.files.save()
    assert asked == ["session.vis"]
    program.close()


def test_a_file_says_what_the_certificate_says(tmp_path: Path) -> None:
    watched = visformer.watch(built("not-causal"), pad=0)(SRC, TGT)
    watched.traces[0].save(tmp_path / "x.vis")
    (run,) = describe_file(tmp_path / "x.vis")["runs"]
    assert run["certificate"]["passed"]
    assert run["certificate"]["sentence"] == watched.certificate.sentence
    assert "which comes after it" in run["certificate"]["findings"][0]


def test_where_nothing_was_found_it_says_so() -> None:
    watched = visformer.watch(torch.nn.Linear(4, 4))(torch.randn(2, 4))
    with pytest.raises(visformer.InputError, match="No attention was found"):
        visformer.show(watched)
    assert watched.certificate.missed[0].startswith(
        "No attention was found: no softmax"
    )


def test_weights_one_already_has_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    asked.ended.set()
    cross = torch.rand(2, 4, 3, 5).softmax(-1)
    decoder = np.tril(np.ones((2, 4, 3, 3))) / np.arange(1, 4)[:, None]
    visformer.show(
        attentions={"cross": [cross], "decoder": [decoder, decoder]},
        source_tokens=list("abcde"),
    )
    ((session, weights),) = asked.sessions
    assert np.array_equal(weights[1], cross[1])
    trace = session.traces[0]
    assert (trace.source, trace.target) == (tuple("abcde"), ("1", "2", "3"))
    assert trace.layers("decoder") == 2
    assert trace.mask("decoder", 0).tolist() == np.tri(3, dtype=bool).tolist()
    assert trace.is_captured("cross", 0)


@pytest.mark.parametrize(
    ("attentions", "tokens", "words"),
    [
        ({}, None, "attentions"),
        ({"self": [np.ones((1, 2, 2))]}, None, "one of encoder, decoder, cross"),
        ({"cross": [np.ones((2, 2))]}, None, "batch, heads, queries, keys"),
        ({"cross": [np.ones((1, 2, 2)), np.ones((1, 2, 3))]}, None, "of one shape"),
        ({"cross": [np.ones((1, 2, 2))]}, ["a"], "2 tokens"),
        (
            {"cross": [np.ones((1, 2, 2))], "encoder": [np.ones((1, 3, 3))]},
            None,
            "source tokens",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    attentions: Any, tokens: list[str] | None, words: str
) -> None:
    with pytest.raises((TypeError, visformer.InputError), match=words):
        visformer.show(attentions=attentions, source_tokens=tokens)


def test_without_a_screen_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    if sys.platform in ("win32", "darwin"):
        pytest.skip("there is always a screen")
    with pytest.raises(visformer.InputError, match="There is no screen here"):
        visformer.show(attentions={"cross": [np.ones((1, 2, 2))]})
