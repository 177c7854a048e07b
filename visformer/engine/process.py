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
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from visformer.core.pauses import InterruptedPass, looked_at
from visformer.engine.decodes import Decodes, Stops, lean, searched
from visformer.engine.messages import (
    AllTokens,
    AllTokensDone,
    Answer,
    Asked,
    Attribute,
    Attributed,
    Batch,
    BatchDone,
    CheckRun,
    Decode,
    Effect,
    EffectDone,
    FindTokens,
    HeadsMeasured,
    Lens,
    LensDone,
    Logged,
    MeasureHeads,
    Nearest,
    NearestDone,
    Numbered,
    OfRun,
    Open,
    Opened,
    OpenProgressed,
    PairsScanned,
    Parameters,
    ParametersDone,
    Progressed,
    Ready,
    Refused,
    Request,
    RunChecked,
    RunSeries,
    ScanPairs,
    SearchBeams,
    SeriesRun,
    Shuffle,
    Shuffled,
    Stop,
    Stopped,
    SwitchedOff,
    SwitchOff,
    SwitchOffOverPairs,
    TokensFound,
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
from visformer.values.measured import ChangeReport

if TYPE_CHECKING:
    from visformer.core.attribution import KnownRun
    from visformer.core.models import Model
    from visformer.values.layer_weights import LayerParameters
    from visformer.values.measured import WholeDistribution
    from visformer.values.step import LensRow

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
            if newer.request.is_side_request:
                self.answer(newer)
            else:
                newest = newer
        return newest

    def _interrupted(self) -> bool:
        """Tell whether a newer request waits; side requests are answered meanwhile."""
        while self._waiting is None and self._wire.poll():
            newer: Numbered = self._wire.recv()
            if newer.request.is_side_request:
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
        if self.is_serving:
            return _("Your model raised {error}.", error=_named(error))
        self.send(Logged(number=0, text=stack_words(error)))
        return _("Unexpected error: {error}", error=_named(error))


def _stands_alone(request: Request) -> bool:
    """Tell whether no later request supersedes this one."""
    return request.is_side_request or isinstance(request, Open)


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


def replying(reply: Callable[[Model | None, int, Any], Answer]) -> Handler:
    """Return the handler of a request with exactly one answer."""

    def handle(server: Server, number: int, request: Request) -> None:
        server.send(reply(server.model, number, request))

    return handle


def open_one(model: Model | None) -> Model:
    """Return the open model; VisformerError if there is none."""
    if model is None:
        raise VisformerError("No model is open: open a checkpoint first.")
    return model


def _batch(server: Server, number: int, request: Batch) -> Stops:
    """Run several sentences together."""
    from visformer.core.side_runs import run_texts

    traces = yield from run_texts(open_one(server.model), request.sources)
    server.send(BatchDone(number=number, traces=tuple(map(lean, traces))))


def _search(server: Server, number: int, request: SearchBeams) -> Stops:
    """Search a sentence by beams."""
    model = open_one(server.model)
    found = yield from server.decodes.search(model, request)
    server.send(searched(number, model, found))


def _attribute(server: Server, number: int, request: Attribute) -> Stops:
    """Measure what tokens do to a run."""
    from visformer.core.attribution import attributed

    model = open_one(server.model)
    run = _known(model, request)
    made = yield from attributed(model, run, request.place, shared=request.shared)
    server.send(Attributed(number=number, attribution=made))


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
            server.send(SeriesRun(number=number, left_out=str(made)))
        elif isinstance(made, WorkDone):
            yield made
        else:
            point, trace = made
            server.send(SeriesRun(number=number, point=point, trace=lean(trace)))
    server.send(SeriesRun(number=number))


def _known(model: Model, request: OfRun) -> KnownRun:
    from visformer.core.attribution import KnownRun

    return KnownRun(
        model.vocabulary.read(request.source),
        *request.ids,
        request.intervention,
        request.fed,
        request.given,
    )


def _check_run(server: Server, number: int, request: CheckRun) -> Stops:
    """Run the open model in the ways that the table of checks compares."""
    from visformer.core.check import checking

    model = open_one(server.model)
    run = _known(model, request)
    results = yield from checking(model, run.source, run.change, run.target)
    server.send(RunChecked(number=number, results=results))


def _switch_off(server: Server, number: int, request: SwitchOff) -> Stops:
    """Measure what each part does to a run."""
    from visformer.core.importance import importance

    model, source = open_one(server.model), request.other
    other = model.vocabulary.read(source) if source else None
    made = yield from importance(model, _known(model, request), other)
    server.send(SwitchedOff(number=number, importance=made))


def _switch_off_over(server: Server, number: int, request: SwitchOffOverPairs) -> Stops:
    """Measure what each head does to the pairs of a file."""
    from visformer.core.importance import importance_of_pairs

    model, path = open_one(server.model), Path(request.path)
    made = yield from importance_of_pairs(model, path, request.intervention)
    server.send(SwitchedOff(number=number, importance=made))


def _measure_heads(server: Server, number: int, request: MeasureHeads) -> Stops:
    """Measure what each head does in the pairs of a file."""
    from visformer.core.corpus_heads import heads_of_file

    model, path = open_one(server.model), Path(request.path)
    for made in heads_of_file(model, path, request.intervention):
        if isinstance(made, HeadsOfSome):
            server.send(HeadsMeasured(number=number, part=made))
        else:
            yield made
    server.send(HeadsMeasured(number=number))


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
            made = PairsScanned(number=number, pairs=tuple(some), left_out=tuple(told))
            told.clear()
            server.send(made)
        done += len(some)
        yield WorkDone(done, len(scan), _("pairs"))
    end = PairsScanned(number=number, usual=scan.usual, checked=scan.checked)
    server.send(replace(end, left_out=tuple(told)))


def find_tokens(model: Model | None, number: int, request: FindTokens) -> TokensFound:
    """Find the tokens that are, begin with or contain a text."""
    found = open_one(model).vocabulary.find(request.text)
    return TokensFound(number=number, text=request.text, tokens=found)


def shuffle(model: Model | None, number: int, request: Shuffle) -> Shuffled:
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
    return Shuffled(
        number=number, order=order, baseline=lean(baseline), shuffled=lean(shuffled)
    )


Found = TypeVar("Found")


def tried(make: Callable[[], Found]) -> Found | None:
    """Return what a side request asks for; None where the model cannot tell.

    It may be about another model than is open by now, or take too much memory.
    """
    try:
        return make()
    except (VisformerError, RuntimeError):
        log.exception("a side request was not answered")
        return None


def parameters(model: Model | None, number: int, request: Parameters) -> ParametersDone:
    """Read the weights of a layer; None if the open model has no such layer."""

    def weights() -> LayerParameters | None:
        ask = open_one(model).extras.weights
        return ask(request.stack, request.layer) if ask else None

    return ParametersDone(number=number, parameters=tried(weights))


def lens(model: Model | None, number: int, request: Lens) -> LensDone:
    """Return what each layer would predict; no rows if they are another model's."""

    def rows() -> tuple[LensRow, ...]:
        ask = open_one(model).extras.lens
        asked = request.hidden, request.chosen, request.temperature
        return ask(*asked) if ask else ()

    return LensDone(number=number, rows=tried(rows) or ())


def all_tokens(model: Model | None, number: int, request: AllTokens) -> AllTokensDone:
    """Return the distribution that a row predicts; None if it is another model's."""

    def whole() -> WholeDistribution | None:
        ask = open_one(model).extras.distribution
        a_pass = request.source, request.target, request.intervention, request.row
        return ask(request.stream, *a_pass) if ask else None

    return AllTokensDone(number=number, distribution=tried(whole))


def effect(model: Model | None, number: int, request: Effect) -> EffectDone:
    """Compare the steps of a changed run with the original."""
    from visformer.core.decoding import Decoding

    def reports() -> dict[int, ChangeReport]:
        limit, change = len(request.chosen) + 1, request.intervention
        run = Decoding(
            open_one(model), request.source, limit=limit, intervention=change
        )
        chosen = run.after_prompt(request.chosen)
        try:
            return run.change_reports(chosen, request.step, fed=request.fed)
        except InterruptedPass:
            return {}

    return EffectDone(number=number, reports=tried(reports))


def nearest(model: Model | None, number: int, request: Nearest) -> NearestDone:
    """Find a token's nearest tokens; None where the embeddings are not known."""
    ask = open_one(model).extras.nearest
    near = ask(request.side, request.asked) if ask else None
    return NearestDone(number=number, near=near)


HANDLERS: dict[type[Request], Handler] = {  # who answers which request
    Open: _open,
    Decode: _decode,
    Stop: _stop,
    Batch: _batch,
    SearchBeams: _search,
    Attribute: _attribute,
    RunSeries: _series,
    CheckRun: _check_run,
    SwitchOff: _switch_off,
    SwitchOffOverPairs: _switch_off_over,
    ScanPairs: _scan,
    MeasureHeads: _measure_heads,
    Shuffle: replying(shuffle),
    Parameters: replying(parameters),
    Lens: replying(lens),
    AllTokens: replying(all_tokens),
    FindTokens: replying(find_tokens),
    Nearest: replying(nearest),
    Effect: replying(effect),
}
