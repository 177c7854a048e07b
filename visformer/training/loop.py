"""The training loop: a kill at any moment loses little of its state."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from visformer.core.mask_rules import padded
from visformer.core.model import Transformer
from visformer.errors import InputError
from visformer.files import sweep
from visformer.language import _
from visformer.training.data import Example, batches
from visformer.training.loss import smoothed_cross_entropy
from visformer.training.processes import (
    average_gradients,
    from_first,
    local_rank,
    rank,
    total,
    world,
)
from visformer.training.run_files import read_file, replace_file

STATE, BEST = "training.pt", "best.pt"
REPORT_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """How to train; the defaults suit small data and about ten million parameters."""

    epochs: int = 20
    batch_tokens: int = 1024  # per step, process and side, padding included
    learning_rate: float = 1e-3
    warmup: int = 400  # steps
    smoothing: float = 0.1
    clip: float = 1.0  # norm of all gradients together
    average: float = 0.999  # decay of the running mean of weights, the final model
    patience: int = 3  # epochs without a better held-out loss
    save_seconds: float = 120.0
    seed: int = 0


class Data(Protocol):
    """The source of the examples."""

    pad: int
    valid: list[Example]

    def epoch(self, number: int) -> Sequence[Example]:
        """Return the training examples of this epoch, the same each time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the loop reports every few steps and after each epoch."""

    epoch: int
    step: int
    steps: int  # in all epochs, estimated
    loss: float  # per target token, label smoothing included
    tokens_per_second: float
    valid_loss: float | None = None  # per target token, no smoothing; after an epoch


@dataclass(slots=True)
class TrainingState:
    """Where a training run stands."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    best: float = math.inf
    worse: int = 0  # epochs since the best
    history: list[float] = field(default_factory=list)  # held-out loss by epoch
    seconds: float = 0.0  # of training, summed over all runs
    world: int = 1  # processes among which ``batch`` was counted


def learning_rate(step: int, total: int, options: TrainingOptions) -> float:
    """Rise linearly during the warm-up, then fall linearly to a fiftieth."""
    rise = min(1.0, (step + 1) / max(1, options.warmup))
    rest = max(0.0, 1 - max(0, step - options.warmup) / max(1, total - options.warmup))
    return options.learning_rate * rise * max(0.02, rest)


