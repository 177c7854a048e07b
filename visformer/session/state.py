"""State: all on screen follows from it. Session: holds one, tells one listener."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from visformer.engine.messages import Asked, Opened, Shuffled
from visformer.pictures.look import PLAIN, Look
from visformer.pictures.selection import Cell, Scale, Selection
from visformer.values.arrays import Floats
from visformer.values.facts import Kind, ModelFacts
from visformer.values.intervention import UNTOUCHED, Intervention
from visformer.values.layer_weights import LayerParameters
from visformer.values.lens import LensRows
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class State:
    """A frozen value; changed only through ``Session.set``.

    ``trace`` holds all that was decoded ahead; ``shown`` is what may be seen: its first
    ``step`` rows. ``step`` counts decoded tokens: 0 shows an empty target, n the n-th
    choice and the rows 0 to n - 1 that led to it.
    """

    model: ModelFacts | None = None
    positions: Floats | None = None  # the model's own encodings, [max_positions, D]
    about: Opened | None = None  # what was said when the model was opened
    asked: Asked | None = None  # questions about a file that wait for their answers
    trace: Trace | None = None
    shown: Trace | None = None  # derived
    step: int = 0
    recorded: bool = False  # the Trace was read from a file; no engine has made it
    parameters: LayerParameters | None = None  # of the layer looked at, once they came
    lens: LensRows | None = None  # what each layer would predict, as far as it came
    intervention: Intervention = UNTOUCHED  # what the user has changed in the run
    plain: Trace | None = None  # the run without it, once that is known
    passes: tuple[Trace, ...] = ()  # by step, where each step changed the rows before
    shuffle: Shuffled | None = None  # the sentence in another order, and in its own
    batch: tuple[Trace, ...] = ()  # several sentences run together, pads included
    tab: str = "attention"
    stage: str = "softmax"  # of the Computation tab
    kind: Kind = "cross"  # the focused one: its heads are in the overview
    layer: int = 0
    head: int = 0
    scale: Scale = "fixed"
    look: Look = PLAIN  # the Attention tab's: form, summary, tokens hidden or merged
    hovered: Cell | None = None
    locked: Cell | None = None  # a click locks, Escape frees
    busy: str = ""  # what the engine is doing, in words; empty when idle
    step_ms: float | None = None  # milliseconds per step of the last decode
    notice: str = ""  # something to know: a cut sentence, a replaced engine
    error: str = ""  # one sentence: what went wrong and what to do

    @property
    def cell(self) -> Cell | None:
        """The cell in focus: the hovered one, else the locked one."""
        return self.hovered or self.locked

    @property
    def selection(self) -> Selection:
        """What of the Trace is looked at."""
        return Selection(
            kind=self.kind,
            layer=self.layer,
            head=self.head,
            cell=self.cell,
            scale=self.scale,
        )


def clamp(state: State, before: State) -> State:
    """Bring the selection inside what there is, and derive ``shown``.

    ``shown`` stays the same object while what it shows is the same.
    """
    if state.trace is None:
        return replace(state, shown=None, step=0, hovered=None, locked=None)
    trace = state.trace
    if before.trace is not None and not _same_sentence(trace, before.trace):
        state = replace(state, shuffle=None)
    step = max(0, min(state.step, len(trace)))
    same = before.trace is trace and before.step == step
    shown = before.shown if same and before.shown else _shown(state, trace, step)
    return replace(
        state,
        step=step,
        shown=shown,
        layer=max(0, min(state.layer, trace.layers(state.kind) - 1)),
        head=max(0, min(state.head, trace.heads - 1)),
        hovered=_inside(state.hovered, shown),
        locked=_inside(state.locked, shown),
    )


def _same_sentence(one: Trace, other: Trace) -> bool:
    return one.source == other.source and one.model == other.model


def _shown(state: State, trace: Trace, step: int) -> Trace:
    return state.passes[step] if step < len(state.passes) else trace.until(step)


def _inside(cell: Cell | None, trace: Trace) -> Cell | None:
    if cell is None:
        return None
    queries, keys = trace.tokens(cell.kind)
    valid = 0 <= cell.query < len(queries) and 0 <= cell.key < len(keys)
    return cell if valid else None


class Session:
    """Holds the one State; every change goes through ``set``."""

    def __init__(self, listener: Callable[[State], None] | None = None) -> None:
        self.state = State()
        self.listener = listener

    def set(self, **changes: Any) -> None:
        """Replace fields of the State, clamp the selection, tell the listener."""
        self.state = clamp(replace(self.state, **changes), self.state)
        if self.listener is not None:
            self.listener(self.state)
