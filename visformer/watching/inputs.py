"""The inputs of a model, each with its own mark, and the ids that it embeds."""

import inspect
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._pytree import tree_map

from visformer.errors import InputError
from visformer.watching.axes import INPUT, DataDimensions
from visformer.watching.captured import Captured
from visformer.watching.ledger import CHOSEN, VERBATIM, Ledger, storage_of
from visformer.watching.module_calls import ModuleCall
from visformer.watching.pass_changes import PassChanges

ArgumentNames = (
    str | int | Sequence[str | int] | None
)  # argument names, or positions from 0
SOURCE, TARGET = "source", "target"
SOURCE_NAMES = {
    *("input_ids", "src", "source", "src_tokens", "src_ids", "source_ids"),
    *("encoder_hidden_states", "encoder_outputs", "encoder_output", "enc_out"),
    *("input_features", "input_values", "pixel_values", "inputs_embeds", "past_values"),
}
TARGET_NAMES = {
    *("decoder_input_ids", "decoder_inputs_embeds", "tgt", "trg", "target", "targets"),
    *("prev_output_tokens", "trg_input", "tgt_in", "dec_inputs", "decoder_inputs"),
    *("tgt_tokens", "tgt_ids", "target_ids", "future_values"),
}
SOURCE_WORDS = {"enc", "encoder", "src", "source"}
TARGET_WORDS = {"dec", "decoder", "tgt", "trg", "target"}
# in names of arguments that accompany another, such as masks: they decide no side
ASIDE = (
    *("mask", "type", "position", "label", "len", "head", "cache", "past_key", "bias"),
    *("weight", "dropout", "return", "output_", "use_", "pad"),
)
OF_ATTENTION = {"q", "k", "v", "query", "key", "value", "queries", "keys", "values"}


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """A tensor passed to the model, or integers that it chose and reads again."""

    name: str  # of the argument; "" for chosen ids
    place: str  # module and argument: the same at every step
    mark: int
    side: str  # as the caller or the argument's name says; "" if neither
    tensor: Tensor  # on the CPU
    axes: DataDimensions
    call: int  # the outermost call that received it
    copied: bool  # it shares memory with another input of the same call


class IdsRead(NamedTuple):
    """Ids of a model's inputs, as an embedding looked them up."""

    ids: Tensor  # integers of any shape, on the CPU
    axes: DataDimensions
    marks: int
    table: int  # the address of the table
    rows: int  # of the table
    aside: bool  # the argument's name says that it accompanies others (positions)
    order: int  # increases with time, like marks
    # int64 [B, n]: the ids before them, if they are slices of longer rows
    before: Tensor | None


