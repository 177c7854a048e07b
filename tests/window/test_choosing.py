"""Opening folders, files, pairs and tokenizers; models whose tokens are numbers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QFileDialog,
    QMenu,
    QPlainTextEdit,
    QPushButton,
)
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.states import ran
from tests.traces import make_trace
from tests.window.parts import drop, unwrap
from tests.window.windows import Pair, answer, decoded, translate
from visformer import paths
from visformer.engine.messages import Open, Opened
from visformer.errors import InputError
from visformer.paths import checkpoint
from visformer.session.runs import show_trace
from visformer.ui.bars.samples import HEADINGS, SAMPLES, choose, open_with_sample
from visformer.ui.window import actions
from visformer.ui.window.actions import open_together, together
from visformer.ui.window.window import MainWindow
from visformer.values.changes.mask_changes import Causal
from visformer.values.finding import Finding
from visformer.values.intervention import Intervention

FINDING = Finding(
    "000-2", "Output", "The model returns <p>, so it learns little.", "Do not."
)


def opened(
    *, number: int = 1, numbers: int = 0, findings: tuple[Finding, ...] = ()
) -> Opened:
    return opened_model(
        replace(make_trace().model, layout="handout", digest="other"),
        number=number,
        path="/x/m.pt",
        asks=True,
        findings=findings,
        assumed=("pad = 0 (the file does not say)",),
        numbers=numbers,
    )


def test_files_that_belong_together(tmp_path: Path) -> None:
    def files(*names: str) -> list[str]:
        for name in names:
            if name.endswith(".pt"):
                torch.save({}, tmp_path / name)
            else:
                shutil.copy(checkpoint() / "tokenizer.model", tmp_path / name)
        return [str(tmp_path / name) for name in names]

    (model,) = files("m.pt")
    assert together([model]) == (model, ())
    assert together(["/a/folder"]) == ("/a/folder", ())
    encoder, decoder = files("enc.pt", "dec.pt")
    assert together([encoder, decoder]) == (encoder, (("other", decoder),))
    target, source = files("tgt.MODEL", "src.model")
    assert together([target, model, source]) == (
        model,
        (("tokenizer", source), ("target_tokenizer", target)),
    )
    for names in (("a.pt", "b.pt", "c.pt"), ("a.model", "b.model")):
        with pytest.raises(InputError, match="cannot be opened together"):
            together(files(*names))


def test_two_files_are_dropped(pair: Pair) -> None:
    window, engine = pair
    drop(window, "/x/encoder.pt", "/x/decoder.pt")
    assert engine.opened == [("/x/encoder.pt", "")]
    assert engine.overrides == [((("other", "/x/decoder.pt"),), "open")]
    drop(window, "/x/a.pt", "/x/b.pt", "/x/c.pt")
    assert "cannot be opened together" in window.notice.text()
    assert len(engine.opened) == 1


@pytest.mark.parametrize("choose", ["choose_folder", "choose_files"])
def test_folders_and_files_are_chosen(pair: Pair, tmp_path: Path, choose: str) -> None:
    window, engine = pair
    texts = [action.text() for action in window.header.models.actions()]
    assert "&Open checkpoint folder…" in texts
    assert "Open checkpoint &file…" in texts
    getattr(actions, choose)(window)
    dialog = unwrap(window.findChild(QFileDialog))
    dialog.filesSelected.emit([str(tmp_path)])
    dialog.reject()
    assert engine.opened == [(str(tmp_path), "")]


def test_a_tokenizer_is_chosen_for_the_open_model(pair: Pair) -> None:
    window, engine = pair
    window.open("/x/m.pt", given=(("heads", 2),))
    newest = unwrap(window.session.state.awaiting.newest(Open))
    window.receive(opened(number=newest.number, numbers=9))
    actions.choose_tokenizer(window)
    dialog = unwrap(window.findChild(QFileDialog))
    dialog.filesSelected.emit(["/x/t.model"])
    dialog.reject()
    assert engine.opened[-1] == ("/x/m.pt", "cpu")  # where it runs
    assert engine.overrides[-1] == (
        (("heads", 2), ("tokenizer", "/x/t.model")),
        "never",
    )


def file_menu(window: MainWindow) -> dict[str, bool]:
    menu = next(a for a in window.header.menu.actions() if a.text() == "&File").menu()
    menu.aboutToShow.emit()  # type: ignore[attr-defined]
    return {a.text().replace("&", ""): a.isEnabled() for a in menu.actions()}  # type: ignore[attr-defined]


def test_only_foreign_files_have_answers_to_change(window: MainWindow) -> None:
    names = ("Answer the file's questions again…", "Choose a tokenizer…")
    assert [file_menu(window)[name] for name in names] == [False, False]
    window.receive(opened())
    assert [file_menu(window)[name] for name in names] == [True, True]
    window.receive(replace(opened(), asks=False))
    assert [file_menu(window)[name] for name in names] == [False, False]


def test_ids_are_typed_where_there_is_no_tokenizer(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    translate(window, engine, "I have a cat.")
    window.open("/x/m.pt", given=())
    window.receive(opened(numbers=1000))
    assert len(engine.decodes) == 1  # no word of it is an id
    assert window.session.state.trace is None  # it was another model's
    assert window.source.text() == ""
    hint = "Type token ids from 0 to 999, separated by spaces, and press Enter"
    assert window.source.placeholderText() == hint
    qtbot.keyClicks(window.source, "5 17 3")
    qtbot.keyClick(window.source, Qt.Key.Key_Return)
    assert engine.decodes[-1].source == "5 17 3"
    answer(window, engine)
    window.receive(opened(numbers=1000))  # another device: the ids stay
    assert engine.decodes[-1].source == window.source.text() == "5 17 3"
    assert len(engine.decodes) == 3
    window.receive(opened())
    assert "sentence" in window.source.placeholderText()


def test_findings_are_counted_and_read_in_full(window: MainWindow) -> None:
    assert not window.about.isVisible()
    window.receive(opened(findings=(FINDING, replace(FINDING, id="odd"))))
    assert window.about.text() == "2 findings"
    assert str(FINDING) in window.notice.text()
    window.about.click()
    dialog = _dialog(window)
    page = unwrap(dialog.findChild(QPlainTextEdit))
    assert page.isReadOnly()
    text = page.toPlainText()
    assert (
        "000-2  Output\nThe model returns <p>, so it learns little.\n"
        "Do not.\n\nodd  Output\n" in text
    )
    assert "pad = 0 (the file does not say)" in text
    buttons = {button.text(): button for button in dialog.findChildren(QPushButton)}
    buttons["Copy all"].click()
    assert QApplication.clipboard().text() == text
    dialog.close()
    window.session.do(show_trace, make_trace())
    assert not window.about.isVisible()  # nothing is known of a recorded model


def _dialog(window: MainWindow) -> QDialog:
    shown = [d for d in window.findChildren(QDialog) if d.isVisible()]
    assert len(shown) == 1
    return shown[0]


def test_the_original_run_is_restored_only_where_there_is_a_change(pair: Pair) -> None:
    window = decoded(pair)
    (menu,) = (
        m for m in window.header.menu.findChildren(QMenu) if m.title() == "&Edit"
    )
    (entry,) = (a for a in menu.actions() if a.text() == "Restore the &original run")
    menu.aboutToShow.emit()
    assert not entry.isEnabled()
    window.change_run(Intervention(masks=(Causal(None),)))
    menu.aboutToShow.emit()
    assert entry.isEnabled()


# ---- samples ----------------------------------------------------------------------


def test_samples_of_installed_models_are_offered(pair: Pair) -> None:
    window, engine = pair
    buttons = window.findChildren(QPushButton)
    menu = next(b.menu() for b in buttons if b.text() == "Samples")
    titles = [action.text() for action in menu.actions() if not action.isSeparator()]
    names = {path.name for path in paths.bundled_checkpoints()}
    assert len(titles) == sum(sample.model in names for sample in SAMPLES)
    action = next(a for a in menu.actions() if a.text().startswith("attention\t"))
    action.trigger()
    assert engine.opened == [(str(paths.checkpoint("reverse")), "")]
    assert window.source.text() == "attention"
    assert not engine.decodes
    window.session.set(**ran(recorded=True))
    window.receive(
        opened_model(make_trace().model, path=engine.opened[0][0], number=-1)
    )
    assert [decode.source for decode in engine.decodes] == ["attention"]


def test_a_sample_runs_on_its_own_model(pair: Pair) -> None:
    window, engine = pair
    reverse = str(paths.checkpoint("reverse"))
    model = make_trace().model
    window.session.set(opened=opened_model(model, path="/my/own.pt"))
    choose(window, "attention", reverse)
    assert engine.opened == [(reverse, "")]  # not on the user's own
    assert not engine.decodes
    window.session.set(opened=opened_model(model, path=reverse), opening=None)
    choose(window, "again", reverse)
    assert [decode.source for decode in engine.decodes] == ["again"]
    assert len(engine.opened) == 1


def test_a_bundled_model_brings_its_sample_along(pair: Pair) -> None:
    window, engine = pair
    model = make_trace().model
    window.session.set(opened=opened_model(model, path="/my/own.pt"))
    translate(window, engine, "The animal")
    reverse = str(paths.checkpoint("reverse"))
    entries = window.findChildren(QAction)
    next(entry for entry in entries if entry.text() == "reverse").trigger()
    assert engine.opened == [(reverse, "")]
    assert window.source.text() == "attention"
    window.receive(opened_model(model, path=reverse, number=-1))
    assert engine.decodes[-1].source == "attention"
    translate(window, engine, "my own")
    open_with_sample(window, reverse)  # it is open already: its sentence stays
    assert window.source.text() == "my own"


@pytest.mark.parametrize("bundled", [True, False])
def test_a_folder_that_is_dropped_brings_the_sample_of_its_own_model(
    pair: Pair, tmp_path: Path, bundled: bool
) -> None:
    window, engine = pair
    window.session.set(opened=opened_model(make_trace().model, path="/my/own.pt"))
    translate(window, engine, "The animal")
    path = str(paths.checkpoint("reverse") if bundled else tmp_path / "reverse")
    open_together(window, [path])
    assert engine.opened == [(path, "")]
    assert window.source.text() == ("attention" if bundled else "The animal")


def test_samples_say_what_they_show() -> None:
    sources = ("d2l", "modular", "handout", "labml", "scratch", "tutorial")
    for sample in SAMPLES:
        assert sample.model in HEADINGS
        assert not any(name in sample.note for name in sources)
    assert len({sample.note for sample in SAMPLES}) == len(SAMPLES)
