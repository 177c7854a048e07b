"""``visformer train`` with what made the bundled models: ``python -m tests.models``.

It takes the same options and two more. ``--figures N`` adds N generated pairs with
figures and names to each epoch. ``--grow`` first gives the tokenizer of ``--start`` the
characters and bytes that it lacks, in a checkpoint ``grown`` beside the training.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.models.figures import Figures
from tests.models.growth import grow_model, grow_tokenizer
from visformer.commands.train import add_options
from visformer.files import Pair, read_pairs
from visformer.formats.layouts.native import (
    TokenizerFiles,
    read_config,
    write_native,
)
from visformer.tokenizers.tokenizer import SentencePieceSide
from visformer.training.prepare import (
    SENTENCEPIECE,
    SPECIAL,
    GeneratedPairs,
    train_sentencepiece,
)
from visformer.training.train_command import options_for, read_start, train


def grow(folder: Path, pairs: Sequence[Pair], vocabulary: int, out: Path) -> Path:
    """Write the checkpoint of ``folder`` with a grown tokenizer; return ``out``."""
    start = read_start(folder)
    model = grow_tokenizer(start.sentencepiece, train_sentencepiece(pairs, vocabulary))
    files = {SENTENCEPIECE: model}
    tokenizer = TokenizerFiles("sentencepiece", SENTENCEPIECE, SENTENCEPIECE, files)
    write_native(
        out,
        grow_model(start.model, SentencePieceSide(model, SENTENCEPIECE).size),
        name=str(read_config(folder)["name"]),
        special=SPECIAL,
        tokenizer=tokenizer,
    )
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Train and print the progress; returns 0."""
    parser = argparse.ArgumentParser("python -m tests.models", description=__doc__)
    add_options(parser)
    parser.add_argument("--figures", type=int, default=0, metavar="N")
    parser.add_argument("--grow", action="store_true")
    given: dict[str, Any] = {
        name: value
        for name, value in vars(parser.parse_args(arguments)).items()
        if value is not None
    }
    count, growing = given.pop("figures"), given.pop("grow")
    options = options_for(given)
    if growing:
        if not (options.start and options.data):
            parser.error("--grow extends the tokenizer of --start for a file of pairs.")
        grown, pairs = options.out / "grown", read_pairs(options.data)
        if not (grown / "config.json").exists():
            grow(options.start, pairs, options.vocabulary, grown)
        options = options_for({**given, "start": grown})
    languages = options.source_language, options.target_language

    def figures(pairs: Sequence[Pair], seed: int) -> GeneratedPairs:
        made = Figures(*languages, pairs, seed=seed)
        return lambda epoch: made.pairs(count, epoch)

    train(
        options,
        lambda line: print(line, flush=True),
        generate=figures if count else None,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
