"""The residual stream of watched layers, the model's own map to logits, predictions."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from visformer.core.lens_rows import WRONG_STREAMS, lens_row
from visformer.core.next_tokens import NextTokens
from visformer.errors import InputError
from visformer.values.arrays import Floats, Ids
from visformer.values.facts import Kind, StackFacts, StackName
from visformer.values.step import Candidates, Choice, LensRow, Step
from visformer.values.watched_attention import WatchedAttention
from visformer.watching.ledger import Ledger
from visformer.watching.module_calls import COMPILED, Hook, ModuleCall
from visformer.watching.pass_changes import PassChanges
from visformer.watching.watched_runs import RunRows

CLOSE = 1e-3  # tolerance of recomputed logits, relative to max(1, the largest one)


@dataclass(eq=False)
class LayerStream:
    """The vectors before, between and after the layers of one list in one pass."""

    layers: list[nn.Module]
    order: int = 0  # the number of marks when the pass began
    hidden: list[Tensor] = field(default_factory=list)  # up to L + 1 of [B, T, D]
    norm: nn.Module | None = None  # the final norm, outside the layers
    output: Tensor | None = None  # the output of that norm
    time_first: bool = False  # whether the sequence axis came first

    @property
    def whole(self) -> bool:
        """Whether each layer was called once, on the output of the layer before."""
        return len(self.hidden) == len(self.layers) + 1

    def facts(self, *, read_out: bool = False) -> StackFacts:
        """Describe the columns of a Trace that hold it."""
        width, output = self.hidden[0].shape[-1], self.output is not None
        hidden = len(self.hidden)
        return StackFacts(
            d_model=width, hidden=hidden, output=output, read_out=read_out
        )

    def each(self, change: Callable[[Tensor], Tensor]) -> LayerStream:
        """Apply a function to each tensor."""
        output = None if self.output is None else change(self.output)
        return replace(self, hidden=[*map(change, self.hidden)], output=output)

    def part(self, name: str, at: int) -> Tensor:
        """Return the ``hidden`` or ``output`` rows of a Trace, [B, T, D]."""
        kept = self.hidden[at] if name == "hidden" else self.output
        assert kept is not None
        return kept


class StreamRecorder:
    """Records what enters and leaves the layers of each list in each pass."""

    def __init__(
        self, model: nn.Module, ledger: Ledger, changes: PassChanges | None = None
    ) -> None:
        """Begin with what changes the streams that leave the layers, if anything."""
        self._ledger, self._changes = ledger, changes
        self.streams: dict[str, list[LayerStream]] = {}  # by the path of the list
        self._modules = {
            path.replace(COMPILED, ""): module for path, module in model.named_modules()
        }
        self._handles: list[RemovableHandle] = []
        self._thread = threading.get_ident()  # other threads may call the model
        for path, module in self._modules.items():
            parts = [*module.children()]
            is_list = isinstance(module, nn.ModuleList | nn.Sequential)
            if is_list and parts and all([*part.children()] for part in parts):
                self.streams[path] = [LayerStream(parts)]

    def start(self) -> None:
        """Register the hooks."""
        try:
            for path, (stream,) in self.streams.items():
                for at, layer in enumerate(stream.layers):
                    self._follow(path, at, layer)
            inside = tuple(f"{path}." for path in self.streams)
            for path, module in self._modules.items():
                is_norm = "norm" in type(module).__name__.lower()
                if self.streams and is_norm and not path.startswith(inside):
                    hook = Hook(self._normed)
                    self._handles.append(module.register_forward_hook(hook))
        except RuntimeError:  # scripted modules accept no hooks
            self.stop()

    def stop(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _follow(self, path: str, at: int, layer: nn.Module) -> None:
        change = None if self._changes is None else self._changes.stream(path, at)
        entered: list[Tensor] = []

        def enter(_layer: nn.Module, args: Any, kwargs: Any) -> None:
            given = _first([*args, *kwargs.values()])
            hidden = self.streams[path][-1].hidden
            with self._unseen() as mine:
                if not mine:
                    return
                if change is not None and given is not None:
                    entered[:] = [given.clone()]
                if at == 0:
                    layers, marked = self.streams[path][0].layers, self._ledger.marked
                    kept = [] if given is None else [_kept(given)]
                    self.streams[path].append(LayerStream(layers, marked, kept))
                elif len(hidden) != at + 1 or not _same(given, hidden[-1]):
                    hidden.clear()

        def leave(_layer: nn.Module, _args: Any, result: Any) -> None:
            made, hidden = _first([result]), self.streams[path][-1].hidden
            with self._unseen() as mine:
                if not mine:
                    return
                if change is not None and made is not None:
                    made.copy_(change(made, entered[0]))
                fits = made is not None and len(hidden) == at + 1
                if fits and made.shape == hidden[0].shape:  # type: ignore[union-attr]
                    hidden.append(_kept(made))  # type: ignore[arg-type]
                else:
                    hidden.clear()

        self._handles += [
            layer.register_forward_pre_hook(Hook(enter), with_kwargs=True),
            layer.register_forward_hook(Hook(leave)),
        ]

    @contextmanager
    def _unseen(self) -> Iterator[bool]:
        """Disable watching in the context; yields whether this thread is watched."""
        with _disable_current_modes():
            yield threading.get_ident() == self._thread

    def _normed(self, norm: nn.Module, args: Any, result: Any) -> None:
        given, made = _first(args), _first([result])
        with self._unseen() as mine:
            for *_before, stream in self.streams.values() if mine else ():
                if (
                    stream.whole
                    and made is not None
                    and _same(given, stream.hidden[-1])
                ):
                    stream.norm, stream.output = norm, _kept(made)


def _first(given: Any) -> Tensor | None:
    """Return the first sequence of vectors, [B, T, D], among the arguments."""
    found = (x for x in tree_leaves(given) if isinstance(x, Tensor) and not x.is_nested)
    return next((x for x in found if x.dim() == 3 and x.is_floating_point()), None)


def _kept(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float32, copy=True)


def _same(given: Tensor | None, kept: Tensor) -> bool:
    return given is not None and torch.equal(given.detach().cpu().float(), kept)


def streams_of(
    streams: Mapping[str, Sequence[LayerStream]],
    layers: Mapping[Kind, Sequence[WatchedAttention]],
    shown: RunRows,
) -> dict[StackName, LayerStream]:
    """Return the streams of the layers whose attention a Trace holds, [B, T, D].

    A stack has one if each layer of one list holds one of its attentions of each kind,
    and if batch and sequence can be told apart.
    """
    kinds: dict[StackName, tuple[Kind, ...]] = {
        "encoder": ("encoder",),
        "decoder": ("decoder", "cross"),
    }
    found: dict[StackName, LayerStream] = {}
    for stack, wanted in kinds.items():
        several = [layers[kind] for kind in wanted if kind in layers]
        lists = sorted(streams, key=len) if several else []
        for path in lists:
            if not _holds(path, len(streams[path][0].layers), several):
                continue
            whole = _joined(path, streams[path], shown)
            found |= {} if whole is None else {stack: whole}
            break
    return found


def _holds(
    path: str, count: int, several: Sequence[Sequence[WatchedAttention]]
) -> bool:
    """Whether the layers of a list hold exactly one attention of each kind."""
    return all(
        len(each) == count
        and all(
            f"{one.module}.".startswith(f"{path}.{at}.") for at, one in enumerate(each)
        )
        for each in several
    )


def _joined(
    path: str, streams: Sequence[LayerStream], shown: RunRows
) -> LayerStream | None:
    """Concatenate the streams of the steps of some rows; None if unknown."""
    parts: list[tuple[LayerStream, Tensor, int]] = []
    ways = {False, True}  # whether the sequence axis comes first
    for (step, kept), taken in zip(shown.chain, shown.taken, strict=True):
        several_parts = [part.one for part in step.parts.values()]
        own = [x for x in several_parts if f"{x.module}.".startswith(f"{path}.")]
        if not own:
            continue
        begun = min(one.began for one in own)
        stream = next(x for x in reversed(streams) if x.order < begun)
        rows, _heads, length, _keys = own[0].weights.shape
        if not stream.whole:
            return None
        found = tuple(stream.hidden[0].shape[:2])
        ways &= {
            turned for turned in ways if found == (rows, length)[:: 1 - 2 * turned]
        }
        encoder = step.is_encoder(own[0])
        read = shown.read_of(own[0]) if encoder else taken
        parts.append((stream, read, length if encoder else kept))
    if not ways or (len(ways) == 2 and len(parts[0][0].hidden[0]) > 1):
        return None
    at = int(min(ways))
    laid = [
        one.each(lambda x, read=read, n=n: x.transpose(0, at)[read, :n])  # type: ignore[misc]
        for one, read, n in parts
    ]
    several = [[x.hidden[at] for x in laid] for at in range(len(laid[0].hidden))]
    outputs = [x.output for x in laid if x.output is not None]
    return replace(
        laid[0],
        time_first=bool(at),
        hidden=[torch.cat(each, 1) for each in several],
        output=torch.cat(outputs, 1) if len(outputs) == len(laid) else None,
    )


@dataclass(frozen=True, eq=False)
class Readout:
    """The projection from the last layer's output to logits."""

    norm: nn.Module | None
    weight: Tensor  # [V, D]
    bias: Tensor | None  # [V]
    factor: float  # scales the input of the projection

    @torch.no_grad()
    def logits(self, stream: Tensor) -> Tensor:
        """[..., D] -> float32 [..., V], on the CPU."""
        x = stream.to(self.weight)
        if self.norm is not None:
            x = self.norm(x)
        return F.linear(x * self.factor, self.weight, self.bias).float().cpu()

    def rows(
        self,
        token: Callable[[int], str],
        hidden: Floats,
        chosen: Ids,
        heat: float = 1.0,
    ) -> tuple[LensRow, ...]:
        """Compute the lens rows of streams [N, L + 1, D] with chosen ids [N].

        ``heat`` is the temperature. Raises InputError if the width does not match.
        """
        width = self.weight.shape[1]
        if hidden.ndim != 3 or hidden.shape[2] != width:
            found, expected = list(hidden.shape), ["N", "L + 1", width]
            raise InputError(WRONG_STREAMS, found=found, expected=expected)
        return tuple(
            lens_row(
                self.logits(torch.tensor(stream)),
                id,
                token,
                heat,
                weight=self.weight[id] * self.factor,
                bias=None if self.bias is None else self.bias[id],
            )
            for stream, id in zip(hidden, chosen.tolist(), strict=True)
        )


