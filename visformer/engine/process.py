"""The engine process: the model, its tokenizer, and torch, away from the window.

``serve`` runs in the process; torch is imported there only. The window's handle is
``visformer.engine.handle.Engine``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from visformer.engine import replies
from visformer.engine.decodes import Decodes
from visformer.engine.messages import (
    AllTokens,
    Answer,
    Asked,
    Batch,
    Decode,
    FindTokens,
    Lens,
    Logged,
    Numbered,
    Open,
    Opened,
    Parameters,
    Ready,
    Refused,
    Request,
    Shuffle,
    Stop,
    Stopped,
    Unable,
)
from visformer.engine.starter import end_with
from visformer.errors import VisformerError, is_memory, stack_words
from visformer.language import _
from visformer.own_process import limit_memory
from visformer.values.arrays import Floats

if TYPE_CHECKING:
    from visformer.core.checkpoint import Checkpoint

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
        server = Server(connection)
        while True:
            server.answer(server.newest())


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


class Server:
    """One open checkpoint and its current decode."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: Numbered | None = None  # received while a decode ran
        self.send: Callable[[Answer], None] = connection.send
        self.checkpoint: Checkpoint | None = None
        self.decodes = Decodes(self.send, self._interrupted)

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
        self.send(Logged(number=0, text=stack_words(error)))
        return _("Unexpected error: {error}", error=_named(error))


def _stands_alone(request: Request) -> bool:
    """Tell whether no later request supersedes this one."""
    return request.is_side_request or isinstance(request, Open)


def _open(server: Server, number: int, request: Open) -> None:
    from visformer.core.checkpoint import (
        Checkpoint,
        available_devices,
        choose_device,
    )
    from visformer.core.incremental import warm_up
    from visformer.formats.loading import checkpoint_files
    from visformer.formats.model_card import label_smoothing
    from visformer.tokenizers.sides import NumberSide

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
    server.decodes.run(replies.open_one(server.checkpoint), number, request)


Handler = Callable[[Server, int, Any], None]


def replying(reply: Callable[[Checkpoint | None, int, Any], Answer]) -> Handler:
    """Return the handler of a request with exactly one answer."""

    def handle(server: Server, number: int, request: Request) -> None:
        server.send(reply(server.checkpoint, number, request))

    return handle


HANDLERS: dict[type[Request], Handler] = {  # who answers which request
    Open: _open,
    Decode: _decode,
    Stop: _stop,
    Batch: replying(replies.batch),
    Shuffle: replying(replies.shuffle),
    Parameters: replying(replies.parameters),
    Lens: replying(replies.lens),
    AllTokens: replying(replies.all_tokens),
    FindTokens: replying(replies.find_tokens),
}
