"""What the window asks of the engine, and what it makes of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from visformer.engine.handle import Event, Replaced
from visformer.engine.messages import (
    Asked,
    Batch,
    BatchDone,
    Decode,
    Finished,
    LensDone,
    Opened,
    Parameters,
    ParametersDone,
    Refused,
    Request,
    Shuffle,
    Shuffled,
)
from visformer.engine.mirror import Decoded
from visformer.errors import VisformerError
from visformer.pictures.about import opened_words, readable
from visformer.session.alterations import Alterations
from visformer.session.answers import Answers
from visformer.session.lens_requests import LensRequests
from visformer.session.openings import Opener, Openings
from visformer.session.state import Session
from visformer.text import MAX_CHARACTERS, clean
from visformer.values.arrays import Floats
from visformer.values.facts import ModelFacts
from visformer.values.intervention import UNTOUCHED
from visformer.values.layer_weights import Stack, same_model
from visformer.values.questions import Overrides
from visformer.values.strategy import Strategy
from visformer.values.trace import Trace
from visformer.values.trace_file import read_trace


class EngineLike(Opener, Protocol):
    """What the window needs of the engine."""

    def ask(self, request: Request) -> int:
        """Ask something of the open model; returns the request's number."""


_NOTHING_CHANGED: dict[str, Any] = {
    "intervention": UNTOUCHED,
    "plain": None,
    "passes": (),
}


@dataclass(slots=True)
class _Pending:
    """The decode that the window waits for."""

    number: int
    step: int | None  # where to put the cursor once it is decoded; None: it is there
    done: bool = False