def readout_of(
    model: nn.Module, stream: LayerStream | None, logits: Tensor | None
) -> Readout | None:
    """Return the projection that reproduces logits [B, T, V] from a stream, if any.

    Rows of NaN are ignored. Candidates are linear layers and embeddings with V rows,
    applied after the final norm, if any, and optionally divided by sqrt(D) as in T5.
    """
    if stream is None or logits is None:
        return None
    known = ~logits.isnan().all(-1)  # the other rows were not computed
    last, logits = stream.hidden[-1][known], logits[known]
    if not logits.numel() or not bool(logits.isfinite().all()):
        return None
    largest = float(logits.abs().max().clamp(min=1))
    shape, seen = (logits.shape[-1], last.shape[-1]), set()
    for module in model.modules():
        if not isinstance(module, nn.Linear | nn.Embedding):
            continue
        weight, own = module.weight, getattr(module, "bias", None)
        if weight.shape != shape or (id(weight), id(own)) in seen:
            continue
        seen.add((id(weight), id(own)))
        bias = own.detach() if isinstance(own, Tensor) else None
        for factor in (1.0, shape[1] ** -0.5):
            made = Readout(stream.norm, weight.detach(), bias, factor)
            apart = (made.logits(last) - logits).abs().max()
            if float(apart) < CLOSE * largest:
                return made
    return None