class Trainer:
    """Trains one model in a folder; run it again on the same folder to continue."""

    def __init__(
        self,
        model: Transformer,
        data: Data,
        options: TrainingOptions,
        folder: Path,
        *,
        device: torch.device | None = None,
    ) -> None:
        """Resume from the state in ``folder``, if any; InputError if it is damaged.

        Of several processes, only process 0 reads and writes the folder.
        """
        self.data, self.options, self.folder = data, options, folder
        self.device = device or default_device()
        self.model = model.to(self.device)
        self.average = AveragedModel(model, multi_avg_fn=_running_mean(options.average))
        self.optimizers = make_optimizers(model, options)
        self.state = TrainingState()
        state = from_first(self._read)
        if state:
            self._restore(state)
        else:
            weights = {name: p.cpu() for name, p in model.state_dict().items()}
            model.load_state_dict(from_first(lambda: weights))

    def run(self, report: Callable[[Progress], None]) -> float:
        """Train to the last epoch or until the held-out loss stops falling.

        Returns the best held-out loss per token. ``best.pt`` in the folder holds the
        averaged weights that reached it.
        """
        saved = time.monotonic()
        while not self.done:
            for progress in self._epoch():
                if time.monotonic() - saved > self.options.save_seconds:
                    self._save()
                    saved = time.monotonic()
                report(progress)
            report(self._finish_epoch())
        return self.state.best

    @property
    def done(self) -> bool:
        """Whether all epochs are over, or too many without a better loss."""
        over = self.state.epoch >= self.options.epochs
        return over or self.state.worse >= self.options.patience

    def _epoch(self) -> Iterator[Progress]:
        examples = self.data.epoch(self.state.epoch)
        mine = self._batches(examples)
        steps = len(mine) * self.options.epochs
        started, tokens, loss_sum = time.monotonic(), 0, 0.0
        self.model.train()
        for batch in mine[self.state.batch :]:
            torch.manual_seed(self._dropout_seed())
            rate = learning_rate(self.state.step, steps, self.options)
            loss, count = self.step([examples[i] for i in batch], rate)
            tokens, loss_sum = tokens + count, loss_sum + loss
            self.state.step += 1
            self.state.batch += 1
            if self.state.step % REPORT_STEPS == 0 or batch is mine[-1]:
                seconds = time.monotonic() - started
                self.state.seconds += seconds
                yield Progress(
                    self.state.epoch,
                    self.state.step,
                    steps,
                    loss_sum / tokens,
                    tokens * world() / seconds,
                )
                started, tokens, loss_sum = time.monotonic(), 0, 0.0

    def _batches(self, examples: Sequence[Example]) -> list[list[int]]:
        """Return this process's batches of the epoch: as many as in every other."""
        seed = self.options.seed + self.state.epoch
        planned = batches(examples, tokens=self.options.batch_tokens, seed=seed)
        if len(planned) < world():
            raise InputError(
                _(
                    "There are too few training pairs ({n:,}) for {processes} "
                    "processes. Use fewer processes or more pairs.",
                    n=len(examples),
                    processes=world(),
                )
            )
        planned = planned[: len(planned) - len(planned) % world()]
        return planned[rank() :: world()]

    def _dropout_seed(self) -> int:
        """Return a seed per step and process, so a resumed run draws the same."""
        mixed = (self.options.seed * 1_000_003 + self.state.step) * 65_537 + rank()
        return mixed % 2**63

    def step(self, examples: list[Example], rate: float) -> tuple[float, int]:
        """Train on one batch -> sum of losses, number of target tokens."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss, count = self._loss(self.model, examples, self.options.smoothing)
        (loss / count).backward()
        average_gradients(self.model, count)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * group["share"]
            optimizer.step()
        self.average.update_parameters(self.model)
        return self._finite(loss.item()), count

    def _finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            raise InputError(
                _(
                    "The loss became {loss} at step {step:,}. Train again with a "
                    "learning rate below {rate:g}.",
                    loss=loss,
                    step=self.state.step,
                    rate=self.options.learning_rate,
                )
            )
        return loss

    def _loss(
        self, model: Transformer, examples: list[Example], smoothing: float
    ) -> tuple[Tensor, int]:
        source = padded([e.source for e in examples], self.data.pad).to(self.device)
        target = padded([e.target for e in examples], self.data.pad).to(self.device)
        labels = target[:, 1:]
        real = labels != self.data.pad
        with self._mixed_precision():
            hidden = model(source, target[:, :-1], self.data.pad)[real]
            loss = smoothed_cross_entropy(
                hidden,
                model.output.weight,
                labels[real],
                smoothing=smoothing,
                bias=model.output.bias,
            )
        return loss, int(real.sum())

    def _mixed_precision(self) -> AbstractContextManager[Any]:
        fast = fast_bfloat16(self.device.type)
        return torch.autocast(self.device.type, torch.bfloat16, enabled=fast)

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Return the averaged model's loss per target token, in nats.

        The processes share the work and get the same sum, so all decide the same.
        """
        model = cast("Transformer", self.average.module)
        model.eval()
        sums = torch.zeros(2, dtype=torch.float64)
        planned = batches(self.data.valid, tokens=self.options.batch_tokens)
        for batch in planned[rank() :: world()]:
            loss, tokens = self._loss(model, [self.data.valid[i] for i in batch], 0.0)
            sums += torch.tensor([loss.item(), tokens], dtype=torch.float64)
        loss_sum, count = total(sums.to(self.device, _sum_type(self.device))).tolist()
        return float(loss_sum / max(1, count))

    def _finish_epoch(self) -> Progress:
        started = time.monotonic()
        valid = self.held_out_loss()
        state = self.state
        steps = state.batch * self.options.epochs
        state.epoch, state.batch = state.epoch + 1, 0
        state.history.append(valid)
        state.worse = 0 if valid < state.best else state.worse + 1
        if valid < state.best:
            state.best = valid
            if rank() == 0:
                replace_file(self.folder / BEST, self.average.module.state_dict())
        state.seconds += time.monotonic() - started
        self._save()
        return Progress(state.epoch, state.step, steps, math.nan, 0.0, valid)

    def _save(self) -> None:
        if rank():
            return
        self.state.world = world()
        state = {
            "place": {
                name: getattr(self.state, name) for name in TrainingState.__slots__
            },
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        replace_file(self.folder / STATE, state)

    def _read(self) -> dict[str, Any]:
        """Return the saved state, {} if there is none; delete what a kill left."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (STATE, BEST):
            sweep(self.folder / name)
        path = self.folder / STATE
        return read_file(path) if path.exists() else {}

    def _restore(self, state: dict[str, Any]) -> None:
        try:
            self.model.load_state_dict(state["model"])
            self.average.load_state_dict(state["average"])
            pairs = zip(self.optimizers, state["optimizers"], strict=True)
            for optimizer, saved in pairs:
                optimizer.load_state_dict(saved)
            self.state = TrainingState(**state["place"])
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                _(
                    "{path} belongs to another model. Choose another folder.",
                    path=self.folder / STATE,
                )
            ) from error
        self.state.batch = self.state.batch * self.state.world // world()


def make_optimizers(
    model: Transformer, options: TrainingOptions
) -> list[torch.optim.Optimizer]:
    """Adam with the paper's constants; ``share`` scales the schedule of a group."""
    return [
        torch.optim.Adam(
            [{"params": list(model.parameters()), "share": 1.0}],
            lr=options.learning_rate,
            betas=(0.9, 0.98),
            eps=1e-9,
        )
    ]


def _running_mean(decay: float) -> Callable[[Any, Any, Any], None]:
    """Exponential mean of weights whose window grows with the number of steps.

    Otherwise the mean of a short run would still be near its random start.
    """

    @torch.no_grad()
    def update(means: Any, weights: Any, count: Any) -> None:
        updates = int(count)
        kept = min(decay, (1 + updates) / (10 + updates))
        torch._foreach_lerp_(means, weights, 1 - kept)

    return update


def default_device() -> torch.device:
    """Return this process's GPU, or the CPU if there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", local_rank())


def fast_bfloat16(device: str) -> bool:
    """Whether this kind of device multiplies bfloat16 faster than float32."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())


def _sum_type(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64