class Requests:
    """Turns what the user does into requests, and events into State."""

    def __init__(
        self, session: Session, engine: EngineLike, answers: Answers | None = None
    ) -> None:
        self._session, self._engine = session, engine
        self.openings = Openings(session, engine, answers or Answers())
        self._about: Opened | None = None  # the model that the engine has open
        self._pending: _Pending | None = None
        self._positions: Floats | None = None  # of the model that the engine has open
        self._model: ModelFacts | None = None  # that one
        self._asked: tuple[Stack, int] | None = None  # for the weights of this layer
        self._lens = LensRequests(session, engine)
        self.path = ""  # of the checkpoint that is open, or being opened
        self.sentence = ""
        self.strategy = Strategy()
        self.limit: int | None = None
        self._reference = ""
        self._then = ""
        self._shuffles = 0  # each in another order
        self.alterations = Alterations(session, self)

    def open(
        self,
        path: str,
        device: str = "",
        told: Overrides | None = None,
        *,
        beside: Overrides = (),
        then: str = "",
    ) -> None:
        """Open a checkpoint, or a Trace (``*.vis``); see ``Openings.open``.

        ``then`` is translated once the checkpoint is open.
        """
        self._then = then
        if path.endswith(".vis"):
            self._open_trace(Path(path))
        else:
            self.openings.open(path, device, told, beside)

    def _open_trace(self, path: Path) -> None:
        try:
            trace = read_trace(path)
        except VisformerError as error:
            self._session.set(error=str(error))
            return
        self.show_trace(trace)

    def show_trace(self, trace: Trace) -> None:
        """Show a recorded Trace, whole; one without an encoder is refused."""
        if not trace.model.cross:
            self._session.set(
                error="This Trace is of a decoder that ran alone: there is no encoder "
                "and no cross attention to show. Read it with visformer.open_trace."
            )
            return
        self._pending = None
        self.sentence = trace.source_text
        self._session.set(
            trace=trace,
            model=trace.model,
            positions=None,
            about=None,
            step=len(trace),
            recorded=True,
            error="",
            **_NOTHING_CHANGED,
        )

    def translate(self, text: str, *, reference: str = "") -> None:
        """Decode a sentence to its end; the cursor goes to step 1.

        With a reference the target is that text, and the cursor goes to its end.
        """
        text, reference = clean(text), clean(reference)
        if not text.strip():
            self._session.set(
                error="The source is empty: type a sentence to translate."
            )
        elif len(text) > MAX_CHARACTERS:
            self._session.set(
                error=f"{len(text):,} characters are too many: at most "
                f"{MAX_CHARACTERS:,} are read."
            )
        else:
            self.sentence, self._reference = text, reference
            self._session.set(plain=None)
            self._decode(1 if not reference else 1 << 30)

    def force(self, id: int) -> None:
        """Replace the current step's choice; what followed it is decoded anew."""
        state = self._session.state
        if state.shown is None or not state.step:
            return
        self._reference = ""
        kept = state.shown.steps[:-1]
        prefix = (*((step.id, step.origin) for step in kept), (id, "forced"))
        self._decode(state.step, prefix=prefix)

    def change_strategy(self, strategy: Strategy, limit: int | None) -> None:
        """Choose tokens another way from now on; decode the sentence anew."""
        self.strategy, self.limit = strategy, limit
        self._session.set(plain=None)
        if self.sentence:
            self._decode(self._session.state.step)

    def batch(self, sources: tuple[str, ...]) -> None:
        """Run several sentences together."""
        self._engine.ask(Batch(sources=tuple(map(clean, sources))))
        self._session.set(busy="running the batch", error="")

    @property
    def asking(self) -> bool:
        """Tell whether weights or a lens were asked for and have not come yet."""
        return self._asked is not None or self._lens.asking

    def parameters(self, stack: Stack, layer: int) -> None:
        """Have the weights of a layer brought into the State, once the engine is up.

        Only the model of the Trace on screen is asked: another's would not fit.
        """
        trace, model = self._session.state.shown, self._model
        if trace is None or model is None or not same_model(model, trace.model):
            return
        if self._asked != (stack, layer):
            self._asked = stack, layer
            self._engine.ask(Parameters(stack=stack, layer=layer))

    def lens(self, rows: tuple[int, ...]) -> None:
        """Have the lens of some rows brought into the State, the first ones first."""
        self._lens.ask(rows, self._model, self.strategy)

    @property
    def decoding(self) -> bool:
        """Whether a decode has not come to its end."""
        return self._pending is not None and not self._pending.done

    def run_again(self, step: int) -> None:
        """Decode the sentence under the State's intervention."""
        self._decode(step)

    def drop(self) -> None:
        """Take no more of the decode that is going on."""
        self._pending = None

    def shuffle(self) -> None:
        """Run the source in another order too, the target as far as it is shown."""
        shown = self._session.state.shown
        if shown is None:
            return
        self._shuffles += 1
        request = Shuffle(
            source=shown.source_text,
            target=tuple(shown.target_ids.tolist()),
            intervention=shown.intervention,
            seed=self._shuffles,
        )
        self._engine.ask(request)
        self._session.set(busy="running the shuffled source", error="")

    def _decode(
        self, step: int, *, prefix: tuple[tuple[int, object], ...] = ()
    ) -> None:
        """Decode the sentence: the untouched run first, where it is not known."""
        state = self._session.state
        request = Decode(
            source=self.sentence,
            prefix=prefix,  # type: ignore[arg-type]
            reference=self._reference,
            strategy=self.strategy,
            limit=self.limit,
            intervention=UNTOUCHED if state.plain is None else state.intervention,
        )
        self._pending = _Pending(self._engine.ask(request), step)
        slower = request.intervention.masked
        busy = "decoding, slower: a full pass a step" if slower else "decoding"
        self._session.set(busy=busy, error="", notice="")

    def receive(self, event: Event) -> None:
        """Bring an event of the engine into the State."""
        if isinstance(event, Decoded):
            self._decoded(event)
        elif isinstance(event, Finished):
            self._finished(event)
        elif isinstance(event, Opened):
            self._opened(event)
        elif isinstance(event, Asked):
            self.openings.asked(event)
        elif isinstance(event, BatchDone):
            self._session.set(batch=event.traces, busy="")
        elif isinstance(event, Shuffled):
            self._session.set(shuffle=event, busy="")
        elif isinstance(event, ParametersDone):
            self._asked = None
            self._session.set(parameters=event.parameters)
        elif isinstance(event, LensDone):
            self._lens.receive(event)
        elif isinstance(event, Refused):
            if self.openings.refused(event):
                return
            if self._pending is not None and event.number == self._pending.number:
                self._pending.done = True
                self._leave_other_model()
            self._session.set(error=event.reason, busy="")
        elif isinstance(event, Replaced):
            self._asked = None  # the question has died with the engine
            self._lens.forget()
            self._session.set(notice=event.reason)

    def _decoded(self, event: Decoded) -> None:
        pending, state = self._pending, self._session.state
        if pending is None or event.number != pending.number:
            return
        trace = event.trace
        if pending.step is None:
            # a replaced engine replays what is shown: keep that until it has caught up
            if len(trace) >= state.step:
                self._session.set(trace=trace, passes=event.passes)
            return
        if state.recorded and len(trace) < min(pending.step, len(state.trace or ())):
            return
        if len(trace) >= pending.step:
            self._show(event, pending.step)
            pending.step = None
        else:
            self._show(event, len(trace))

    def _show(self, event: Decoded, step: int) -> None:
        trace = event.trace
        notice = self._session.state.notice
        if trace.truncated_from:
            positions = trace.model.config.max_positions
            notice = (
                f"{trace.truncated_from:,} of {positions:,} tokens: the sentence is "
                "cut to the model's positions."
            )
        self._session.set(
            trace=trace,
            passes=event.passes,
            step=step,
            recorded=False,
            notice=notice,
            model=trace.model,
            positions=self._positions,
            about=self._about,
        )

    def _finished(self, event: Finished) -> None:
        if self._pending is None or event.number != self._pending.number:
            return
        self._pending.step, self._pending.done = None, True
        step_ms = event.step_ms or self._session.state.step_ms
        self._session.set(busy="", step_ms=step_ms)
        state = self._session.state
        if state.intervention and state.plain is None:
            self._session.set(plain=state.trace)
            self._decode(state.step)

    def _opened(self, event: Opened) -> None:
        first, self.path = not self.path, event.path
        self._positions, self._model = event.positions, event.model
        self._asked, self._about = None, event
        changed = self.openings.opened(event)
        self._lens.forget()
        state, pending = self._session.state, self._pending
        recorded = state.trace if state.recorded else None
        foreign = recorded is not None and recorded.model.digest != event.model.digest
        waiting = first and pending is not None and not pending.done
        self._session.set(
            # what is on screen keeps its own model until something new is decoded
            model=state.model if foreign else event.model,
            positions=None if foreign else event.positions,
            about=None if foreign else event,
            asked=None,
            busy=state.busy if waiting else "",
            error="",
            notice=opened_words(event, changed=changed),
            batch=(),
            parameters=None,
            intervention=UNTOUCHED,
            plain=None,
        )
        self.alterations.forget()
        if self._then:
            self.translate(self._then)
            self._then = ""
            return
        if waiting or foreign:
            return  # what was asked before the model was there is answered next
        if recorded is not None:
            self._take_over(recorded)
        elif self.sentence and readable(self.sentence, event):
            self._decode(1)
        elif self.sentence:
            self.sentence = ""
            self._leave_other_model()

    def _leave_other_model(self) -> None:
        """Clear what another model made, which cannot stand under this one's name."""
        model, trace = self._session.state.model, self._session.state.trace
        if trace is None or model is None or trace.model.digest == model.digest:
            return
        self._session.set(trace=None, passes=())

    def _take_over(self, recorded: Trace) -> None:
        """Have the engine go on from a Trace that its own model made."""
        prefix = tuple((step.id, step.origin) for step in recorded.steps)
        self._decode(self._session.state.step, prefix=prefix)