if TYPE_CHECKING:
    from visformer.watching.row_tokens import RowTokens
    from visformer.watching.watched_runs import RunRows


class RowLogits(NamedTuple):
    """The logits after each token of some rows."""

    logits: Tensor  # float32 [B, T, V], on the CPU
    known: Tensor  # bool [T]: the logits are NaN where False


def steps_of(logits: Tensor, known: Tensor, tokens: RowTokens) -> tuple[Step, ...]:
    """Return the steps of a row from its logits [T, V]; () without ids.

    Where the logits are unknown, a step has the next token read and no candidates.
    """
    if not len(tokens.target) or not known[-1]:
        return ()
    most = max(int(tokens.target_ids.max()), tokens.last or 0)
    if not tokens.known or most >= logits.shape[-1]:
        return ()
    rows, places = NextTokens(logits[known]), known.cumsum(0) - 1
    ids = [int(id) for id in tokens.target_ids[1:]]
    choices = [Choice(id, "reference") for id in ids]
    if tokens.last is None:
        choices.append(Choice(int(rows.best[-1, 0]), "model"))
    else:
        choices.append(Choice(tokens.last, "reference"))
    pieces = [tokens.piece(choice.id) for choice in choices]
    texts = itertools.accumulate(pieces, "{} {}".format)
    none = Candidates(np.zeros(0), (), np.zeros(0))
    return tuple(
        rows.step(int(place), choice, text, tokens.piece)
        if there
        else Step(choice.id, piece, math.nan, 1, none, math.nan, choice.origin, text)
        for choice, piece, text, there, place in zip(
            choices, pieces, texts, known, places, strict=True
        )
    )


class Returned(NamedTuple):
    """A tensor that a module returned and that may be logits."""

    order: int  # the number of marks at that time: earlier attentions have smaller ones
    outermost: int  # the top-level call
    tensor: Tensor