class InputMarks:
    def __init__(
        self,
        model: nn.Module,
        ledger: Ledger,
        sources: ArgumentNames,
        targets: ArgumentNames,
        changes: PassChanges | None = None,
    ) -> None:
        """Read the names of the model's arguments; InputError for unknown names."""
        self._model, self._ledger, self._changes = model, ledger, changes
        self._names, self._open = _parameters(model)
        self._given_names = {
            SOURCE: self._checked("sources", sources),
            TARGET: self._checked("targets", targets),
        }
        self.inputs: list[Input] = []
        self.read: list[IdsRead] = []

    def mark(
        self, module: nn.Module, call: ModuleCall, args: Any, kwargs: Any
    ) -> tuple[Any, Any] | None:
        """Mark the tensors passed to an outermost call.

        Of two that share memory, the second is replaced by a copy, or they could not be
        told apart. Returns the new arguments then, else None.
        """
        mine = module is self._model
        names = self._names if mine else _parameters(module)[0]
        named: list[tuple[str, int, Any]] = [
            (names[at] if at < len(names) else str(at), at, value)
            for at, value in enumerate(args)
        ]
        named += [(name, -1, value) for name, value in kwargs.items()]
        taken: dict[object, set[str]] = {}
        met, copies = Counter[int](), dict[tuple[int, int], Tensor]()
        for outer, at, value in named:
            for inner, tensor in _tensors(value):
                if not self._may_be_input(tensor):
                    continue
                name, own = _telling(outer, inner), tensor
                with_it = taken.setdefault(storage_of(tensor), set())
                occurrence = id(tensor), met[id(tensor)]
                met[id(tensor)] += 1
                if with_it | {name} <= OF_ATTENTION and occurrence[1]:
                    continue  # a sequence that attends to itself
                if with_it:
                    own = copies[occurrence] = tensor.clone()
                with_it.add(name)
                side = self._given_side(name, at) if mine else ""
                self._keep(
                    own,
                    call,
                    name=name,
                    place=f"{call.path}: {outer} {inner}",
                    side=side or _named_side(name, call.path),
                    copied=own is not tensor,
                )
        return _with_copies((args, kwargs), copies) if copies else None

    def embed(self, call: ModuleCall, table: Tensor, ids: Tensor, rows: Tensor) -> None:
        """Record ids that an embedding looks up if they come from an input unchanged.

        Ids that the model chose itself count as an input from then on. The rows of
        other words are put in their place, where a change says so.
        """
        marks = self._ledger.marks([ids])
        # a model may begin a sequence with a constant token
        alone = ids.shape[-1:].numel() == 1 and not self._ledger.known(ids).counts
        if marks & CHOSEN or (alone and not marks):
            self._keep(ids, call, name="", place=f"{call.path}: chosen")
            marks = self._ledger.marks([ids])
        if not marks & VERBATIM:
            return
        axes = self._ledger.known(ids).dimensions
        for axis in (one for dimension in axes for one in dimension):
            # an axis of ids counts tokens, wherever it came from
            axis.origin, axis.lost = INPUT, False
        kept = ids.detach().cpu().clone()
        given = [one for one in self.inputs if one.mark & marks]
        names = [one.name for one in given]
        self.read.append(
            IdsRead(
                ids=kept,
                axes=axes,
                marks=marks,
                table=table.data_ptr(),
                rows=len(table),
                aside=bool(names) and all(map(goes_with_another, names)),
                order=self._ledger.new_mark(),
                before=_cut_off(ids),
            )
        )
        if self._changes is not None and given and not self.read[-1].aside:
            self._changes.embed(given[0].side, table, ids, rows)

    def _may_be_input(self, tensor: Tensor) -> bool:
        chosen = (
            self._ledger.marks([tensor]) & CHOSEN and not tensor.is_floating_point()
        )
        made = self._ledger.is_made(tensor) and not chosen
        other = tensor.is_nested or tensor.dtype == torch.bool
        return not (made or other or self._ledger.is_weight(tensor))

    def _keep(
        self,
        tensor: Tensor,
        call: ModuleCall,
        *,
        name: str,
        place: str,
        side: str = "",
        copied: bool = False,
    ) -> None:
        mark = self._ledger.new_mark()
        self._ledger.mark_input(tensor, mark)
        axes = self._ledger.known(tensor).dimensions
        kept = tensor.detach().cpu().clone()
        self.inputs.append(
            Input(name, place, mark, side, kept, axes, call.outermost, copied)
        )

    def _given_side(self, name: str, at: int) -> str:
        for side, told in self._given_names.items():
            if name in told or (at >= 0 and at in told):
                return side
        return ""

    def _checked(self, argument: str, given: ArgumentNames) -> list[str | int]:
        if given is None:
            return []
        told = [given] if isinstance(given, str | int) else list(given)
        for one in told:
            if isinstance(one, str) and not self._open and one not in self._names:
                raise InputError(
                    "{argument} names “{name}”, but the model takes {names}.",
                    argument=argument,
                    name=one,
                    names=", ".join(self._names),
                )
        return told


def _cut_off(ids: Tensor) -> Tensor | None:
    """Return the ids [B, n] before a slice [B, N] of longer rows; None if none."""
    n = ids.storage_offset()
    if ids.dim() != 2 or ids.stride(1) != 1 or not n + ids.shape[1] <= ids.stride(0):
        return None
    rows = ids.detach().as_strided((len(ids), n), ids.stride(), 0)
    return rows.cpu().clone() if n else None


