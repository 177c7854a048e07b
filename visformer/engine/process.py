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
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from visformer.core.pauses import InterruptedPass, looked_at
from visformer.engine.decodes import Decodes, Stops, lean
from visformer.engine.messages import (
    AllTokens,
    Answer,
    Asked,
    Attribute,
    Batch,
    CheckRun,
    Decode,
    Done,
    Effect,
    FindTokens,
    Lens,
    Logged,
    MeasureHeads,
    Nearest,
    Numbered,
    OfRun,
    Open,
    Opened,
    OpenProgressed,
    Parameters,
    Portion,
    Progressed,
    Ready,
    Refused,
    Request,
    RunSeries,
    ScanPairs,
    SearchBeams,
    Shuffle,
    SideRequest,
    Stop,
    Stopped,
    SwitchOff,
    SwitchOffOverPairs,
    Unable,
)
from visformer.engine.starter import end_with
from visformer.engine.wire import Wire
from visformer.errors import VisformerError, is_memory, stack_words
from visformer.language import _
from visformer.own_process import (
    limit_memory,
    resident,
    return_memory,
    return_what_is_freed,
)
from visformer.values.heads_of_pairs import HeadsOfSome
from visformer.values.scanned import ScannedPart

if TYPE_CHECKING:
    from visformer.core.attribution import KnownRun
    from visformer.core.check import Checking
    from visformer.core.models import Model, WorkDone
    from visformer.values.layer_weights import LayerParameters
    from visformer.values.measured import (
        Attribution,
        ChangeReport,
        Importance,
        ImportanceOfPairs,
        NearWords,
        WholeDistribution,
    )
    from visformer.values.step import LensRow
    from visformer.values.trace import Trace

LESS_PRIORITY = 5  # of Linux: a third of the time that each other thread gets
SOON = 0.2  # seconds of work before it is told how far it is, and between two times
GROWN = 1 << 26  # bytes more than before: of these, much may be free again
MOST_WORDS = 120  # characters of an unexpected error
log = logging.getLogger(__name__)
GONE = (EOFError, BrokenPipeError, ConnectionResetError)  # the window has ended


def serve(connection: Connection, parent: int, crashes: str, spare: bool) -> None:
    """Answer requests until the window's end of the pipe closes.

    ``parent`` is the window's process id, ``crashes`` the file that a crash is written
    to, or ""; nothing is asked of a ``spare`` process yet.
    """
    end_with(parent)
    limit_memory()
    return_what_is_freed()
    if crashes:
        with contextlib.suppress(OSError):
            faulthandler.enable(open(crashes, "a"))  # noqa: SIM115
    wire = Wire(connection)
    try:
        _import_torch(aside=spare)
    except Exception as error:
        wire.send(Unable(number=0, reason=_named(error)))
        sys.exit(1)
    with contextlib.suppress(*GONE):
        wire.send(Ready(number=0))
        Server(wire).serve()


def serve_model(model: Model, connection: Connection) -> None:
    """Answer the requests on a model of this program, until its window is closed."""
    with contextlib.suppress(EOFError, OSError):
        Server(Wire(connection), model).serve()


def _import_torch(*, aside: bool) -> None:
    """Import torch, which takes a core for seconds; ``aside``: if nobody wants it."""
    gc.disable()  # collections would take a tenth of the time
    if aside:
        with ThreadPoolExecutor(1, initializer=_give_way) as threads:
            threads.submit(import_module, "torch").result()
    import torch

    from visformer.core.threads import share_long_work

    gc.freeze()  # its objects live forever: later collections skip them
    gc.enable()
    # a second thread helps with long sentences alone, and the window needs a core
    share_long_work(torch.get_num_threads())
    torch.set_num_threads(1)


def _give_way() -> None:
    """Leave the core to who needs it, but for so much that this ends in good time."""
    if sys.platform == "linux":  # elsewhere a process has one priority
        with contextlib.suppress(OSError):  # in some sandboxes
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LESS_PRIORITY)


