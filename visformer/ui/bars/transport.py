"""Transport: first, back, play, forward, last, any step; strategy, limit, speed.

What is not set every minute stands in the drawer; its button says what is on.
"""

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QSlider,
    QSpinBox,
    QWidget,
)

from visformer.language import N_, _
from visformer.pictures.words.absent import has_target
from visformer.pictures.words.modified_run import is_taught
from visformer.session.state import State
from visformer.ui.layout import fill, in_line
from visformer.ui.look import icons, theme
from visformer.ui.look.icons import dress
from visformer.ui.look.theme import FONT_PALETTE, Dressed, letter_width
from visformer.ui.widgets.controls import (
    chooser,
    number_field,
    titled,
    tool_button,
    whole_field,
)
from visformer.ui.widgets.plain_label import plain_label
from visformer.values.step import MOST_BEAMS, Strategy

STRATEGIES = {
    "greedy": N_("greedy"),
    "sample": N_("sampling"),
    "beam": N_("beam search"),
}
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # steps per second


class Transport(Dressed, QWidget):
    """Steps through what was decoded, or plays it at a chosen speed.

    ``speed`` and ``rate``, its words, stand where the window puts them.
    """

    dressed_at = FONT_PALETTE

    moved = Signal(int)  # to this step

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._tick)
        self._buttons = {
            "first": tool_button(_("Before the first step (Home)"), self.first),
            "back": tool_button(_("One step back (Left)"), self.back),
            "play": tool_button(_("Play (Space)"), self.toggle),
            "forward": tool_button(_("One step forward (Right)"), self.forward),
            "last": tool_button(_("Last step (End)"), self.last),
        }
        self._where = plain_label("")
        self.steps = QSlider(Qt.Orientation.Horizontal)
        self.steps.setAccessibleName(_("Step"))
        self.steps.setToolTip(_("Go to any step"))
        self.steps.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.steps.setMinimumWidth(60)
        self.steps.setMaximumWidth(240)
        self.steps.valueChanged.connect(self.go)
        self.speed = QSlider(Qt.Orientation.Horizontal)
        self.speed.setRange(0, len(SPEEDS) - 1)
        self.speed.setValue(SPEEDS.index(1.0))
        self.speed.setAccessibleName(_("Playback speed"))
        self.speed.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.speed.valueChanged.connect(self._speed_changed)
        self.rate = plain_label("", faint=True)
        self._speed_changed()
        parts = *self._buttons.values(), self.steps, self._where
        fill(QHBoxLayout(self), *parts, spacing=2)
        self.dress()

    def _show_icons(self) -> None:
        for name, button in self._buttons.items():
            dress(button, "pause" if name == "play" and self.playing else name)

    def _dress(self) -> None:
        self._show_icons()
        self._tell(self._state.step, self._last, self._first)

    def draw(self, state: State) -> None:
        """Show where the current step is."""
        self._state = state
        step, first, last = state.step, self._first, self._last
        self.setVisible(state.trace is None or has_target(state.trace))
        self._tell(step, last, first)
        self.steps.setVisible(state.look.ahead)
        with QSignalBlocker(self.steps):
            self.steps.setRange(first, last)
            self.steps.setValue(step)
        self.steps.setEnabled(last > first)
        able = {
            "first": step > first,
            "back": step > first,
            "play": last > first,
            "forward": step < last,
            "last": step < last,
        }
        for name, button in self._buttons.items():
            button.setEnabled(able[name])

    def _tell(self, step: int, last: int, first: int) -> None:
        """Say which step it is; nothing moves while its digits are as many."""
        widest, more = (10 ** len(str(number)) - 1 for number in (last, first))
        if self._state.look.ahead:
            said, room = (
                _where(step, last, first),
                _where(widest, widest, first and more),
            )
        else:
            said, room = (_("step {n}", n=number) for number in (step, widest))
        metrics = self.fontMetrics()
        wide = max(metrics.horizontalAdvance(text) for text in (said, room))
        self._where.setFixedSize(wide + letter_width(metrics), metrics.height())
        self._where.setText(said)

    @property
    def _first(self) -> int:
        return self._state.trace.prompt if self._state.trace is not None else 0

    @property
    def _last(self) -> int:
        return len(self._state.trace) if self._state.trace is not None else 0

    @property
    def playing(self) -> bool:
        return self._timer.isActive()

    def first(self) -> None:
        """Go before the first step: an empty target, or the first after a prompt."""
        self.go(self._first)

    def back(self) -> None:
        """Go one step back."""
        self.go(self._state.step - 1)

    def forward(self) -> None:
        """Go one step on."""
        self.go(self._state.step + 1)

    def last(self) -> None:
        """Go to the end of what is decoded."""
        self.go(self._last)

    def toggle(self) -> None:
        """Pause, or play: from the start where the end is reached."""
        if self.playing:
            self.pause()
            return
        if self._state.step >= self._last:
            self.moved.emit(self._first)
        self._timer.start()
        self._show_playing()

    def pause(self) -> None:
        """Stop playing."""
        if self.playing:
            self._timer.stop()
            self._show_playing()

    def go(self, step: int) -> None:
        """Go to a step; playing ends."""
        self.pause()
        self.moved.emit(step)

    def _tick(self) -> None:
        if self._state.step >= self._last:
            self.pause()
        else:
            self.moved.emit(self._state.step + 1)

    def _speed_changed(self) -> None:
        speed = SPEEDS[self.speed.value()]
        self._timer.setInterval(round(1000 / speed))
        self.rate.setText(_("{rate}/s", rate=f"{speed:g}"))
        self.speed.setToolTip(_("steps per second: {rate}", rate=f"{speed:g}"))

    def _show_playing(self) -> None:
        self._show_icons()
        play = self._buttons["play"]
        name = _("Pause (Space)") if self.playing else _("Play (Space)")
        play.setToolTip(name)
        play.setAccessibleName(name)


