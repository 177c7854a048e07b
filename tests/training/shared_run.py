"""The toy training of ``test_command``, for a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.training.toys import TOY
from visformer.core.model import Transformer
from visformer.training import loop
from visformer.training import train_command as command
from visformer.training.loop import Progress, Trainer, rank, world
from visformer.training.train_command import options_for


class WitnessedTrainer(Trainer):
    """Starts from other weights in each process, and leaves those it ended with."""

    def __init__(self, model: Transformer, *others: Any, **named: Any) -> None:
        with torch.no_grad():
            model.output.weight.add_(rank())
        super().__init__(model, *others, **named)

    def run(self, report: Callable[[Progress], None]) -> float:
        best = super().run(report)
        if world() > 1:
            torch.save(self.model.state_dict(), self.folder / f"rank{rank()}.pt")
        return best


def main(folder: Path) -> None:
    """Train, and tell every step on the standard output."""
    loop.REPORT_STEPS = 1
    setattr(command, "Trainer", WitnessedTrainer)  # noqa: B010
    options = options_for({**TOY, "out": folder})
    command.train(options, lambda line: print(line, file=sys.stdout, flush=True))
