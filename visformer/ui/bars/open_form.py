"""The form that asks what a checkpoint's file does not say."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QLocale, QObject, Qt, Signal
from PySide6.QtGui import QDoubleValidator, QPalette
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from visformer.engine.messages import Asked
from visformer.language import _
from visformer.session.state import State
from visformer.text import visible
from visformer.ui.layout import fill, scrolled
from visformer.ui.look.theme import letter_width
from visformer.ui.widgets.controls import ComboBox
from visformer.ui.widgets.plain_label import paragraph
from visformer.values.questions import GUESSED, OTHER, Question, Value

TOKENIZERS = "*.model *.spm *.json *.txt *.vocab *.pkl *.pickle"
WEIGHTS = "*.pt *.pth *.bin *.ckpt *.safetensors"
COLUMNS = 96  # width of the form in characters


def file_kinds(kind: str) -> str:
    """Return a file dialog's filters: one kind of file, and all files."""
    return ";;".join((kind, _("All files (*)")))


def tokenizer_files() -> str:
    return file_kinds(_("Tokenizers ({patterns})", patterns=TOKENIZERS))


class OpenForm(QDialog):
    """One row per question; open until the file is open or the user cancels."""

    answered = Signal(object)  # name -> answer
    left = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._behind, self._grid = parent, QGridLayout()
        self._asked: Asked | None = None
        self.rows: dict[str, QuestionRow] = {}
        self._layout_words = paragraph(_("what was recognised"))
        font = self._layout_words.font()
        font.setBold(True)
        self._layout_words.setFont(font)
        self._sizes = paragraph(_("sizes read from the tensors"))
        self._introduction = paragraph(_("how to answer"))
        self._error = paragraph(_("what is wrong"))
        self._error.setBackgroundRole(QPalette.ColorRole.AlternateBase)
        self._error.setAutoFillBackground(True)
        self._error.setMargin(self.fontMetrics().height() // 3)
        self._area = scrolled()
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # standard buttons would take Qt's words whenever its language is set
        roles, self._buttons = QDialogButtonBox.ButtonRole, QDialogButtonBox()
        self.open_button = self._buttons.addButton(_("Open"), roles.AcceptRole)
        self.open_button.setDefault(True)
        self._buttons.addButton(_("Cancel"), roles.RejectRole)
        self._buttons.accepted.connect(self.accept)
        self._buttons.rejected.connect(self.reject)
        column = self._column = QVBoxLayout(self)
        column.addWidget(self._layout_words)
        column.addWidget(self._sizes)
        column.addWidget(self._introduction)
        column.addWidget(self._area, 1)
        column.addWidget(self._error)
        column.addWidget(self._buttons)

    def draw(self, state: State) -> None:
        """Ask what the State asks; close when it asks nothing."""
        if state.asked is None:
            self._asked = None
            self.hide()
            return
        if state.asked is not self._asked:
            self._fill(state.asked)
        error = state.error
        self._error.setText(error)
        self._error.setVisible(bool(error))
        self.open_button.setEnabled(not state.busy and self._complete())
        self.open_button.setText(_("Opening…") if state.busy else _("Open"))
        if not self.isVisible():
            self._fit()
            self.open()

    def answers(self) -> dict[str, Value | None]:
        """Return the answers that are mandatory or were changed; None: withdrawn.

        ``load`` still assumes the others by itself, so that a tokenizer's own ids take
        precedence over the defaults.
        """
        every = {name: row.answer() for name, row in self.rows.items()}
        given: dict[str, Value | None] = {
            name: answer
            for name, answer in every.items()
            if (question := self.rows[name].question).mandatory
            or answer != question.default
        }
        for name, row in self.rows.items():
            if row.question.guess:
                accepted = every[name] == row.question.default
                given[f"{GUESSED}{name}"] = True if accepted else None
        return given

    def accept(self) -> None:
        """Report the answers; the State closes the form when the file is open."""
        if self.open_button.isEnabled():
            self.answered.emit(self.answers())

    def reject(self) -> None:
        """Cancel the opening."""
        self.left.emit()

    def _fill(self, asked: Asked) -> None:
        self._asked = asked
        self.setWindowTitle(_("Open {name}", name=visible(Path(asked.path).name)))
        self._layout_words.setText(_("Recognised: {layout}", layout=asked.form.layout))
        self._introduction.setText(asked.form.introduction)
        self._sizes.setText(_("From the tensors: {sizes}.", sizes=asked.form.sizes))
        self._sizes.setVisible(bool(asked.form.sizes))
        inside = QWidget()
        grid = self._grid = QGridLayout(inside)
        unit = self.fontMetrics().height()
        grid.setContentsMargins(0, unit // 2, unit // 2, 0)
        grid.setVerticalSpacing(unit // 8)
        grid.setColumnStretch(1, 1)
        self.rows = {}
        for index, question in enumerate(asked.form.questions):
            row = QuestionRow(question, Path(asked.path).parent)
            row.changed.connect(self._changed)
            self.rows[question.name] = row
            label = QLabel(question.label)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setBuddy(row.editor)
            name = _("about “{question}”", question=question.label)
            why = paragraph(name, question.why)
            why.setForegroundRole(QPalette.ColorRole.PlaceholderText)
            grid.addWidget(label, 3 * index, 0)
            grid.addWidget(row, 3 * index, 1)
            grid.addWidget(why, 3 * index + 1, 1)
            grid.setRowMinimumHeight(3 * index + 2, unit // 2)
        grid.setRowStretch(3 * len(self.rows), 1)
        self._area.setWidget(inside)
        first = next(iter(self.rows.values()), None)
        if first is not None:
            first.editor.setFocus()

    def _changed(self) -> None:
        self.open_button.setEnabled(self._complete())

    def _complete(self) -> bool:
        return all(
            row.answer() is not None or row.question.nothing
            for row in self.rows.values()
        )

    def _fit(self) -> None:
        """Grow to what the questions need, within the window behind."""
        self._area.updateGeometry()  # the size that it had when it was empty is kept
        most = self._behind.size() * 0.95
        unit = self.fontMetrics()
        width = min(letter_width(unit) * COLUMNS, most.width())
        bar = self._area.verticalScrollBar().sizeHint().width()
        margins = self._column.contentsMargins()
        room = width - margins.left() - margins.right() - bar
        around = self._column.totalHeightForWidth(width)
        around -= self._area.sizeHint().height()
        need = self._grid.heightForWidth(room) + unit.height()
        self.resize(width, min(around + need, most.height()))


class QuestionRow(QWidget):
    """The editor of one question."""

    changed = Signal()

    def __init__(self, question: Question, folder: Path) -> None:
        super().__init__()
        self.question = question
        self._folder = folder
        make: dict[str, Callable[[], QWidget]] = {
            "integer": self._integer,
            "number": self._number,
            "choice": self._choice,
            "file": self._file,
        }
        self._line = fill(QHBoxLayout(self))
        self.editor = make[question.kind]()
        self.editor.setAccessibleName(question.label)
        self.editor.setAccessibleDescription(question.why)
        if question.kind != "file":
            self._line.addWidget(self.editor)
            self._line.addStretch(1)
        if isinstance(self.editor, QAbstractSpinBox | QComboBox):
            self.editor.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            self.editor.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Leave the wheel to the scroll area, so that scrolling changes no answer."""
        if event.type() == QEvent.Type.Wheel:
            event.ignore()
            return True
        return super().eventFilter(watched, event)

    def answer(self) -> Value | None:
        """Return the editor's value; None where it is empty."""
        editor, question = self.editor, self.question
        if isinstance(editor, QSpinBox):
            return editor.value() if editor.value() >= 0 else None
        if isinstance(editor, QComboBox):
            at = editor.currentIndex()
            return question.choices[at][0] if at >= 0 else None
        text = editor.text().strip() if isinstance(editor, QLineEdit) else ""
        if question.kind == "number":
            acceptable = isinstance(editor, QLineEdit) and editor.hasAcceptableInput()
            return float(text) if acceptable else None
        return text or None

    def _integer(self) -> QWidget:
        box = QSpinBox()
        question = self.question
        box.setRange(-1 if question.nothing else 0, question.most)
        box.setSpecialValueText(question.nothing)
        box.setGroupSeparatorShown(True)
        value = question.default
        box.setValue(value if isinstance(value, int) else box.minimum())
        box.valueChanged.connect(lambda _: self.changed.emit())
        return box

    def _number(self) -> QWidget:
        line = QLineEdit(f"{self.question.default:g}")
        validator = QDoubleValidator(0.0, 1.0, 20, line)
        validator.setLocale(QLocale.c())
        line.setValidator(validator)
        line.textChanged.connect(lambda _: self.changed.emit())
        return line

    def _choice(self) -> QWidget:
        box = ComboBox()
        values = [value for value, _ in self.question.choices]
        box.addItems([text for _, text in self.question.choices])
        box.setPlaceholderText(_("choose"))
        known = self.question.default in values
        box.setCurrentIndex(values.index(self.question.default) if known else -1)  # type: ignore[arg-type]
        box.currentIndexChanged.connect(lambda _: self.changed.emit())
        return box

    def _file(self) -> QWidget:
        line = QLineEdit(str(self.question.default or ""))
        line.setPlaceholderText(self.question.nothing or _("choose the file"))
        line.textChanged.connect(lambda _: self.changed.emit())
        browse = QPushButton(_("Browse…"))
        browse.setAutoDefault(False)
        browse.setAccessibleName(
            _("Browse for “{question}”", question=self.question.label)
        )
        browse.clicked.connect(self._browse)
        self._line.addWidget(line, 1)
        self._line.addWidget(browse)
        return line

    def _browse(self) -> None:
        kinds = tokenizer_files()
        if self.question.name == OTHER:
            kinds = file_kinds(_("Weights ({patterns})", patterns=WEIGHTS))
        dialog = QFileDialog(self, self.question.label, str(self._folder), kinds)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        if isinstance(self.editor, QLineEdit):
            dialog.fileSelected.connect(self.editor.setText)
        dialog.open()
