"""The engine process: the model, its tokenizer, and torch, away from the window.

``serve`` runs in the process; torch is imported there only. The window's handle is
``visformer.engine.handle.Engine``.
"""

from __future__ import annotations

import gc
import logging
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, cast

from visformer.engine.messages import (
    Aside,
    Asked,
    Batch,
    BatchDone,
    Decode,
    Finished,
    Lens,
    LensDone,
    Open,
    Opened,
    Parameters,
    ParametersDone,
    Passed,
    Refused,
    Request,
    Shuffle,
    Shuffled,
    Started,
    Stepped,
)
from visformer.errors import VisformerError
from visformer.values.arrays import Floats
from visformer.values.intervention import UNTOUCHED, Intervention
from visformer.values.recording import Row
from visformer.values.step import Origin
from visformer.values.trace import Trace

if TYPE_CHECKING:
    from visformer.core.checkpoint import Checkpoint
    from visformer.core.decoding import Decoding
    from visformer.values.lens import LensRow

log = logging.getLogger(__name__)
MAX_PASSES = 128  # steps that are kept as a pass each: their rows grow as the square


def serve(connection: Connection) -> None:
    """Answer requests until the window's end of the pipe closes."""
    gc.disable()  # collections while torch is imported take a tenth of its time
    import torch

    gc.freeze()  # what it made stays for good: no later collection looks at it
    gc.enable()
    # a second thread never helps one sentence, and the other core is the window's
    torch.set_num_threads(1)
    server = Server(connection)
    try:
        while True:
            server.answer(server.newest())
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        pass  # the window is gone, and so is what this process is for


