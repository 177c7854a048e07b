"""The command line. Nothing heavy is imported before it is known what to do."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from visformer.errors import CheckpointError, InputError, VisformerError
from visformer.values.questions import Overrides

COMMANDS = ("translate", "render", "inspect", "train", "bench")
GROUP = 64  # lines translated together


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0, or 2 with one line on standard error for bad input."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # a spinning thread pool slows a small step a hundredfold beside a busy process
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's, in the window
    try:
        return _run(given)
    except VisformerError as error:
        print(f"visformer: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has gone
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except KeyboardInterrupt:
        print("visformer: stopped", file=sys.stderr)
        return 130


def _run(given: list[str]) -> int:
    if not given or given[0] not in (*COMMANDS, "-h", "--help", "--version"):
        return _window(_window_parser().parse_args(given))
    if given[0] in COMMANDS:
        command, rest = given[0], given[1:]
        parser = PARSERS[command]()
        return int(RUNNERS[command](parser.parse_args(rest)))
    _window_parser().parse_args(given)
    return 0


class _Parser(argparse.ArgumentParser):
    """Bad arguments are bad input: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see {self.prog} --help)")


# ---- the window ----------------------------------------------------------------


def _window_parser() -> _Parser:
    from visformer import __version__

    parser = _Parser(
        prog="visformer",
        description="Show an encoder-decoder Transformer while it works.",
        epilog="Commands: translate, render, inspect, train, bench; each has --help.",
    )
    parser.add_argument(
        "path", nargs="?", help="a checkpoint folder or file, or a trace (*.vis)"
    )
    parser.add_argument("--text", default="", help="translate this sentence at once")
    parser.add_argument("--version", action="version", version=__version__)
    _add_told(parser)
    return parser


def _window(options: argparse.Namespace) -> int:
    if options.path is not None and not Path(options.path).exists():
        raise InputError(
            f"{options.path} does not exist: give a checkpoint or a trace."
        )
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    if sys.platform == "linux" and not any(os.environ.get(name) for name in screens):
        raise InputError("no screen here: set DISPLAY, or use visformer render.")
    with _explained_qt():
        from visformer import app

    return app.run(options.path, options.text, _told(options))


@contextlib.contextmanager
def _explained_qt() -> Iterator[None]:
    """Say in one sentence that a system library is missing."""
    try:
        yield
    except ImportError as error:
        told = f"Qt cannot start: {error}. The README names the packages."
        raise InputError(told) from error


# ---- translate -----------------------------------------------------------------


def _translate_parser() -> _Parser:
    parser = _Parser(
        prog="visformer translate",
        description="Translate standard input, a sentence a line, to standard output.",
    )
    _add_checkpoint(parser)
    parser.add_argument(
        "--beam", type=int, help="beams, 1 is greedy (the checkpoint's own, else 1)"
    )
    _add_told(parser)
    return parser


def _translate(options: argparse.Namespace) -> int:
    if options.beam is not None and options.beam < 1:
        raise InputError(f"--beam is {options.beam}: it must be 1 or more.")
    from visformer.core.search import translate
    from visformer.formats.loading import load

    told: dict[str, Any] = dict(_told(options))
    checkpoint = load(_checkpoint_path(options), device=options.device, **told)
    for lines in _groups():
        for text in translate(checkpoint, lines, beam=options.beam):
            # one line out for one line in, whatever the model makes
            sys.stdout.write(" ".join(text.split()) + "\n")
        sys.stdout.flush()
    return 0


def _groups() -> Iterator[list[str]]:
    """Yield the lines of standard input, some at a time; alone where a person types."""
    from visformer.text import clean

    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    size = 1 if sys.stdin.isatty() else GROUP
    group: list[str] = []
    for raw in sys.stdin.buffer:
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        group.append(clean(text))
        if len(group) >= size:
            yield group
            group = []
    if group:
        yield group


# ---- render --------------------------------------------------------------------


