"""The public functions that no room of its own has; see ``visformer.__all__``.

Nothing here imports torch or Qt before it is used.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

from visformer import paths
from visformer.apart import painter, started
from visformer.arguments import (
    as_path,
    is_several,
    whole_number,
    wrong_type,
    wrong_value,
)
from visformer.errors import InputError
from visformer.file_kinds import RECORDED, holds_runs, recognised
from visformer.files import check_suffix, real_path, save_result, saving
from visformer.language import _
from visformer.screen import check_screen
from visformer.trace_file.run_arrays import write_runs
from visformer.trace_file.saved_session import SavedRun, SavedSession
from visformer.trace_file.trace_file import (
    describe_file,
    read_session,
    trace_bytes,
    write_session,
)
from visformer.values.facts import Kind
from visformer.values.given_attention import traces_of_weights
from visformer.values.intervention import Intervention, parse
from visformer.values.questions import keyword
from visformer.values.step import MOST_BEAMS
from visformer.values.trace import Trace

if TYPE_CHECKING:
    from visformer.analysis.run_comparison import By, RunComparison
    from visformer.core.models import Model
    from visformer.values.measured import Importance, ImportanceOfPairs
    from visformer.watching.compared_runs import Comparison
    from visformer.watching.watcher import Watched

    Shown = Trace | SavedRun | SavedSession | Watched | Model | str | Path


def open_trace(path: str | Path) -> Trace:
    """Read a Trace that ``Trace.save`` wrote; of a session, the run that was shown.

    Its numbers are read when they are asked for. ``Trace.missing`` says what a file
    that is cut off or damaged no longer holds. Raises InputError where the file cannot
    be read, is damaged beyond that or is too new.
    """
    return open_session(path).shown.trace


def open_session(path: str | Path) -> SavedSession:
    """Read a session: the runs that ``save_session`` or ``Trace.save`` wrote.

    Raises InputError as ``open_trace`` does.
    """
    return read_session(as_path("path", path))


def save_session(
    path: str | Path, runs: Iterable[SavedRun | Trace], *, shown: int = 0
) -> None:
    """Write runs into one file, whole or not at all.

    ``shown`` is the number, from 0, of the run that a window shows first. Raises
    InputError where the file cannot be written.
    """
    allowed = _("Traces and SavedRuns")
    if isinstance(runs, Trace | SavedRun) or not is_several(runs):
        raise wrong_type("runs", runs, allowed)
    named = []
    for run in runs:
        if not isinstance(run, Trace | SavedRun):
            raise wrong_type("runs", run, allowed)
        named.append(run if isinstance(run, SavedRun) else SavedRun(trace=run))
    write_session(named, as_path("path", path), whole_number("shown", shown))


def show(
    trace: Shown | None = None,
    *,
    attentions: Mapping[Kind, Sequence[Any]] | None = None,
    source_tokens: Sequence[str] | None = None,
    target_tokens: Sequence[str] | None = None,
    block: bool = True,
) -> int:
    """Open a window on a Trace, a session, or the file of one.

    It blocks: the call returns 0 when the window is closed. With ``block=False`` it
    returns 0 at once, and the window is alive as long as something runs Qt's events:
    ``%gui qt`` in IPython, or a later ``show`` that blocks. Raises InputError where
    there is no screen, away from the main thread, and for a file that cannot be read.

    What ``visformer.watch`` saw, and ``attentions`` (for each kind a list with an array
    [B, H, Q, K] of each layer), are shown by a process of their own, with a run for
    each row of the batch: from a notebook too, and without anything that runs Qt.
    So is a model, as ``visformer.wrap`` and ``load`` return them: this process answers
    what is typed there.
    """
    from visformer.commands.shared import explained_qt

    if attentions is not None:
        if trace is not None:
            raise wrong_value("trace", trace, _("left out where attentions are given"))
        return _show_apart(
            traces_of_weights(attentions, source_tokens, target_tokens), block=block
        )
    if hasattr(trace, "begin"):
        return _show_served(cast("Model", trace), block=block)
    rows = _watched_rows(trace)
    if rows:
        return _show_apart(rows, block=block)
    run = _saved_run(trace)
    with explained_qt():
        from visformer import app

    return app.show(run, block=bool(block))


def _watched_rows(trace: Shown | None) -> Sequence[Trace]:
    """Return the Traces of what ``watch`` saw; none for anything else."""
    watched = sys.modules.get("visformer.watching.watcher")  # nothing was, if not
    if watched is None or not isinstance(trace, watched.Watched):
        return ()
    if not trace.traces:
        raise InputError(trace.certificate.sentence)
    return tuple(trace.traces)


def _saved_run(trace: Shown | None) -> SavedRun:
    """Return the run that is meant: the shown one of a session, the first watched."""
    trace = next(iter(_watched_rows(trace)), trace)
    if isinstance(trace, str | Path):
        trace = open_session(trace)
    if isinstance(trace, SavedSession):
        return trace.shown
    if isinstance(trace, Trace):
        return SavedRun(trace=trace)
    if not isinstance(trace, SavedRun):
        raise wrong_type("trace", trace, _("a Trace, a session, or the path of one"))
    return trace


@overload
def to_html(trace: Shown, path: None = None, *, attach: bool = False) -> str: ...
@overload
def to_html(trace: Shown, path: str | Path, *, attach: bool = False) -> None: ...
def to_html(
    trace: Shown, path: str | Path | None = None, *, attach: bool = False
) -> str | None:
    """Make one web page of a run, and write it to ``path`` or return its text.

    The page is a single file, which steps through the run offline in any browser of
    2023 or later; it makes no request. Its numbers are the Trace's, to the last bit.
    ``trace`` is a Trace, a session or the path of one: then the run that was shown, as
    it was looked at; of what ``watch`` saw, the first row of the batch. With ``attach``
    the page also offers the run's file (``.vis``).

    Raises InputError for a run without attention or too large for a page (33,554,432
    weights), and where the file cannot be written: an old one stays as it is.
    """
    from visformer.pictures.selection import Selection
    from visformer.pictures.web_page import web_page

    place = None if path is None else as_path("path", path)
    if place is not None:
        check_suffix(place, ".html")
    run = _saved_run(trace)
    seen = run.selection
    page = web_page(
        run.trace,
        selection=None
        if seen is None
        else Selection(kind=seen.kind, layer=seen.layer, head=seen.head),
        step=None if seen is None else seen.step,
        attached=trace_bytes(run.trace) if attach else None,
    )
    if place is None:
        return page
    save_result(place, page.encode())
    return None


def _show_served(model: Model, *, block: bool) -> int:
    """Show a window of its own process, whose requests this one answers."""
    from visformer.engine.process import serve_model

    check_screen()
    key = os.urandom(32)
    with Listener(authkey=key) as listener:
        address: Any = listener.address
        window = started("app:run_served", address, key.hex(), model.name)

        def call_in_its_place() -> None:  # or nobody would ever call
            window.wait()
            with contextlib.suppress(OSError, EOFError):
                Client(address, authkey=key).close()

        threading.Thread(target=call_in_its_place, daemon=True).start()
        connection = listener.accept()

    def serve() -> int:
        with connection:
            serve_model(model, connection)
        return window.wait()

    if block or window.poll() is not None:
        return serve()
    threading.Thread(target=serve, daemon=True).start()
    return 0


def _show_apart(traces: Sequence[Trace], *, block: bool) -> int:
    """Show Traces in a process of its own, which reads them from a file.

    The file is gone as soon as it is open there, or when that process has ended.
    """
    check_screen()
    folder = Path(tempfile.mkdtemp(prefix="visformer-"))

    def until_closed() -> int:
        try:
            return window.wait()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    try:
        path = folder / "watched.vis"
        save_session(path, traces)
        window = started("app:run_handed", str(path))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if block:
        return until_closed()
    threading.Thread(target=until_closed, daemon=True).start()
    return 0


class PNG(bytes):
    """A picture, which a notebook shows as the last line of a cell."""

    def _repr_png_(self) -> bytes:
        return self


@overload
def render(
    trace: Shown,
    path: None = None,
    *,
    text: str = "",
    layer: int | None = None,
    head: int | None = None,
    **options: object,
) -> PNG: ...
@overload
def render(
    trace: Shown,
    path: str | Path,
    *,
    text: str = "",
    layer: int | None = None,
    head: int | None = None,
    **options: object,
) -> None: ...
def render(
    trace: Shown,
    path: str | Path | None = None,
    *,
    text: str = "",
    layer: int | None = None,
    head: int | None = None,
    **options: object,
) -> PNG | None:
    """Draw a run into a file, or return it as a PNG where no ``path`` is given.

    ``trace`` is a Trace, a session (of which the run that was shown is drawn), what
    ``watch`` saw (its first row), the path of a file of these, or a checkpoint or its
    path, which translates the ``text``. The suffix of ``path`` decides the format:
    .png, .svg, .pdf, .webp, .gif (every step) or .html (a web page). ``layer`` and
    ``head`` count from 0, or from the end where they are negative. ``options`` are
    those of ``visformer render``, with underscores: ``view="output"``,
    ``kind="cross"``, ``steps=3`` (how many), ``raw_pieces=True``. The texts of
    ``change=["causal off"]`` and ``force=["4=1234"]`` count from 1.

    The first call starts a process that draws, which the next ones use: no screen is
    needed, and a QApplication of this program is left alone. Raises InputError for
    options that are not there, and where the file cannot be written.
    """
    place = [f"--layer={layer}"] * (layer is not None)
    place += [f"--head={head}"] * (head is not None)
    if place:
        _warn_of_counting()
    reads = bool(text) and isinstance(trace, str | Path)
    arguments = [*[f"--text={text}"] * reads, *place, *_as_arguments(options)]
    with tempfile.TemporaryDirectory(prefix="visformer-") as folder:
        given = _given_file(trace, text, options, Path(folder))
        to = Path(folder) / "picture.png" if path is None else as_path("path", path)
        painter.draw([*arguments, f"--output={real_path(to)}", "--", str(given)])
        return PNG(to.read_bytes()) if path is None else None


@functools.cache
def _warn_of_counting() -> None:
    """Warn, once in a program, of layers and heads that counted from 1 before."""
    said = _("visformer.render now counts layers and heads from 0, as trace.plot does.")
    warnings.warn(said, FutureWarning, stacklevel=3)


def _as_arguments(options: Mapping[str, object]) -> Iterator[str]:
    """Write keywords as the options of a command."""
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            yield from [option] * value
        elif value is not None:
            several = value if isinstance(value, list | tuple) else [value]
            yield from (f"{option}={one}" for one in several)


def _given_file(
    trace: Shown, text: str, options: Mapping[str, object], folder: Path
) -> Path:
    """Return the path of a run or of a checkpoint; a run is written to ``folder``."""
    if isinstance(trace, str | Path):
        return real_path(paths.model(as_path("trace", trace)))
    if hasattr(trace, "begin"):
        refused = {"change", "force", "reference"} & options.keys()
        if refused:
            raise InputError(
                "{name} is for a checkpoint's path: give it to Decoding, and draw the "
                "Trace that it returns.",
                name=keyword(min(refused)),
            )
        from visformer.core.decoding import Decoding

        trace = Decoding(cast("Model", trace), text).finish()
    path = folder / "run.vis"
    with saving(path) as target, target.open("w+b") as file:  # on the disk or not
        write_runs(file, [_saved_run(trace)], 0)
    return path


def parse_change(text: str, runs: Mapping[str, Trace] | None = None) -> Intervention:
    """Read a change as ``--change`` takes it: “causal off”, “hide 3 @ L2”.

    Several are separated by semicolons. Layers and tokens count from 1. A change that
    takes from another run, as “head cross from clean @ L2H5” does, names one of
    ``runs`` or the path of a ``.vis`` file; it keeps what it takes. Raises InputError,
    with what can be said, for anything else.
    """
    if not isinstance(text, str):
        raise wrong_type("text", text, _("a text such as “causal off”"))
    if not isinstance(runs, Mapping | None):
        raise wrong_type("runs", runs, _("Traces by name"))
    return parse([text]).filled(runs or {})


@overload
def compare(
    a: Any,
    b: Any,
    *,
    text: str,
    reference: str | None = None,
    by: By = "characters",
    device: str | None = None,
) -> RunComparison: ...
@overload
def compare(
    a: str | Path | SavedRun | SavedSession,
    b: str | Path | SavedRun | SavedSession,
    *,
    text: str | None = None,
    reference: str | None = None,
    by: By = "characters",
    device: str | None = None,
) -> RunComparison: ...
@overload
def compare(a: Any, b: Any, source: Any = None, target: Any = None) -> Comparison: ...
def compare(
    a: Any,
    b: Any,
    source: Any = None,
    target: Any = None,
    *,
    text: str | None = None,
    reference: str | None = None,
    by: By = "characters",
    device: str | None = None,
) -> Comparison | RunComparison:
    """Compare two models or two runs: where they first differ, or in all that they do.

    Modules, checkpoints (as ``load`` and ``wrap`` return them), what ``watch`` saw, and
    Traces are compared head by head up to the first that differs: a ``Comparison``.
    Modules and checkpoints are run on ids, int [B, S] ``source`` and [B, T]
    ``target``, or what a module takes instead; a model with a single input takes one of
    them. Without ids, those of the other side are used. If dropout alone makes the
    difference, ``remedy`` is ``module.eval()`` (of two modules ``a.eval()`` or
    ``b.eval()``).

    With a ``text``, which two checkpoints (or their paths) translate, or for runs in
    session files (paths of ``*.vis``, SavedRuns; of a session the run that was shown),
    the whole runs are compared: a ``RunComparison``, as ``visformer compare`` prints
    it. Both checkpoints are also fed a ``reference`` (what ``a`` wrote, by default),
    whose log p is compared token by token. Sources of other tokens are aligned ``by``
    the characters that they cover, or by "position".

    Raises TypeError for other types, InputError if ids or the text are missing, for a
    text or reference that recorded runs cannot take, and where no attention is found.
    """
    saved = str, Path, SavedRun, SavedSession
    if text is None and not any(isinstance(side, saved) for side in (a, b)):
        from visformer.watching.comparing import compare as first_difference

        return first_difference(a, b, source, target)
    if source is not None or target is not None:
        raise wrong_value("source", source, _("left out: the text is what is read"))
    return _compared_runs((a, b), text, reference, by, device)


def _compared_runs(
    sides: tuple[Any, Any],
    text: str | None,
    reference: str | None,
    by: By,
    device: str | None,
) -> RunComparison:
    from visformer.analysis.run_comparison import compare_runs
    from visformer.core.decoding import Decoding

    names = [_side_name(side) for side in sides]
    if names[0] == names[1]:
        names = [f"{name} ({at})" for name, at in zip(names, "AB", strict=True)]
    found = [_recorded(side) for side in sides]
    known = [trace for trace in found if trace is not None]
    if len(known) == 2 and text is not None:
        raise InputError(
            "The text is for models to translate, but both sides are recorded runs: "
            "leave it out."
        )
    if known and reference is not None:
        raise InputError(
            "A recorded run cannot be fed a reference: give two checkpoints, or leave "
            "it out."
        )
    text = known[0].source_text if text is None and known else text
    if text is None:
        raise InputError(
            "Say what the models are to translate: {text}.", text=keyword("text")
        )
    decodings = {}
    for at, (side, trace) in enumerate(zip(sides, found, strict=True)):
        if trace is None:
            decodings[at] = Decoding(_model("ab"[at], side, device), text)
            found[at] = decodings[at].finish()
    a, b = (trace for trace in found if trace is not None)
    fed = None
    # what was cut at a limit cannot be fed: then it is compared as far as both wrote it
    cut = contextlib.nullcontext() if reference else contextlib.suppress(InputError)
    if len(decodings) == 2 and (reference or a.text):
        with cut:
            one, other = (decodings[at].feed(reference or a.text) for at in (0, 1))
            fed = one, other
    return compare_runs(a, b, names=(names[0], names[1]), by=by, fed=fed)


def _side_name(side: Any) -> str:
    if isinstance(side, SavedRun) and side.name:
        return side.name
    if isinstance(side, str | Path):
        return as_path("path", side).name or str(side)
    return str(getattr(side, "name", "") or type(side).__name__)


def _recorded(side: Any) -> Trace | None:
    """Return the run of a file, a session or a Trace; None for a model."""
    path = as_path("path", side) if isinstance(side, str | Path) else None
    saved = isinstance(side, SavedSession | SavedRun | Trace)
    if saved or (path is not None and holds_runs(path)):
        return _saved_run(side).trace
    return None


def _model(argument: str, side: Any, device: str | None) -> Model:
    if isinstance(side, str | Path):
        from visformer.formats.loading import load

        return load(as_path("path", side), device=device)
    if not hasattr(side, "begin"):
        allowed = _("a checkpoint, its path, a run or the path of a session (*.vis)")
        raise wrong_type(argument, side, allowed)
    model: Model = side
    return model


def inspect(
    path: str | Path | tuple[str | Path, str | Path],
    *,
    check: bool = False,
    text: str | None = None,
    device: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Describe a checkpoint, or a file of Traces, as plain data: what is in it.

    It is what ``visformer inspect`` prints: ``problem`` is the sentence about what is
    wrong, or None. ``check`` also runs a checkpoint's model, on ``device``, over
    ``text``, or over ids that are drawn, and adds what every check of a table says:
    {"passed": no check found a fault, "checks": [{"id", "title", "verdict", "where",
    "what", "remedy", "at", "measured"}]}; a verdict is "passed", "note", "fault" or
    "not applicable". ``options`` are keywords of ``load``. Raises InputError for
    options that do not exist, for a text that is none, and for a file of Traces that
    cannot be opened.
    """
    if hasattr(path, "findings"):
        allowed = _("a path: an open checkpoint has its config, assumed and findings")
        raise wrong_type("path", path, allowed)
    if not isinstance(path, tuple | list):
        path = as_path("path", path)
        if recognised(path).kind in RECORDED:
            return describe_file(path)
    from visformer.formats.loading import inspect as describe
    from visformer.formats.loading import load

    report = describe(path, **options)
    if check and not report["problem"]:
        from visformer.core.check import check as compared

        report["check"] = compared(load(path, device=device, **options), text)
    return report


