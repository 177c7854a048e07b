"""What ``visformer train`` does, from pairs to a measured checkpoint."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from visformer.core.checkpoint import choose_device
from visformer.errors import InputError
from visformer.files import write_whole
from visformer.formats.layouts.native import CARD, WEIGHTS
from visformer.training import prepare
from visformer.training.card import Card, duration, hardware, publish, sizes, summary
from visformer.training.data import Pair, read_pairs
from visformer.training.figures import Figures
from visformer.training.growth import grow_tokenizer
from visformer.training.loop import (
    BEST,
    STATE,
    Progress,
    Trainer,
    TrainingOptions,
    default_device,
)
from visformer.training.options import (
    FREE,
    OF_MODEL,
    OF_PAIRS,
    OF_TASKS,
    TrainCommand,
    check,
)
from visformer.training.prepare import Prepared
from visformer.training.processes import from_first, group, rank, world
from visformer.training.run_files import read_file
from visformer.training.start import Start, make_model, read_start
from visformer.training.tasks import Task
from visformer.values.config import ModelConfig

OPTIONS, CHECKPOINT = "options.json", "checkpoint"
Report = Callable[[str], None]


def train(options: TrainCommand, report: Report) -> None:
    """Train as told, or go on where a run on the same folder was stopped.

    Leaves ``checkpoint/`` in the folder, with a model card, and the held-out pairs.
    Under ``torchrun`` every process calls this; the first alone writes and reports.
    Raises InputError for options, data or a folder that cannot be used.
    """
    check(options)
    if options.threads:
        torch.set_num_threads(options.threads)
    device = _device(options.device)
    tell: Report = report if rank() == 0 else _silence
    with group(device):
        if from_first(lambda: _claim(options)):
            tell(f"{options.out} is complete already: nothing is left to train.")
            return
        start = read_start(options.start) if options.start else None
        prepared = _prepare(options, start, tell)
        trainer = _trainer(options, prepared, start, device)
        tell(f"training {sizes(trainer.model.config)} on {hardware(device, world())}")
        if trainer.state.step:
            tell(f"going on after step {trainer.state.step:,}")
        trainer.run(_reporter(trainer, tell))
    if rank() == 0:
        _finish(options, prepared, trainer, tell)


def _device(name: str | None) -> torch.device:
    if world() > 1 and name in (None, "cuda"):
        return default_device()  # each process its own
    return choose_device(name)


def _silence(line: str) -> None:
    """Report nothing."""


def _claim(options: TrainCommand) -> bool:
    """Take the folder for these options; return whether all is done there already.

    Raises InputError where the folder was begun with others.
    """
    folder, path = options.out, options.out / OPTIONS
    options_now = _stored_options(options)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _check_same(folder, json.loads(path.read_bytes()), options_now)
        elif (folder / STATE).exists() or (folder / CHECKPOINT).exists():
            raise InputError(f"{folder} holds another training: choose another folder.")
        else:
            write_whole(path, json.dumps(options_now, indent=1).encode())
    except OSError as error:
        raise InputError(f"{folder} cannot be used: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: choose another folder.") from error
    return (folder / CHECKPOINT / CARD).exists()


def _stored_options(options: TrainCommand) -> dict[str, Any]:
    """Return what makes a run the same run, as JSON has it."""
    values = {k: v for k, v in dataclasses.asdict(options).items() if k not in FREE}
    start = options.start / WEIGHTS if options.start else None
    files = {"data": options.data, "start": start}
    return values | {
        key: _digest(path) if path else None for key, path in files.items()
    }


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def _check_same(folder: Path, recorded: Any, now: dict[str, Any]) -> None:
    recorded = recorded if isinstance(recorded, dict) else {}
    for name, value in now.items():
        old = recorded.get(name)
        if old == value:
            continue
        how = f"with {name} = {old}, not {value}"
        how = {"data": "on other pairs", "start": "from other weights"}.get(name, how)
        raise InputError(
            f"the training in {folder} was begun {how}: choose another folder."
        )


def _prepare(options: TrainCommand, start: Start | None, tell: Report) -> Prepared:
    if options.task:
        prepared = prepare.toy(
            _task(options),
            count=options.examples,
            valid=options.valid,
            test=options.test,
        )
    else:
        prepared = _prepare_pairs(options, start, tell)
    if rank() == 0:
        for path, content in prepare.parts(options.out, prepared).items():
            write_whole(path, content)
    tell(f"pairs: {_counted(options, prepared)}")
    if prepared.dropped:
        tell(f"{prepared.dropped:,} pairs are too long and left out")
    return prepared


def _counted(options: TrainCommand, prepared: Prepared) -> str:
    how = " in each epoch" if options.task else ""
    if options.figures:
        how = f" and {options.figures:,} made by rule in each epoch"
    return (
        f"{prepared.trained_on:,} to train on{how}, "
        f"{len(prepared.valid):,} for validation, {len(prepared.test):,} for the test"
    )


def _task(options: TrainCommand) -> Task:
    return Task(
        name=options.task or "copy",
        alphabet=options.alphabet,
        shortest=options.shortest,
        longest=options.longest,
        seed=options.seed,
    )


def _prepare_pairs(
    options: TrainCommand, start: Start | None, tell: Report
) -> Prepared:
    pairs = read_pairs(options.data or Path())
    split = prepare.split(
        pairs, valid=options.valid, test=options.test, seed=options.seed
    )
    positions = start.model.config.max_positions if start else options.max_positions
    return prepare.subword(
        from_first(lambda: _sentencepiece(options, split.train, start, tell)),
        split,
        longest=min(positions, options.batch_tokens),
        alpha=options.sampling,
        seed=options.seed,
        generate=_figures(options, split.train),
    )


def _sentencepiece(
    options: TrainCommand, pairs: Sequence[Pair], start: Start | None, tell: Report
) -> bytes:
    """Return the tokenizer: the start's, grown or not, or one made of the pairs."""
    if start and not options.grow:
        return start.sentencepiece
    path = options.out / prepare.SENTENCEPIECE
    if not path.exists():
        size = options.vocabulary
        new = f"training a tokenizer of {size:,} pieces"
        tell("growing the tokenizer" if start else new)
        content = prepare.train_sentencepiece(pairs, size)
        if start:
            content = grow_tokenizer(start.sentencepiece, content)
        write_whole(path, content)
    return path.read_bytes()


