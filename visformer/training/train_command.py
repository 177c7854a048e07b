"""``visformer train`` from pairs to a measured checkpoint."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from visformer.core.checkpoint import choose_device
from visformer.core.model import Transformer
from visformer.errors import InputError
from visformer.files import (
    Pair,
    check_regular,
    inside,
    read_pairs,
    read_regular,
    short,
    write_whole,
)
from visformer.formats.layouts import TUTORIALS
from visformer.formats.layouts.native import CARD, WEIGHTS, read_config, read_native
from visformer.language import N_, _, ngettext
from visformer.tokenizers.tokenizer import MAX_TOKENIZER
from visformer.training import prepare
from visformer.training.card import (
    Card,
    duration,
    hardware,
    publish,
    sizes,
    summary,
    write_checkpoint,
)
from visformer.training.loop import (
    BEST,
    STATE,
    Progress,
    Trainer,
    TrainingOptions,
    read_file,
)
from visformer.training.prepare import SPECIAL, Prepared, Task, TaskName
from visformer.values.config import ModelConfig

OPTIONS, CHECKPOINT, KEPT = "options.json", "checkpoint", "steps"
Report = Callable[[str], None]
# training pairs, seed -> pairs to add to each epoch
PairMaker = Callable[[Sequence[Pair], int], prepare.GeneratedPairs]
_LOOP = TrainingOptions()


def train(
    options: TrainCommand, report: Report, *, generate: PairMaker | None = None
) -> None:
    """Train with these options, or continue a run that was stopped in the same folder.

    ``generate`` makes pairs that are added to those of each epoch. Creates
    ``checkpoint/`` in the folder, with a model card, and the held-out pairs. Raises
    InputError for invalid options or data, or an unusable folder.
    """
    check(options)
    if options.threads:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device)
    if _claim(options):
        report(
            _(
                "{folder} is already complete: there is nothing left to train.",
                folder=options.out,
            )
        )
        return
    start = read_start(options.start) if options.start else None
    prepared = _prepare(options, start, report, generate)
    trainer = _trainer(options, prepared, start, device)
    report(
        _(
            "Training {sizes} on {hardware}",
            sizes=sizes(trainer.model.config),
            hardware=hardware(device),
        )
    )
    if trainer.state.step:
        report(_("Continuing after step {n:,}", n=trainer.state.step))
    trainer.run(progress_reporter(trainer, report))
    _finish(options, prepared, trainer, report)


def _claim(options: TrainCommand) -> bool:
    """Claim the folder for these options; return whether it is already complete."""
    folder, path = options.out, options.out / OPTIONS
    options_now = _stored_options(options)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _check_same(folder, json.loads(path.read_bytes()), options_now)
        elif (folder / STATE).exists() or (folder / CHECKPOINT).exists():
            raise InputError(
                "{folder} contains another training. Choose another folder.",
                folder=folder,
            )
        else:
            write_whole(path, json.dumps(options_now, indent=1).encode())
    except OSError as error:
        raise InputError(
            "{folder} cannot be used: {reason}.", folder=folder, reason=error.strerror
        ) from error
    except ValueError as error:
        raise InputError(
            "{path} is damaged. Choose another folder.", path=path
        ) from error
    return (folder / CHECKPOINT / CARD).exists()


def _stored_options(options: TrainCommand) -> dict[str, Any]:
    """Return the options that identify a run, as JSON data."""
    values = {k: v for k, v in dataclasses.asdict(options).items() if k not in FREE}
    start = options.start / WEIGHTS if options.start else None
    files = {"data": options.data, "start": start}
    return values | {
        key: _digest(path) if path else None for key, path in files.items()
    }


def _digest(path: Path) -> str:
    try:
        check_regular(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            "{path} cannot be read: {reason}.", path=path, reason=error.strerror
        ) from error


def _check_same(folder: Path, recorded: Any, now: dict[str, Any]) -> None:
    recorded = recorded if isinstance(recorded, dict) else {}
    for name, value in now.items():
        old = recorded.get(name)
        if old == value:
            continue
        sentence = _OTHER_RUN.get(name, _OTHER_OPTION)
        raise InputError(sentence, folder=folder, name=name, recorded=old, value=value)


_OTHER_RUN = {  # by the option that differs
    "data": N_(
        "The training in {folder} was started on other pairs. Choose another folder."
    ),
    "start": N_(
        "The training in {folder} was started from other weights. Choose another "
        "folder."
    ),
}
_OTHER_OPTION = N_(
    "The training in {folder} was started with {name} = {recorded}, not {value}. "
    "Choose another folder."
)


def _prepare(
    options: TrainCommand,
    start: Start | None,
    tell: Report,
    generate: PairMaker | None,
) -> Prepared:
    if options.task:
        prepared = prepare.toy(
            _task(options),
            count=options.examples,
            valid=options.valid,
            test=options.test,
            ends_source=_ends_source(options),
        )
    else:
        prepared = _prepare_pairs(options, start, tell, generate)
    for path, content in prepare.parts(options.out, prepared).items():
        write_whole(path, content)
    tell(_("Pairs: {counts}", counts=counted_pairs(options, prepared)))
    if prepared.dropped:
        tell(
            ngettext(
                "{n:,} pair is too long and was left out",
                "{n:,} pairs are too long and were left out",
                prepared.dropped,
            )
        )
    return prepared


def _ends_source(options: TrainCommand) -> bool:
    return not options.layout or TUTORIALS[options.layout].ends_source


def _task(options: TrainCommand) -> Task:
    return Task(
        name=options.task or "copy",
        alphabet=options.alphabet,
        shortest=options.shortest,
        longest=options.longest,
        seed=options.seed,
    )


def _prepare_pairs(
    options: TrainCommand,
    start: Start | None,
    tell: Report,
    generate: PairMaker | None,
) -> Prepared:
    pairs = read_pairs(options.data or Path())
    split = prepare.split(
        pairs, valid=options.valid, test=options.test, seed=options.seed
    )
    positions = start.model.config.max_positions if start else options.max_positions
    return prepare.subword(
        _sentencepiece(options, split.train, start, tell),
        split,
        longest=min(positions, options.batch_tokens),
        alpha=options.sampling,
        seed=options.seed,
        generate=generate(split.train, options.seed) if generate else prepare.no_pairs,
        ends_source=_ends_source(options),
    )


def _sentencepiece(
    options: TrainCommand, pairs: Sequence[Pair], start: Start | None, tell: Report
) -> bytes:
    """Return the tokenizer: the start's, or one trained on the pairs."""
    if start:
        return start.sentencepiece
    path = options.out / prepare.SENTENCEPIECE
    if not path.exists():
        size = options.vocabulary
        tell(_("Training a tokenizer of {n:,} pieces", n=size))
        write_whole(path, prepare.train_sentencepiece(pairs, size))
    return path.read_bytes()