def _named(error: BaseException) -> str:
    """Return an unexpected error as a few words."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:MOST_WORDS]


Handler = Callable[["Server", int, Any], Stops | None]


class Server:
    """One open model and its current decode.

    If it is a ``served`` one of somebody's own program, no other is opened.
    """

    def __init__(self, wire: Wire, served: Model | None = None) -> None:
        self._wire, self.model = wire, served
        self.is_serving = served is not None
        self._waiting: Numbered | None = None  # received while a request ran
        self.send: Callable[[Answer], None] = wire.send
        self.decodes = Decodes(self.send)

    def serve(self) -> None:
        """Answer one request after the other, until nobody is there to ask."""
        kept = 0
        while True:
            self.answer(self.newest())
            resting = self._waiting is None and not self._wire.poll()
            if resting and resident() > kept + GROWN:
                return_memory()
                kept = resident()

    def newest(self) -> Numbered:
        """Wait for a request; of several take the last, so that no stale one runs.

        An ``Open`` is never skipped: what comes after it is meant for its model. Nor
        is a side request: it is answered before the requests around it.
        """
        newest: Numbered = self._waiting or self._wire.recv()
        self._waiting = None
        while not _stands_alone(newest.request) and self._wire.poll():
            newer: Numbered = self._wire.recv()
            if isinstance(newer.request, SideRequest):
                self.answer(newer)
            else:
                newest = newer
        return newest

    def _interrupted(self) -> bool:
        """Tell whether a newer request waits; side requests are answered meanwhile."""
        while self._waiting is None and self._wire.poll():
            newer: Numbered = self._wire.recv()
            if isinstance(newer.request, SideRequest):
                self.answer(newer)
            else:
                self._waiting = newer
        return self._waiting is not None

    def answer(self, numbered: Numbered) -> None:
        """Carry out a request; errors are answered, not raised.

        Long work ends early where a newer request waits at one of its stops, and so
        does a long pass at one of its pauses: what it computed is lost.
        """
        number, request = numbered
        told = began = time.monotonic()

        def tell(done: int, of: int, part: str) -> None:
            nonlocal told
            now = time.monotonic()
            if now - (began if done == of else told) >= SOON:
                told = now
                self.send(Progressed(number=number, done=done, of=of, part=part))

        def look(share: float | None) -> None:
            aside = _stands_alone(request)
            if share is not None and not aside:
                tell(round(100 * share), 100, "")
            ends = not aside or isinstance(request, Effect)
            if ends and self._interrupted():
                raise InterruptedPass

        try:
            with looked_at(look):
                work = HANDLERS[type(request)](self, number, request)
                for progress in work or ():
                    if progress is not None:
                        tell(*progress)
                    if work and self._interrupted():
                        work.close()
        except InterruptedPass:
            if isinstance(request, Decode):
                self.decodes.forget()  # it has stopped halfway
        except VisformerError as error:
            self.send(Refused(number=number, reason=str(error)))
        except (*GONE, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of Rust is no Exception
            if not isinstance(request, SideRequest):
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
        if self.is_serving:
            return _("Your model raised {error}.", error=_named(error))
        self.send(Logged(number=0, text=stack_words(error)))
        return _("Unexpected error: {error}", error=_named(error))


def _stands_alone(request: Request) -> bool:
    """Tell whether no later request supersedes this one."""
    return isinstance(request, SideRequest | Open)


def _open(server: Server, number: int, request: Open) -> None:
    from visformer.core.checkpoint import choose_device
    from visformer.formats.layouts.native import dropout_rates, label_smoothing
    from visformer.formats.loading import checkpoint_files, size_of_weights

    if server.is_serving:
        server.send(_opened(server, number, request))
        return
    server.send(OpenProgressed(number=number, size=size_of_weights(request.path)))
    files = checkpoint_files(request.path, request.overrides)
    if request.ask != "never":
        asked = files.questionnaire(every=request.ask == "always")
        if asked is not None:
            server.send(Asked(number=number, path=request.path, form=asked))
            return
    server.model = files.load(choose_device(request.device))
    server.decodes.forget()
    if warm_up := server.model.extras.warm_up:
        warm_up()
    opened = _opened(server, number, request)
    server.send(
        replace(
            opened,
            guessed_heads=files.guessed_heads,
            asks=files.asks or opened.asks,
            smoothing=label_smoothing(Path(request.path)),
            dropout=dropout_rates(Path(request.path)),
        )
    )


def _opened(server: Server, number: int, request: Open) -> Opened:
    """Say what the open model is."""
    from visformer.core.checkpoint import available_devices

    model = open_one(server.model)
    facts, positions = model.facts, model.extras.positions
    return Opened(
        number=number,
        path=request.path,
        model=facts,
        positions=positions() if positions else np.zeros((0, 0), np.float32),
        devices=(facts.device,) if server.is_serving else available_devices(),
        findings=model.findings,
        assumed=model.assumed,
        numbers=model.vocabulary.numbers,
        asks=model.extras.languages,
    )


def _stop(server: Server, number: int, request: Stop) -> None:
    """Say that nothing is computed: reading the request ended the decode."""
    server.send(Stopped(number=number))


def _decode(server: Server, number: int, request: Decode) -> Stops:
    yield from server.decodes.run(open_one(server.model), number, request)


def answering(make: Callable[[Model | None, Any], Any]) -> Handler:
    """Return the handler of a request that is answered by what ``make`` returns."""

    def handle(server: Server, number: int, request: Request) -> Stops:
        made = make(server.model, request)
        value = (yield from made) if isinstance(made, Generator) else made
        server.send(Done(number=number, value=value))

    return handle


def open_one(model: Model | None) -> Model:
    """Return the open model; VisformerError if there is none."""
    if model is None:
        raise VisformerError("No model is open: open a checkpoint first.")
    return model


def _batch(
    model: Model | None, request: Batch
) -> Generator[WorkDone | None, None, tuple[Trace, ...]]:
    """Run several sentences together."""
    from visformer.core.side_runs import run_texts

    traces = yield from run_texts(open_one(model), request.sources)
    return tuple(map(lean, traces))


def _search(server: Server, number: int, request: SearchBeams) -> Stops:
    """Search a sentence by beams."""
    found = yield from server.decodes.search(open_one(server.model), request)
    server.send(Done(number=number, value=found))


def _attribute(
    model: Model | None, request: Attribute
) -> Generator[WorkDone, None, Attribution]:
    """Measure what tokens do to a run."""
    from visformer.core.attribution import attributed

    run = _known(model, request)
    return attributed(open_one(model), run, request.place, shared=request.shared)


def _series(server: Server, number: int, request: RunSeries) -> Stops:
    """Run the checkpoints of a folder one after the other; the open model stays."""
    from visformer.core.checkpoint import choose_device
    from visformer.core.checkpoint_series import series_of
    from visformer.core.models import WorkDone
    from visformer.formats.loading import checkpoint_files

    def open_model(path: Path) -> Model:
        return checkpoint_files(str(path), ()).load(choose_device(""))

    sentence = request.source, request.reference
    for made in series_of(Path(request.folder), *sentence, open_model):
        if isinstance(made, VisformerError):
            server.send(Portion(number=number, value=str(made)))
        elif isinstance(made, WorkDone):
            yield made
        else:
            point, trace = made
            server.send(Portion(number=number, value=(point, lean(trace))))
    server.send(Done(number=number, value=None))


def _known(model: Model | None, request: OfRun) -> KnownRun:
    from visformer.core.attribution import KnownRun

    return KnownRun(
        open_one(model).vocabulary.read(request.source),
        *request.ids,
        request.intervention,
        request.fed,
        request.given,
    )


def _check_run(model: Model | None, request: CheckRun) -> Checking:
    """Run the open model in the ways that the table of checks compares."""
    from visformer.core.check import checking

    run = _known(model, request)
    return checking(open_one(model), run.source, run.change, run.target)


def _switch_off(
    model: Model | None, request: SwitchOff
) -> Generator[WorkDone, None, Importance]:
    """Measure what each part does to a run."""
    from visformer.core.importance import importance

    run, source, made = _known(model, request), request.other, open_one(model)
    return importance(made, run, made.vocabulary.read(source) if source else None)


def _switch_off_over(
    model: Model | None, request: SwitchOffOverPairs
) -> Generator[WorkDone, None, ImportanceOfPairs]:
    """Measure what each head does to the pairs of a file."""
    from visformer.core.importance import importance_of_pairs

    path = Path(request.path)
    return importance_of_pairs(open_one(model), path, request.intervention)


def _measure_heads(server: Server, number: int, request: MeasureHeads) -> Stops:
    """Measure what each head does in the pairs of a file."""
    from visformer.core.corpus_heads import heads_of_file

    model, path = open_one(server.model), Path(request.path)
    for made in heads_of_file(model, path, request.intervention):
        if isinstance(made, HeadsOfSome):
            server.send(Portion(number=number, value=made))
        else:
            yield made
    server.send(Done(number=number, value=None))


def _scan(server: Server, number: int, request: ScanPairs) -> Stops:
    """Scan a file of pairs; what is done is sent as it comes."""
    from visformer.core.models import WorkDone
    from visformer.core.scanning import Scan, read_sentences

    told: list[str] = []
    sentences = read_sentences(Path(request.path), told.append)
    model, done = open_one(server.model), 0
    scan = Scan(model, sentences, translations=False, skip=told.append)
    for some in scan:
        if some or told:
            made = ScannedPart(pairs=tuple(some), left_out=tuple(told))
            told.clear()
            server.send(Portion(number=number, value=made))
        done += len(some)
        yield WorkDone(done, len(scan), _("pairs"))
    end = ScannedPart(left_out=tuple(told), usual=scan.usual, checked=scan.checked)
    server.send(Done(number=number, value=end))


def find_tokens(
    model: Model | None, request: FindTokens
) -> tuple[tuple[int, str], ...]:
    """Find the tokens that are, begin with or contain a text."""
    return open_one(model).vocabulary.find(request.text)


def shuffle(
    model: Model | None, request: Shuffle
) -> tuple[tuple[int, ...], Trace, Trace]:
    """Run a sentence as it is and in another order."""
    made = open_one(model)
    if made.extras.shuffle is None:
        raise VisformerError(
            "“{name}” is run by its own program, so its source is not shuffled.",
            name=made.name,
        )
    order, baseline, shuffled = made.extras.shuffle(
        request.source, request.target, request.intervention, request.seed
    )
    return order, lean(baseline), lean(shuffled)


def tried(make: Callable[[Model | None, Any], Any], none: object = None) -> Handler:
    """Return the handler of a side request: ``none`` is told if the model cannot.

    The request may be about another model than is open by now, or take too much memory.
    """

    def attempt(model: Model | None, request: Request) -> Any:
        try:
            return make(model, request)
        except (VisformerError, RuntimeError):
            log.exception("a side request was not answered")
            return none

    return answering(attempt)


def _parameters(model: Model | None, request: Parameters) -> LayerParameters | None:
    """Read the weights of a layer."""
    ask = open_one(model).extras.weights
    return ask(request.stack, request.layer) if ask else None


def lens(model: Model | None, request: Lens) -> tuple[LensRow, ...]:
    """Return what each layer would predict."""
    ask = open_one(model).extras.lens
    asked = request.hidden, request.chosen, request.temperature
    return ask(*asked) if ask else ()


def _all_tokens(model: Model | None, request: AllTokens) -> WholeDistribution | None:
    """Return the distribution that a row predicts."""
    ask = open_one(model).extras.distribution
    a_pass = request.source, request.target, request.intervention, request.row
    return ask(request.stream, *a_pass) if ask else None


def effect(model: Model | None, request: Effect) -> dict[int, ChangeReport]:
    """Compare the steps of a changed run with the original; {} if interrupted."""
    from visformer.core.decoding import Decoding

    limit, change = len(request.chosen) + 1, request.intervention
    run = Decoding(open_one(model), request.source, limit=limit, intervention=change)
    chosen = run.after_prompt(request.chosen)
    try:
        return run.change_reports(chosen, request.step, fed=request.fed)
    except InterruptedPass:
        return {}


def nearest(model: Model | None, request: Nearest) -> NearWords | None:
    """Find a token's nearest tokens; None where the embeddings are not known."""
    ask = open_one(model).extras.nearest
    return ask(request.side, request.asked) if ask else None


HANDLERS: dict[type[Request], Handler] = {  # who answers which request
    Open: _open,
    Decode: _decode,
    Stop: _stop,
    Batch: answering(_batch),
    SearchBeams: _search,
    Attribute: answering(_attribute),
    RunSeries: _series,
    CheckRun: answering(_check_run),
    SwitchOff: answering(_switch_off),
    SwitchOffOverPairs: answering(_switch_off_over),
    ScanPairs: _scan,
    MeasureHeads: _measure_heads,
    Shuffle: answering(shuffle),
    Parameters: tried(_parameters),
    Lens: tried(lens, ()),
    AllTokens: tried(_all_tokens),
    FindTokens: answering(find_tokens),
    Nearest: answering(nearest),
    Effect: tried(effect),
}
