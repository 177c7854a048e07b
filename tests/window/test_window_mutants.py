"""Mutants of trace files in the window, a few of them; the long run is by hand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from PySide6.QtGui import QPaintEvent
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from tests.unit.values.vis_mutants import mutants
from tests.window.window_mutants import show_all, shown_outcome
from tests.window.windows import Pair, make_window
from visformer.trace_file.trace_file import read_session
from visformer.ui.bars import strips


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numbers that overflow
def test_mutants_are_shown_in_every_tab(pair: Pair, tmp_path: Path) -> None:
    did = [shown_outcome(pair[0], m, tmp_path / "a.vis") for m in mutants(30, 9)]
    assert {"whole", "part", "error"} == set(did)


def test_an_exception_while_painting_is_noticed(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    armed: list[bool] = []
    paint = strips._ChipRow.paintEvent

    def fail(row: strips._ChipRow, event: QPaintEvent) -> None:
        if armed:
            raise ValueError("planted")
        paint(row, event)

    monkeypatch.setattr(strips._ChipRow, "paintEvent", fail)  # before Qt looks it up
    window, _ = make_window(qtbot, tmp_path)
    armed.append(True)
    make_trace().save(tmp_path / "a.vis")
    session = read_session(tmp_path / "a.vis")
    with pytest.raises(ValueError, match="planted"):
        show_all(window, session, random.Random(0))
    armed.clear()