def _trainer(
    options: TrainCommand, prepared: Prepared, start: Start | None, device: torch.device
) -> Trainer:
    spec = TUTORIALS.get(options.layout)
    own = {"norm_first": options.norm_first, "final_norm": options.norm_first}
    sizes = {
        "source_vocabulary": prepared.tokenizer.source.size,
        "target_vocabulary": prepared.tokenizer.target.size,
        "d_model": options.d_model,
        "heads": options.heads,
        "encoder_layers": options.layers,
        "decoder_layers": options.layers,
        "feed_forward": options.feed_forward,
        "max_positions": options.max_positions,
    }
    config = ModelConfig(**{**(spec.choices if spec else own), **sizes})
    torch.manual_seed(options.seed)
    draw = spec.preset.draw if spec else Transformer.initialise
    model = make_model(config, start, options.dropout, draw)
    shared = {f.name for f in dataclasses.fields(TrainingOptions)}
    values = {k: v for k, v in dataclasses.asdict(options).items() if k in shared}
    training_options = TrainingOptions(**values)
    return Trainer(
        *(model, prepared.data, training_options, options.out),
        device=device,
        keep=lambda step, model: _keep(options, prepared, step, model),
    )


def _keep(
    options: TrainCommand, prepared: Prepared, step: int, model: Transformer
) -> None:
    """Write the checkpoint of a step beside that of the end."""
    card = Card(
        name=f"{_name(options)} {step}",
        languages=(options.source_language, options.target_language),
        data="",
        pairs="",
    )
    folder = options.out / KEPT / f"step-{step:07d}"
    write_checkpoint(folder, model, card, prepared.files, options.layout)


