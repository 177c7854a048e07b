"""Benchmarks of watching (28, 29): against the plain pass, and in a training loop."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from visformer.bench.measurements import Measurement, seconds, take_turns
from visformer.bench.time_decoding import SHAPES, random_checkpoint
from visformer.bench.time_training import (
    PAD,
    BaselineLoop,
    TorchModel,
    batched,
    synthetic,
)
from visformer.language import _
from visformer.training.loop import TrainingOptions
from visformer.values.config import ModelConfig
from visformer.watching.watcher import watch

TOKENS, ROUNDS = 64, 5
EVERY = 100  # training steps between two Traces
MOST = {"small": 8.0, "opus": 3.0}  # times the plain pass
MOST_SHARE = 5.0  # percent of a training loop


def watched_pass(config: ModelConfig, most: float, name: str) -> Measurement:
    """Return how many times as long a watched pass takes: all attention captured."""
    model = TorchModel(config, 0.0).eval()
    model.transformer.encoder.use_nested_tensor = False  # it warns, and saves nothing
    ids = torch.randint(4, config.target_vocabulary, (2, 1, TOKENS))
    watcher = watch(model, pad=PAD)

    def watched() -> None:
        with torch.no_grad(), watcher:
            model(*ids)

    def plain() -> None:
        with torch.no_grad():
            model(*ids)

    turns = take_turns(lambda: seconds(watched), lambda: seconds(plain), rounds=ROUNDS)
    parts = turns.milliseconds("watched", "plain")
    what = _(
        "a watched pass of 64 + 64 tokens, relative to the plain one: {shape}",
        shape=name,
    )
    return Measurement(28, what, turns.slower, "x", "at most", most, parts)


def watching() -> list[Measurement]:
    """Watch ``nn.Transformer`` in both shapes, on one thread."""
    torch.set_num_threads(1)
    return [
        watched_pass(random_checkpoint(**sizes).config, MOST[name], name)
        for name, sizes in SHAPES.items()
    ]


def watched_training(config: ModelConfig, tokens: int) -> Measurement:
    """Return the share of a training loop that a Trace every 100 steps takes."""
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
    what = _("time that a Trace every 100 training steps adds")
    return Measurement(29, what, share, "%", "at most", MOST_SHARE, parts)


def training() -> list[Measurement]:
    """Train the small shape with the batches of ``visformer train``."""
    torch.set_num_threads(1)
    config = random_checkpoint(**SHAPES["small"]).config
    return [watched_training(config, TrainingOptions().batch_tokens)]


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {28: watching, 29: training}
