"""The toy training of ``test_command``, for a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.system.training.toys import TOY
from visformer.training import loop
from visformer.training import train_command as command
from visformer.training.train_command import options_for


def main(folder: Path) -> None:
    """Train, and tell every step on the standard output."""
    loop.REPORT_STEPS = 1
    options = options_for({**TOY, "out": folder})
    command.train(options, lambda line: print(line, file=sys.stdout, flush=True))