class Server:
    """One open checkpoint and the decode it is at."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._checkpoint: Checkpoint | None = None
        self._decoding: Decoding | None = None
        self._waiting: Request | None = None  # received while a decode ran
        self._wanted: tuple[str, int | None, Intervention] = ("", None, UNTOUCHED)

    def newest(self) -> Request:
        """Wait for a request; of several take the last, so that no stale one runs.

        An ``Open`` is never skipped: what comes after it is meant for its model. Nor
        is an ``Aside``: it is answered before what it stands among.
        """
        request: Request = self._waiting or self._connection.recv()
        self._waiting = None
        while not isinstance(request, Open | Aside) and self._connection.poll():
            newer: Request = self._connection.recv()
            if isinstance(newer, Aside):
                self._aside(newer)
            else:
                request = newer
        return request

    def _interrupted(self) -> bool:
        """Tell whether a newer request waits; what is aside is answered meanwhile."""
        while self._waiting is None and self._connection.poll():
            request: Request = self._connection.recv()
            if isinstance(request, Aside):
                self._aside(request)
            else:
                self._waiting = request
        return self._waiting is not None

    def answer(self, request: Request) -> None:
        """Carry a request out; what goes wrong is answered, not raised."""
        try:
            if isinstance(request, Open):
                self._open(request)
            elif isinstance(request, Decode):
                self._decode(request)
            elif isinstance(request, Batch):
                self._batch(request)
            elif isinstance(request, Aside):
                self._aside(request)
            else:
                self._shuffle(request)
        except VisformerError as error:
            self._refuse(request, str(error))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:
            log.exception("request %s failed", request.number)
            self._decoding = None  # it may have stopped half-way
            self._refuse(request, f"Unexpected fault: {type(error).__name__}: {error}")

    def _refuse(self, request: Request, reason: str) -> None:
        self._connection.send(Refused(number=request.number, reason=reason))

    def _open(self, request: Open) -> None:
        from visformer.core.checkpoint import available_devices
        from visformer.core.incremental import warm_up
        from visformer.formats.loading import form, load_told
        from visformer.tokenizers.sides import NumberSide

        if request.ask != "never":
            asked = form(request.path, request.told, every=request.ask == "always")
            if asked is not None:
                self._connection.send(
                    Asked(number=request.number, path=request.path, form=asked)
                )
                return
        checkpoint = load_told(request.path, request.told, request.device)
        source = checkpoint.tokenizer.source
        warm_up(checkpoint.packed)
        self._checkpoint, self._decoding = checkpoint, None
        self._connection.send(
            Opened(
                number=request.number,
                path=request.path,
                model=checkpoint.facts,
                positions=_positions(checkpoint),
                devices=available_devices(),
                findings=checkpoint.findings,
                assumed=checkpoint.assumed,
                numbers=source.size if isinstance(source, NumberSide) else 0,
            )
        )

    def _open_checkpoint(self) -> Checkpoint:
        if self._checkpoint is None:
            raise VisformerError("No model is open: open a checkpoint first.")
        return self._checkpoint

    def _decode(self, request: Decode) -> None:
        decoding, fresh = self._prepared(request)
        if request.intervention.looks_ahead:
            self._say_finished(request, self._passes(request, decoding))
            return
        kept = 0 if fresh else decoding.common(request.prefix)
        if request.reference:
            decoding.feed(request.reference)
            kept = 0
        else:
            decoding.follow(request.prefix)
            kept = min(kept, decoding.changed)
        start = lean(decoding.start) if fresh else None
        self._connection.send(
            Started(number=request.number, start=start, limit=decoding.limit, kept=kept)
        )
        for row in decoding.rows(kept):
            self._send_row(request, row)
        times: list[float] = []
        if not request.reference:
            times = self._go_on(decoding, lambda: self._send_step(request, decoding))
        self._say_finished(request, times)

    def _go_on(self, decoding: Decoding, send: Callable[[], None]) -> list[float]:
        """Decode until the end or a newer request -> each step's milliseconds."""
        times: list[float] = []
        while not (decoding.ended or self._interrupted()):
            began = time.perf_counter()
            decoding.step()
            times.append(1e3 * (time.perf_counter() - began))
            send()
        return times

    def _say_finished(self, request: Decode, times: list[float]) -> None:
        step_ms = statistics.median(times) if times else None
        self._connection.send(Finished(number=request.number, step_ms=step_ms))

    def _passes(self, request: Decode, decoding: Decoding) -> list[float]:
        """Send each step as the pass that it was; old rows change with every token."""
        choices: Sequence[tuple[int, Origin]] = request.prefix
        if request.reference:
            choices = decoding.reference(request.reference)
        for length in range(len(choices) + 1):
            if length and self._interrupted():
                return []
            decoding.follow(choices[:length])
            self._send_pass(request, decoding)
        if request.reference:
            return []
        return self._go_on(decoding, lambda: self._send_pass(request, decoding))

    def _send_pass(self, request: Decode, decoding: Decoding) -> None:
        trace, limit = lean(decoding.trace), decoding.limit
        self._connection.send(Passed(number=request.number, trace=trace, limit=limit))

    def _prepared(self, request: Decode) -> tuple[Decoding, bool]:
        """Return the decoding to go on with, and whether it is a new one."""
        from visformer.core.decoding import Decoding

        checkpoint, limit = self._open_checkpoint(), request.limit
        if request.intervention.looks_ahead:
            limit = min(limit or MAX_PASSES, MAX_PASSES)
        wanted = (request.source, limit, request.intervention)
        if self._decoding is not None and self._wanted == wanted:
            self._decoding.strategy = request.strategy
            return self._decoding, False
        self._decoding = None
        decoding = Decoding(
            checkpoint,
            request.source,
            strategy=request.strategy,
            limit=limit,
            intervention=request.intervention,
        )
        self._decoding, self._wanted = decoding, wanted
        return decoding, True

    def _send_step(self, request: Decode, decoding: Decoding) -> None:
        """Send the new row, and before it the old ones that it changed."""
        rows = decoding.rows(decoding.changed)
        if len(rows) > 1:
            number, kept = request.number, decoding.changed
            self._connection.send(
                Started(number=number, start=None, limit=decoding.limit, kept=kept)
            )
        for row in rows:
            self._send_row(request, row)

    def _send_row(self, request: Decode, row: Row) -> None:
        self._connection.send(Stepped(number=request.number, row=row))

    def _batch(self, request: Batch) -> None:
        from visformer.core.passes import run_texts

        traces = run_texts(self._open_checkpoint(), request.sources)
        self._connection.send(
            BatchDone(number=request.number, traces=tuple(map(lean, traces)))
        )

    def _shuffle(self, request: Shuffle) -> None:
        from visformer.core.passes import run_shuffled

        order, plain, shuffled = run_shuffled(
            self._open_checkpoint(),
            request.source,
            request.target,
            intervention=request.intervention,
            seed=request.seed,
        )
        self._connection.send(
            Shuffled(
                number=request.number,
                order=order,
                plain=lean(plain),
                shuffled=lean(shuffled),
            )
        )

    def _aside(self, request: Aside) -> None:
        if isinstance(request, Parameters):
            self._parameters(request)
        else:
            self._lens(request)

    def _lens(self, request: Lens) -> None:
        from visformer.core.lens_rows import read_streams

        rows: tuple[LensRow, ...] = ()
        try:
            if self._checkpoint is not None:
                rows = read_streams(
                    self._checkpoint,
                    request.hidden,
                    request.chosen,
                    temperature=request.temperature,
                )
        except (VisformerError, RuntimeError):  # of another model; or no memory for it
            log.exception("no lens of %s rows", len(request.chosen))
        self._connection.send(LensDone(number=request.number, rows=rows))

    def _parameters(self, request: Parameters) -> None:
        from visformer.core.layer_export import layer_parameters

        made = None
        try:
            if self._checkpoint is not None:
                made = layer_parameters(self._checkpoint, request.stack, request.layer)
        except VisformerError:  # asked for another model than is open by now
            log.info("no layer %s in the %s", request.layer, request.stack)
        self._connection.send(ParametersDone(number=request.number, parameters=made))


def _positions(checkpoint: Checkpoint) -> Floats:
    """Return the source's table of positions, [P, D]."""
    table = checkpoint.model.position_table("source").detach().cpu().numpy()
    return cast("Floats", table)


def lean(trace: Trace) -> Trace:
    """Return the Trace without what only the engine has: output, own weights."""
    return replace(trace, output_weight=None, output_bias=None, own_weights=None)
