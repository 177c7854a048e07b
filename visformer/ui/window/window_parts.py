"""The parts of a window, and what its menus and keys do with them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Concatenate, ParamSpec

from PySide6.QtWidgets import QMainWindow, QMenu

from visformer.errors import VisformerError
from visformer.file_kinds import recognised
from visformer.pictures.attention.reading import move
from visformer.pictures.computation.stages import neighbour
from visformer.pictures.selection import Form
from visformer.pictures.words.absent import missing_kinds_words
from visformer.program.diagnostics import Health
from visformer.program.memory import Memory
from visformer.session import openings, runs, scans
from visformer.session.state import Next, Session, State
from visformer.trace_file.saved_session import SavedRun, SavedSession
from visformer.ui.bars.candidates import CandidatesPanel
from visformer.ui.bars.header import AboutButton, Header
from visformer.ui.bars.message_stack import MessageStack, RestoreBar
from visformer.ui.bars.source_line import SourceLine
from visformer.ui.bars.status import StatusLine
from visformer.ui.bars.strips import Strips
from visformer.ui.bars.transport import Drawer, Transport
from visformer.ui.window.body import Body, Side
from visformer.ui.window.large import LargePlace
from visformer.ui.window.tabs import Tabs
from visformer.values.facts import Kind
from visformer.values.intervention import Intervention
from visformer.values.questions import Overrides

P = ParamSpec("P")


class WindowParts(QMainWindow):
    """What is known of the window where its parts are used; see MainWindow."""

    session: Session
    memory: Memory
    health: Health | None = None  # what went wrong, once it is watched
    # shows the window in another language; None where none can be chosen
    speak: Callable[[str], None] | None = None
    about: AboutButton
    body: Body
    candidates: CandidatesPanel
    drawer: Drawer
    header: Header
    large: LargePlace
    messages: MessageStack
    open_trace: Callable[[str], None]
    recent_menu: QMenu
    save_runs: Callable[[Sequence[int], str], None]  # their keys; "vis" or "json"
    reference: SourceLine
    restore: RestoreBar
    # title of the dialog, a name with the suffix, and what makes the text
    save_text: Callable[[str, str, Callable[[], str]], None]
    shown_file: Callable[[], str]  # the session's file, "" for none
    side: Side
    source: SourceLine
    status: StatusLine
    strips: Strips
    tabs: Tabs
    transport: Transport

    def open(
        self,
        path: str,
        device: str = "",
        given: Overrides | None = None,
        *,
        beside: Overrides = (),
        then: str = "",
    ) -> None:
        """Open what a path leads to; of a checkpoint, see ``open_checkpoint``.

        The pairs of a file are scanned by the open model.
        """
        kind, problem = recognised(Path(path))
        if kind == "pairs" and self.session.state.opened is not None:
            self.session.go(self.session.state.turned("diagnosis", "sentences"))
            self.session.set(tab="diagnosis")
            self.session.do(scans.scan, path)
            return
        if problem:
            self.session.set(error=problem)
            return
        if kind != "model":
            self.open_trace(path)
            return
        self.session.do(
            openings.open_checkpoint, path, device, given, beside=beside, then=then
        )

    def show_run(self, run: SavedRun) -> None:
        """Show a recorded run, its text in the source line."""
        self.show_runs(SavedSession(runs=(run,)))

    def show_runs(self, session: SavedSession) -> None:
        """Show the runs of a session, the text of the one on screen in the line."""
        chosen = session.shown.selection
        self.session.do(runs.show_runs, session.runs, session.at, session.baseline)
        if chosen is not None and self.tabs.has(chosen.tab):
            self.session.set(tab=chosen.tab)
        self.source.setText(self.session.state.wish.sentence)

    def translate(self, text: str) -> None:
        """Translate ``text`` as if it had been typed."""
        self.source.take(text)
        self.source.submit()

    def change_run(self, intervention: Intervention) -> None:
        """Run the sentence with these changes."""
        self.session.do(runs.change_run, intervention)

    def turn_to(
        self, to: Callable[Concatenate[State, P], Next], *given: P.args, **how: P.kwargs
    ) -> None:
        """Go to another run; what is typed follows where that changes it."""
        before = self.session.state.wish
        self.transport.pause()
        self.session.do(to, *given, **how)
        now = self.session.state.wish
        if now.sentence != before.sentence:
            self.source.setText(now.sentence)
        if now.reference != before.reference:
            self.reference.setText(now.reference)

    def choose_kind(self, kind: Kind) -> None:
        trace = self.session.state.trace
        if trace is not None and kind not in trace.kinds:
            self.session.set(notice=missing_kinds_words(trace.model))
        else:
            self.session.set(kind=kind)

    def choose_form(self, form: Form) -> None:
        """Show attention in this form, also while one picture is large.

        Of two runs there are maps alone.
        """
        state = self.session.state
        if state.tab == "attention":
            views = replace(state.views, beside=state.views.beside and form == "map")
            self.session.set(look=replace(state.look, form=form), views=views)

    def walk_stages(self, by: int) -> None:
        """Move this many stages forward, also while one picture is large."""
        state = self.session.state
        if state.tab == "computation":
            self.session.set(stage=neighbour(state.stage, by))

    def walk_heads(self, layers: int, heads: int) -> None:
        state = self.session.state
        self.session.set(layer=state.layer + layers, head=state.head + heads)

    def move_cell(self, rows: int, columns: int) -> None:
        state = self.session.state
        if state.locked is not None:
            by = rows, columns
            looked = state.visible, state.selection, state.look
            cell = move(*looked, state.locked, by)
            self.session.set(locked=cell, hovered=None)

    def guarded(self, action: Callable[[], object]) -> None:
        """Do something; show the sentence of a VisformerError."""
        try:
            action()
        except VisformerError as error:
            self.session.set(error=str(error))
