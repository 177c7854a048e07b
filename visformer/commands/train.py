"""``visformer train``: trains a tokenizer and a model on pairs or a toy task."""

import argparse
from pathlib import Path

from visformer import paths
from visformer.language import N_, _

# name, type, what it is and its default
SETTINGS: tuple[tuple[str, type, str], ...] = (
    ("name", str, N_("name shown in the window (default: that of the data or task)")),
    ("source-language", str, N_("en, fr or zh: for the model card")),
    ("target-language", str, N_("en, fr or zh: for the model card")),
    ("licence", str, N_("licence of the data, for the model card")),
    ("alphabet", str, N_("letters of a task (default: a to z)")),
    ("shortest", int, N_("shortest string of a task (default: 1)")),
    ("longest", int, N_("longest string of a task (default: 12)")),
    ("examples", int, N_("strings of a task per epoch (default: 20000)")),
    ("vocabulary", int, N_("tokens of the joint sentencepiece model (default: 8000)")),
    ("d-model", int, N_("width of the model (default: 256; a task: 64)")),
    ("heads", int, N_("heads of each attention (default: 8; a task: 4)")),
    (
        "layers",
        int,
        N_("layers of the encoder and of the decoder, each (default: 4; a task: 2)"),
    ),
    (
        "feed-forward",
        int,
        N_("width of the feed-forward layers (default: 1024; a task: 256)"),
    ),
    ("max-positions", int, N_("longest sentence, in tokens (default: 512)")),
    ("dropout", float, N_("dropout rate (default: 0.2; a task: 0.05)")),
    (
        "sampling",
        float,
        N_("alpha of subword regularisation; 0 turns it off (default: 0)"),
    ),
    ("epochs", int, N_("most passes over the data (default: 20; a task: 24)")),
    (
        "batch-tokens",
        int,
        N_("tokens per batch, per process and per side (default: 1024)"),
    ),
    ("learning-rate", float, N_("peak learning rate (default: 0.001; a task: 0.002)")),
    ("warmup", int, N_("steps to the peak learning rate (default: 400)")),
    ("smoothing", float, N_("label smoothing (default: 0.1; a task: 0)")),
    (
        "patience",
        int,
        N_("epochs without a better held-out loss (default: 3; a task: 5)"),
    ),
    ("save-seconds", float, N_("seconds between saves (default: 120)")),
    (
        "keep-every",
        int,
        N_("steps from one checkpoint kept in steps/ to the next (default: 0, none)"),
    ),
    ("seed", int, N_("seed of every random draw (default: 0)")),
    (
        "valid",
        int,
        N_(
            "pairs held out for validation (default: a fiftieth, at most 2000; a task: "
            "500)"
        ),
    ),
    (
        "test",
        int,
        N_(
            "pairs held out for the test (default: a fiftieth, at most 3000; a task: "
            "5000)"
        ),
    ),
    ("beam", int, N_("number of beams in the test (default: 4; a task: 1)")),
    ("device", str, N_("cpu, cuda or mps (default: the best available)")),
    ("threads", int, N_("threads; 0 uses all cores (default: 0)")),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer train``."""
    parser.add_argument(
        "data",
        nargs="?",
        type=Path,
        help=_("file of pairs, one per line: source, tab, target; may be gzipped"),
    )
    parser.add_argument(
        "--task",
        choices=("copy", "reverse", "sort"),
        help=_("toy task, with generated data"),
    )
    parser.add_argument(
        "--layout",
        default=argparse.SUPPRESS,
        help=_(
            "train the model of a tutorial, with its faults: handout, d2l, labml, "
            "modular or scratch (default: Visformer's own)"
        ),
    )
    parser.add_argument(
        "--out", required=True, type=Path, help=_("folder for the training run")
    )
    parser.add_argument(
        "--start",
        type=paths.model,
        help=_("checkpoint to start from: its sizes, weights and tokenizer are kept"),
    )
    parser.add_argument(
        "--post-norm",
        dest="norm_first",
        action="store_false",
        default=argparse.SUPPRESS,
        help=_(
            "put the norms after the residual, as in the paper (default: before it; a "
            "task: after it)"
        ),
    )
    for name, kind, what in SETTINGS:
        parser.add_argument(
            f"--{name}", type=kind, default=argparse.SUPPRESS, help=_(what)
        )


def run(options: argparse.Namespace) -> int:
    """Train and print the progress; returns 0."""
    from visformer.training.train_command import options_for, train

    given = {name: value for name, value in vars(options).items() if value is not None}
    train(options_for(given), lambda line: print(line, flush=True))
    return 0