def translate(
    texts: str | Iterable[str],
    checkpoint: Model | str | Path | None = None,
    beam: int = 1,
) -> list[str]:
    """Translate texts, or one, in order; blank ones stay empty.

    Without a checkpoint, by the bundled English-French model. ``beam`` 1 is greedy
    search. Raises InputError where the model's numbers are not finite.
    """
    texts, model = _asked(texts, checkpoint, beam)
    from visformer.core.translation import translate as translated

    return translated(model, texts, beam=beam)


def search(
    texts: str | Iterable[str],
    checkpoint: Model | str | Path | None = None,
    beam: int = 4,
    n_best: int = 1,
) -> list[dict[str, Any]]:
    """Search the ``n_best`` translations of texts, or of one, by so many beams.

    Each text gives {"source", "hypotheses"}, as ``visformer translate --json`` prints
    it. A hypothesis has "text", "score", "logprob", "tokens", "logprobs", "finished":
    score = logprob / length ** penalty, where logprob is the sum of the natural
    logarithms of the probabilities, the length counts the token that ends the sentence,
    and the penalty is the checkpoint's own, else 1. Raises InputError for more
    hypotheses than beams, and where the model's numbers are not finite.
    """
    texts, model = _asked(texts, checkpoint, beam)
    whole_number("n_best", n_best, least=1, most=MOST_BEAMS)
    from visformer.core.translation import search as searched

    return searched(model, texts, beam=beam, n_best=n_best)


