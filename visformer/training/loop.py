"""The training loop, which loses little if the process is killed at any moment."""

import io
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from visformer.core.mask_rules import padded
from visformer.core.model import Transformer
from visformer.errors import InputError
from visformer.files import Pair, sweep, write_whole


class Example(NamedTuple):
    """The token ids of a pair."""

    source: list[int]  # ends with the end-of-sentence token
    target: list[int]  # begins with bos and ends with eos


class Split(NamedTuple):
    """Three parts of a data set; no sentence occurs in two of them."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def split_pairs(
    pairs: Sequence[Pair], *, valid: int, test: int, seed: int = 0
) -> Split:
    """Split ``pairs`` by connected groups of sentences.

    Two pairs are connected if they share a source or a target (ignoring case), so no
    sentence of one part occurs in another. ``valid`` and ``test`` are numbers of pairs,
    reached as closely as whole groups allow.
    """
    groups = _groups(pairs)
    random.Random(seed).shuffle(groups)
    parts: list[list[Pair]] = [[], [], []]
    sizes = (test, valid)
    for group in groups:
        part = next(
            (i for i, n in enumerate(sizes) if len(parts[i]) + len(group) <= n), 2
        )
        parts[part].extend(pairs[index] for index in group)
    return Split(train=parts[2], valid=parts[1], test=parts[0])


def _groups(pairs: Sequence[Pair]) -> list[list[int]]:
    """Return indices of pairs, by connected group (union-find over sentences)."""
    leader = list(range(len(pairs)))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    first: dict[tuple[int, str], int] = {}
    for index, pair in enumerate(pairs):
        for key in enumerate(text.casefold() for text in pair):
            leader[find(index)] = find(first.setdefault(key, index))
    groups: dict[int, list[int]] = {}
    for index in range(len(pairs)):
        groups.setdefault(find(index), []).append(index)
    return list(groups.values())


def references(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Return every source with all its translations, in order of first mention."""
    gathered: dict[str, list[str]] = {}
    for source, target in pairs:
        gathered.setdefault(source, []).append(target)
    return gathered


def batches(
    examples: Sequence[Example], *, tokens: int, seed: int | None = None
) -> list[list[int]]:
    """Group examples of similar length into batches of at most ``tokens`` per side.

    Padding counts as tokens. With a seed, equal lengths and the batches are shuffled.
    """
    order = list(range(len(examples)))
    generator = random.Random(seed)
    if seed is not None:
        generator.shuffle(order)
    order.sort(key=lambda i: (len(examples[i].target), len(examples[i].source)))
    groups: list[list[int]] = []
    longest = 0
    for index in order:
        length = max(map(len, examples[index]))
        longest = max(longest, length)
        if not groups or longest * (len(groups[-1]) + 1) > tokens:
            groups.append([])
            longest = length
        groups[-1].append(index)
    if seed is not None:
        generator.shuffle(groups)
    return groups


STATE, BEST = "training.pt", "best.pt"
REPORT_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """How to train; the defaults suit small data and about ten million parameters."""

    epochs: int = 20
    batch_tokens: int = 1024  # per step, process and side, including padding
    learning_rate: float = 1e-3
    warmup: int = 400  # steps
    smoothing: float = 0.1
    clip: float = 1.0  # limit of the norm of all gradients
    average: float = 0.999  # decay of the running mean of weights, the final model
    patience: int = 3  # epochs without a better held-out loss
    save_seconds: float = 120.0
    keep_every: int = 0  # steps from one checkpoint that is kept to the next; 0: none
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
    steps: int  # estimate for all epochs
    loss: float  # per target token, including label smoothing
    tokens_per_second: float
    valid_loss: float | None = None  # per target token, no smoothing; after an epoch


