"""The menus of a head's thumbnail and of a cell: what they offer, do and take back."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFileDialog, QInputDialog
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from tests.window.parts import unwrap
from tests.window.test_modified_run import altered
from tests.window.windows import Opened, answer, translate
from visformer.session.runs import show_trace
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.window.window import MainWindow
from visformer.values.changes.head_changes import HeadFrom, HeadMeanOf
from visformer.values.changes.weight_changes import CellWeight
from visformer.values.facts import SentenceSide
from visformer.values.intervention import NO_CHANGES, Intervention, parse


def attention(window: MainWindow) -> AttentionView:
    (view,) = window.findChildren(AttentionView)
    return view


def head_menu(window: MainWindow, layer: int, head: int) -> dict[str, QAction]:
    """Return the entries of the menu at a thumbnail, by their titles."""
    overview = attention(window).overview
    box = overview._box(overview._grid(), layer, head)
    place = overview.mapToGlobal((box.topLeft() + box.center()).toPoint() / 2)
    actions = overview.export.menu(place).actions()
    return {one.text().replace("&", ""): one for one in actions}


def cell_menu(window: MainWindow, query: int, key: int) -> dict[str, QAction]:
    heat_map = attention(window).maps["cross"]
    place = heat_map.canvas.mapToGlobal(heat_map.canvas.box(query, key).center())
    actions = heat_map.export.menu(place).actions()
    return {one.text().replace("&", ""): one for one in actions}


def test_a_head_is_switched_off_from_its_thumbnail(opened: Opened) -> None:
    window, engine, plain = opened
    window.session.set(kind="cross", step=3)
    head_menu(window, 1, 0)["Switch this head off"].trigger()
    off = parse(["head cross off @ L2H1"])
    assert engine.decodes[-1].intervention == off
    answer(window, engine, altered(plain, off))
    head_menu(window, 0, 1)["Halve what this head adds"].trigger()
    both = parse(["head cross off @ L2H1; head cross * 0.5 @ L1H2"])
    assert engine.decodes[-1].intervention == both
    answer(window, engine, altered(plain, both))
    head_menu(window, 1, 0)["Take back “head cross off @ L2H1”"].trigger()
    halved = parse(["head cross * 0.5 @ L1H2"])
    assert engine.decodes[-1].intervention == halved
    answer(window, engine, altered(plain, halved))
    for expected in (both, off, NO_CHANGES):
        window.ways.undo()
        assert window.session.state.intervention == expected


def test_a_head_is_its_mean_over_a_file(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, engine, _plain = opened
    entry = "Replace what it adds by its mean over a file of pairs…"
    for chosen in ("", str(tmp_path / "some pairs.tsv")):
        monkeypatch.setattr(
            QFileDialog, "getOpenFileName", lambda *_a, chosen=chosen: (chosen, "")
        )
        before = len(engine.decodes)
        head_menu(window, 1, 0)[entry].trigger()
        assert len(engine.decodes) == before + bool(chosen)
    change = HeadMeanOf("cross", 1, 0, run=str(tmp_path / "some pairs.tsv"))
    assert engine.decodes[-1].intervention == Intervention(change)


def test_only_one_head_is_left(opened: Opened) -> None:
    window, engine, _plain = opened
    window.session.set(kind="decoder", step=3)
    head_menu(window, 0, 0)["Switch the layer's other heads off"].trigger()
    assert engine.decodes[-1].intervention == parse(["head decoder only @ L1H1"])


def test_a_cell_is_forbidden_or_gets_a_weight(opened: Opened) -> None:
    window, engine, plain = opened
    window.session.set(kind="cross", layer=1, head=1, step=3)
    cell_menu(window, 2, 1)["Forbid this cell in this head"].trigger()
    off = parse(["cell cross 3 2 off @ L2H2"])
    assert engine.decodes[-1].intervention == off
    answer(window, engine, altered(plain, off))
    menu = cell_menu(window, 2, 1)
    assert "Take back “cell cross 3 2 off @ L2H2”" in menu
    menu["Set this cell's weight… (or drag it with Shift)"].trigger()
    (asked,) = window.findChildren(QInputDialog)
    asked.setDoubleValue(0.75)
    asked.accept()
    both = parse(["cell cross 3 2 off @ L2H2; cell cross 3 2 = 0.75 @ L2H2"])
    assert engine.decodes[-1].intervention == both


def test_beside_heads_and_cells_nothing_is_offered(opened: Opened) -> None:
    window, _engine, _plain = opened
    window.session.set(kind="cross", step=3)
    overview = attention(window).overview
    plain = overview.export.menu().actions()
    corner = overview.export.menu(overview.mapToGlobal(QPoint(0, 0))).actions()
    assert len(plain) == len(corner)


def test_a_recorded_run_without_its_model_offers_nothing(opened: Opened) -> None:
    window, _engine, _plain = opened
    window.session.do(show_trace, make_trace(source=6, target=4, layers=3, seed=9))
    fixed = [title for title in head_menu(window, 0, 0) if "Switch" in title]
    fixed += [title for title in cell_menu(window, 1, 1) if "cell" in title]
    assert not fixed


def token_menu(window: MainWindow, side: SentenceSide, at: int) -> dict[str, QAction]:
    actions = window.strips.sides[side].menu(at).actions()
    return {one.text().replace("&", ""): one for one in actions}


def test_a_token_is_replaced_or_adds_nothing(opened: Opened) -> None:
    window, engine, plain = opened
    window.session.set(step=3)
    menu = token_menu(window, "source", 1)
    menu["Zero this token's values in cross-attention"].trigger()
    off = parse(["value cross 2 off"])
    assert engine.decodes[-1].intervention == off
    answer(window, engine, altered(plain, off))
    menu = token_menu(window, "source", 1)
    assert "Take back “value cross 2 off”" in menu
    assert "Zero this token's values in the encoder" in menu
    menu["Replace this token by…"].trigger()
    (asked,) = window.findChildren(QInputDialog)
    asked.setTextValue("dog")
    asked.accept()
    both = parse(['value cross 2 off; embedding source 2 = "dog"'])
    assert engine.decodes[-1].intervention == both
    answer(window, engine, altered(plain, both))
    token_menu(window, "source", 1)['Take back “embedding source 2 = "dog"”'].trigger()
    assert engine.decodes[-1].intervention == off
    answer(window, engine, altered(plain, off))
    menu = token_menu(window, "target", 2)
    menu["Zero this token's values in the decoder"].trigger()
    three = parse(["value cross 2 off; value decoder 3 off"])
    assert engine.decodes[-1].intervention == three
    assert not [title for title in token_menu(window, "target", 0) if "cross" in title]


def test_a_head_is_taken_from_another_run(opened: Opened) -> None:
    window, engine, plain = opened
    window.session.set(kind="cross", step=3)
    first = unwrap(window.session.state.run)
    assert not [title for title in head_menu(window, 1, 0) if "Take" in title]
    translate(
        window, engine, "three four", make_trace(source=5, target=4, layers=3, seed=8)
    )
    window.session.set(step=3)
    head_menu(window, 1, 0)[f"Take this head from “{first.name}”"].trigger()
    named = HeadFrom("cross", 1, 0, run=first.name)
    change = Intervention(named.filled({first.name: plain}))
    assert engine.decodes[-1].intervention == change
    answer(window, engine, altered(plain, change))
    title = f"Take back “{named}”"
    assert title in head_menu(window, 1, 0)
    head_menu(window, 1, 0)[title].trigger()
    assert window.session.state.intervention == NO_CHANGES


def test_a_cell_is_dragged_to_a_weight(opened: Opened, qtbot: QtBot) -> None:
    window, engine, plain = opened
    window.session.set(kind="cross", layer=1, head=1, step=3)
    canvas = attention(window).maps["cross"].canvas
    begin = canvas.box(2, 1).center()
    shift, left = Qt.KeyboardModifier.ShiftModifier, Qt.MouseButton.LeftButton
    told: list[float] = []
    canvas.pulled.connect(lambda _cell, up, _ends: told.append(up))
    qtbot.mousePress(canvas, left, shift, begin)
    qtbot.mouseMove(canvas, begin - QPoint(0, 20))
    assert len(engine.decodes) == 1
    qtbot.mouseRelease(canvas, left, shift, begin - QPoint(0, 40))
    assert told[-1] == 40
    (change,) = engine.decodes[-1].intervention
    weight = round(min(1.0, float(plain.attention("cross", 1, 1)[2, 1]) + 0.2), 3)
    assert change == CellWeight("cross", 2, 1, "=", weight, False, 1, 1)
    assert window.session.state.locked is None  # it was no click