def time_axis(given: Sequence[Input], found: Sequence[Captured]) -> int | None:
    """Return which axis of the inputs, 0 or 1, counts tokens; None if unknown.

    Queries or keys have it as an axis, or only the other axis has the batch size.
    """
    counted = {axis: None for one in found for axis in (*one.query_axes, *one.key_axes)}
    for one, at in itertools.product(given, (0, 1)):
        for axis in one.axes[at] if at < len(one.axes) else ():
            if any(x.positions_on(axis) is not None for x in counted):
                return at
    shapes = [one.tensor.shape for one in given if one.tensor.dim() > 1]
    for attention, shape in itertools.product(found, shapes):
        rows = [at for at in (0, 1) if shape[at] == len(attention.weights)]
        if len(rows) == 1:
            return 1 - rows[0]
    return None


def _parameters(module: nn.Module) -> tuple[list[str], bool]:
    """Return the parameter names of a module's forward, and whether it takes others."""
    try:
        written = getattr(module, "_orig_mod", module)  # undo torch.compile
        parameters = [*inspect.signature(written.forward).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    variable = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    names = [p.name for p in parameters if p.kind not in variable]
    return names, not names or any(p.kind in variable for p in parameters)


def _with_copies(
    given: tuple[Any, Any], copies: Mapping[tuple[int, int], Tensor]
) -> tuple[Any, Any]:
    """Replace arguments by their copies, found by object and occurrence."""
    met = Counter[int]()

    def own(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        met[id(value)] += 1
        return copies.get((id(value), met[id(value)] - 1), value)

    changed: tuple[Any, Any] = tree_map(own, given)
    return changed


def _named_side(name: str, path: str) -> str:
    """Return the side named by an argument or by the module that receives it."""
    own = name.lower()
    if own in SOURCE_NAMES | TARGET_NAMES:
        return SOURCE if own in SOURCE_NAMES else TARGET
    for words in (own.split("_"), re.split(r"[._]", path.lower())):
        sides = [
            side
            for side, known in ((SOURCE, SOURCE_WORDS), (TARGET, TARGET_WORDS))
            if not known.isdisjoint(words)
        ]
        if len(sides) == 1:
            return sides[0]
    return ""


def counting_tables(read: Iterable[IdsRead]) -> set[int]:
    """Return the tables that were always indexed by consecutive ids: positions."""
    tables: dict[int, list[Tensor]] = {}
    for one in read:
        tables.setdefault(one.table, []).append(one.ids.reshape(len(one.ids), -1))
    counting = set()
    for table, several in tables.items():
        wide = [ids.diff().flatten() for ids in several if ids.shape[1] > 1]
        if not wide and len({len(ids) for ids in several}) == 1:  # one id per step
            wide = [torch.cat(several, 1).diff().flatten()]
        apart = torch.cat(wide) if wide else torch.zeros(0)
        if len(apart) > 1 and bool((apart == 1).all()):
            counting.add(table)
    return counting


def goes_with_another(name: str) -> bool:
    """Whether an argument's name says that it accompanies another, like a mask."""
    own = name.lower()
    known = own in SOURCE_NAMES | TARGET_NAMES
    return not known and any(word in own for word in ASIDE)


def _telling(outer: str, inner: str) -> str:
    """Return the more informative of an argument's name and a key inside it."""
    known, own = SOURCE_NAMES | TARGET_NAMES, outer.lower()
    if not inner or inner.lower() in known or goes_with_another(inner):
        return inner or outer
    return outer if own in known or goes_with_another(own) else inner


def _tensors(value: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of an argument with their keys in a batch; "" for none."""
    if isinstance(value, Tensor):
        if value.dtype.is_floating_point or value.dim():
            yield "", value._values if isinstance(value, NestedTensor) else value
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
        if isinstance(value, Tensor | tuple | list | Mapping):  # only one level
            for inner, tensor in _tensors(value):
                yield inner or str(name), tensor
