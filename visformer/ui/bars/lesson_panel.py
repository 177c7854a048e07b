"""What a lesson says: in a panel beside the pictures, or below a presented one."""

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QTextDocument
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from visformer.language import _
from visformer.ui.layout import fill, in_line, scrolled
from visformer.ui.look import icons, theme
from visformer.ui.look.theme import Dressed
from visformer.ui.widgets.controls import tool_button
from visformer.ui.widgets.plain_label import paragraph, plain_label

TITLE, TEXT = 1.5, 1.25  # sizes of text, to the usual one
SMALLER = 0.85  # below a presented picture, to what else is written there
WIDE, SHARE = 24, 3  # lines of text that it is wide; at most a third of the window


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWords:
    """What is said at a stop; ``text`` and ``after`` are Markdown."""

    title: str
    text: str
    question: str = ""
    answer: str = ""
    after: str = ""  # what follows the question
    task: str = ""
    done: bool = False
    notes: str = ""
    place: str = ""  # “stop 3 of 12”
    first: bool = False
    last: bool = False
    strayed: bool = False  # the window shows something else than the stop
    busy: bool = False  # a task is to be done, which may need that

    @property
    def task_line(self) -> str:
        """The task, ticked once it is done."""
        return f"{'☑' if self.done else '☐'} {self.task}" if self.task else ""


def marked_label(name: str) -> QLabel:
    """Build a label for ``markup``; ``name`` is the accessible name."""
    label = paragraph(name)
    label.setTextFormat(Qt.TextFormat.RichText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.NoTextInteraction)
    return label


def markup(text: str, font: QFont) -> str:
    """Return a lesson's Markdown as a label shows it: without HTML and tables."""
    if not text:
        return ""
    document, features = QTextDocument(), QTextDocument.MarkdownFeature
    document.setDefaultFont(font)
    plain = features.MarkdownNoHTML | features.MarkdownDialectCommonMark
    document.setMarkdown(text, plain)
    return document.toHtml()


class LessonPanel(Dressed, QFrame):
    """A stop's title and text, its question and task, and the way on and back."""

    walked = Signal(int)  # 1: on, -1: back
    returned = Signal()  # to the lesson that was left
    closed = Signal()
    planned = Signal(int)  # the minutes; 0: all stops

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName(_("lesson"))
        self._lesson = plain_label("", faint=True)
        kind = QSizePolicy.Policy
        self._lesson.setSizePolicy(kind.Ignored, kind.Preferred)
        self.shut = tool_button(_("Close the lesson"), self.closed)
        self.title = paragraph(_("title of the stop"))
        self.text = marked_label(_("text of the stop"))
        self.question = paragraph(_("question"))
        self.answer = paragraph(_("answer"))
        self.after = marked_label(_("text after the question"))
        self.task = paragraph(_("task"))
        self.notes = paragraph(_("notes for the lecturer"))
        self.notes.setFrameShape(QFrame.Shape.StyledPanel)
        self.left = paragraph(_("lesson"), _("You have left the lesson."))
        self.back_to_it = QPushButton(_("Back to the lesson"))
        self.back_to_it.clicked.connect(self.returned)
        self.plans = QComboBox()
        self.plans.setAccessibleName(_("stops that are walked"))
        self.plans.activated.connect(
            lambda at: self.planned.emit(self.plans.itemData(at))
        )
        self.place = plain_label("")
        self.place.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.before = QPushButton(_("Back"))
        self.before.clicked.connect(lambda: self.walked.emit(-1))
        self.next = QPushButton(_("Next"))
        self.next.clicked.connect(lambda: self.walked.emit(1))
        for button in (self.before, self.next, self.back_to_it, self.shut, self.plans):
            button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # arrows go on stepping
        self._lay_out()
        self.hide()

    def _lay_out(self) -> None:
        inside = QWidget()
        parts = self.text, self.question, self.answer, self.after, self.task, self.notes
        column = QVBoxLayout(inside)
        for part in (self.title, *parts):
            column.addWidget(part)
        column.addStretch(1)
        column.setContentsMargins(0, 0, 0, 0)
        ways = QWidget()
        row = fill(QHBoxLayout(ways), self.before, (self.place, 1), self.next)
        row.setSpacing(theme.gap(self))
        self._column = QVBoxLayout(self)
        self._column.addWidget(in_line(self._lesson, self.plans, self.shut))
        self._column.addWidget(scrolled(inside), 1)
        for low in (self.left, self.back_to_it, ways):
            self._column.addWidget(low)
        self.dress()

    def _dress(self) -> None:
        self.title.setFont(theme.sized(self.font(), TITLE, bold=True))
        large = theme.sized(self.font(), TEXT)
        for part in (self.text, self.answer, self.after, self.task, self.notes):
            part.setFont(large)
        self.question.setFont(theme.sized(self.font(), TEXT, bold=True))
        icons.dress(self.shut, "close")

    def fit(self, room: int) -> None:
        """Take its share of a window's width, in pixels."""
        self.setFixedWidth(min(WIDE * self.fontMetrics().height(), room // SHARE))

    def name(self, lesson: str, plans: dict[int, str]) -> None:
        """Show a lesson's title, and what of it may be walked."""
        self._lesson.setText(lesson)
        self.plans.clear()
        for minutes, title in plans.items():
            self.plans.addItem(title, minutes)
        self.plans.setVisible(len(plans) > 1)

    def say(self, words: StopWords) -> None:
        """Show a stop."""
        self.title.setText(words.title)
        for label, text in ((self.text, words.text), (self.after, words.after)):
            label.setText(markup(text, label.font()))
            label.setVisible(bool(text))
        for label, text in (
            (self.question, words.question),
            (self.answer, words.answer),
            (self.task, words.task_line),
            (self.notes, words.notes),
        ):
            label.setText(text)
            label.setVisible(bool(text))
        self.place.setText(words.place)
        self.before.setEnabled(not words.first)
        self.next.setEnabled(not words.last)
        self.left.setVisible(words.strayed and not words.busy)
        self.back_to_it.setVisible(words.strayed)


class Subtitle(Dressed, QFrame):
    """A stop's words below a picture that is presented."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(_("lesson"))
        self.title, self.place = plain_label(""), plain_label("", faint=True)
        self.text = marked_label(_("text of the stop"))
        self.question = paragraph(_("question and answer"))
        self.after = marked_label(_("text after the question"))
        self.task = paragraph(_("task"))
        head = fill(QHBoxLayout(), (self.title, 1), self.place)
        parts = self.text, self.question, self.after, self.task
        fill(QVBoxLayout(self), head, *parts, spacing=2)
        self._words = StopWords(title="", text="")
        self.dress()
        self.hide()

    def say(self, words: StopWords) -> None:
        """Show what is said now, a question and its answer included."""
        self._words = words
        self.place.setText(words.place)
        self.title.setText(words.title)
        asked = "   ".join(filter(None, (words.question, words.answer)))
        for label, text in ((self.question, asked), (self.task, words.task_line)):
            label.setText(text)
            label.setVisible(bool(text))
        self._dress()

    def _dress(self) -> None:
        small = theme.sized(self.font(), SMALLER)
        for part in (self.place, self.question, self.task):
            part.setFont(small)
        self.title.setFont(theme.sized(small, 1, bold=True))
        marked = (self.text, self._words.text), (self.after, self._words.after)
        for label, text in marked:
            label.setText(markup(text, small))
            label.setVisible(bool(text))