@dataclass(slots=True)
class TrainingState:
    """The progress of a training run."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    best: float = math.inf
    worse: int = 0  # epochs since the best
    history: list[float] = field(default_factory=list)  # held-out loss by epoch
    seconds: float = 0.0  # of training, summed over all runs


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
        keep: Callable[[int, Transformer], None] | None = None,
    ) -> None:
        """Resume from the state in ``folder``, if any; InputError if it is damaged.

        ``keep`` is given the averaged model before the first step, and after every
        ``keep_every`` of them.

        With several processes, only process 0 reads and writes the folder.
        """
        self.data, self.options, self.folder = data, options, folder
        self._keep = keep
        self.device = device or default_device()
        self.model = model.to(self.device)
        self.average = AveragedModel(model, multi_avg_fn=_running_mean(options.average))
        self.optimizer = torch.optim.Adam(  # with the paper's constants
            model.parameters(), options.learning_rate, betas=(0.9, 0.98), eps=1e-9
        )
        self.state = TrainingState()
        if state := self._read():
            self._restore(state)

    def run(self, report: Callable[[Progress], None]) -> float:
        """Train to the last epoch or until the held-out loss stops falling.

        Returns the best held-out loss per token. ``best.pt`` in the folder holds the
        averaged weights that reached it.
        """
        saved = time.monotonic()
        self._keep_one()
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
        """Whether all epochs are done, or the loss has stopped falling."""
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
            self._keep_one()
            if self.state.step % REPORT_STEPS == 0 or batch is mine[-1]:
                seconds = time.monotonic() - started
                self.state.seconds += seconds
                yield Progress(
                    self.state.epoch,
                    self.state.step,
                    steps,
                    loss_sum / tokens,
                    tokens / seconds,
                )
                started, tokens, loss_sum = time.monotonic(), 0, 0.0

    def _keep_one(self) -> None:
        every, step = self.options.keep_every, self.state.step
        if self._keep is not None and every and step % every == 0:
            self._keep(step, cast("Transformer", self.average.module))

    def _batches(self, examples: Sequence[Example]) -> list[list[int]]:
        """Return the batches of the epoch."""
        seed = self.options.seed + self.state.epoch
        planned = batches(examples, tokens=self.options.batch_tokens, seed=seed)
        if not planned:
            raise InputError("There are no training pairs: use more of them.")
        return planned

    def _dropout_seed(self) -> int:
        """Return a seed for this step, so that a resumed run repeats it."""
        mixed = (self.options.seed * 1_000_003 + self.state.step) * 65_537
        return mixed % 2**63

    def step(self, examples: list[Example], rate: float) -> tuple[float, int]:
        """Train on one batch; returns the summed loss and the number of tokens."""
        self.optimizer.zero_grad(set_to_none=True)
        loss, count = self._loss(self.model, examples, self.options.smoothing)
        (loss / count).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.average.update_parameters(self.model)
        return self._finite(loss.item()), count

    def _finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            raise InputError(
                "The loss became {loss} at step {step:,}. Train again with a learning "
                "rate below {rate:g}.",
                loss=loss,
                step=self.state.step,
                rate=self.options.learning_rate,
            )
        return loss

    def _loss(
        self, model: Transformer, examples: list[Example], smoothing: float
    ) -> tuple[Tensor, int]:
        source = padded([e.source for e in examples], self.data.pad).to(self.device)
        target = padded([e.target for e in examples], self.data.pad)  # [B, T]
        labels = target[:, 1:].flatten()
        # known here, so that the device need not say where they are
        real = (labels != self.data.pad).nonzero()[:, 0]  # [N]
        target, labels = target.to(self.device), labels[real].to(self.device)
        kind, fast = self.device.type, fast_bfloat16(self.device.type)
        with torch.autocast(kind, torch.bfloat16, enabled=fast):
            hidden = model(source, target[:, :-1], self.data.pad).flatten(0, 1)
            loss = smoothed_cross_entropy(
                hidden[real.to(self.device)],  # [N, D]
                model.output.weight,
                labels,
                smoothing=smoothing,
                bias=model.output.bias,
            )
        return loss, len(real)

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Return the averaged model's loss per target token, in nats.

        The processes share the work and get the same sum, so all decide the same.
        """
        model = cast("Transformer", self.average.module)
        model.eval()
        sums = torch.zeros(2, dtype=torch.float64)
        planned = batches(self.data.valid, tokens=self.options.batch_tokens)
        for batch in planned:
            loss, tokens = self._loss(model, [self.data.valid[i] for i in batch], 0.0)
            sums += torch.tensor([loss.item(), tokens], dtype=torch.float64)
        loss_sum, count = sums.tolist()
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
            replace_file(self.folder / BEST, self.average.module.state_dict())
        state.seconds += time.monotonic() - started
        self._save()
        return Progress(state.epoch, state.step, steps, math.nan, 0.0, valid)

    def _save(self) -> None:
        state = {
            "place": {
                name: getattr(self.state, name) for name in TrainingState.__slots__
            },
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        replace_file(self.folder / STATE, state)

    def _read(self) -> dict[str, Any]:
        """Return the saved state, or {}; deletes the leftovers of a killed run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (STATE, BEST):
            sweep(self.folder / name)
        path = self.folder / STATE
        return read_file(path) if path.exists() else {}

    def _restore(self, state: dict[str, Any]) -> None:
        try:
            self.model.load_state_dict(state["model"])
            self.average.load_state_dict(state["average"])
            self.optimizer.load_state_dict(state["optimizer"])
            place = dict(state["place"])
            processes = place.pop("world", 1)  # of an older version
            self.state = TrainingState(**place)
            self.state.batch *= processes
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                "{path} belongs to another model. Choose another folder.",
                path=self.folder / STATE,
            ) from error


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
    """Return the GPU, or the CPU if there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fast_bfloat16(device: str) -> bool:
    """Whether this kind of device multiplies bfloat16 faster than float32."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())


ROWS = 512  # positions per block of logits: [512, V] fits into the cache


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Logits, loss and gradients by blocks of rows, without ever storing [N, V]."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
    ) -> Tensor:
        low = torch.get_autocast_dtype(hidden.device.type)
        compute = low if torch.is_autocast_enabled(hidden.device.type) else hidden.dtype
        h, w = hidden.to(compute), weight.to(compute)
        loss = hidden.new_zeros((), dtype=torch.float32)
        grad_h, grad_w = torch.empty_like(h), torch.zeros_like(weight)
        grad_b = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(h), ROWS):
            rows, target = h[start : start + ROWS], labels[start : start + ROWS, None]
            logits = (rows @ w.T).float()
            if bias is not None:
                logits += bias
            normaliser = logits.logsumexp(-1, keepdim=True)
            right = logits.gather(1, target)
            mean = logits.mean(-1, keepdim=True)
            loss += (normaliser - (1 - smoothing) * right - smoothing * mean).sum()
            grad = logits.sub_(normaliser).exp_().sub_(smoothing / w.shape[0])
            grad.scatter_add_(1, target, torch.full_like(right, smoothing - 1))
            if grad_b is not None:
                grad_b += grad.sum(0)
            grad = grad.to(compute)
            grad_h[start : start + ROWS] = grad @ w
            grad_w += grad.T @ rows
        ctx.save_for_backward(grad_h, grad_w, grad_b)
        return loss

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        grad_h, grad_w, grad_b = ctx.saved_tensors
        scale = upstream[0]
        scaled_b = None if grad_b is None else grad_b * scale
        return grad_h * scale, grad_w * scale, scaled_b, None, None


def smoothed_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    smoothing: float,
    bias: Tensor | None = None,
) -> Tensor:
    """Sum of label-smoothed cross-entropies (Szegedy et al. 2016) of N positions.

    ``hidden`` [N, D] times ``weight`` [V, D] transposed, plus ``bias`` [V], gives the
    logits; ``labels`` [N] are the correct ids; a share ``smoothing`` of the target is
    spread over all V ids. Equals ``F.cross_entropy(F.linear(hidden, weight, bias),
    labels, reduction="sum")`` with that ``label_smoothing``.
    """
    arguments = (hidden, weight, bias, labels, smoothing)
    loss: Tensor = _ProjectedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss


def replace_file(path: Path, state: dict[str, Any]) -> None:
    """Write ``state`` atomically: a kill leaves either the old file or the new one."""
    made = io.BytesIO()  # torch raises other errors for a full disk
    torch.save(state, made)
    try:
        write_whole(path, made.getbuffer())
    except OSError as error:
        raise InputError(
            "{path} cannot be written: {reason}.", path=path, reason=error.strerror
        ) from error


def read_file(path: Path) -> dict[str, Any]:
    """Read a state written by ``replace_file``, to the CPU; InputError if damaged."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises about 13 different types
        raise InputError(
            "{path} is damaged. Delete it to start again, or restore a copy.", path=path
        ) from error
    if not isinstance(state, dict):
        raise InputError(
            "{path} is not a training state. Choose another folder.", path=path
        )
    return state