def _finish(
    options: TrainCommand, prepared: Prepared, trainer: Trainer, tell: Report
) -> None:
    """Write the best weights as a checkpoint, and measure it."""
    path = options.out / BEST
    if not path.exists():
        raise InputError(
            "The held-out loss in {folder} was never a number. Train in another "
            "folder with a lower learning rate.",
            folder=options.out,
        )
    model = trainer.model.eval()
    model.load_state_dict(read_file(path))
    beam = options.beam or (1 if options.task else 4)
    tell(
        ngettext(
            "Measuring on {n:,} test pair",
            "Measuring on {n:,} test pairs",
            len(prepared.test),
        )
    )
    scores = publish(
        options.out / CHECKPOINT,
        model,
        card_of(options, prepared, trainer, _stored_options(options)),
        tokenizer=prepared.files,
        test=prepared.test,
        beam=beam,
        layout=options.layout,
    )
    if scores.bleu is None and not options.task:
        tell(_("BLEU and chrF need sacrebleu: pip install sacrebleu"))
    tell(
        _(
            "{scores}; written to {folder}",
            scores=summary(scores),
            folder=options.out / CHECKPOINT,
        )
    )


def counted_pairs(options: TrainCommand, prepared: Prepared) -> str:
    """Describe the numbers of training, validation and test pairs."""
    amounts = {
        "train": prepared.trained_on,
        "valid": len(prepared.valid),
        "test": len(prepared.test),
    }
    if options.task:
        return _(
            "{train:,} per epoch for training, {valid:,} for validation, {test:,} for "
            "the test",
            **amounts,
        )
    return _(
        "{train:,} for training, {valid:,} for validation, {test:,} for the test",
        **amounts,
    )


def _name(options: TrainCommand) -> str:
    data = options.data.name if options.data else ""
    return options.name or options.task or data.split(".")[0]


def progress_reporter(
    trainer: Trainer, tell: Callable[[str], None]
) -> Callable[[Progress], None]:
    """Return a function that reports the progress of training in sentences."""
    epochs, begun, first = trainer.options.epochs, time.monotonic(), trainer.state.step

    def say(progress: Progress) -> None:
        if progress.valid_loss is not None:
            best = progress.valid_loss == trainer.state.best
            tell(
                _(
                    _BEST_EPOCH if best else _EPOCH,
                    epoch=progress.epoch,
                    epochs=epochs,
                    loss=progress.valid_loss,
                )
            )
            return
        pace = (time.monotonic() - begun) / max(1, progress.step - first)
        left = pace * max(0, progress.steps - progress.step)
        tell(
            _(
                "Epoch {epoch} of {epochs}, step {step:,} of about {steps:,}: loss "
                "{loss:.3f}, {speed:,.0f} tokens/s, {left} left",
                epoch=progress.epoch + 1,
                epochs=epochs,
                step=progress.step,
                steps=progress.steps,
                loss=progress.loss,
                speed=progress.tokens_per_second,
                left=duration(left),
            )
        )

    return say


_EPOCH = N_("Epoch {epoch} of {epochs}: held-out loss {loss:.4f}")
_BEST_EPOCH = N_("Epoch {epoch} of {epochs}: held-out loss {loss:.4f}, the best so far")


