"""InputMarks: which arguments of a call are the source, and which the target."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from visformer.errors import InputError
from visformer.language import _
from visformer.watching.axes import DataDimensions
from visformer.watching.captured import Captured
from visformer.watching.ledger import SOURCE, TARGET, Ledger

ArgumentNames = (
    str | int | Sequence[str | int] | None
)  # of arguments, or their places from 0
SOURCE_NAMES = {
    *("input_ids", "src", "source", "x", "memory", "encoder_hidden_states", "inputs"),
    *("encoder_outputs", "encoder_output", "enc_out", "src_tokens", "inputs_embeds"),
    *("input_features", "input_values", "pixel_values", "src_ids", "source_ids"),
}
TARGET_NAMES = {
    *("decoder_input_ids", "tgt", "trg", "target", "y", "prev_output_tokens"),
    *("trg_input", "tgt_in", "dec_inputs", "decoder_inputs"),
    *("decoder_inputs_embeds", "tgt_tokens", "targets", "tgt_ids", "target_ids"),
}
SOURCE_WORDS = {"enc", "encoder", "src", "source"}
TARGET_WORDS = {"dec", "decoder", "tgt", "trg", "target"}
GOLD_NAMES = {"tgt", "trg", "target", "targets", "y"}  # perhaps not what is given
NO_INPUT = (  # in the name of an argument that is neither
    *("mask", "type", "position", "label", "len", "head", "cache", "past", "bias"),
    *("weight", "dropout", "return", "output_", "use_"),
)


class InputMarks:
    """Marks the inputs of the model, and keeps them."""

    def __init__(
        self, model: nn.Module, sources: ArgumentNames, targets: ArgumentNames
    ) -> None:
        """Read what the model takes; InputError for names that it does not take."""
        self._model = model
        try:
            written = getattr(model, "_orig_mod", model)  # before torch.compile
            parameters = inspect.signature(written.forward).parameters.values()
        except (TypeError, ValueError):
            parameters = ()  # type: ignore[assignment]
        self._names = [p.name for p in parameters if p.kind != p.VAR_KEYWORD]
        variable = {p.kind for p in parameters}
        self._open = not self._names or bool(
            variable & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
        )
        self._sources = self._told("sources", sources)
        self._targets = self._told("targets", targets)
        self._sides: dict[int, int] = {}  # of modules called apart from the model
        self.sources: list[Tensor] = []
        self.targets: list[Tensor] = []
        # the same, or what embeddings were given in their place: shifted, say
        self.source_ids: list[Tensor] = []
        self.target_ids: list[Tensor] = []
        self._from_labels = False
        self._replaced = {SOURCE: False, TARGET: False}  # the last of each
        self._axes: list[DataDimensions] = []  # of all of them

    def time_axis(self, found: Sequence[Captured]) -> int | None:
        """Return which axis of the inputs, 0 or 1, counts tokens; None if unknown.

        It is the one that queries or keys are counted by; else the other is as long
        as the batch.
        """
        counted = {
            axis
            for one in found
            for last in (*one.query_axes, *one.key_axes)
            for axis in last.lineage()
        }
        for dimensions in self._axes:
            for at in (0, 1):
                if counted.intersection(*dimensions[at : at + 1]):
                    return at
        shapes = [x.shape for x in (*self.sources, *self.targets) if x.dim() > 1]
        for one, shape in itertools.product(found, shapes):
            rows = [at for at in (0, 1) if shape[at] == len(one.weights)]
            if len(rows) == 1:
                return 1 - rows[0]
        return None

    def mark(
        self, ledger: Ledger, module: nn.Module, args: Sequence[Any], kwargs: Any
    ) -> None:
        """Mark the tensors that a call, which no other module made, is given."""
        if module is self._model:
            self._mark_model(ledger, args, dict(kwargs))
            return
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        if not tensors or ledger.is_made(tensors[0]):
            return
        side = self._sides.get(id(module))
        if side is None:
            side = TARGET if self.sources else SOURCE
            self._sides[id(module)] = side
        self._keep(ledger, tensors[0], side)

    def _mark_model(
        self, ledger: Ledger, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        named = [
            (self._names[at] if at < len(self._names) else str(at), at, value)
            for at, value in enumerate(args)
        ]
        named += [(name, -1, value) for name, value in kwargs.items()]
        given = [
            (_telling(n, inner), at, x)
            for n, at, v in named
            for inner, x in _tensors(v)
        ]
        sources = [x for n, at, x in given if self._is(n, at, self._sources)]
        targets = [x for n, at, x in given if self._is(n, at, self._targets)]
        # what the model itself made before, as an encoder's output, keeps its marks
        free = [
            (n, x)
            for n, _at, x in given
            if _may_be_input(n.lower())
            and not any(x is y for y in (*sources, *targets))
            and not (x.dtype.is_floating_point and ledger.is_made(x))
        ]
        has_source = bool(sources) or any(
            ledger.marks([x]) & SOURCE for *_n, x in given
        )
        if not targets and not self._targets:
            known = [(n.lower(), x) for n, x in free if _says(n, TARGET_NAMES)]
            known.sort(key=lambda pair: pair[0] in GOLD_NAMES)
            targets = [x for _n, x in known[:1]]
            if not targets and _has_decoder(self._model):
                targets = [x for n, _a, x in given if n == "labels"][:1]
                self._from_labels = bool(targets)
        rest = [(n, x) for n, x in free if not any(x is y for y in targets)]
        if not sources and not self._sources:
            sources = [x for n, x in rest if _says(n, SOURCE_NAMES)][:1]
            if not sources and rest and not (has_source and targets):
                sources = [rest[0][1]]
        rest = [(n, x) for n, x in rest if not any(x is y for y in sources)]
        if not targets and not self._targets and rest and sources:
            like = sources[0].dtype.is_floating_point
            targets = [
                x for n, x in rest if x.dtype.is_floating_point == like and x.dim() > 1
            ][:1]
        for tensor in sources:
            self._keep(ledger, tensor, SOURCE)
        for tensor in targets:
            self._keep(ledger, tensor, TARGET)

    def embed(self, ledger: Ledger, ids: Tensor) -> None:
        """Note ids [B, T] of an embedding: those that a model made of its input count.

        A model may leave out the last of its target, or shift its labels itself.
        """
        ids = _flat(ids)
        side = ledger.marks([ids]) & (SOURCE | TARGET)
        given, own = (
            (self.sources, self.source_ids)
            if side == SOURCE
            else (self.targets, self.target_ids)
        )
        if side not in self._replaced or not given or self._replaced[side]:
            return
        last = _flat(given[-1])
        if ids.dim() != 2 or last.dim() != 2 or last.is_floating_point():
            return
        self._replaced[side] = True
        shifted = side == TARGET and self._from_labels
        other = given[-1].dim() > 2 or last.shape not in (ids.shape, ids.T.shape)
        if shifted or other or (last < 0).any():
            own[-1] = ids.detach().cpu().clone()

    def _keep(self, ledger: Ledger, tensor: Tensor, mark: int) -> None:
        ledger.mark_input(tensor, mark)
        self._axes.append(ledger.known(tensor).dimensions)
        kept = tensor.detach().cpu().clone()
        source = mark == SOURCE
        (self.sources if source else self.targets).append(kept)
        (self.source_ids if source else self.target_ids).append(kept)
        self._replaced[mark] = False

    def _is(self, name: str, at: int, told: Sequence[str | int]) -> bool:
        return name in told or (at >= 0 and at in told)

    def _told(self, argument: str, given: ArgumentNames) -> list[str | int]:
        if given is None:
            return []
        told = [given] if isinstance(given, str | int) else list(given)
        for one in told:
            if isinstance(one, str) and not self._open and one not in self._names:
                raise InputError(
                    _(
                        "{argument} names “{name}”, but the model takes {names}.",
                        argument=argument,
                        name=one,
                        names=", ".join(self._names),
                    )
                )
        return told


def _telling(outer: str, inner: str) -> str:
    """Of an argument's name and a tensor's in it, return the one that says more."""
    known, own = SOURCE_NAMES | TARGET_NAMES, outer.lower()
    if not inner or inner.lower() in known or not _may_be_input(inner.lower()):
        return inner or outer
    return outer if own in known or not _may_be_input(own) else inner


def _says(name: str, known: set[str]) -> bool:
    """Whether an argument is one of those known, or has their word in its name."""
    words = TARGET_WORDS if known is TARGET_NAMES else SOURCE_WORDS
    own = name.lower()
    return own in known or not words.isdisjoint(own.split("_"))


def _may_be_input(name: str) -> bool:
    known = name in SOURCE_NAMES | TARGET_NAMES
    return known or not any(word in name for word in NO_INPUT)


def _tensors(value: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of an argument, with their names in a batch; "" for none."""
    if isinstance(value, Tensor):
        if value.dtype.is_floating_point or value.dim():
            yield "", value
    elif isinstance(value, Mapping):
        yield from _named_tensors(value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from _named_tensors(zip(value._fields, value, strict=True))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)
    elif not isinstance(value, nn.Module | type) and not callable(value):
        yield from _named_tensors(getattr(value, "__dict__", {}).items())


def _named_tensors(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Tensor]]:
    for name, value in pairs:
        if isinstance(value, Tensor | tuple | list | Mapping):  # no deeper
            for inner, tensor in _tensors(value):
                yield inner or str(name), tensor


def _flat(ids: Tensor) -> Tensor:
    """Return ids [B, T] of those with one feature each, [B, T, 1]."""
    return ids[..., 0] if ids.dim() == 3 and ids.shape[2] == 1 else ids


def _has_decoder(model: nn.Module) -> bool:
    named: Iterable[tuple[str, nn.Module]] = model.named_modules()
    return any("decoder" in name for name, _module in named)
