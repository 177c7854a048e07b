"""The residual stream of watched layers, and the model's own map from it to logits."""

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
