"""Saving from the window's menus: names without a suffix, and full disks."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from tests.window.windows import Pair
from visformer.errors import InputError
from visformer.session import runs
from visformer.trace_file.trace_file import read_session
from visformer.ui.widgets.export import ask_where
from visformer.ui.window import actions


def answering(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))


def test_a_name_without_a_suffix_gets_it(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _engine = pair
    window.session.do(runs.show_trace, make_trace())
    answering(monkeypatch, tmp_path / "work")
    actions._save_trace(window)
    assert len(read_session(tmp_path / "work.vis").runs) == 1
    assert window.session.state.error == ""
    actions._save_trace(window)  # the dialog did not ask about this one
    assert "work.vis exists: type the whole name" in window.session.state.error


def test_what_was_chosen_is_taken(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chosen in ("", str(tmp_path / "a.png"), str(tmp_path / "a.other")):
        monkeypatch.setattr(
            QFileDialog, "getSaveFileName", lambda *_, name=chosen: (name, "")
        )
        assert ask_where(pair[0], "Save", "window.png") == chosen
    (tmp_path / "b.png").touch()
    answering(monkeypatch, tmp_path / "b")
    with pytest.raises(InputError, match=r"b\.png exists"):
        ask_where(pair[0], "Save", "window.png")


def test_a_web_page_is_written_beside_the_window(
    pair: Pair, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, path = pair[0], tmp_path / "run.html"
    actions._save_page(window, window.files)
    assert "nothing to save yet" in window.session.state.error
    window.session.do(runs.show_trace, make_trace())
    window.session.set(kind="decoder", layer=1, head=0, step=2, error="")
    answering(monkeypatch, path)
    actions._save_page(window, window.files)
    qtbot.waitUntil(lambda: "run.html" in window.session.state.notice)
    at = r'"start":.."kind":"decoder","layer":1,"head":0,"form":"map","scale":"fixed"'
    assert re.search(at.replace("..", r"\{") + ',"step":2', path.read_text("utf-8"))
    answering(monkeypatch, tmp_path / "run.png")
    actions._save_page(window, window.files)
    assert "only as .html" in window.session.state.error
    answering(monkeypatch, tmp_path / "missing" / "run.html")
    actions._save_page(window, window.files)
    qtbot.waitUntil(lambda: "cannot be written" in window.session.state.error)


def test_a_full_disk_leaves_the_old_picture_of_the_window(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _engine = pair
    path = tmp_path / "window.png"
    path.write_bytes(b"old")
    answering(monkeypatch, path)

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        actions._save_window(window)
    assert "(No space left on device)" in window.session.state.error
    assert path.read_bytes() == b"old"
    actions._save_window(window)
    assert path.read_bytes()[:4] == b"\x89PNG"
    answering(monkeypatch, tmp_path / "window.pdf")
    actions._save_window(window)
    assert (tmp_path / "window.pdf").read_bytes()[:4] == b"%PDF"
    answering(monkeypatch, tmp_path / "window.gif")
    actions._save_window(window)
    assert "not written as .gif" in window.session.state.error
