"""The engine process: the model, its tokenizer, and torch, away from the window.

``serve`` runs in the process; torch is imported there only. The window's handle is
``visformer.engine.handle.Engine``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from visformer.engine.messages import (
    AllTokens,
    AllTokensDone,
    Answer,
    Asked,
    Batch,
    BatchDone,
    Decode,
    FindTokens,
    Finished,
    Lens,
    LensDone,
    Logged,
    Numbered,
    Open,
    Opened,
    Parameters,
    ParametersDone,
    Passed,
    Ready,
    Refused,
    Request,
    Shuffle,
    Shuffled,
    Started,
    Stepped,
    Stop,
    Stopped,
    TokensFound,
    Unable,
)
from visformer.engine.starter import end_with
from visformer.errors import VisformerError, is_memory, stack_words
from visformer.language import _
from visformer.own_process import limit_memory
from visformer.values.arrays import Floats
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.recording import Row
from visformer.values.trace import Trace

if TYPE_CHECKING:
    from visformer.core.checkpoint import Checkpoint
    from visformer.core.decoding import Decoding
    from visformer.core.stepping import Stepping

LESS_PRIORITY = 5  # of Linux: a third of the time that each other thread gets
MOST_WORDS = 120  # characters of an unexpected error
NO_POSITIONS: Floats = np.zeros((0, 0), np.float32)


GONE = (EOFError, BrokenPipeError, ConnectionResetError)  # the window has ended


def serve(connection: Connection, parent: int, crashes: str, spare: bool) -> None:
    """Answer requests until the window's end of the pipe closes.

    ``parent`` is the window's process id, ``crashes`` the file that a crash is written
    to, or ""; nothing is asked of a ``spare`` process yet.
    """
    end_with(parent)
    limit_memory()
    if crashes:
        with contextlib.suppress(OSError):
            faulthandler.enable(open(crashes, "a"))  # noqa: SIM115
    try:
        _import_torch(aside=spare)
    except Exception as error:
        connection.send(Unable(number=0, reason=_named(error)))
        sys.exit(1)
    with contextlib.suppress(*GONE):
        connection.send(Ready(number=0))
        Server(connection).serve()


def serve_model(model: Served, connection: Connection) -> None:
    """Answer the requests on a model of this program, until its window is closed."""
    with contextlib.suppress(EOFError, OSError):
        Server(connection, model).serve()


def _import_torch(*, aside: bool) -> None:
    """Import torch, which takes a core for seconds; ``aside``: if nobody wants it."""
    gc.disable()  # collections would take a tenth of the time
    if aside:
        with ThreadPoolExecutor(1, initializer=_give_way) as threads:
            threads.submit(import_module, "torch").result()
    import torch

    gc.freeze()  # its objects live forever: later collections skip them
    gc.enable()
    # a second thread does not help with one sentence, and the window needs a core
    torch.set_num_threads(1)


def _give_way() -> None:
    """Leave the core to who needs it, but for so much that this ends in good time."""
    if sys.platform == "linux":  # elsewhere a process has one priority
        with contextlib.suppress(OSError):  # in some sandboxes
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LESS_PRIORITY)


def _named(error: BaseException) -> str:
    """Return an unexpected error as a few words."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:MOST_WORDS]


class Served(Protocol):
    """A model that runs in somebody's own program; decoded with as a checkpoint."""

    def opened(self, number: int, path: str) -> Opened:
        """Say what the model is."""