@overload
def importance(
    checkpoint: Model | str | Path,
    source: str | Sequence[int],
    reference: str | Sequence[int] | None = None,
    *,
    other: str | Sequence[int] | None = None,
    intervention: Intervention | str | None = None,
) -> Importance: ...
@overload
def importance(
    checkpoint: Model | str | Path,
    *,
    pairs: str | Path,
    intervention: Intervention | str | None = None,
) -> ImportanceOfPairs: ...
def importance(
    checkpoint: Model | str | Path,
    source: str | Sequence[int] | None = None,
    reference: str | Sequence[int] | None = None,
    *,
    other: str | Sequence[int] | None = None,
    pairs: str | Path | None = None,
    intervention: Intervention | str | None = None,
) -> Importance | ImportanceOfPairs:
    """Measure what each head does to a sentence: its log p with the head switched off.

    The tokens are those of ``reference``, or else the model's own greedy translation;
    they stay the same, so that only their probabilities change. An ``Importance`` has
    by kind of attention ``heads``, float64 [layers, heads], the exact change of the sum
    of log p in nats (``mean(kind)``: of the mean per token), ``gradient``, its
    first-order estimate from one backward pass, and ``sensitivity``, the measure of
    Michel et al. 2019, both {} for a model that runs in its own program; ``layers``
    [layers], with all heads of a layer off, and ``source`` [S], with a source token
    hidden from every query. A head that is off gives 0 before W_O; the bias stays.

    With an ``other`` source of as many tokens, ``patched`` has by stack, [layers,
    tokens], what one place of the residual stream does that is taken from the other run
    (``from_other``) or put into it (``into_other``): both read the same target.

    With a file of ``pairs`` (a source, a tab and a reference on each line) it is an
    ``ImportanceOfPairs``: ``mean`` and ``spread`` (standard deviation) of the change of
    the mean log p per token. Raises InputError for a source or file that cannot be read
    and for a model whose heads cannot be switched off, TypeError for other types.
    """
    let_paths_in()
    from visformer.core.decoding import Decoding
    from visformer.core.importance import importance as measured
    from visformer.core.importance import importance_of_pairs
    from visformer.core.models import opened
    from visformer.core.modified import as_intervention
    from visformer.core.search import exhausted

    model = opened(checkpoint)
    if pairs is not None:
        if source is not None or reference is not None:
            raise wrong_value("source", source, _("left out where pairs are given"))
        change = as_intervention(intervention)
        return exhausted(importance_of_pairs(model, as_path("pairs", pairs), change))
    decoding = Decoding(model, source, intervention=intervention)
    if reference is None:
        decoding.finish()
    else:
        decoding.feed(reference)
    read = None if other is None else model.vocabulary.read(other)
    return exhausted(measured(model, decoding.known, read))


def _asked(
    texts: str | Iterable[str], checkpoint: Model | str | Path | None, beam: int
) -> tuple[list[str], Model]:
    """Return the texts and the model that are meant."""
    allowed = _("a text, or several")
    if isinstance(texts, str):
        texts = [texts]
    elif not is_several(texts):
        raise wrong_type("texts", texts, allowed)
    texts = list(texts)
    for text in texts:
        if not isinstance(text, str):
            raise wrong_type("texts", text, allowed)
    whole_number("beam", beam, least=1, most=MOST_BEAMS)
    let_paths_in()
    from visformer.core.models import bundled, opened

    return texts, bundled() if checkpoint is None else opened(checkpoint)


def let_paths_in() -> None:
    """Tell core, which knows no files, how a checkpoint is opened."""
    from visformer.core.models import accept_paths
    from visformer.formats.loading import load

    accept_paths(lambda path: load(paths.checkpoint() if path is None else path))
