"""The main window: lays the parts out, draws the State, reports what was done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QSettings, Qt
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QKeyEvent
from PySide6.QtWidgets import QWidget

from visformer.engine.messages import Event, Opened
from visformer.engine.mirror import Decoded
from visformer.language import _
from visformer.pictures.words.about import readable, source_hint
from visformer.pictures.words.modified_run import change_words, export_words
from visformer.program.guard import contain_overrides, separately
from visformer.program.memory import Memory
from visformer.session import openings, runs, side_requests
from visformer.session.lesson import Lesson
from visformer.session.pending import read_answers
from visformer.session.receive import receive
from visformer.session.runs import fixed_words
from visformer.session.side_requests import needed
from visformer.session.state import EngineLike, Next, Session, State
from visformer.session.tree import click_source
from visformer.trace_file.saved_session import SavedSession
from visformer.ui.bars.candidates import CandidatesPanel
from visformer.ui.bars.first_steps import close_first_steps
from visformer.ui.bars.header import AboutButton, Header
from visformer.ui.bars.message_stack import (
    MessageStack,
    ModifiedBar,
    Notice,
    RestoreBar,
)
from visformer.ui.bars.open_form import OpenForm
from visformer.ui.bars.samples import sample_button
from visformer.ui.bars.source_line import SourceBox, SourceLine
from visformer.ui.bars.status import Sentence, StatusLine
from visformer.ui.bars.strips import Strips
from visformer.ui.bars.transport import (
    Drawer,
    StrategyControls,
    Transport,
)
from visformer.ui.layout import SingleShot, TurningRow, in_line
from visformer.ui.widgets.export import MODIFIED
from visformer.ui.widgets.plain_label import plain_tip, show_raw
from visformer.ui.widgets.term_tips import TermTip
from visformer.ui.window.actions import (
    build_keys,
    build_menus,
    local,
    open_together,
    show_recent,
)
from visformer.ui.window.appearance import Appearance, translate_qt
from visformer.ui.window.body import Body, Side
from visformer.ui.window.change_offers import token_offers
from visformer.ui.window.large import FirstClick, LargePlace
from visformer.ui.window.lessons import LessonWalk
from visformer.ui.window.presenting import Presentation
from visformer.ui.window.session_files import SessionFiles, TraceOpener
from visformer.ui.window.tabs import Tabs
from visformer.ui.window.window_parts import WindowParts
from visformer.values.facts import WATCHED
from visformer.values.intervention import NO_CHANGES
from visformer.values.step import Strategy
from visformer.values.trace import Trace

LEAST = 440, 330  # of the window, in pixels
LONG = 1024  # tokens of both sides: with more, pictures and words have a turn each


class MainWindow(WindowParts):
    """One window on one State."""

    def __init__(
        self, engine: EngineLike, settings: QSettings, keep: Path | None = None
    ) -> None:
        """Keep what is worked on under ``keep``; None keeps nothing."""
        contain_overrides()
        translate_qt()
        super().__init__()
        # else Qt enlarges it for what a part needs for a moment, and never back
        self.setMinimumSize(*LEAST)
        self.setAcceptDrops(True)
        self.memory = Memory(settings)
        self.appearance = Appearance(self, lambda: self.presentation.dress())
        self._engine = engine
        self._is_step = False  # what is drawn now is a step just decoded
        self._late = SingleShot(self, self._draw_late)
        self.held = HeldKeys(self, self._draw, lambda state: self.transport.draw(state))
        self.session = Session(self.held.draw, engine, needed)
        self._traces = TraceOpener(self.session, self._show_opened, self)
        self.open_trace = self._traces.open
        self.files = SessionFiles(self, keep)
        self.shown_file = lambda: self.files.path
        self.save_runs = self.files.save_runs
        self.save_text = self.files.save_text
        self._build()
        self.ways = build_menus(
            self, self.files, self.appearance, self.presentation, self.lessons
        )
        own: dict[object, Callable[[], object]] = {
            Qt.Key.Key_Escape: self.escape,
            "Ctrl+.": self.stop,
            Qt.Key.Key_PageUp: self.held.by_key(self.lessons.back),
            Qt.Key.Key_PageDown: self.held.by_key(self.lessons.forward),
        }
        build_keys(self, self.presentation, own, self.held.by_key)
        wire(self)
        self.appearance.restore()
        self.tabs.setFocus()
        self.source.history = self.memory.texts("history")
        show_recent(self, self.memory.texts("recent"))
        self.session.set(answers=read_answers(self.memory.text("answers", "")))

    # ---- parts -----------------------------------------------------------------

    def _build(self) -> None:
        self.source = SourceLine(_("Source sentence"), source_hint(None))
        self.source.submitted.connect(self._submit)
        self.reference = SourceLine(
            _("Reference translation"),
            _("a translation of your own, fed with teacher forcing"),
        )
        self.reference.submitted.connect(self._submit_reference)
        for line in (self.source, self.reference):
            line.told.connect(lambda words: self.session.set(notice=words))
        self.strips = Strips()
        for side, strip in self.strips.sides.items():
            strip.offers = partial(token_offers, self.session, self, side)
        self.sentence = Sentence()
        self.transport = Transport()
        self.transport.moved.connect(lambda step: self.session.set(step=step))
        self.strategy = StrategyControls()
        self.strategy.changed.connect(self._choose_tokens)
        self.candidates = CandidatesPanel()
        self.notice = Notice()
        self.form = OpenForm(self)
        self.form.answered.connect(
            lambda given: self.session.do(openings.answer, given)
        )
        self.form.left.connect(self._leave_form)
        self.restore = RestoreBar()
        self.restore.wanted.connect(self.files.open_again)
        self.restore.unwanted.connect(self.files.dismiss)
        self.modified = ModifiedBar()
        self.modified.undone.connect(lambda: self.ways.undo())
        self.modified.redone.connect(lambda: self.ways.redo())
        self.modified.restored.connect(lambda: self.change_run(NO_CHANGES))
        self.notice.closed.connect(
            lambda: self.session.set(error="", notice="", silence="")
        )
        self._lay_out()

    def _lay_out(self) -> None:
        # outer parts first: a part with others in it is dressed anew with all of them
        # whenever it gets a parent
        body = self.body = Body()
        self.setCentralWidget(body)
        self.about = AboutButton(self)
        self.source_box = SourceBox(self.source, self.strips)
        self.header = Header(self.about, self.source_box, sample_button(self))
        self.header.device_chosen.connect(self._change_device)
        self.tabs = Tabs(self.session)
        self.tabs.turned.connect(lambda name: self.session.set(tab=name))
        self.side = Side(self.tabs, self.candidates, self.memory)
        self.large = LargePlace(self.tabs)
        self._first_click = FirstClick(self.session, self.large)
        self.tabs.explained_now.connect(self.large.explain)
        self.drawer = Drawer(body, self._drawer_fields())
        self.drawer.closed.connect(self.tabs.setFocus)
        play = in_line(self.transport, self.strategy, self.drawer.button)
        self.status = StatusLine(self.modified, self.sentence)
        self.status.stopped.connect(self.stop)
        body.add_rows(self.header, TurningRow(self.strips, (play, 0)))
        self.messages = MessageStack(body, self.notice, self.restore)
        over = self.drawer, self.messages
        body.fill(self.large, self.tabs.middle, self.candidates, *over)
        self.setStatusBar(self.status)
        self.presentation = Presentation(self, lambda: self.appearance.zoom)
        self.header.present.clicked.connect(self.presentation.toggle)
        self.lessons = LessonWalk(self, self.presentation)
        body.put_left(self.lessons.panel)
        self.large.put_below(self.lessons.subtitle)
        for strips in (self.strips, self.presentation.strips):
            strips.step_chosen.connect(self.transport.go)
            strips.source_chosen.connect(
                lambda at: self.session.go(click_source(self.session.state, at))
            )

    def _drawer_fields(self) -> list[tuple[str, QWidget]]:
        return [
            (_("Reference translation"), self.reference),
            (_("Sampling"), self.strategy.numbers),
            (_("Beams"), self.strategy.beams),
            (_("Length"), self.strategy.limit),
            (_("Speed"), in_line(self.transport.speed, self.transport.rate)),
        ]

    # ---- drawing ---------------------------------------------------------------

    def _draw(self, state: State) -> None:
        """Show a State; of a step just decoded the pictures first, all else after them.

        So the event loop has its turn in between, and they are never late.
        """
        if not self.tabs.ready(state.tab):
            return
        if self._is_step and not separately([partial(self.tabs.draw, state)]):
            self._late.start()
        else:
            self._late.stop()
            self._draw_all(state)

    def _draw_late(self) -> None:
        self._draw_all(self.session.state, pictures=False)

    def _draw_all(self, state: State, *, pictures: bool = True) -> None:
        """Update every visible part from the State; one that fails stops no other."""
        show_raw(raw=state.look.pieces)
        if state.tab != self.tabs.name:
            self.large.restore()
        draws = [
            *(self.header.draw, self.transport.draw, self.modified.draw),
            *(self.ways.draw, self.files.draw),
            *(self.form.draw, self.strategy.draw, self._draw_rest, self.status.draw),
            self.drawer.draw,
            *(self.strips.draw, self.source_box.draw, self.sentence.draw),
            *(self.side.draw, self.candidates.draw),
            *((self.tabs.draw,) if pictures else ()),
            *(self.tabs.say, self.presentation.draw, self.lessons.draw),
        ]
        # a run is read from its file only when it is drawn
        damage = separately(partial(draw, state) for draw in draws)
        self.notice.draw(state, damage)

    def _draw_rest(self, state: State) -> None:
        self.setProperty(MODIFIED, export_words(state.visible))
        self.large.mark(change_words(state.visible))
        self.source.setPlaceholderText(source_hint(state.about))
        fixed = "" if state.opened is not None else fixed_words(state)
        for part in (self.strategy, self.reference):
            part.setEnabled(not fixed)
            if plain_tip(fixed) != part.toolTip():
                part.setToolTip(plain_tip(fixed))
        for numbers in (self.strategy.numbers, self.strategy.limit):
            numbers.setEnabled(not fixed)

    # ---- what the user does ----------------------------------------------------

    def show_telling(self, trace: Trace) -> None:
        """Show a recorded Trace where it says most, its text in the source line."""
        self.session.do(runs.show_telling, trace)
        self.source.setText(self.session.state.wish.sentence)
        self.files.rest()

    def take_over(self, other: MainWindow) -> None:
        """Show what another window shows, with its files and what is typed in it."""
        state = other.session.state
        for run in state.runs:
            if run.trace is not None:
                run.trace.memo.clear()  # it has words in the other's language
        self.files.take_over(other.files)
        self.source.setText(other.source.text())
        self.reference.setText(other.reference.text())
        self.session.do(lambda _before: Next(state))
        self.lessons.take_over(other.lessons)

    def show_file(self, session: SavedSession, path: str) -> None:
        """Show a session; Ctrl+S writes it to its file, or asks where there is none."""
        self.show_runs(session)
        self.files.shown(session, path)

    def _show_opened(self, found: SavedSession | Lesson, path: str) -> None:
        if isinstance(found, Lesson):
            self.lessons.begin(found)
        else:
            self.show_file(found, path)

    def _leave_form(self) -> None:
        self._engine.abandon()
        self.session.do(openings.cancel)

    def stop(self) -> None:
        """Stop what the engine is doing; what is done stays."""
        if not self.session.state.busy:
            return
        self._traces.abandon()
        if self.session.state.opening is not None:
            self._leave_form()
        self._engine.stop()
        self.session.do(runs.stop)

    def _submit(self, text: str) -> None:
        self.transport.pause()
        self.reference.clear()
        self.session.do(runs.translate, text)
        if self.source.note:
            self.session.set(notice=self.source.note)
        if self.session.state.busy:
            self.tabs.setFocus()  # the arrow keys step now

    def _submit_reference(self, text: str) -> None:
        self.transport.pause()
        source = self.source.text() or self.session.state.wish.sentence
        self.session.do(runs.translate, source, reference=text)
        self.drawer.close_up()  # its loss is in sight now
        if self.session.state.busy:
            self.tabs.setFocus()

    def _choose_tokens(self, strategy: Strategy, limit: int | None) -> None:
        self.session.do(runs.choose_tokens, strategy, limit)

    def _change_device(self, device: str) -> None:
        opened = self.session.state.opened
        if opened is not None:
            self.open(opened.path, device)

    def escape(self) -> None:
        """Take back the topmost: drawer or card, what is large, a cell, a message."""
        if self.drawer.close_up() or close_first_steps(self):
            return
        if self.presentation.on:
            self.presentation.end()
        elif self.large.picture is not None:
            self.large.restore()
        elif self.session.state.locked is not None:
            self.session.set(locked=None, hovered=None)
        else:
            self.session.set(hovered=None, error="", notice="")

    # ---- events of the engine --------------------------------------------------

    def receive(self, event: Event) -> None:
        """Handle an event of the engine, on the window's thread."""
        self._is_step = isinstance(event, Decoded)
        self.session.do(receive, event)
        self._is_step = False
        if isinstance(event, Opened):
            if event.model.layout != WATCHED:  # whose path is only a name
                show_recent(self, self.memory.remember(event.path))
            self.memory.keep("answers", self.session.state.answers.text())
            if not readable(self.source.text(), event):
                self.source.clear()

    # ---- what is kept ----------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Up goes back into the sentence where nothing else takes it."""
        if event.key() == Qt.Key.Key_Up and not event.modifiers():
            self.source.take_focus()
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if local(event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        files = local(event.mimeData().urls())
        self.guarded(lambda: open_together(self, files))

    def closeEvent(self, event: QCloseEvent) -> None:
        self.transport.pause()
        self.form.hide()
        self.files.close()
        self.presentation.end()
        self.appearance.remember()
        self.memory.keep("history", self.source.history)
        self.memory.write()
        super().closeEvent(event)


class HeldKeys(QObject):
    """Draws a State at once; a key's only if what the last one changed is painted.

    So a held key keeps up however long a drawing takes: it ends where it would, and
    nothing is left to draw when it is let go.
    """

    def __init__(
        self,
        window: QWidget,
        draw: Callable[[State], None],
        follow: Callable[[State], None],
    ) -> None:
        """``follow`` is told at once, too, of a State that is drawn later."""
        super().__init__(window)
        self._draw, self._follow = draw, follow
        self._acting, self._painted = False, True
        self._state: State | None = None  # that is to be drawn
        self._late = SingleShot(self, self._draw_late)
        window.installEventFilter(self)

    def by_key(self, act: Callable[[], object]) -> Callable[[], None]:
        """Return what a key does that may be held."""

        def press() -> None:
            self._acting = True
            try:
                act()
            finally:
                self._acting = False

        return press

    def draw(self, state: State) -> None:
        """Draw a State now, or once the one before it is painted."""
        if self._acting and not self._painted:
            self._state = state
            self._follow(state)
            self._late.start()
            return
        self._late.stop()
        self._painted, self._state = False, None
        self._draw(state)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self._painted |= event.type() == QEvent.Type.UpdateRequest
        return False

    def _draw_late(self) -> None:
        if self._state is not None:
            self.draw(self._state)


def _is_long(trace: Trace | None) -> bool:
    return trace is not None and len(trace.source) + len(trace) > LONG


def wire(window: MainWindow) -> None:
    """Connect what explains and what teaches with the window's State."""
    _wire_teaching(window)
    session = window.session
    window.candidates.chosen.connect(lambda id: session.do(runs.force, id))
    window.large.failed.connect(lambda words: session.set(error=words))
    window.candidates.typed.connect(
        lambda text: session.do(side_requests.find_tokens, text)
    )
    for panel in (window.candidates, window.presentation.candidates):
        panel.unfolded.connect(lambda on: session.set(unfolded=on))
    strategy = window.strategy
    TermTip(strategy.limit, session, "limit")
    TermTip(strategy.temperature, session, "temperature")
    TermTip(strategy.top_k, session, "top_k")
    TermTip(strategy.top_p, session, "top_p")
    TermTip(strategy.seed, session, "seed")
    TermTip(window.candidates.summary, session, "entropy", "probability")


def _wire_teaching(window: MainWindow) -> None:
    """Let the bar, and an emptied reference box, change the window's run."""

    def teach(fed: bool) -> None:
        window.session.do(runs.teach, fed=fed)

    def drop(text: str = "") -> None:
        if not text:
            window.session.do(runs.drop_reference)

    window.candidates.teaching.chosen.connect(teach)
    window.candidates.teaching.dropped.connect(window.reference.clear)
    window.candidates.teaching.dropped.connect(drop)
    window.reference.textEdited.connect(drop)