def _figures(options: TrainCommand, pairs: Sequence[Pair]) -> prepare.GeneratedPairs:
    if not options.figures:
        return prepare.no_pairs
    languages = options.source_language, options.target_language
    figures = Figures(*languages, pairs, seed=options.seed)
    return lambda epoch: figures.pairs(options.figures, epoch)


def _trainer(
    options: TrainCommand, prepared: Prepared, start: Start | None, device: torch.device
) -> Trainer:
    config = ModelConfig(
        source_vocabulary=prepared.tokenizer.source.size,
        target_vocabulary=prepared.tokenizer.target.size,
        d_model=options.d_model,
        heads=options.heads,
        encoder_layers=options.layers,
        decoder_layers=options.layers,
        feed_forward=options.feed_forward,
        max_positions=options.max_positions,
        norm_first=options.norm_first,
        final_norm=options.norm_first,
    )
    torch.manual_seed(options.seed)
    model = make_model(config, start, options.dropout)
    shared = {f.name for f in dataclasses.fields(TrainingOptions)}
    values = {k: v for k, v in dataclasses.asdict(options).items() if k in shared}
    training_options = TrainingOptions(**values)
    return Trainer(model, prepared.data, training_options, options.out, device=device)


def _reporter(trainer: Trainer, tell: Report) -> Callable[[Progress], None]:
    epochs, begun, first = trainer.options.epochs, time.monotonic(), trainer.state.step

    def say(progress: Progress) -> None:
        if progress.valid_loss is not None:
            best = progress.valid_loss == trainer.state.best
            tell(
                f"epoch {progress.epoch} of {epochs}: held-out loss "
                f"{progress.valid_loss:.4f}{', the best so far' if best else ''}"
            )
            return
        pace = (time.monotonic() - begun) / max(1, progress.step - first)
        left = pace * max(0, progress.steps - progress.step)
        tell(
            f"epoch {progress.epoch + 1} of {epochs}, step {progress.step:,} of about "
            f"{progress.steps:,}: loss {progress.loss:.3f}, "
            f"{progress.tokens_per_second:,.0f} tokens/s, {duration(left)} left"
        )

    return say


def _finish(
    options: TrainCommand, prepared: Prepared, trainer: Trainer, tell: Report
) -> None:
    """Write the best weights as a checkpoint, and measure it."""
    path = options.out / BEST
    if not path.exists():
        raise InputError(
            f"the held-out loss in {options.out} was never a number: train in another "
            "folder, with a lower learning rate."
        )
    model = trainer.model.eval()
    model.load_state_dict(read_file(path))
    beam = options.beam or (1 if options.task else 4)
    tell(f"measuring on {len(prepared.test):,} test pairs")
    scores = publish(
        options.out / CHECKPOINT,
        model,
        _card(options, prepared, trainer),
        tokenizer=prepared.files,
        test=prepared.test,
        beam=beam,
    )
    if scores.bleu is None and not options.task:
        tell("BLEU and chrF need sacrebleu: pip install sacrebleu")
    tell(f"{summary(scores)}; written to {options.out / CHECKPOINT}")


def _card(options: TrainCommand, prepared: Prepared, trainer: Trainer) -> Card:
    state = trainer.state
    source = options.data.name if options.data else ""
    if options.task:
        source = (
            f"made by `visformer train --task {options.task}`: strings of "
            f"{options.shortest} to {options.longest} characters of "
            f"“{options.alphabet}”, drawn anew each epoch"
        )
    idle = {"data", *(OF_PAIRS if options.task else OF_TASKS)}
    idle |= set(OF_MODEL) if options.start else set()
    given = {k: v for k, v in _stored_options(options).items() if k not in idle}
    return Card(
        name=options.name or (options.task or source.split(".")[0]),
        languages=(options.source_language, options.target_language),
        data=source,
        licence=options.licence,
        pairs=_counted(options, prepared),
        training={
            "training": f"{state.step:,} steps in {state.epoch} epochs, "
            f"{duration(state.seconds)}, on {hardware(trainer.device, world())}",
            "held-out loss": f"{state.best:.4f} nats a token, after epoch "
            f"{state.history.index(state.best) + 1}",
            "options": ", ".join(f"{k} {v}" for k, v in given.items() if v is not None),
        },
    )
