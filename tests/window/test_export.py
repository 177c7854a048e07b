from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QImage
from PySide6.QtWidgets import QApplication, QFileDialog, QMenu, QWidget
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from tests.window.windows import Pair, decoded
from visformer.errors import InputError
from visformer.files import save_result
from visformer.pictures.attention.strips import Chip
from visformer.pictures.picture import Label, Table
from visformer.pictures.selection import AttentionCell
from visformer.session import runs
from visformer.session.state import State
from visformer.trace_file.trace_file import read_session
from visformer.ui.bars.strips import TokenStrip
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.widgets import export as exports
from visformer.ui.widgets.export import (
    CSV,
    MODIFIED,
    PNG,
    Export,
    Format,
    ask_where,
    picture,
)
from visformer.ui.window import actions
from visformer.ui.window.large import LargePlace
from visformer.ui.window.window import MainWindow

TABLE = Table(("a",), ("b", "c"), np.array([[1, 0.1]], np.float32), "")
LABELS = Format(
    "Copy &labels",
    "Save &labels…",
    ("labels.txt", "labels.md"),
    lambda _, table: json.dumps({"columns": table.columns, "about": table.about}),
    lambda path, _, table: save_result(path, ",".join(table.columns).encode()),
)


@pytest.fixture
def widget(qtbot: Any) -> QWidget:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.resize(40, 30)
    return widget


def test_a_format_is_one_entry(
    widget: QWidget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "FORMATS", (PNG, CSV, LABELS))
    path = tmp_path / "labels.md"
    asked = []

    def ask(*arguments: object) -> tuple[str, str]:
        asked.append(arguments[1:])
        return str(path), ""

    monkeypatch.setattr(QFileDialog, "getSaveFileName", ask)
    copy, save = Export(widget, lambda: TABLE).menu().actions()[-2:]
    assert (copy.text(), save.text()) == ("Copy &labels", "Save &labels…")
    copy.trigger()
    save.trigger()
    text = QGuiApplication.clipboard().text()
    assert json.loads(text) == {"columns": ["b", "c"], "about": ""}
    assert path.read_text(encoding="utf-8") == "b,c"
    assert asked == [("Save labels.txt", "labels.txt", "*.txt *.md")]


def test_what_altered_the_run_stands_with_what_the_numbers_are(widget: QWidget) -> None:
    export = Export(widget, lambda: TABLE)
    export.copy(CSV)
    plain = QGuiApplication.clipboard().text()
    assert plain == ',"b","c"\n"a",1.0,0.10000000149011612\n'
    widget.setProperty(MODIFIED, 'modified run: "hide"')
    export.copy(CSV)
    header, rows = QGuiApplication.clipboard().text().split("\n", 1)
    assert header == '"modified run: ""hide""","b","c"'
    assert rows == plain.split("\n", 1)[1]


def test_nothing_is_copied_where_there_is_nothing(widget: QWidget) -> None:
    export = Export(widget, lambda: None)
    assert not any(entry.isEnabled() for entry in export.menu().actions())
    QGuiApplication.clipboard().setText("before")
    export.copy(CSV)
    assert QGuiApplication.clipboard().text() == "before"