def _render_parser() -> _Parser:
    parser = _Parser(
        prog="visformer render",
        description="Draw the window, without a screen, to a PNG.",
    )
    _add_checkpoint(parser)
    parser.add_argument("--text", required=True, help="the source sentence")
    parser.add_argument("--steps", type=int, help="steps shown (all)")
    parser.add_argument(
        "--view",
        default="attention",
        help="attention, computation, output, masks, positions, architecture",
    )
    parser.add_argument("--stage", default="softmax", help="of computation (softmax)")
    parser.add_argument(
        "--page", help="of masks: masks, lab; positions: table, input, lab"
    )
    parser.add_argument("--kind", default="cross", help="encoder, decoder or cross")
    parser.add_argument("--layer", type=int, default=None, help="from 1 (the last)")
    parser.add_argument("--head", type=int, default=1, help="from 1 (1)")
    parser.add_argument("--form", default="map", help="attention as map, arcs or text")
    parser.add_argument(
        "--summary", default="head", help="head, mean, max, all or rollout (head)"
    )
    parser.add_argument(
        "--hide", default="", help="of special,pad,punctuation, and renormalise (none)"
    )
    parser.add_argument(
        "--words", action="store_true", help="merge subwords into words"
    )
    parser.add_argument(
        "--order", default="place", help="heads by place, entropy, maximum, alignment"
    )
    parser.add_argument(
        "--change",
        action="append",
        default=[],
        help="alter the run: “causal off”, “hide 3”, “positions none” … (see README)",
    )
    parser.add_argument("--theme", default="light", help="light, dark or contrast")
    parser.add_argument("--zoom", type=int, default=100, help="text size in percent")
    parser.add_argument("--size", default="1280x800", help="pixels, WxH (1280x800)")
    parser.add_argument("-o", "--output", required=True, help="the PNG to write")
    return parser


def _render(options: argparse.Namespace) -> int:
    with _explained_qt():
        from visformer.render import render  # sets Qt's platform first

    render(options, _checkpoint_path(options))
    return 0


# ---- inspect -------------------------------------------------------------------


def _inspect_parser() -> _Parser:
    parser = _Parser(prog="visformer inspect", description="Say what a checkpoint is.")
    parser.add_argument("path", help="a checkpoint folder or file")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--check",
        action="store_true",
        help="also compare cached decoding, the full pass and a batch row",
    )
    parser.add_argument("--device", help="cpu, cuda or mps (the best there is)")
    _add_told(parser)
    return parser


def _inspect(options: argparse.Namespace) -> int:
    from visformer.formats.loading import inspect

    told: dict[str, Any] = dict(_told(options))
    report = inspect(Path(options.path), **told)
    if report["problem"] and not report["tensors"]:
        raise CheckpointError(report["problem"])
    if options.check:
        from visformer.core.check import check
        from visformer.formats.loading import load

        checkpoint = load(Path(options.path), device=options.device, **told)
        report["check"] = check(checkpoint)
    if options.json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        for line in _lines(report):
            print(line)
    return 2 if report["problem"] else 0


def _lines(report: dict[str, object], indent: str = "") -> Iterator[str]:
    """Yield a report as indented text; what is unknown is left out."""
    for key, value in report.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list | tuple):
            yield f"{indent}{key}:{'' if value else ' none'}"
            for item in value:
                parts = item.values() if isinstance(item, dict) else (item,)
                yield f"{indent}  {' '.join(map(str, parts))}"
        elif value is not None:
            yield f"{indent}{key}: {value}"


# ---- train -----------------------------------------------------------------------

TRAINING: tuple[tuple[str, type, str], ...] = (
    ("name", str, "name shown in the window (that of the data or the task)"),
    ("source-language", str, "for the model card"),
    ("target-language", str, "for the model card"),
    ("licence", str, "of the data, for the model card"),
    ("alphabet", str, "letters of a task (a to z)"),
    ("shortest", int, "length of a task's strings (1)"),
    ("longest", int, "length of a task's strings (12)"),
    ("examples", int, "a task's strings in an epoch (20000)"),
    ("vocabulary", int, "tokens of the joint sentencepiece model (8000)"),
    ("d-model", int, "model width (256)"),
    ("heads", int, "heads of every attention (8)"),
    ("layers", int, "layers of the encoder, and of the decoder (4)"),
    ("feed-forward", int, "width of the feed-forward layer (1024)"),
    ("max-positions", int, "longest sentence, in tokens (512)"),
    ("dropout", float, "share dropped in training (0.2)"),
    ("sampling", float, "alpha of subword regularisation, 0 is off (0)"),
    ("epochs", int, "passes over the data at most (20)"),
    ("batch-tokens", int, "tokens a batch, process and side (1024)"),
    ("learning-rate", float, "highest learning rate (0.001)"),
    ("warmup", int, "steps to the highest learning rate (400)"),
    ("smoothing", float, "label smoothing (0.1)"),
    ("patience", int, "epochs without a better held-out loss (3)"),
    ("save-seconds", float, "seconds between saves (120)"),
    ("seed", int, "of every random draw (0)"),
    ("valid", int, "pairs held out to watch (a fiftieth, at most 2000)"),
    ("test", int, "pairs held out to measure (a fiftieth, at most 3000)"),
    ("beam", int, "beams of the final test (4; a task 1)"),
    ("device", str, "cpu, cuda or mps (the best there is)"),
    ("threads", int, "threads, 0 for all cores (0)"),
)