def card_of(
    options: TrainCommand,
    prepared: Prepared,
    trainer: Trainer,
    stored: Mapping[str, Any],
) -> Card:
    """Return the model card of a finished run with the options ``stored``."""
    state = trainer.state
    source = options.data.name if options.data else ""
    if options.task:
        source = _(
            "generated by `visformer train --task {task}`: strings of {shortest} to "
            "{longest} characters of “{alphabet}”, new ones in each epoch",
            task=options.task,
            shortest=options.shortest,
            longest=options.longest,
            alphabet=options.alphabet,
        )
    idle = {"data", *(OF_PAIRS if options.task else OF_TASKS)}
    idle |= set(OF_MODEL) if options.start else set()
    idle |= {"norm_first"} if options.layout else {"layout"}
    given = {k: v for k, v in stored.items() if k not in idle}
    return Card(
        name=_name(options),
        languages=(options.source_language, options.target_language),
        data=source,
        licence=options.licence,
        pairs=counted_pairs(options, prepared),
        training={
            _("training"): _(
                "{steps:,} steps in {epochs} epochs, {duration}, on {hardware}",
                steps=state.step,
                epochs=state.epoch,
                duration=duration(state.seconds),
                hardware=hardware(trainer.device),
            ),
            _("held-out loss"): _(
                "{loss:.4f} nats per token, after epoch {epoch}",
                loss=state.best,
                epoch=state.history.index(state.best) + 1,
            ),
            _("options"): ", ".join(
                f"{k} {v}" for k, v in given.items() if v is not None
            ),
        },
    )


class Start(NamedTuple):
    """A checkpoint whose training continues, possibly on other pairs."""

    model: Transformer
    sentencepiece: bytes  # its joint tokenizer


def read_start(folder: Path) -> Start:
    """Open a checkpoint written by ``visformer train`` from pairs.

    Raises InputError if its tokenizers or special tokens differ, and CheckpointError if
    it cannot be opened.
    """
    config = read_config(folder)
    tokenizer, special = config["tokenizer"], config["special"]
    joint = tokenizer["source"] == tokenizer["target"]
    if tokenizer["kind"] != "sentencepiece" or not joint or special != dict(SPECIAL):
        raise InputError(
            "{folder} lacks a joint sentencepiece tokenizer with the usual special "
            "tokens. Start from a checkpoint that visformer train wrote.",
            folder=folder,
        )
    path = inside(folder, tokenizer["source"], key="tokenizer.source")
    model = read_native(folder, torch.device("cpu")).model
    return Start(model, read_regular(path, MAX_TOKENIZER))


def make_model(
    config: ModelConfig,
    start: Start | None,
    dropout: float,
    draw: Callable[[Transformer], None],
) -> Transformer:
    """Return a model to train: the start's, or one that ``draw`` initialises."""
    model = Transformer(start.model.config if start else config, dropout=dropout)
    if start:
        model.load_state_dict(start.model.state_dict())
    else:
        with torch.no_grad():
            draw(model)
    return model


# ---- The options of ``visformer train``, and their validation ------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainCommand:
    """All options of ``visformer train``; the defaults suit real pairs.

    Exactly one of ``data`` and ``task`` is given.
    """

    out: Path
    data: Path | None = None  # tab-separated pairs, plain or .gz
    task: TaskName | None = None
    layout: str = ""  # a tutorial's, whose model is trained; "" for Visformer's own
    start: Path | None = None  # checkpoint that provides sizes, weights and tokenizer
    name: str = ""  # shown; "" for that of the data or the task
    source_language: str = ""
    target_language: str = ""
    licence: str = ""
    alphabet: str = string.ascii_lowercase  # for a task
    shortest: int = 1  # length of a task's strings
    longest: int = 12
    examples: int = 20_000  # a task's strings per epoch
    vocabulary: int = 8000
    d_model: int = 256
    heads: int = 8
    layers: int = 4  # in the encoder and in the decoder
    feed_forward: int = 1024
    max_positions: int = 512
    norm_first: bool = True  # pre-norm with a final norm
    dropout: float = 0.2
    sampling: float = 0.0  # alpha of subword regularisation; 0 disables it
    epochs: int = _LOOP.epochs
    batch_tokens: int = _LOOP.batch_tokens
    learning_rate: float = _LOOP.learning_rate
    warmup: int = _LOOP.warmup
    smoothing: float = _LOOP.smoothing
    patience: int = _LOOP.patience
    save_seconds: float = _LOOP.save_seconds
    keep_every: int = _LOOP.keep_every
    seed: int = _LOOP.seed
    valid: int | None = None  # held-out pairs; None: a fiftieth, at most 2,000
    test: int | None = None  # likewise, at most 3,000; for a task 500 and 5,000
    beam: int | None = None  # of the final test; None: 4, greedy for a task
    device: str | None = None
    threads: int = 0  # 0 for all cores