def _where(step: int, last: int, prompt: int) -> str:
    if not prompt:
        return _("step {step} of {last}", step=step, last=last)
    return _(
        "step {step} of {last}, prompt {prompt}", step=step, last=last, prompt=prompt
    )


class StrategyControls(QWidget):
    """How the next token is chosen, and how many there may be.

    The strategy's name; its ``numbers`` and the ``limit`` stand where the window puts
    them.
    """

    changed = Signal(object, object)  # a Strategy, and a limit or None

    def __init__(self) -> None:
        super().__init__()
        self.name = chooser(_("Strategy"), STRATEGIES)
        self.name.setToolTip(
            _(
                "Greedy takes the most probable token; sampling draws a token by its "
                "probability; beam search keeps several beginnings and takes the best "
                "end."
            )
        )
        self.temperature = _number(0.05, 5.0, 1.0, _("Temperature"), "T")
        top_p = _("Top-p: share of the probability that is kept")
        self.top_p = _number(0.01, 1.0, 1.0, top_p, "p")
        top_k = _("Top-k: number of most probable tokens that are kept")
        # i18n: top-k, of all tokens
        self.top_k = _whole(100_000, top_k, "k", _("k all"))
        self.seed = _whole(2**31 - 1, _("Sampling seed"), _("seed"))
        limit = _("Maximum number of target tokens")
        self.limit = _whole(65_536, limit, _("limit"), _("limit auto"))
        self.beams = whole_field(_("Number of beams"), 1, MOST_BEAMS)
        self.beams.setValue(Strategy().beams)
        self.beams.setToolTip(_("Number of beams"))
        self._sampling = (self.temperature, self.top_k, self.top_p, self.seed)
        self.fields = (*self._sampling, self.beams, self.limit)
        self._drawn: tuple[Strategy, int | None] = Strategy(), None
        self.taught = plain_label(_("teacher forcing"))
        self.taught.setToolTip(
            _("The tokens are those of the reference: no strategy chooses them.")
        )
        self.taught.hide()
        fill(QHBoxLayout(self), self.name, self.taught)
        self.numbers = in_line(*self._sampling)
        self.name.currentIndexChanged.connect(self._name_changed)
        for box in self.fields:
            box.valueChanged.connect(self._report)
        self._show_sampling()

    def draw(self, state: State) -> None:
        """Show how tokens are chosen; a value being typed stays."""
        strategy, limit = state.wish.strategy, state.wish.limit
        taught = is_taught(state.trace)
        self.taught.setVisible(taught)
        self.name.setVisible(not taught)
        if (strategy, limit) == self._drawn:
            return
        self._drawn = strategy, limit
        blockers = [QSignalBlocker(box) for box in (self.name, *self.fields)]
        self.name.setCurrentIndex(self.name.findData(strategy.name))
        self.temperature.setValue(strategy.temperature)
        self.top_k.setValue(strategy.top_k)
        self.top_p.setValue(strategy.top_p)
        self.seed.setValue(strategy.seed)
        self.beams.setValue(strategy.beams)
        self.limit.setValue(limit or 0)
        del blockers
        self._show_sampling()

    def _report(self) -> None:
        strategy = Strategy(
            name=self.name.currentData(),
            temperature=self.temperature.value(),
            top_k=self.top_k.value(),
            top_p=self.top_p.value(),
            seed=self.seed.value(),
            beams=self.beams.value(),
        )
        self.changed.emit(strategy, self.limit.value() or None)

    def _name_changed(self) -> None:
        self._show_sampling()
        self._report()

    def _show_sampling(self) -> None:
        name = self.name.currentData()
        for box in self._sampling:
            box.setEnabled(name == "sample")
        self.beams.setEnabled(name == "beam")


