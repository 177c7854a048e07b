"""The form that asks what a file does not tell, on a fake engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.parts import unwrap
from tests.window.windows import Pair, make_window
from visformer.engine.messages import Asked, Open, Refused
from visformer.session.openings import ask_again
from visformer.ui.window.window import MainWindow
from visformer.values.questions import Overrides, Question, Questionnaire


def question(name: str, label: str, kind: Any, **more: Any) -> Question:
    """Return a question; why it is asked begins as its label does."""
    return Question(name=name, label=label, kind=kind, why=f"{label[0]}.", **more)


HEADS = (1, "1"), (2, "2"), (4, "4"), (8, "8")
NORMS = (False, "no"), (True, "yes")
QUESTIONS = (
    question("heads", "Heads", "choice", default=4, choices=HEADS, mandatory=True),
    question("pad", "Pad id", "integer", default=0, most=10),
    question("target_pad", "Target's", "integer", most=12, nothing="as the source's"),
    question("norm_eps", "Epsilon", "number", default=1e-5),
    question("norm_first", "Norm first", "choice", default=False, choices=NORMS),
    question("tokenizer", "Tokenizer", "file", nothing="numbers"),
)
FORM = Questionnaire(
    layout="<b>torch</b>", sizes="2 layers", introduction="How.", questions=QUESTIONS
)


def ask(pair: Pair, path: str = "/x/m.pt", form: Questionnaire = FORM) -> None:
    window, engine = pair
    window.open(path)
    window.receive(Asked(number=-len(engine.opened), path=path, form=form))
    QApplication.processEvents()


def open_it(
    window: MainWindow, path: str = "/x/m.pt", digest: str = "d", **more: Any
) -> None:
    """Let the engine say that the last opening that was asked for has succeeded."""
    newest = window.session.state.awaiting.newest(Open)
    model = replace(make_trace().model, digest=digest, layout="torch")
    number = 1 if newest is None else newest.number
    window.receive(opened_model(model, number=number, path=path, **more))


def editor(window: MainWindow, name: str) -> Any:
    return window.form.rows[name].editor


def test_enter_opens_with_the_defaults(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    ask(pair)
    assert engine.overrides == [((), "open")]
    assert window.form.isVisible()
    assert window.form.isModal()
    assert window.focusWidget() is None or window.form.focusWidget() is not None
    qtbot.keyClick(window.form.focusWidget(), Qt.Key.Key_Return)
    assert engine.overrides[-1] == ((("heads", 4),), "never")
    assert not window.form.open_button.isEnabled()  # until there is an answer
    open_it(window)
    assert not window.form.isVisible()
    assert window.session.state.asked is None


def test_changed_answers_are_told_and_kept(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    ask(pair)
    editor(window, "heads").setCurrentIndex(1)
    editor(window, "pad").setValue(3)
    editor(window, "target_pad").setValue(5)
    editor(window, "norm_eps").setText("1e-6")
    editor(window, "norm_first").setCurrentIndex(1)
    editor(window, "tokenizer").setText("/x/t.model")
    window.form.open_button.click()
    expected: Overrides = (
        ("heads", 2),
        ("pad", 3),
        ("target_pad", 5),
        ("norm_eps", 1e-6),
        ("norm_first", True),
        ("tokenizer", "/x/t.model"),
    )
    assert engine.overrides[-1] == (expected, "never")
    open_it(window)
    window.open("/x/m.pt")
    assert engine.overrides[-1] == (expected, "never")  # nobody is asked twice
    window.memory.write()
    window.close()
    again, engine = make_window(qtbot, Path(window.memory._settings.fileName()).parent)
    again.open("/x/m.pt")
    assert engine.overrides[-1] == (expected, "never")  # nor at the next start
    again.open("/x/other.pt")
    assert engine.overrides[-1] == ((), "open")


def test_a_wrong_answer_is_said_in_the_form(pair: Pair) -> None:
    window, engine = pair
    ask(pair)
    editor(window, "tokenizer").setText("/x/wrong.model")
    window.form.open_button.click()
    sentence = "<i>wrong.model</i> has 4 tokens and the model 11."
    window.receive(Refused(number=-2, reason=sentence))
    form = window.form
    assert form.isVisible()
    assert form._error.text() == sentence
    assert form._error.textFormat() == Qt.TextFormat.PlainText
    assert editor(window, "tokenizer").text() == "/x/wrong.model"
    editor(window, "tokenizer").clear()
    form.open_button.click()
    assert engine.overrides[-1] == ((("heads", 4),), "never")  # nothing of it is left
    assert not form._error.isVisible()


def test_escape_leaves_the_old_model(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    open_it(window, "/x/old.pt")
    ask(pair)
    qtbot.keyClick(window.form, Qt.Key.Key_Escape)
    assert not window.form.isVisible()
    assert engine.abandoned == 1
    assert window.session.state.opened.path == "/x/old.pt"  # type: ignore[union-attr]
    assert not window.session.state.busy
    assert len(engine.opened) == 1
    ask(pair)  # and it can be asked again
    window.form.open_button.click()
    qtbot.keyClick(window.form, Qt.Key.Key_Escape)  # while it is being opened
    assert engine.abandoned == 2
    assert not window.form.isVisible()


def test_what_is_mandatory_has_to_be_chosen(pair: Pair) -> None:
    window, engine = pair
    choices = (1, "1"), (5, "5")
    heads = question("heads", "Heads", "choice", choices=choices, mandatory=True)
    other = question("other", "Decoder", "file")
    form = Questionnaire(
        layout="l", sizes="s", introduction="i", questions=(heads, other)
    )
    ask(pair, form=form)
    assert not window.form.open_button.isEnabled()
    editor(window, "heads").setCurrentIndex(1)
    assert not window.form.open_button.isEnabled()
    window.form.accept()  # what Enter does
    assert len(engine.opened) == 1
    editor(window, "other").setText("/x/decoder.pt")
    window.form.open_button.click()
    assert engine.overrides[-1][0] == (("heads", 5), ("other", "/x/decoder.pt"))


def test_a_file_that_has_changed_is_named(pair: Pair) -> None:
    window, _ = pair
    ask(pair)
    window.form.open_button.click()
    open_it(window, digest="1")
    assert "changed" not in window.notice.text()
    window.open("/x/m.pt")
    open_it(window, digest="2")
    assert "m.pt has changed since you answered" in window.notice.text()
    window.open("/x/m.pt")
    open_it(window, digest="2")
    assert "changed" not in window.notice.text()


def test_answers_can_be_changed_later(pair: Pair) -> None:
    window, engine = pair
    ask(pair)
    editor(window, "pad").setValue(3)
    window.form.open_button.click()
    open_it(window)
    window.session.do(ask_again)
    assert engine.overrides[-1] == ((("heads", 4), ("pad", 3)), "always")


def test_everything_is_named_and_reached_by_tab(pair: Pair, qtbot: QtBot) -> None:
    window, _ = pair
    ask(pair)
    form = window.form
    seen = []
    for _ in range(20):
        focused = unwrap(form.focusWidget())
        seen.append(focused.accessibleName() or getattr(focused, "text", str)())
        qtbot.keyClick(focused, Qt.Key.Key_Tab)
        if form.focusWidget() is form.rows["heads"].editor:
            break
    labels = [question.label for question in QUESTIONS]
    buttons = [seen[-2].replace("&", ""), seen[-1].replace("&", "")]
    assert seen[:-2] == [*labels, "Browse for “Tokenizer”"]
    assert buttons == ["Open", "Cancel"]
    assert form.rows["pad"].editor.accessibleDescription() == "P."


def test_the_wheel_changes_no_answer(pair: Pair) -> None:
    window, _ = pair
    ask(pair)
    for name in ("heads", "pad"):
        widget, before = editor(window, name), window.form.rows[name].answer()
        none = Qt.MouseButton.NoButton
        turn = QWheelEvent(
            QPointF(3, 3),
            widget.mapToGlobal(QPointF(3, 3)),
            QPoint(0, 0),
            QPoint(0, -120),
            none,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(widget, turn)
        assert window.form.rows[name].answer() == before


def test_a_file_is_browsed_for(pair: Pair, tmp_path: Path) -> None:
    window, _ = pair
    (tmp_path / "t.model").write_bytes(b"x")
    ask(pair, str(tmp_path / "m.pt"))
    row = window.form.rows["tokenizer"]
    row._browse()
    dialog = unwrap(row.findChild(QFileDialog))
    assert Path(dialog.directory().absolutePath()) == tmp_path
    dialog.fileSelected.emit(str(tmp_path / "t.model"))
    dialog.reject()
    assert row.answer() == str(tmp_path / "t.model")


def test_large_text_scrolls_inside_the_window(pair: Pair) -> None:
    window, _ = pair
    for _ in range(5):
        window.appearance.zoom_by(10)
    many = Questionnaire(
        layout="l",
        sizes="s",
        introduction="i",
        questions=tuple(
            Question(name=f"q{i}", label=f"Question {i}", kind="integer", why="W " * 80)
            for i in range(12)
        ),
    )
    ask(pair, form=many)
    size = window.form.size()
    window.appearance.zoom_by(0)
    assert size.width() <= 1280
    assert size.height() <= 800
    assert window.form._area.verticalScrollBar().maximum() > 0
    assert window.form._area.horizontalScrollBar().maximum() == 0


def test_an_accepted_guess_is_told_and_shown_in_the_title(pair: Pair) -> None:
    window, engine = pair
    guessed: dict[str, Any] = {"default": 8, "mandatory": True, "guess": True}
    heads = question("heads", "Heads", "choice", choices=HEADS, **guessed)
    form = Questionnaire(layout="x", sizes="y", introduction="z", questions=(heads,))
    ask(pair, form=form)
    assert window.form.answers() == {"heads": 8, "guessed.heads": True}
    window.form.open_button.click()
    assert engine.overrides[-1][0] == (("heads", 8), ("guessed.heads", True))
    open_it(window, guessed_heads=8)
    assert "(8 heads assumed)" in window.windowTitle()
    open_it(window)
    assert "assumed" not in window.windowTitle()
    window.receive(Asked(number=-len(engine.opened), path="/x/m.pt", form=form))
    editor(window, "heads").setCurrentIndex(2)
    assert window.form.answers() == {"heads": 4, "guessed.heads": None}
