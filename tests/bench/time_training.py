"""Benchmarks of training (22) and of watching (28, 29), against nn.Transformer."""

from __future__ import annotations

import math
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.bench.measurements import Measurement, seconds, take_turns
from tests.bench.time_decoding import SHAPES, random_checkpoint
from visformer import paths
from visformer.core.mask_rules import padded
from visformer.core.model import Transformer
from visformer.core.position_rules import sinusoidal
from visformer.formats.layouts.native import read_native
from visformer.training.loop import (
    Example,
    Trainer,
    TrainingOptions,
    batches,
    default_device,
    fast_bfloat16,
)
from visformer.values.config import ModelConfig
from visformer.watching.watcher import watch

PAD, BOS, EOS = 0, 2, 3
DROPOUT = 0.2  # the default of ``visformer train``
RATE = 1e-4
SHORTEST, LONGEST = 4, 20  # tokens of a sentence
ROUNDS, BATCHES = 4, 3
WATCHED_TOKENS = 64
EVERY = 100  # training steps between two Traces
MOST = {"small": 8.0, "opus": 3.0}  # factor over the plain pass
MOST_SHARE = 5.0  # percent of the training time


class TorchModel(nn.Module):
    """``nn.Transformer`` with embeddings and positions, as in tutorials.

    It has as many parameters as the Transformer of the same config.
    """

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.target_vocabulary, config.d_model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about padding that is not skipped
            self.transformer = nn.Transformer(
                config.d_model,
                config.heads,
                config.encoder_layers,
                config.decoder_layers,
                config.feed_forward,
                dropout,
                batch_first=True,
                norm_first=config.norm_first,
            )
        self.output = nn.Linear(config.d_model, config.target_vocabulary, bias=False)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(dropout)
        self.scale = math.sqrt(config.d_model)
        table = sinusoidal(config.max_positions, config.d_model)
        self.register_buffer("positions", table, persistent=False)
        self.positions: Tensor

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher-force source [B, S] and target [B, T] -> logits [B, T, V]."""
        length = target.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=target.device)
        hidden: Tensor = self.transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=later.triu(1),
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )
        logits: Tensor = self.output(hidden)
        return logits

    def _embed(self, ids: Tensor) -> Tensor:
        placed = self.embedding(ids) * self.scale + self.positions[: ids.shape[1]]
        dropped: Tensor = self.dropout(placed)
        return dropped


class BaselineLoop:
    """Trains PyTorch's own modules: cross-entropy over every position, Adam."""

    def __init__(
        self, model: TorchModel, options: TrainingOptions, *, bfloat16: bool
    ) -> None:
        """``bfloat16``: multiply in it, as the other loop does where it is fast."""
        self.model, self.smoothing = model, options.smoothing
        self.bfloat16 = bfloat16
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9
        )

    def step(self, examples: Sequence[Example]) -> float:
        """Train on one batch -> loss per target token."""
        device = self.model.positions.device
        source = padded([e.source for e in examples], PAD).to(device)
        target = padded([e.target for e in examples], PAD).to(device)
        self.optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.model(source, target[:, :-1])
            loss = F.cross_entropy(
                logits.flatten(0, 1),
                target[:, 1:].flatten(),
                ignore_index=PAD,
                label_smoothing=self.smoothing,
            )
        loss.backward()
        self.optimizer.step()
        return loss.item()


@dataclass(slots=True)
class Synthetic:
    """Examples of random ids; nothing is held out."""

    train: list[Example]
    pad: int = PAD
    valid: list[Example] = field(default_factory=list)

    def epoch(self, number: int) -> Sequence[Example]:
        return self.train


def synthetic(vocabulary: int, count: int) -> Synthetic:
    """Return examples of random ids with the lengths of everyday sentences."""
    draw = random.Random(0)

    def sentence() -> list[int]:
        length = draw.randint(SHORTEST, LONGEST)
        return [draw.randrange(EOS + 1, vocabulary) for _token in range(length)] + [EOS]

    return Synthetic(
        [Example(sentence(), [BOS, *sentence()]) for _pair in range(count)]
    )


def batched(data: Synthetic, tokens: int) -> list[list[Example]]:
    """Split the examples into batches as the training loop does."""
    planned = batches(data.train, tokens=tokens, seed=0)
    return [[data.train[index] for index in batch] for batch in planned]


def make_trainer(
    config: ModelConfig, data: Synthetic, folder: Path, *, dropout: float
) -> Trainer:
    """Return the training loop with a fresh model of this size."""
    model = Transformer(config, dropout=dropout)
    model.initialise()
    options = TrainingOptions()
    return Trainer(model, data, options, folder, device=default_device())


def baseline_loop(trainer: Trainer, *, dropout: float, bfloat16: bool) -> BaselineLoop:
    """Return the baseline loop of the trainer's size, on its device."""
    model = TorchModel(trainer.model.config, dropout).to(trainer.device)
    return BaselineLoop(model, trainer.options, bfloat16=bfloat16)