class LogitsKept:
    """Keeps possible logits: tensors of that name, or whose last axis counts tokens.

    If a call returns only ids or a loss, the outputs of its submodules are kept.
    """

    def __init__(self, model: nn.Module) -> None:
        self.last: Any = None  # the output of the last top-level call
        self._kept: list[Returned] = []
        tables = [one for one in model.modules() if isinstance(one, nn.Embedding)]
        # an axis counts tokens if an embedding has as many rows
        sizes = {one.num_embeddings for one in tables}
        self._sizes = sizes - {one.embedding_dim for one in tables}

    def note(self, call: ModuleCall, result: Any, order: int) -> None:
        """Record the output of a call."""
        if call.parent:
            found = [result] if isinstance(result, Tensor) else []
        else:
            self.last = result
            leaves = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
            found = [_named_logits(result), *leaves]
            if any(x.is_floating_point() and x.dim() > 1 for x in leaves):
                own = call.outermost
                self._kept = [x for x in self._kept if x.outermost != own]
        for at, one in enumerate(found):
            if not isinstance(one, Tensor) or one.is_nested:
                continue
            named = at == 0 and not call.parent and one is found[0]
            floats = one.is_floating_point() and one.dim() < 4
            if floats and (named or one.shape[-1:].numel() in self._sizes):
                with _disable_current_modes():
                    kept = one.detach().to("cpu", torch.float32, copy=True)
                self._kept.append(Returned(order, call.outermost, kept))

    def between(self, after: int, before: int) -> list[Tensor]:
        """Return the tensors recorded between two marks, the latest first."""
        found = [x for x in self._kept if after <= x.order < before]
        found.sort(key=lambda x: x.order, reverse=True)
        return [x.tensor for x in found]


def logits_of_rows(
    returned: LogitsKept, starts: Sequence[int], shown: RunRows, *, time_first: bool
) -> RowLogits | None:
    """Return logits of rows, each from the step that computed it; None if unknown.

    ``starts`` are the marks at which the attentions began.
    """
    parts: list[Tensor] = []  # for each step [B, T or 1, V], its last rows
    lengths: list[int] = []
    for (step, kept), taken in zip(shown.chain, shown.taken, strict=True):
        own = step.own
        if not own:
            return None
        after = max(one.mark.bit_length() for one in own)
        before = min((x for x in starts if x > after), default=after + 2**31)
        several = returned.between(after, before)
        rows, length = len(own[-1].weights), max(x.weights.shape[2] for x in own)
        made = laid_logits(several, rows, length, time_first=time_first)
        fits = made is not None and int(taken.max()) < len(made)
        if made is not None and kept < length:  # the loop took back the rest
            made = made[:, :kept] if made.shape[1] == length else made[:, :0]
        parts.append(made[taken] if fits and made is not None else torch.zeros(0, 0, 0))
        lengths.append(kept)
    found = next((x for x in parts if len(x)), None)
    if found is None or any(len(x) and x.shape[2] != found.shape[2] for x in parts):
        return None
    whole = found.new_full((len(found), sum(lengths), found.shape[2]), torch.nan)
    known = torch.zeros(sum(lengths), dtype=torch.bool)
    for part, end in zip(parts, itertools.accumulate(lengths), strict=True):
        there = slice(end - part.shape[1], end)
        whole[:, there], known[there] = part if len(part) else whole[:, there], True
    return RowLogits(whole, known)


def laid_logits(
    several: Sequence[Tensor], rows: int, length: int, *, time_first: bool
) -> Tensor | None:
    """Return the first possible logits as float32 [B, T, V] or [B, 1, V].

    Accepted are [B, T, V], [T, B, V] and [B T, V] ([T B, V] if ``time_first``), and for
    the last token [B, 1, V], [1, B, V], [B, V] and [V].
    """
    for one in several:
        if one.dim() == 2 and len(one) == rows * length:
            one = one.unflatten(0, (length, rows) if time_first else (rows, length))
            one = one.transpose(0, 1) if time_first else one
        elif one.dim() < 3:
            one = one.reshape(-1, 1, one.shape[-1])
        turned = one.transpose(0, 1)
        several_ways = (turned, one) if time_first else (one, turned)
        for shape in ((rows, length), (rows, 1)):
            for laid in several_ways:
                if laid.shape[:2] == shape:
                    return as_logits(laid)
    return None


def logits_of(output: Any, rows: int, length: int) -> Tensor | None:
    """Find logits [B, T, V] in the output of a function."""
    several = [_named_logits(output), *tree_leaves(output)]
    found = [x for x in several if isinstance(x, Tensor) and not x.is_nested]
    found = [x for x in found if x.is_floating_point()]
    whole = [x for x in found if x.dim() == 3 and x.shape[:2].numel() == rows * length]
    return laid_logits(whole, rows, length, time_first=False)


def _named_logits(output: Any) -> Any:
    named = output.get("logits") if isinstance(output, Mapping) else None
    return getattr(output, "logits", named)


def as_logits(numbers: Tensor) -> Tensor:
    """Return float32 logits [..., V] on the CPU; takes the log of probabilities."""
    numbers = numbers.detach().float().cpu()
    given = bool((numbers >= 0).all())
    given = given and bool(((numbers.sum(-1) - 1).abs() < 1e-3).all())
    return numbers.log() if given else numbers
