"""The residual stream of watched layers, and the model's own way from it to logits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from visformer.core.lens_rows import WRONG_STREAMS, lens_row
from visformer.errors import InputError
from visformer.values.arrays import Floats, Ids
from visformer.values.facts import Kind, StackFacts, StackName
from visformer.values.lens import LensRow
from visformer.values.watched_attention import WatchedAttention
from visformer.watching.ledger import Ledger
from visformer.watching.module_calls import COMPILED, Hook
from visformer.watching.watched_runs import RunRows

CLOSE = 1e-3  # of logits computed again, relative to max(1, the largest one)


@dataclass(eq=False)
class LayerStream:
    """What one pass had before, between and after the layers of one list."""

    layers: list[nn.Module]
    order: int = 0  # how many marks there were when it began
    hidden: list[Tensor] = field(default_factory=list)  # up to L + 1 of [B, T, D]
    norm: nn.Module | None = None  # what is given the last of them, outside the layers
    output: Tensor | None = None  # what that norm makes of it

    @property
    def whole(self) -> bool:
        """Whether each layer was called once, on what the one before it returned."""
        return len(self.hidden) == len(self.layers) + 1

    def facts(self, *, read_out: bool = False) -> StackFacts:
        """Describe the columns that a Trace has of it."""
        width, output = self.hidden[0].shape[-1], self.output is not None
        hidden = len(self.hidden)
        return StackFacts(
            d_model=width, hidden=hidden, output=output, read_out=read_out
        )

    def each(self, change: Callable[[Tensor], Tensor]) -> LayerStream:
        """Return it with each tensor changed."""
        output = None if self.output is None else change(self.output)
        return replace(self, hidden=[*map(change, self.hidden)], output=output)

    def part(self, name: str, at: int) -> Tensor:
        """Return what a Trace calls ``hidden`` or ``output``, [B, T, D]."""
        kept = self.hidden[at] if name == "hidden" else self.output
        assert kept is not None
        return kept


class StreamRecorder:
    """Keeps, of each pass, what enters and leaves the layers of each list."""

    def __init__(self, model: nn.Module, ledger: Ledger) -> None:
        self._ledger = ledger
        self.streams: dict[str, list[LayerStream]] = {}  # by the path of the list
        self._modules = {
            path.replace(COMPILED, ""): module for path, module in model.named_modules()
        }
        self._handles: list[RemovableHandle] = []
        self._thread = threading.get_ident()  # others may call the model meanwhile
        for path, module in self._modules.items():
            parts = [*module.children()]
            is_list = isinstance(module, nn.ModuleList | nn.Sequential)
            if is_list and parts and all([*part.children()] for part in parts):
                self.streams[path] = [LayerStream(parts)]

    def start(self) -> None:
        """Begin to follow."""
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
        except RuntimeError:  # a scripted module takes no hooks
            self.stop()

    def stop(self) -> None:
        """End it; the hooks are gone."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _follow(self, path: str, at: int, layer: nn.Module) -> None:
        def enter(_layer: nn.Module, args: Any, kwargs: Any) -> None:
            given = _first([*args, *kwargs.values()])
            hidden = self.streams[path][-1].hidden
            with self._unseen() as mine:
                if not mine:
                    return
                if at == 0:
                    layers, marked = self.streams[path][0].layers, self._ledger.marked
                    entered = [] if given is None else [_kept(given)]
                    self.streams[path].append(LayerStream(layers, marked, entered))
                elif len(hidden) != at + 1 or not _same(given, hidden[-1]):
                    hidden.clear()

        def leave(_layer: nn.Module, _args: Any, result: Any) -> None:
            made, hidden = _first([result]), self.streams[path][-1].hidden
            with self._unseen() as mine:
                if not mine:
                    return
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
        """Compute without being watched; tells whether this is the thread to follow."""
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
    """Return the first sequence of vectors, [B, T, D], among what is given."""
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
    """Return the streams of the layers that hold a Trace's attention, [B, T, D].

    There is one for a stack whose attention lies in as many layers of one list, one in
    each; and where batch and sequence can be told apart.
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
    """Whether each layer of a list has one of each kind of attention."""
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
    """Return what the steps of some rows had, along their history; None if unknown."""
    parts: list[tuple[LayerStream, Tensor, int]] = []
    ways = {False, True}  # whether the sequence comes before the batch
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
        hidden=[torch.cat(each, 1) for each in several],
        output=torch.cat(outputs, 1) if len(outputs) == len(laid) else None,
    )


@dataclass(frozen=True, eq=False)
class Readout:
    """How a model makes logits of what leaves its last layer."""

    norm: nn.Module | None
    weight: Tensor  # [V, D]
    bias: Tensor | None  # [V]
    factor: float  # of what the projection reads

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
        """Read streams [N, L + 1, D] of rows that chose ``chosen`` [N].

        ``heat`` is the temperature. Raises InputError for streams of another width.
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
    """Return what makes a pass's logits [B, T, V] of its stream; None: nothing does.

    Rows of NaN are not known. Tried are the model's own linear layers and embeddings of
    V rows, after the norm that the stream went through, if any; plain, or divided by
    sqrt(D) as T5's.
    """
    if stream is None or logits is None:
        return None
    known = ~logits.isnan().all(-1)  # other rows were not computed
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