def against(
    trainer: Trainer, baseline: BaselineLoop, chosen: list[list[Example]], what: str
) -> Measurement:
    """Train both on the same batches, in turn."""

    def ours() -> None:
        for batch in chosen:
            trainer.step(batch, RATE)

    def theirs() -> None:
        for batch in chosen:
            baseline.step(batch)

    turns = take_turns(
        lambda: seconds(ours, time.perf_counter),
        lambda: seconds(theirs, time.perf_counter),
        rounds=ROUNDS,
    )
    tokens = sum(len(e.target) - 1 for batch in chosen for e in batch)
    parts = {
        "visformer tokens/s": tokens / turns.ours,
        "nn.Transformer tokens/s": tokens / turns.theirs,
        "threads": torch.get_num_threads(),
    }
    device = trainer.device.type
    note = f"{device}; visformer also clips gradients and averages weights"
    return Measurement(22, what, turns.faster, "x", "at least", 1.0, parts, note)


def training() -> list[Measurement]:
    """Train a model of the bundled one's shape, and baselines, on a few batches.

    A second baseline uses bfloat16 if this program does.
    """
    config = read_native(paths.checkpoint(), torch.device("cpu")).config
    tokens = TrainingOptions().batch_tokens
    data = synthetic(config.target_vocabulary, BATCHES * tokens // SHORTEST)
    chosen = batched(data, tokens)[:BATCHES]
    single = (
        "training tokens per second in the bundled model's shape, relative to "
        "nn.Transformer in float32"
    )
    half = (
        "training tokens per second in the bundled model's shape, relative to "
        "nn.Transformer in bfloat16"
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(config, data, Path(folder), dropout=DROPOUT)
        low = fast_bfloat16(trainer.device.type)
        variants = {single: False}
        if low:
            variants[half] = True
        return [
            against(
                trainer,
                baseline_loop(trainer, dropout=DROPOUT, bfloat16=bfloat16),
                chosen,
                name,
            )
            for name, bfloat16 in variants.items()
        ]


# ---- 28 and 29: watching, against the plain pass and in a training loop --------------


def watched_pass(config: ModelConfig, most: float, name: str) -> Measurement:
    """Return the slowdown of a watched pass, which captures all attention."""
    model = TorchModel(config, 0.0).eval()
    model.transformer.encoder.use_nested_tensor = False  # warns and saves nothing
    ids = torch.randint(4, config.target_vocabulary, (2, 1, WATCHED_TOKENS))
    watcher = watch(model, pad=PAD)

    def watched() -> None:
        with torch.no_grad(), watcher:
            model(*ids)

    def plain() -> None:
        with torch.no_grad():
            model(*ids)

    turns = take_turns(lambda: seconds(watched), lambda: seconds(plain), rounds=5)
    parts = turns.milliseconds("watched", "plain")
    what = f"a watched pass of 64 + 64 tokens, relative to the plain one: {name}"
    return Measurement(28, what, turns.slower, "x", "at most", most, parts)


def watching() -> list[Measurement]:
    """Watch ``nn.Transformer`` in both shapes, on one thread."""
    torch.set_num_threads(1)
    return [
        watched_pass(random_checkpoint(**sizes).config, MOST[name], name)
        for name, sizes in SHAPES.items()
    ]


def watched_training(config: ModelConfig, tokens: int) -> Measurement:
    """Return the share of training time spent on a Trace every 100 steps."""
    data = synthetic(config.target_vocabulary, 2 * tokens)
    (batch, *_rest) = batched(data, tokens)
    model = TorchModel(config, 0.1)
    loop = BaselineLoop(model, TrainingOptions(), bfloat16=False)
    size = config.target_vocabulary
    source, target = (torch.randint(4, size, (1, 16)) for _side in range(2))
    watcher = watch(model, pad=PAD)
    with tempfile.TemporaryDirectory() as folder:

        def keep() -> None:
            with torch.no_grad(), watcher as watched:
                model(source, target)
            watched.traces[0].save(Path(folder, "step.vis"))

        turns = take_turns(
            lambda: seconds(keep), lambda: seconds(lambda: loop.step(batch)), rounds=3
        )
    share = 100 * turns.slower / EVERY
    parts = turns.milliseconds("a Trace", "a training step")
    what = "time that a Trace every 100 training steps adds"
    return Measurement(29, what, share, "%", "at most", MOST_SHARE, parts)


def watched_loop() -> list[Measurement]:
    """Train the small shape with the batches of ``visformer train``."""
    torch.set_num_threads(1)
    config = random_checkpoint(**SHAPES["small"]).config
    return [watched_training(config, TrainingOptions().batch_tokens)]


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {
    22: training,
    28: watching,
    29: watched_loop,
}
