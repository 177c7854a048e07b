"""``visformer train``: a tokenizer and a model from sentence pairs or a toy task."""

from __future__ import annotations

import argparse
from pathlib import Path

# name, type, what it is and its default
SETTINGS: tuple[tuple[str, type, str], ...] = (
    ("name", str, "name shown in the window (that of the data or the task)"),
    ("source-language", str, "for the model card and --figures: en, fr or zh"),
    ("target-language", str, "for the model card and --figures: en, fr or zh"),
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
    ("figures", int, "pairs with figures and names made for each epoch (0)"),
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``visformer train`` takes."""
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
        "--grow",
        action="store_true",
        default=argparse.SUPPRESS,
        help="give the tokenizer of --start the signs and bytes that it lacks",
    )
    parser.add_argument(
        "--post-norm",
        dest="norm_first",
        action="store_false",
        default=argparse.SUPPRESS,
        help="norms after the residual, as in the paper (before it)",
    )
    for name, kind, words in SETTINGS:
        parser.add_argument(
            f"--{name}", type=kind, default=argparse.SUPPRESS, help=words
        )


def run(options: argparse.Namespace) -> int:
    """Train, and print how it goes; returns 0."""
    from visformer.training.options import options_for
    from visformer.training.train_command import train

    given = {name: value for name, value in vars(options).items() if value is not None}
    train(options_for(given), lambda line: print(line, flush=True))
    return 0