TOY_DEFAULTS: Mapping[str, Any] = {  # smaller sizes for a task
    "d_model": 64,
    "heads": 4,
    "layers": 2,
    "feed_forward": 256,
    "dropout": 0.05,
    "smoothing": 0.0,
    "norm_first": False,
    "batch_tokens": 1024,
    "learning_rate": 2e-3,
    "warmup": 400,
    "epochs": 24,
    "patience": 5,
}
FREE = {  # may change when training is continued
    *("out", "data", "device", "threads", "save_seconds", "keep_every", "beam"),
    *("name", "source_language", "target_language", "licence"),
}
OF_MODEL = (  # taken from the start, if there is one
    *("vocabulary", "d_model", "heads", "layers", "feed_forward", "max_positions"),
    "norm_first",
)
OF_TASKS = ("task", "alphabet", "shortest", "longest", "examples")
OF_PAIRS = ("vocabulary", "sampling")
RANGES = {
    "examples": (1, 10_000_000),
    "vocabulary": (1000, 1_000_000),
    "dropout": (0.0, 0.9),
    "sampling": (0.0, 10.0),
    "epochs": (1, 100_000),
    "batch_tokens": (32, 10_000_000),
    "learning_rate": (1e-9, 1.0),
    "warmup": (0, 10_000_000),
    "smoothing": (0.0, 0.9),
    "patience": (1, 100_000),
    "save_seconds": (0.0, 86_400.0),
    "keep_every": (0, 10_000_000),
    "seed": (0, 2**31),
    "valid": (1, 10_000_000),
    "test": (1, 10_000_000),
    "beam": (1, 64),
    "threads": (0, 1024),
}


def options_for(given: Mapping[str, Any]) -> TrainCommand:
    """Complete the ``given`` options with defaults that suit the data or the task."""
    defaults = dict(TOY_DEFAULTS if given.get("task") else {})
    if spec := TUTORIALS.get(given.get("layout", "")):
        defaults["norm_first"] = spec.choices.get("norm_first", False)
        defaults["max_positions"] = spec.choices["max_positions"]
    return TrainCommand(**{**defaults, **given})


def check(options: TrainCommand) -> None:
    """Raise InputError for options that are invalid or contradict each other."""
    if (options.data is None) == (options.task is None):
        raise InputError("Give either a file of pairs or --task to train on.")
    if options.start and options.task:
        raise InputError("--start is not for a task. Leave one of them out.")
    if options.layout:
        _check_layout(options)
    for name, (low, high) in RANGES.items():
        value = getattr(options, name)
        if value is not None and not low <= value <= high:
            raise InputError(
                "{name} is {value:g}, but must be from {low:g} to {high:,}.",
                name=name,
                value=value,
                low=low,
                high=high,
            )


def _check_layout(options: TrainCommand) -> None:
    spec = TUTORIALS.get(options.layout)
    if spec is None:
        raise InputError(
            "--layout is “{layout}”, but must be one of {choices}.",
            layout=short(options.layout),
            choices=", ".join(TUTORIALS),
        )
    if options.start:
        raise InputError(
            "--layout is for fresh weights, not for those of --start. Leave one out."
        )
    if options.norm_first != spec.choices.get("norm_first", False):
        raise InputError(
            "The norms of {layout} stand before the sublayers. Leave --post-norm out.",
            layout=options.layout,
        )
    along_batch = spec.choices.get("position_axis") == "batch"
    if along_batch and options.batch_tokens // 2 > options.max_positions:
        raise InputError(
            "A sentence of a batch has a position of its own in {layout}: give "
            "--batch-tokens of at most {most:,}, or more --max-positions.",
            layout=options.layout,
            most=2 * options.max_positions,
        )