@pytest.mark.parametrize("form", [PNG, CSV])
def test_a_full_disk_leaves_the_old_file_whole(
    form: Format, widget: QWidget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / form.files[0]
    path.write_bytes(b"old")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    export = Export(widget, lambda: TABLE)
    place, said = LargePlace(widget), list[str]()
    place.failed.connect(said.append)

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        export.save(form)
    assert len(said) == 1
    assert "cannot be written (No space left on device)" in said[0]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    export.save(form)
    assert len(said) == 1
    assert path.read_bytes()[:3] in (b"\x89PN", b',"b')


def test_a_name_of_another_format_is_refused(
    widget: QWidget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "picture.gif"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    export = Export(widget, lambda: TABLE)
    place, said = LargePlace(widget), list[str]()
    place.failed.connect(said.append)
    export.save(PNG)
    assert said == [
        "picture.gif is not written as .gif, only as .png, .svg, .pdf, .webp: choose a "
        "name that ends so."
    ]
    assert not path.exists()


@pytest.mark.skipif(os.name != "posix", reason="pipes and links of POSIX")
def test_a_pipe_takes_it_as_it_comes_and_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_bytes(b"old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    save_result(tmp_path / "link.csv", b"new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_bytes() == b"new"
    before = os.stat(os.devnull).st_rdev
    save_result(Path(os.devnull), b"new")
    assert os.stat(os.devnull).st_rdev == before  # still a device
    with pytest.raises(InputError, match="cannot be written"):
        save_result(tmp_path / "no" / "such.csv", b"new")
    with pytest.raises(InputError, match="cannot be written"):
        save_result(tmp_path / "a\0b.csv", b"new")


def test_a_right_click_on_a_strip_copies_its_tokens_or_their_ids(qtbot: Any) -> None:
    strip = TokenStrip("strip", "empty")
    qtbot.addWidget(strip)
    assert not any(entry.isEnabled() for entry in strip.menu().actions())
    strip.draw(
        tuple(
            Chip(Label(f"t{at}", raw=f"▁t{at}"), at, 0.0, False, False)
            for at in (7, 12)
        )
    )
    copied = []
    for entry in strip.menu().actions():
        entry.trigger()
        copied.append(QGuiApplication.clipboard().text())
    assert copied == ["▁t7 ▁t12", "7 12"]
    strip.resize(300, 40)
    strip.show()
    right_click(qtbot, strip.viewport(), strip.viewport().rect().center()).close()


def right_click(qtbot: QtBot, part: QWidget, at: QPoint) -> QMenu:
    """Click as a computer does: the mouse comes first, the menu with the button."""
    qtbot.mouseMove(part, at)
    qtbot.mouseClick(part, Qt.MouseButton.RightButton, pos=at)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, part.mapToGlobal(at))
    QGuiApplication.sendEvent(part, event)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    return menu


def test_a_right_click_on_a_map_exports_what_was_on_the_screen(
    pair: Pair, qtbot: QtBot
) -> None:
    window = decoded(pair)
    window.session.set(tab="attention", kind="cross")
    QApplication.processEvents()
    before, view = chosen(window.session.state), window.tabs.view("attention")
    assert isinstance(view, AttentionView)
    heat_map = view.maps["cross"]
    shown = as_compared(picture(heat_map))
    at = heat_map.canvas.box(1, 2).center()
    qtbot.mouseMove(heat_map.canvas, at)
    assert window.session.state.hovered == AttentionCell("cross", 1, 2)
    assert as_compared(picture(heat_map)) != shown
    menu = right_click(qtbot, heat_map.canvas, at)
    assert chosen(window.session.state) == before
    titles = {entry.text(): entry for entry in menu.actions()}
    titles["Copy &picture"].trigger()
    assert as_compared(QGuiApplication.clipboard().image()) == shown
    titles["&Forbid this cell in this head"].trigger()
    assert str(window.session.state.intervention) == "cell cross 2 3 off @ L1H1"
    menu.close()


def chosen(state: State) -> tuple[object, ...]:
    """Return what a click may change."""
    focus = state.step, state.locked, state.hovered
    dimensions = state.locked_dimensions, state.hovered_dimensions
    run = state.intervention, state.wish, len(state.runs)
    return state.selection, state.look, state.views, *focus, *dimensions, *run


def as_compared(image: QImage) -> QImage:
    return image.convertToFormat(QImage.Format.Format_RGB32)


def test_a_right_click_selects_nothing_anywhere(pair: Pair, qtbot: QtBot) -> None:
    window = decoded(pair)
    for tab in ("attention", "computation", "masks", "output", "positions"):
        window.session.set(tab=tab)
        QApplication.processEvents()
        before = chosen(window.session.state)
        pictures = [
            part
            for part in window.findChildren(QWidget)
            if part.isVisible() and part.findChildren(Export, options=exports.DIRECT)
        ]
        rows = [strip.row for strip in window.strips.sides.values()]
        for part in (*pictures, *rows):
            places = [part.rect().center()]
            if part in rows:
                places = [box.center() for box in part.boxes]
            for at in places:
                child = part.childAt(at) or part
                at = child.mapFrom(part, at)
                right_click(qtbot, child, at).close()
                assert chosen(window.session.state) == before, (tab, part)


# ---- menus of the window ----------------------------------------------------------


def answering(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))


def test_a_name_without_a_suffix_gets_it(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