def _train_parser() -> _Parser:
    parser = _Parser(
        prog="visformer train",
        description="Train a tokenizer and a model from tab-separated pairs. The same "
        "command on the same --out goes on where it stopped; under torchrun it uses "
        "every process.",
    )
    parser.add_argument(
        "data", nargs="?", type=Path, help="pairs: source TAB target, .gz too"
    )
    parser.add_argument("--task", choices=("copy", "reverse", "sort"), help="made data")
    parser.add_argument("--out", required=True, type=Path, help="folder of the run")
    parser.add_argument(
        "--start",
        type=Path,
        help="checkpoint of an earlier training: its sizes, weights and tokenizer",
    )
    parser.add_argument(
        "--post-norm",
        dest="norm_first",
        action="store_false",
        default=argparse.SUPPRESS,
        help="norms after the residual, as in the paper (before it)",
    )
    for name, kind, words in TRAINING:
        parser.add_argument(
            f"--{name}", type=kind, default=argparse.SUPPRESS, help=words
        )
    return parser


def _train(options: argparse.Namespace) -> int:
    from visformer.training.train_command import options_for, train

    given = {name: value for name, value in vars(options).items() if value is not None}
    train(options_for(given), lambda line: print(line, flush=True))
    return 0


# ---- bench ---------------------------------------------------------------------


def _bench_parser() -> _Parser:
    from visformer.bench.bench_command import add_options

    parser = _Parser(
        prog="visformer bench",
        description="Measure speed and memory on this computer, against named peers "
        "that take turns with Visformer. Some minutes; best on an idle computer.",
    )
    add_options(parser)
    return parser


def _bench(options: argparse.Namespace) -> int:
    from visformer.bench.bench_command import run

    return run(options)


# ---- shared --------------------------------------------------------------------


def _add_checkpoint(parser: _Parser) -> None:
    parser.add_argument("--checkpoint", help="folder or file (the bundled en-fr model)")
    parser.add_argument("--device", help="cpu, cuda or mps (the best there is)")


def _add_told(parser: _Parser) -> None:
    group = parser.add_argument_group("what a foreign checkpoint may not tell")
    group.add_argument("--layout", help="its layout (recognised by its tensors)")
    group.add_argument("--heads", type=int, help="heads of every attention")
    group.add_argument("--pad", type=int, help="id of the padding token")
    group.add_argument("--bos", type=int, help="id that the target begins with")
    group.add_argument("--eos", type=int, help="id that ends a sentence")
    group.add_argument("--tokenizer", help="a sentencepiece model or vocab.json")


def _told(options: argparse.Namespace) -> Overrides:
    """Return the keywords of ``load`` that were given."""
    names = ("layout", "heads", "pad", "bos", "eos", "tokenizer")
    pairs = ((name, getattr(options, name)) for name in names)
    return tuple((name, value) for name, value in pairs if value is not None)


def _checkpoint_path(options: argparse.Namespace) -> Path:
    from visformer import paths

    return Path(options.checkpoint) if options.checkpoint else paths.checkpoint()


PARSERS = {
    "translate": _translate_parser,
    "render": _render_parser,
    "inspect": _inspect_parser,
    "train": _train_parser,
    "bench": _bench_parser,
}
RUNNERS = {
    "translate": _translate,
    "render": _render,
    "inspect": _inspect,
    "train": _train,
    "bench": _bench,
}