def _number(
    low: float, high: float, value: float, name: str, prefix: str
) -> QDoubleSpinBox:
    box = number_field(name, low, high, prefix=prefix)
    box.setSingleStep(0.05)
    box.setValue(value)
    box.setToolTip(name)
    return box


def _whole(high: int, name: str, prefix: str, at_zero: str = "") -> QSpinBox:
    """Build a field from 0 to ``high``; ``at_zero`` is what it shows for 0."""
    box = whole_field(name, 0, high, prefix=prefix)
    box.setSpecialValueText(at_zero)
    box.setToolTip(name)
    return box


class Drawer(Dressed, QFrame):
    """Named fields below one another, over the pictures while it is open.

    Opened by hand it is ready for typing in its first field.
    """

    dressed_at = FONT_PALETTE

    closed = Signal()  # with the focus in it, which goes elsewhere now

    def __init__(self, parent: QWidget, fields: Sequence[tuple[str, QWidget]]) -> None:
        super().__init__(parent)
        self.setAutoFillBackground(True)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName(_("how the run is made and played"))
        self.button = tool_button(_("Reference, sampling, limit, speed (Ctrl+D)"))
        self.button.setCheckable(True)
        self.button.setAccessibleName(_("how the run is made and played"))
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.toggled.connect(self._open)
        self._first = fields[0][1]
        self._form = QFormLayout(self)
        for name, field in fields:
            self._form.addRow(titled(name, field), field)
        self.dress()
        self.hide()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.raise_()

    def _dress(self) -> None:
        icons.dress(self.button, "settings")
        space = theme.gap(self, 2)
        self._form.setContentsMargins(space, space, space, space)
        self._form.setSpacing(theme.gap(self))

    def draw(self, state: State) -> None:
        """Say at the button what is not as usual."""
        self.button.setText(" · ".join(_in_use(state)))

    def _open(self, opened: bool) -> None:
        focused = self.isAncestorOf(self.window().focusWidget() or self.window())
        if focused and not opened:
            self.closed.emit()  # hidden, it would give the focus to any widget
        self.setVisible(opened)
        if opened:
            self._first.setFocus()

    def close_up(self) -> bool:
        """Close the drawer; tell whether it was open."""
        opened = self.button.isChecked()
        self.button.setChecked(False)
        return opened


def _in_use(state: State) -> list[str]:
    strategy, usual = state.wish.strategy, Strategy()
    words = []
    if strategy.name == "sample":
        if strategy.temperature != usual.temperature:
            words.append(f"T {strategy.temperature:g}")
        if strategy.top_k:
            words.append(f"k {strategy.top_k}")
        if strategy.top_p != usual.top_p:
            words.append(f"p {strategy.top_p:g}")
    if strategy.name == "beam":
        words.append(_("{n} beams", n=strategy.beams))
    if state.wish.limit is not None:
        words.append(_("limit {n}", n=state.wish.limit))
    if state.wish.reference and not is_taught(state.trace):  # the transport says it
        words.append(_("reference"))
    return words