class Server:
    """One open checkpoint and its current decode.

    Or a model of somebody's own program, ``served`` from there: no other is opened.
    """

    def __init__(self, connection: Connection, served: Served | None = None) -> None:
        self._connection, self.served = connection, served
        self._waiting: Numbered | None = None  # received while a decode ran
        self.send: Callable[[Answer], None] = connection.send
        self.checkpoint = cast("Checkpoint | None", served)
        self.decodes = Decodes(self.send, self._interrupted)

    def serve(self) -> None:
        """Answer one request after the other, until nobody is there to ask."""
        while True:
            self.answer(self.newest())

    def newest(self) -> Numbered:
        """Wait for a request; of several take the last, so that no stale one runs.

        An ``Open`` is never skipped: what comes after it is meant for its model. Nor
        is a side request: it is answered before the requests around it.
        """
        newest: Numbered = self._waiting or self._connection.recv()
        self._waiting = None
        while not _stands_alone(newest.request) and self._connection.poll():
            newer: Numbered = self._connection.recv()
            if newer.request.is_side_request:
                self.answer(newer)
            else:
                newest = newer
        return newest

    def _interrupted(self) -> bool:
        """Tell whether a newer request waits; side requests are answered meanwhile."""
        while self._waiting is None and self._connection.poll():
            newer: Numbered = self._connection.recv()
            if newer.request.is_side_request:
                self.answer(newer)
            else:
                self._waiting = newer
        return self._waiting is not None

    def answer(self, numbered: Numbered) -> None:
        """Carry out a request; errors are answered, not raised."""
        number, request = numbered
        try:
            HANDLERS[type(request)](self, number, request)
        except VisformerError as error:
            self.send(Refused(number=number, reason=str(error)))
        except (*GONE, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of Rust is no Exception
            if not request.is_side_request:
                self.decodes.forget()  # it may have stopped halfway
            self.send(Refused(number=number, reason=self._reason(error)))

    def _reason(self, error: BaseException) -> str:
        """Return what to tell about an error that no code of ours raised."""
        if is_memory(error):
            traceback.clear_frames(error.__traceback__)  # they hold what was too much
            return _(
                "There is not enough memory for this: try a shorter sentence or a "
                "smaller model, or close other programs."
            )
        if self.served is not None:
            return _("Your model raised {error}.", error=_named(error))
        self.send(Logged(number=0, text=stack_words(error)))
        return _("Unexpected error: {error}", error=_named(error))


def _stands_alone(request: Request) -> bool:
    """Tell whether no later request supersedes this one."""
    return request.is_side_request or isinstance(request, Open)


def _open(server: Server, number: int, request: Open) -> None:
    from visformer.core.checkpoint import Checkpoint, available_devices, choose_device
    from visformer.core.incremental import warm_up
    from visformer.formats.layouts.native import dropout_rates, label_smoothing
    from visformer.formats.loading import checkpoint_files
    from visformer.tokenizers.sides import NumberSide

    if server.served is not None:
        server.send(server.served.opened(number, request.path))
        return
    files = checkpoint_files(request.path, request.overrides)
    if request.ask != "never":
        asked = files.questionnaire(every=request.ask == "always")
        if asked is not None:
            server.send(Asked(number=number, path=request.path, form=asked))
            return
    checkpoint = files.load(choose_device(request.device))
    source, positions = checkpoint.tokenizer.source, NO_POSITIONS
    if isinstance(checkpoint, Checkpoint):
        warm_up(checkpoint.packed)
        positions = _positions(checkpoint)
    server.checkpoint = checkpoint
    server.decodes.forget()
    server.send(
        Opened(
            number=number,
            path=request.path,
            model=checkpoint.facts,
            positions=positions,
            devices=available_devices(),
            findings=checkpoint.findings,
            assumed=checkpoint.assumed,
            numbers=source.size if isinstance(source, NumberSide) else 0,
            guessed_heads=files.guessed_heads,
            asks=files.asks or getattr(checkpoint, "multilingual", False),
            smoothing=label_smoothing(Path(request.path)),
            dropout=dropout_rates(Path(request.path)),
        )
    )


def _positions(checkpoint: Checkpoint) -> Floats:
    """Return the source's table of positions, [P, D]."""
    table = checkpoint.model.position_table("source").detach().cpu().numpy()
    return cast("Floats", table)


def _stop(server: Server, number: int, request: Stop) -> None:
    """Say that nothing is computed: reading the request ended the decode."""
    server.send(Stopped(number=number))


def _decode(server: Server, number: int, request: Decode) -> None:
    server.decodes.run(open_one(server.checkpoint), number, request)


Handler = Callable[[Server, int, Any], None]


def replying(reply: Callable[[Checkpoint | None, int, Any], Answer]) -> Handler:
    """Return the handler of a request with exactly one answer."""

    def handle(server: Server, number: int, request: Request) -> None:
        server.send(reply(server.checkpoint, number, request))

    return handle


log = logging.getLogger(__name__)


def open_one(checkpoint: Checkpoint | None) -> Checkpoint:
    """Return the open checkpoint; VisformerError if there is none."""
    if checkpoint is None:
        raise VisformerError(_("No model is open: open a checkpoint first."))
    return checkpoint


def run_here(checkpoint: Checkpoint | None) -> Checkpoint:
    """Return the open checkpoint; VisformerError where another program runs it."""
    from visformer.core.checkpoint import Checkpoint

    made = open_one(checkpoint)
    if not isinstance(made, Checkpoint):
        raise VisformerError(
            _(
                "“{name}” is run by its own program, so its source is not shuffled.",
                name=made.name,
            )
        )
    return made


def batch(checkpoint: Checkpoint | None, number: int, request: Batch) -> BatchDone:
    """Run several sentences together."""
    from visformer.core.side_runs import run_texts

    traces = run_texts(open_one(checkpoint), request.sources)
    return BatchDone(number=number, traces=tuple(map(lean, traces)))


def find_tokens(
    checkpoint: Checkpoint | None, number: int, request: FindTokens
) -> TokensFound:
    """Find the tokens that are, begin with or contain a text."""
    from visformer.core.all_tokens import named

    side = open_one(checkpoint).tokenizer.target
    found = named(request.text, (side.token(id) for id in range(side.size)))
    return TokensFound(number=number, text=request.text, tokens=found)


def shuffle(checkpoint: Checkpoint | None, number: int, request: Shuffle) -> Shuffled:
    """Run a sentence as it is and in another order."""
    from visformer.core.side_runs import run_shuffled

    order, baseline, shuffled = run_shuffled(
        run_here(checkpoint),
        request.source,
        request.target,
        intervention=request.intervention,
        seed=request.seed,
    )
    return Shuffled(
        number=number, order=order, baseline=lean(baseline), shuffled=lean(shuffled)
    )


def parameters(
    checkpoint: Checkpoint | None, number: int, request: Parameters
) -> ParametersDone:
    """Read the weights of a layer; None if the open model has no such layer."""
    from visformer.core.side_runs import layer_parameters

    weights = None
    try:
        weights = layer_parameters(run_here(checkpoint), request.stack, request.layer)
    except VisformerError:  # asked for another model than is open by now
        log.info("no layer %s in the %s", request.layer, request.stack)
    return ParametersDone(number=number, parameters=weights)


def lens(checkpoint: Checkpoint | None, number: int, request: Lens) -> LensDone:
    """Return what each layer would predict; no rows if they are another model's."""
    from visformer.core.checkpoint import Checkpoint
    from visformer.core.lens_rows import read_streams

    asked = request.hidden, request.chosen
    try:
        made = open_one(checkpoint)
        if isinstance(made, Checkpoint):
            rows = read_streams(made, *asked, temperature=request.temperature)
        else:
            rows = made.lens(*asked, temperature=request.temperature)
    except (VisformerError, RuntimeError):  # of another model; or no memory for it
        log.exception("no lens of %s rows", len(request.chosen))
        rows = ()
    return LensDone(number=number, rows=rows)


def all_tokens(
    checkpoint: Checkpoint | None, number: int, request: AllTokens
) -> AllTokensDone:
    """Return the distribution that a row predicts; None if it is another model's."""
    from visformer.core.all_tokens import distribution_of
    from visformer.core.checkpoint import Checkpoint

    made = open_one(checkpoint)
    try:
        if isinstance(made, Checkpoint):
            whole = distribution_of(made, request.stream)
        else:
            whole = made.distribution(
                request.source, request.target, request.intervention, request.row
            )
    except (VisformerError, RuntimeError):  # of another model; or no memory for it
        log.exception("no distribution of row %s", request.row)
        whole = None
    return AllTokensDone(number=number, distribution=whole)


def lean(trace: Trace) -> Trace:
    """Return the Trace without what stays in the engine: output, own weights."""
    bare = replace(trace, output_weight=None, output_bias=None, own_logits=None)
    return replace(bare, own_weights=None, own_lens=None)


HANDLERS: dict[type[Request], Handler] = {  # who answers which request
    Open: _open,
    Decode: _decode,
    Stop: _stop,
    Batch: replying(batch),
    Shuffle: replying(shuffle),
    Parameters: replying(parameters),
    Lens: replying(lens),
    AllTokens: replying(all_tokens),
    FindTokens: replying(find_tokens),
}


MAX_PASSES = 128  # steps kept as one pass each: memory grows with their square


class Decodes:
    """The engine's current decode; the next one continues from what they share."""

    def __init__(
        self, send: Callable[[Answer], None], interrupted: Callable[[], bool]
    ) -> None:
        """``interrupted`` is asked between steps: True ends the decode there."""
        self._send, self._interrupted = send, interrupted
        self._decoding: Decoding | None = None
        self._inputs: tuple[str, int | None, Intervention] = ("", None, NO_CHANGES)

    def forget(self) -> None:
        """Start the next decode from scratch."""
        self._decoding = None

    def run(self, checkpoint: Checkpoint, number: int, request: Decode) -> None:
        """Carry out a request: send what changed, then every further step."""
        decoding, fresh = self._prepared(checkpoint, request)
        if not decoding.settled:
            self._finish(number, self._passes(number, request, decoding))
            return
        if not decoding.in_rows:
            self._finish(number, self._watched(number, request, decoding))
            return
        kept = 0 if fresh else decoding.common(request.prefix)
        if request.reference:
            decoding.feed(request.reference)
            kept = 0
        else:
            decoding.follow(request.prefix)
            kept = min(kept, decoding.changed)
        start = lean(decoding.start) if fresh else None
        self._send(Started(number=number, start=start, limit=decoding.limit, kept=kept))
        for row in decoding.rows(kept):
            self._send_row(number, row)
        times: list[float] = []
        if not request.reference:
            times = self._go_on(decoding, lambda: self._send_step(number, decoding))
        self._finish(number, times)

    def _go_on(self, decoding: Stepping, send: Callable[[], None]) -> list[float]:
        """Decode until the end or a newer request -> each step's milliseconds."""
        times: list[float] = []
        while not (decoding.ended or self._interrupted()):
            began = time.perf_counter()
            decoding.step()
            times.append(1e3 * (time.perf_counter() - began))
            send()
        return times

    def _finish(self, number: int, times: list[float]) -> None:
        step_ms = float(np.median(times)) if times else None
        self._send(Finished(number=number, step_ms=step_ms))

    def _watched(self, number: int, request: Decode, decoding: Stepping) -> list[float]:
        """Send passes of a model that is watched, each of which holds all before it.

        The longer the text, the more steps lie between two of them: each is a pass
        over everything.
        """
        decoding.follow(
            decoding.reference(request.reference)
            if request.reference
            else decoding.after_prompt(request.prefix)
        )
        times: list[float] = []
        self._send_pass(number, decoding)
        wait, unsent = 1, 0
        while not (request.reference or decoding.ended or self._interrupted()):
            began = time.perf_counter()
            decoding.advance()
            times.append(1e3 * (time.perf_counter() - began))
            unsent += 1
            if unsent == wait or decoding.ended:
                self._send_pass(number, decoding)
                wait, unsent = 1 + len(times) // 4, 0
        if unsent:
            self._send_pass(number, decoding)
        return times

    def _passes(self, number: int, request: Decode, decoding: Stepping) -> list[float]:
        """Send each step as a whole pass: earlier rows change with every token."""
        choices = decoding.after_prompt(request.prefix)
        if request.reference:
            choices = decoding.reference(request.reference)
        for length in range(len(choices) + 1):
            if length and self._interrupted():
                return []
            decoding.follow(choices[:length])
            self._send_pass(number, decoding)
        if request.reference:
            return []
        return self._go_on(decoding, lambda: self._send_pass(number, decoding))

    def _send_pass(self, number: int, decoding: Stepping) -> None:
        trace, limit = lean(decoding.trace), decoding.limit
        settled = decoding.settled
        self._send(Passed(number=number, trace=trace, limit=limit, settled=settled))

    def _prepared(
        self, checkpoint: Checkpoint, request: Decode
    ) -> tuple[Decoding, bool]:
        """Return the decoding to continue, and whether it is a new one."""
        from visformer.core.decoding import Decoding

        inputs = (request.source, request.limit, request.intervention)
        if self._decoding is not None and self._inputs == inputs:
            self._decoding.strategy = request.strategy
            return self._decoding, False
        self._decoding = None
        decoding = Decoding(
            checkpoint,
            request.source,
            strategy=request.strategy,
            limit=request.limit,
            intervention=request.intervention,
        )
        if not decoding.settled:
            decoding.limit = min(decoding.limit, MAX_PASSES)
        self._decoding, self._inputs = decoding, inputs
        return decoding, True

    def _send_step(self, number: int, decoding: Decoding) -> None:
        """Send the new row, preceded by the earlier rows that it changed."""
        rows = decoding.rows(decoding.changed)
        if len(rows) > 1:
            self._send(
                Started(
                    number=number,
                    start=None,
                    limit=decoding.limit,
                    kept=decoding.changed,
                )
            )
        for row in rows:
            self._send_row(number, row)

    def _send_row(self, number: int, row: Row) -> None:
        self._send(Stepped(number=number, row=row))
