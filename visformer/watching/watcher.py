"""Watcher: calls any PyTorch model and records its attention."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, is_tensor, nn
from torch.nested._internal import ops
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from visformer.arguments import wrong_type
from visformer.language import _
from visformer.values.watched_attention import WatchedAttention, is_causal
from visformer.watching.axes import INPUT, DataDimension, DataDimensions, fresh
from visformer.watching.axis_rules import leaves_of
from visformer.watching.captured import Apart, Captured, worst
from visformer.watching.inputs import (
    ArgumentNames,
    IdsRead,
    Input,
    InputMarks,
    goes_with_another,
    time_axis,
)
from visformer.watching.joining import joined
from visformer.watching.ledger import COMPUTED, Known, Ledger, SeenInstead
from visformer.watching.module_calls import (
    FastPath,
    Generated,
    Given,
    ModuleCall,
    ModuleCalls,
    fast_paths,
    generated_sequences,
    plain_paths,
    same_chances,
)
from visformer.watching.pass_changes import PassChanges
from visformer.watching.recorder import Recorder
from visformer.watching.row_tokens import (
    Sides,
    Tokens,
    border_of,
    in_given_order,
    sides_of,
    with_ids,
    words_first,
)
from visformer.watching.streams import (
    LayerStream,
    LogitsKept,
    RowLogits,
    StreamRecorder,
    logits_of_rows,
)
from visformer.watching.watched_runs import RunRows, RunStep, history_of, run_steps

if TYPE_CHECKING:
    from visformer.values.finding import Certificate
    from visformer.values.trace import Trace

_NAME = "jagged_scaled_dot_product_attention"


def watch(
    model: nn.Module,
    *,
    pad: int | None = None,
    tokenizer: Any = None,
    source_tokens: Tokens = None,
    target_tokens: Tokens = None,
    labels: Tensor | None = None,
    sources: ArgumentNames = None,
    targets: ArgumentNames = None,
) -> Watcher:
    """Return a Watcher, which calls ``model`` unchanged and records its attention.

    ``watcher(*args, **kwargs)`` calls it once; ``with watcher as watched:`` watches
    every call inside. Attention is found by following the data flow, in any module and
    under any name. Model and torch are left unchanged.

    ``pad`` is the id of padding, ``labels``, int [B, T], what each row should predict;
    the findings use both. Tokens are the texts of one row, or a list per row; by
    default ``tokenizer`` gives them (``convert_ids_to_tokens``, or called with an id).
    ``sources`` and ``targets`` name the arguments, or give their positions from 0, if
    they are not the first and the second tensor. Raises TypeError if ``model`` is not a
    module, InputError for names that the model does not take.
    """
    if not isinstance(model, nn.Module):
        allowed = _("a torch.nn.Module")
        if isinstance(getattr(model, "model", None), nn.Module):
            allowed = _("a torch.nn.Module, as its “model” is")
        raise wrong_type("model", model, allowed)
    return Watcher(
        model,
        pad=pad,
        tokenizer=tokenizer,
        tokens=(source_tokens, target_tokens),
        labels=labels,
        sources=sources,
        targets=targets,
    )


class Watcher:
    """Watches one model; see ``watch``."""

    def __init__(
        self,
        model: nn.Module,
        *,
        pad: int | None,
        tokenizer: Any,
        tokens: tuple[Tokens, Tokens],
        labels: Tensor | None,
        sources: ArgumentNames,
        targets: ArgumentNames,
    ) -> None:
        self.model, self.pad, self.tokenizer = model, pad, tokenizer
        self.tokens, self.labels = tokens, labels
        self.changes: PassChanges | None = None  # of the next pass
        self._named = sources, targets
        # raises for unknown names
        InputMarks(model, Ledger(model), sources, targets)
        self._open: _Watching | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Watched:
        """Call the model and return what was recorded; its exceptions are not caught.

        A second, unwatched call with the same random state and buffers tells whether
        watching changed the output. If torch's fast path gives other numbers, which the
        certificate reports, that call is repeated without it.
        """
        spare = _own_containers((args, kwargs))
        plain = self._unwatched(_own_containers((args, kwargs)))
        with self as watched:
            assert self._open is not None
            args, kwargs = self._open.call(args, kwargs)
            watched.output = self.model(*args, **kwargs)
        if watched.fast_paths:
            watched.fast_difference = difference(watched.output, plain)
            with plain_paths():
                plain = self._unwatched(spare)
        watched.output_difference = difference(watched.output, plain)
        return watched

    def _unwatched(self, given: Given) -> Any:
        with same_chances(self.model):
            made = self.model(*given[0], **given[1])
            # a copy, so that later calls cannot change it
            return tree_map(lambda x: x.detach().clone() if is_tensor(x) else x, made)

    def __enter__(self) -> Watched:
        self._open = _Watching(self, *self._named)
        return self._open.watched

    def __exit__(self, *raised: object) -> None:
        """Stop watching and restore model and torch."""
        session, self._open = self._open, None
        if session is not None:
            session.close()
        if self.changes is not None and raised[0] is None:
            self.changes.finish()

    def certify(self, *args: Any, **kwargs: Any) -> Certificate:
        """Watch several variations of a call and return their combined certificate.

        Lengths 1, 2, 12, 33 and 129 if the model accepts them, a repeated call, single
        rows, a prefix and other tokens: some faults show only there.
        """
        from visformer.watching.certifying import certified

        return certified(self, args, kwargs)


# torch's switches are global: a window served from another thread waits
_one_at_a_time = threading.RLock()


class Watched:
    """The record of one call, or of all calls inside a ``with``."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.output: Any = None  # the model's output; None in the ``with`` form
        self.output_difference: float | None = None
        self.found: list[Captured] = []
        self.seen: Counter[SeenInstead] = Counter()
        self.dropout: Counter[str] = Counter()
        self.operations = 0
        self.multiplied: set[int] = set()  # ids of storages of weights in products
        self.joined = 0  # marks in sums whose other term lacks them
        self.parts: Counter[str] = Counter()  # products of weights, by module
        self.fast_paths: list[FastPath] = []  # of torch.nn, disabled while watching
        self.fast_difference = 0.0  # between the outputs with and without them
        self.inputs: list[Input] = []
        self.read: list[IdsRead] = []
        self.streams: dict[str, list[LayerStream]] = {}  # by the path of the layers
        self.generated = Generated()
        self.returned = LogitsKept(watcher.model)

    @cached_property
    def sides(self) -> Sides:
        """The inputs that are the source, and those that are the target."""
        return sides_of(self.inputs, self.found)

    @cached_property
    def sources(self) -> list[Tensor]:
        """The source of each call, as given."""
        return [one.tensor for one in self.given(self.sides.source)]

    @cached_property
    def targets(self) -> list[Tensor]:
        """The target of each call, as given."""
        return [one.tensor for one in self.given(self.sides.target)]

    @cached_property
    def time_axis(self) -> int | None:
        """The axis of the inputs, 0 or 1, that counts tokens; None if unknown."""
        sides = self.sides.source | self.sides.target
        return time_axis(self.given(sides), self.found)

    def given(self, marks: int) -> list[Input]:
        """Return the main sequence of each call, among the inputs with these marks."""
        calls: dict[int, list[Input]] = {}
        for one in self.inputs:
            if one.mark & marks:
                calls.setdefault(one.call, []).append(one)

        def is_sequence(one: Input) -> tuple[int, bool]:
            tables = [x.rows for x in self.read if x.marks & one.mark]
            return max(tables, default=0), not goes_with_another(one.name)

        return [max(several, key=is_sequence) for several in calls.values()]

    @cached_property
    def attentions(self) -> list[WatchedAttention]:
        calls = list(dict.fromkeys(one.outermost for one in self._named))
        return [self._public(one, calls.index(one.outermost)) for one in self._named]

    @cached_property
    def last_run(self) -> list[WatchedAttention]:
        """The attention of the last pass; the steps of a cached loop are joined."""
        return self.attentions_of(self.last_rows)

    @property
    def last_rows(self) -> RunRows:
        return self._runs[-1].all_rows()

    @cached_property
    def shown(self) -> list[RunRows]:
        """The rows that become Traces: each sequence returned by a beam search.

        Without beams, the rows of the last run.
        """
        last = self.last_rows
        found = [one for one in self._histories if one is not None]
        rows = [len(last.taken[-1]), 0]
        if len(self._histories) in rows and not self._runs[-1].branched():
            return [last]
        return found or [last]

    def attentions_of(self, shown: RunRows) -> list[WatchedAttention]:
        """Return the attention of some rows, including their history."""
        return [self._public(one, 0) for one in shown.attentions()]

    def logits_of(self, shown: RunRows) -> RowLogits | None:
        """Return the logits of some rows; None if unknown."""
        starts, first = [one.began for one in self.found], self.time_axis == 0
        return logits_of_rows(self.returned, starts, shown, time_first=first)

    @cached_property
    def not_whole(self) -> int:
        """How many sequences returned by ``generate`` were not read in a single run.

        The last token is never read, nor is the padding after it.
        """
        config = getattr(self.watcher.model, "generation_config", None)
        names = ("pad_token_id", "eos_token_id")
        told = tree_leaves([getattr(config, name, None) for name in names])
        fill = torch.tensor([x for x in (*told, self.watcher.pad) if x is not None])
        return sum(
            history is None or not bool(torch.isin(one[history.read + 1 :], fill).all())
            for one, history in zip(
                self.generated.sequences, self._histories, strict=False
            )
        )

    @cached_property
    def _histories(self) -> list[RunRows | None]:
        """The history of each returned sequence; [] if the model was called since."""
        of_it = self.generated
        if not self.found or self.found[-1].outermost not in of_it.calls:
            return []
        steps = [x for x in self._runs if x.own and x.own[0].outermost in of_it.calls]
        several, n = of_it.sequences, of_it.sentences
        each = max(len(several) // n, 1)
        for prompted in (False, True):
            found = [
                history_of(
                    one,
                    (at // each / n, (at // each + 1) / n),
                    steps,
                    self.inputs,
                    prompted=prompted,
                )
                for at, one in enumerate(several)
            ]
            if all(found):
                break
        return found

    @cached_property
    def _runs(self) -> list[RunStep]:
        loops = [one.mark for one in self.inputs if not one.name]
        ordered = [in_given_order(x, self.inputs) for x in self._named]
        return run_steps([x.without_room for x in ordered], self.sides, loops)

    @cached_property
    def _named(self) -> list[Captured]:
        """The attention found, with the ids of its queries and keys."""
        read = words_first(self.read)
        return [with_ids(x, read, self.sides) for x in self.found]

    @cached_property
    def certificate(self) -> Certificate:
        """How exactly the recorded attention was reproduced, and the findings."""
        from visformer.watching.certifying_watched import certificate_of

        return certificate_of(self)

    @cached_property
    def traces(self) -> list[Trace]:
        """A Trace for each row of the batch of the last run."""
        from visformer.watching.traces import traces_of

        return traces_of(self)

    def __repr__(self) -> str:
        kinds = Counter(one.kind for one in self.attentions)
        return f"<Watched: {dict(kinds)}>"

    def _repr_mimebundle_(self, **_given: object) -> dict[str, str]:
        """Show the first row of the batch in a notebook, as a Trace does."""
        first = self.traces[:1]
        shown = first[0]._repr_mimebundle_() if first else {}
        return {**shown, "text/plain": repr(self)}

    def _public(self, one: Captured, step: int) -> WatchedAttention:
        return WatchedAttention(
            module=one.module.rpartition(".")[0] if one.beside else one.module,
            # by the inputs of queries and keys, else by the keys that are read
            kind=self.sides.kind(one)
            or ("decoder" if one.module in self._causal else "encoder"),
            weights=_numpy(one.weights),
            queries=_numpy(one.queries),
            keys=_numpy(one.keys),
            values=_numpy(one.values),
            scale=one.scale,
            added=None if one.added is None else _numpy(one.added),
            difference=one.apart.difference,
            tolerance=one.apart.allowed,
            border=border_of(one, self.sides),
            linear=one.linear,
            over=one.over,
            multiplied=None if one.multiplied is None else one.multiplied.numpy(),
            filled=None if one.filled is None else one.filled.numpy(),
            dropout=one.random,
            mixed=one.mixed,
            step=step,
            query_ids=None if one.query_ids is None else one.query_ids.numpy(),
            key_ids=None if one.key_ids is None else one.key_ids.numpy(),
            parts=one.parts,
        )

    @cached_property
    def _causal(self) -> set[str]:
        """Modules that read no key after its query, or whose keys grew."""
        causal: dict[str, bool] = {}
        lengths: dict[str, set[int]] = {}
        for one in self.found:
            queries, keys = one.weights.shape[2:]
            lengths.setdefault(one.module, set()).add(keys)
            if queries > 1:
                own = causal.get(one.module, True)
                causal[one.module] = own and is_causal(_numpy(one.read))
        grown = {module for module, several in lengths.items() if len(several) > 1}
        return {m for m in lengths if causal.get(m, m in grown)}


class _Watching:
    """The changes made to torch and the model inside one ``with``."""

    def __init__(
        self, watcher: Watcher, sources: ArgumentNames, targets: ArgumentNames
    ) -> None:
        self.watched = Watched(watcher)
        model = watcher.model
        self._ledger = Ledger(model)
        changes = watcher.changes
        self._marks = InputMarks(model, self._ledger, sources, targets, changes)
        self._calls = ModuleCalls(model, self._began, self._ended)
        embed = self._marks.embed
        self._recorder = Recorder(self._ledger, self._calls, embed, changes)
        self._streams = StreamRecorder(model, self._ledger, changes)
        self._stack = ExitStack()
        try:
            self._stack.enter_context(_one_at_a_time)
            self._stack.callback(self._calls.stop)
            self._calls.start()
            self._stack.callback(self._streams.stop)
            self._streams.start()
            paths = self._stack.enter_context(fast_paths(model))
            self.watched.fast_paths = paths
            self._stack.enter_context(plain_paths())
            made = self._stack.enter_context(generated_sequences(model, self._calls))
            self.watched.generated = made
            own = jagged_attention(self._recorder, self._marks, watcher.pad or 0)
            self._stack.enter_context(own)
            self._stack.enter_context(self._recorder)
        except BaseException:
            self._stack.close()
            raise

    def call(self, args: Any, kwargs: Any) -> Given:
        """Mark the arguments of a model whose calls are not hooked."""
        model = self.watched.watcher.model
        if self._calls.follows(model):
            return args, kwargs
        return self._began(model, ModuleCall("", 0, 0, 0), args, kwargs) or (
            args,
            kwargs,
        )

    def _began(
        self, module: nn.Module, call: ModuleCall, args: Any, kwargs: Any
    ) -> Given | None:
        changed = self._marks.mark(module, call, args, kwargs)
        given = [one.tensor for one in self._marks.inputs if one.tensor.dim() > 1]
        if given:
            self._recorder.batch_size = len(given[-1])
        return changed

    def _ended(self, call: ModuleCall, result: Any) -> None:
        self.watched.returned.note(call, result, self._ledger.marked)

    def close(self) -> None:
        """Restore everything and store the results."""
        self._stack.close()
        recorder, watched, marks = self._recorder, self.watched, self._marks
        recorder.finish()
        self._ledger.forget()
        watched.streams = self._streams.streams
        watched.parts.update(one.module for one in recorder.found)
        watched.found = joined(recorder.found)
        watched.seen, watched.dropout = recorder.seen, recorder.dropout
        watched.operations = recorder.operations
        watched.multiplied, watched.joined = recorder.multiplied, recorder.joined
        watched.inputs, watched.read = marks.inputs, marks.read


def _numpy(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    array: np.ndarray[Any, np.dtype[np.float32]] = tensor.contiguous().numpy()
    array.setflags(write=False)
    return array


def _own_containers(given: Any) -> Any:
    """Copy lists, dicts and caches, which a model may modify."""
    leaves, shape = tree_flatten(given)
    plain = Tensor | nn.Module | str | int | float | None
    own = [x if isinstance(x, plain) or callable(x) else _copied(x) for x in leaves]
    return tree_unflatten(own, shape)


def _copied(given: Any) -> Any:
    try:
        return deepcopy(given)
    except Exception:  # it contains an open file, or a tensor with a gradient
        return given


def difference(first: Any, second: Any) -> float:
    """Return the largest difference between two outputs, as ``worst`` defines it.

    Infinite if their shapes differ.
    """
    pairs = [leaves_of(output) for output in (first, second)]
    if [x.shape for x in pairs[0]] != [x.shape for x in pairs[1]]:
        return float("inf")
    return max((worst(a, b) for a, b in zip(*pairs, strict=True)), default=0.0)


# Attention over jagged nested tensors: repeated on the same numbers, padded


@contextmanager
def jagged_attention(recorder: Recorder, marks: InputMarks, pad: int) -> Iterator[None]:
    """Record torch's attention over jagged nested tensors inside the context.

    ``pad`` is the id used behind the end of each sentence.
    """
    with patch.object(ops, _NAME, _Followed(recorder, marks, pad, getattr(ops, _NAME))):
        yield


class _Followed:
    """Wraps torch's function: returns its result and records the same call padded."""

    def __init__(
        self, recorder: Recorder, marks: InputMarks, pad: int, own: Callable[..., Any]
    ) -> None:
        self._recorder, self._marks, self._pad, self._own = recorder, marks, pad, own
        self._axes: dict[DataDimension, DataDimensions] = {}  # of batch and tokens

    def __call__(
        self,
        query: Any,  # a jagged tensor [B, H, j, d], as the others
        key: Any,
        value: Any,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **more: Any,
    ) -> Any:
        recorder, ledger = self._recorder, self._recorder.ledger
        several = query, key, value
        with _disable_current_modes():
            made = self._own(*several, attn_mask, dropout_p, is_causal, **more)
        heads = all(x.dim() == 4 and x._ragged_idx == 2 for x in several)
        if attn_mask is not None or dropout_p or not heads:
            recorder.see("nested")
            return made
        q, k, v = map(self._dense, several)
        real = _real(query)[:, None, :, None]  # [B, 1, Q, 1]
        mask = real & _real(key)[:, None, None]
        mask = mask.tril() if is_causal else mask
        before, marks = len(recorder.found), ledger.marks([x._values for x in several])
        changes, recorder.changes = recorder.changes, None  # not of a repetition
        again = scaled_dot_product_attention(q, k, v, attn_mask=mask, **more)
        recorder.changes = changes
        with _disable_current_modes():
            apart = worst(_padded(made), again.where(real, 0))
        for one in recorder.found[before:]:
            one.apart = Apart.worse([one.apart, Apart(apart, one.apart.allowed)])
            marks |= one.mark
        shared = ledger.known(query._values).dimensions[:2]
        dimensions = *shared, *fresh(made._values.shape[2:], 0)
        ledger.learn(made._values, Known(dimensions, COMPUTED, gives=True), marks)
        return made

    def _dense(self, nested: Any) -> Tensor:
        """Return the padded numbers, [B, H, N, d], with the original's entry.

        The ids of its tokens are recorded as if an embedding had read them padded.
        """
        ledger, read = self._recorder.ledger, self._marks.read
        known = ledger.known(nested._values)
        heads, tokens, depth = known.dimensions
        with _disable_current_modes():
            dense, real = _padded(nested), _real(nested)
        if tokens not in self._axes:
            self._axes[tokens] = fresh(real.shape, INPUT)
            found = _flat(tokens, words_first(read))
            if found is not None:
                ids = torch.full(real.shape, self._pad)
                ids[real.cpu()] = found.ids
                read.append(found._replace(ids=ids, axes=self._axes[tokens]))
        batch, along = self._axes[tokens]
        own = replace(known, dimensions=(batch, heads, along, depth))
        ledger.learn(dense, own, ledger.marks([nested._values]))
        return dense


def _flat(tokens: DataDimension, read: list[IdsRead]) -> IdsRead | None:
    """Return the concatenated ids of all sentences, as an embedding read them."""
    axes = list(tokens) if len(tokens) == 1 else []
    parts = [_flat(own, read) for axis in axes for own, _size, _marks in axis.parts]
    known = [one for one in parts if one is not None]
    if known and len(known) == len(parts):
        first = known[0]
        for one in known[1:]:
            ids, marks = torch.cat([first.ids, one.ids]), first.marks | one.marks
            first = first._replace(ids=ids, marks=marks, order=one.order)
        return first
    for one in read:
        own = [axis for dimension in one.axes for axis in dimension]
        at = axes[0].positions_on(own[0]) if axes and len(own) == 1 else None
        if at is not None:
            return one._replace(ids=one.ids.flatten()[at])
    return None


def _padded(nested: Any) -> Tensor:
    """[B, H, j, d] -> [B, H, N, d], padded with zeros."""
    several = nested.detach().transpose(1, 2).unbind()  # of [j, H, d]
    return pad_sequence([*several], batch_first=True).transpose(1, 2)


def _real(nested: Any) -> Tensor:
    """Return the mask of real tokens, bool [B, N]."""
    lengths = nested.lengths()
    lengths = nested.offsets().diff() if lengths is None else lengths
    real: Tensor = torch.arange(int(lengths.max())).to(lengths) < lengths[:, None]
    return real
