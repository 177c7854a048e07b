"""Variations of one call: some faults show only at other lengths or batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils._pytree import tree_leaves, tree_map

from visformer.analysis.checks.observation import (
    Comparisons,
    ModelState,
    Observation,
    UnreadHead,
)
from visformer.language import _, ngettext
from visformer.values.finding import Certificate
from visformer.values.watched_attention import (
    HALF_TOLERANCE,
    WatchedAttention,
    is_causal,
)
from visformer.watching.captured import worst
from visformer.watching.certifying_watched import (
    APART,
    HALF_APART,
    certificate_of,
    together,
)
from visformer.watching.inputs import goes_with_another
from visformer.watching.module_calls import Given, plain_paths, same_chances
from visformer.watching.observing import first_tensor, observed

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched, Watcher

LENGTHS = 1, 2, 12, 33, 129
ROWS = 3  # rows of the batch that are compared with a call on the single row
CACHES = {"cache", "past_key_values"}  # argument names in transformers, old and new


def certified(
    watcher: Watcher, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Certificate:
    """Return the combined certificate of a call and its variations."""
    first = watcher(*args, **kwargs)
    calls = CallComparing(first, (args, kwargs), observed(first))
    certificates, checks = [], []
    with _without(watcher):
        seen = calls.observed()
        certificates.append(certificate_of(first, seen))
        # a prefix without predictions says nothing about the length
        whole = seen.target or seen.labels is None or bool((seen.labels >= 0).all())
        next_token = seen.next_token and whole
        # report a scale once if it is the same at every length; length 1 cannot show it
        scales = {(one.module, round(one.scale, 4)) for one in seen.run}
        if first.time_axis is None and first.attentions:
            checks.append(
                _(
                    "No other lengths or batches were tried: it is unknown which axis "
                    "of the inputs counts tokens."
                )
            )
        for length in LENGTHS:
            try:
                watched = _at_length(watcher, first, (args, kwargs), length)
            except Exception:  # the model does not take this length
                continue
            if watched is None or not watched.found or _is_as_long(watched, first):
                continue
            if _is_broken(watched) and not _is_broken(first):
                checks.append(
                    _(
                        "Length {length:,}: the output is not finite, so the model is "
                        "not made for it.",
                        length=length,
                    )
                )
                continue
            own = observed(watched)
            told = [
                x.module for x in own.run if (x.module, round(x.scale, 4)) in scales
            ]
            judged = (
                frozenset(told) if length > 1 else frozenset(x.module for x in own.run)
            )
            state = replace(seen.state, own_scale=seen.state.own_scale | judged)
            own = replace(own, next_token=next_token, state=state)
            certificates.append(certificate_of(watched, own))
            checks.append(
                ngettext(
                    "Length {length:,}: {n} attention, within {worst:.2g}.",
                    "Length {length:,}: {n} attentions, within {worst:.2g}.",
                    len(watched.attentions),
                    length=length,
                    worst=certificates[-1].worst,
                )
            )
    return together(certificates, (*checks, *calls.sentences))


@contextmanager
def _without(watcher: Watcher) -> Iterator[None]:
    """Clear the tokens and labels, which belong to the first call only."""
    kept = watcher.tokens, watcher.labels
    watcher.tokens, watcher.labels = (None, None), None
    try:
        yield
    finally:
        watcher.tokens, watcher.labels = kept


def _is_broken(watched: Watched) -> bool:
    output = first_tensor(watched.output)
    return output is not None and not bool(torch.isfinite(output).all())


def _is_as_long(watched: Watched, first: Watched) -> bool:
    """Whether attention kept its length although the input changed (broadcasting)."""
    lengths = [[x.weights.shape[2:] for x in w.found] for w in (watched, first)]
    given = [[x.shape for x in (*w.sources, *w.targets)] for w in (watched, first)]
    return lengths[0] == lengths[1] and given[0] != given[1]


def _at_length(
    watcher: Watcher, first: Watched, given: Given, length: int
) -> Watched | None:
    """Watch the call with inputs of another length: repeated or truncated.

    Every dimension as long as the source or the target follows; given masks can only
    be truncated.
    """
    inputs = [x for x in (*first.sources[-1:], *first.targets[-1:]) if x.dim() > 1]
    axis = first.time_axis
    if not inputs or axis is None:
        return None
    old = {x.shape[axis] for x in inputs}
    unclear = inputs[0].shape[1 - axis] in old  # batch and length are equal
    pads = {watcher.pad} if watcher.pad is not None else set[int]()
    for part in watcher.model.modules():
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            pads.add(part.padding_idx)
    shapes = {x.shape for x in inputs}  # also of the masks that belong to them
    tensors = [x for x in tree_leaves(given) if isinstance(x, Tensor)]
    whole = (x for x in tensors if x.shape in shapes and not x.is_floating_point())
    left = any(_begins_with_padding(x, axis, pads) for x in whole)

    def stretched(x: Tensor) -> Tensor:
        is_input = any(is_same(x, one) for one in inputs)
        for at in [axis] if is_input else along(x, old):
            if (length > x.shape[at] or unclear) and not is_input:
                raise ValueError("a mask of another length cannot be made")
            if length <= x.shape[at]:
                start = x.shape[at] - length if left else 0
                x = x.narrow(at, start, length)
            else:
                x = _repeated(x, at, length, pads)
        return x

    args, kwargs = tree_map(
        lambda x: stretched(x) if isinstance(x, Tensor) else x, given
    )
    return watcher(*args, **kwargs)


def _repeated(x: Tensor, axis: int, length: int, pads: set[int]) -> Tensor:
    """Repeat an input's tokens up to a length, leaving out padding.

    The first token of a row stays first, even if its id is that of padding.
    """
    index = torch.arange(length, device=x.device) % x.shape[axis]
    if x.is_floating_point() or x.dim() != 2:
        return x.index_select(axis, index)
    made = []
    for row in x if axis == 1 else x.T:
        real = [word for word in row[1:].tolist() if word not in pads] or [int(row[0])]
        begin = int(row[0]) if int(row[0]) not in pads or len(real) > 1 else real[0]
        made.append([begin, *(real[at % len(real)] for at in range(length - 1))])
    several = torch.tensor(made, dtype=x.dtype, device=x.device)
    return several if axis == 1 else several.T


def _begins_with_padding(x: Tensor, axis: int, pads: set[int]) -> bool:
    """Whether some rows, but not all, begin with padding."""
    if x.dim() != 2:
        return False
    begin = x.select(axis, 0)
    if int(x.max()) <= 1 and int(x.min()) >= 0:  # a mask
        return bool(begin.any()) and not bool(begin.all())
    at = torch.zeros_like(begin, dtype=torch.bool)
    for pad in pads:
        at |= begin == pad
    return bool(at.any()) and not bool(at.all())


# ---- Comparing calls: two ways of calling that should give the same numbers ----------


class CallComparing:
    """Repeats a first call with modified inputs and compares the outputs."""

    def __init__(self, first: Watched, given: Given, seen: Observation) -> None:
        self.model, self.first, self.given, self.seen = (
            first.watcher.model,
            first,
            given,
            seen,
        )
        self.whole = first_tensor(first.output)
        self.axis = first.time_axis
        own = [*first.sources[-1:], *first.targets[-1:]]
        self.inputs = [x for x in own if x.dim() > 1]
        self.sentences: list[str] = []
        self._alone: dict[int, Tensor | None] = {}  # the output of a single batch row

    def observed(self) -> Observation:
        """Return the observation of the first call, completed by all comparisons."""
        if self.whole is None or self.seen.state.dropping or self.seen.state.broken:
            return self.seen
        half = any(one.tolerance >= HALF_TOLERANCE for one in self.seen.attentions)
        half = half or self.whole.dtype not in (torch.float32, torch.float64)
        compared = Comparisons(limit=HALF_APART if half else APART)
        for compare in (self._again, self._equal_rows, self._real_rows):
            compared = self._tried(compare, compared)
        for compare in (self._prefix, self._unused, self._cached):
            compared = self._tried(compare, compared)
        return replace(self.seen, compared=compared, state=self._with_unread())

    def _tried(
        self, compare: Callable[[], dict[str, Any]], known: Comparisons
    ) -> Comparisons:
        try:
            return replace(known, **compare())
        except Exception:  # the model does not accept such a call
            return known

    def _call(self, given: Given, seed: int = 0) -> Tensor | None:
        """Call the model without watching it and return its first output."""
        with same_chances(self.model), plain_paths(), torch.no_grad():
            torch.manual_seed(seed)
            return first_tensor(self.model(*given[0], **given[1]))

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> Given:
        mapped: Given = tree_map(
            lambda x: change(x) if isinstance(x, Tensor) else x, self.given
        )
        return mapped

    def _is_input(self, x: Tensor) -> bool:
        return any(is_same(x, one) for one in self.inputs)

    # ---- the comparisons -------------------------------------------------------------

    def _again(self) -> dict[str, Any]:
        """Repeat the call with other random numbers."""
        assert self.whole is not None
        with layers_made() as made:
            again = self._call(self.given, 1 + torch.initial_seed() % 2**31)
        if again is None or again.shape != self.whole.shape:
            return {}
        apart = worst(again, self.whole.detach())
        self.sentences.append(
            _("The same call twice: they differ by {worst:.2g}.", worst=apart)
        )
        return {"repeated": apart, "layers_made": tuple(made)}

    def _equal_rows(self) -> dict[str, Any]:
        """Compare the last row of the batch alone with a batch of copies of it."""
        if self.axis is None or not self._rows_are_clear():
            return {}
        last = self._rows() - 1
        alone = self._of_one_row(last)
        several = self._call(self._of_rows([last] * ROWS))
        if alone is None or several is None:
            return {}
        at = self._batch_axis(several, alone, ROWS)
        if at is None:
            return {}
        apart = [worst(several.narrow(at, i, 1), alone) for i in range(ROWS)]
        self.sentences.append(
            _(
                "One row alone and in a batch: they differ by {worst:.2g}.",
                worst=max(apart),
            )
        )
        return {"alike": tuple(apart)}

    def _real_rows(self) -> dict[str, Any]:
        """Compare rows of the batch with calls on the single row."""
        if self.axis is None or self._rows() < 2 or not self._rows_are_clear():
            return {}
        assert self.whole is not None
        rows, count = {}, self._rows()
        for row in sorted({0, count // 2, count - 1}, reverse=True):
            alone = self._of_one_row(row)
            at = None if alone is None else self._batch_axis(self.whole, alone, count)
            if alone is None or at is None:
                return {}
            rows[row] = worst(self.whole.detach().narrow(at, row, 1), alone)
        self.sentences.append(
            _(
                "Rows of the batch against the same rows alone: they differ by "
                "{worst:.2g}.",
                worst=max(rows.values()),
            )
        )
        return {"rows": rows}

    def _rows(self) -> int:
        given = self.first.sources or self.first.targets
        assert self.axis is not None
        return given[-1].shape[1 - self.axis]

    def _rows_are_clear(self) -> bool:
        """Whether the batch axis of every mask is unambiguous."""
        assert self.axis is not None
        rows = self._rows()
        if rows not in {x.shape[self.axis] for x in self.inputs}:
            return True
        tensors = [x for x in tree_leaves(self.given) if isinstance(x, Tensor)]
        return all(self._is_input(x) for x in tensors if rows in x.shape)

    def _of_one_row(self, row: int) -> Tensor | None:
        if row not in self._alone:
            only = self.whole if self._rows() == 1 else None
            self._alone[row] = (
                self._call(self._of_rows([row])) if only is None else only.detach()
            )
        return self._alone[row]

    def _of_rows(self, at: list[int]) -> Given:
        assert self.axis is not None
        axis, rows = 1 - self.axis, self._rows()

        def chosen(x: Tensor) -> Tensor:
            for dim in (axis, 0, 1):  # a mask may have its batch on another axis
                if x.dim() > dim and x.shape[dim] == rows:
                    return x.index_select(dim, torch.tensor(at, device=x.device))
            return x

        return self._mapped(chosen)

    def _batch_axis(self, whole: Tensor, alone: Tensor, rows: int) -> int | None:
        """Return the batch axis: the only one in which the two shapes differ."""
        assert self.axis is not None
        for at in (1 - self.axis, 0, 1):
            shape = list(alone.shape)
            if at < len(shape) and shape[at] == 1:
                shape[at] = rows
                if shape == list(whole.shape):
                    return at
        return None

    def _prefix(self) -> dict[str, Any]:
        """Compare a causal pass with one whose last token is replaced."""
        inputs = (self.first.targets or self.first.sources)[-1]
        axis, whole, given = self.axis, self.whole, self.seen.given
        own = [one for one in self.seen.attentions if one.kind == "decoder"]
        causal = bool(own) and all(is_causal(one.weights) for one in own)
        if axis is None or whole is None or not (causal or self.seen.next_token):
            return {}
        before, sides = inputs.shape[axis] - 1, [*self._sides().values()]
        other = self._changed(inputs)
        if other is None or whole.dim() != 3 or whole.shape[axis] != before + 1:
            return {}
        if before < 1 or (len(sides) > 1 and is_same(*sides)):
            return {}
        parts = inputs.narrow(axis, 0, before), other.narrow(axis, before, 1)
        part = self._call(self._instead(inputs, torch.cat(parts, axis)))
        if part is None or part.shape != whole.shape:
            return {}
        pad, moved = self.seen.pad, False
        whole, part = (x.detach().narrow(axis, 0, before) for x in (whole, part))
        if not inputs.is_floating_point():
            words = (inputs if axis == 1 else inputs.T).cpu().numpy()
            if given is not None and not np.array_equal(given, words):
                moved = np.array_equal(np.sort(given), np.sort(words))
            # padded rows are unconstrained
            real = torch.from_numpy((words != pad).all(1).nonzero()[0]).to(whole.device)
            whole, part = (x.index_select(1 - axis, real) for x in (whole, part))
        apart = worst(whole, part)
        self.sentences.append(
            _(
                "A pass against the pass with another last token: before it they "
                "differ by {worst:.2g}.",
                worst=apart,
            )
        )
        return {"prefix": apart, "moved": moved}

    def _instead(self, own: Tensor, other: Tensor) -> Given:
        """Return the arguments with one tensor replaced."""
        return self._mapped(lambda x: other.to(x.device) if is_same(x, own) else x)

    def _unused(self) -> dict[str, Any]:
        """Change the source tokens, then the target tokens, and compare."""
        whole, sides = self.whole, self._sides()
        if len(sides) < 2 or is_same(*sides.values()):
            return {}
        if whole is None or whole.isnan().any():
            return {}
        unused = []
        for side, own in sides.items():
            other, leaves = self._changed(own), tree_leaves(self.given)
            given = [x for x in leaves if isinstance(x, Tensor) and is_same(x, own)]
            if other is None or not given:
                continue
            output = self._call(self._instead(own, other))
            if output is not None and torch.equal(output, whole.detach()):
                unused.append(side)
        return {"unused": tuple(unused)}

    def _sides(self) -> dict[str, Tensor]:
        """Return source and target as found by attention, else by argument name."""
        attended = {"source": self.first.sources, "target": self.first.targets}
        named = [x for x in self.first.inputs if not goes_with_another(x.name)]
        sides = {
            side: own or [x.tensor for x in named if x.side == side]
            for side, own in attended.items()
        }
        return {side: own[-1] for side, own in sides.items() if own}

    def _changed(self, own: Tensor) -> Tensor | None:
        """Return an input with its real tokens replaced by others."""
        if own.is_floating_point():
            return own.flip(-1) + 1
        if own.dtype == torch.bool or self.axis is None or own.dim() < 2:
            return None
        words = own.unique()
        words = words[words != self.seen.pad] if self.seen.pad is not None else words
        if len(words) < 2:
            return None
        other = own.clone()
        for word, then in zip(words, words.roll(1), strict=True):
            other[own == word] = then
        return other

    def _cached(self) -> dict[str, Any]:
        """Call a transformers model with the last token and a cache of the others."""
        output, whole = self.first.output, self.whole
        names = set(output) if isinstance(output, Mapping) else set()
        name = next(iter(names & CACHES), None)
        if name is None or whole is None:
            return {}
        own = (self.first.targets or self.first.sources)[-1]
        if own.dim() != 2 or own.is_floating_point() or own.shape[1] < 3:
            return {}
        before, last = (
            self._mapped(lambda x, part=part: x[:, part] if is_same(x, own) else x)  # type: ignore[misc]
            for part in (slice(None, -1), slice(-1, None))
        )
        alone = not self.first.targets
        cut = tree_map(
            lambda x: (
                x[:, :-1]
                if alone and isinstance(x, Tensor) and x.shape == own.shape
                else x
            ),
            before,
        )
        with same_chances(self.model), torch.no_grad():
            kept = self.model(*cut[0], **{**cut[1], "use_cache": True})
            past = {name: kept[name], "use_cache": True}
            step = first_tensor(self.model(*last[0], **{**last[1], **past}))
        wanted = whole.detach()[:, -1:]
        if step is None or step.shape != wanted.shape:
            return {}
        apart = worst(step, wanted)
        self.sentences.append(
            _(
                "The last token with the cache of the others, and a full pass: they "
                "differ by {worst:.2g}.",
                worst=apart,
            )
        )
        return {"cached": (_("output"), own.shape[1] - 1, apart)}

    # ---- heads that nothing reads ----------------------------------------------------

    def _with_unread(self) -> ModelState:
        """Return the model's state with the heads whose output columns are 0."""
        several = [one for one in self.seen.attentions if one.weights.shape[1] > 1]
        try:
            found = tuple(self._unread(several))
        except Exception:  # a custom module
            found = ()
        return replace(self.seen.state, unread=found)

    def _unread(self, attentions: list[WatchedAttention]) -> Iterator[UnreadHead]:
        modules = dict(self.model.named_modules())
        for one in attentions:
            heads, size = one.weights.shape[1], one.values.shape[3]
            parts = modules.get(one.module, nn.Identity()).named_modules(
                prefix=one.module
            )
            for name, part in parts:
                weight = getattr(part, "weight", None)
                if not isinstance(weight, Tensor) or weight.dim() != 2:
                    continue
                if not isinstance(part, nn.Linear):
                    weight = weight.T  # GPT-2 stores it transposed
                if weight.shape[1] != heads * size:
                    continue
                used = weight.detach().unflatten(1, (heads, size)).ne(0).any(2).any(0)
                dead = [at for at in range(heads) if not used[at]]
                if dead and len(dead) < heads and self._is_given(part, one):
                    yield from (
                        UnreadHead(one.module, at, f"{name}.weight") for at in dead
                    )

    def _is_given(self, part: nn.Module, one: WatchedAttention) -> bool:
        """Whether a module's input is the output of an attention's heads."""
        if isinstance(part, nn.modules.linear.NonDynamicallyQuantizableLinear):
            return True  # torch.nn.MultiheadAttention does not call its projection
        group = one.weights.shape[1] // one.values.shape[1]
        made = one.weights @ np.repeat(one.values, group, 1)  # [B, H, Q, e]
        rows, _heads, queries, _size = made.shape
        made = made.transpose(0, 2, 1, 3).reshape(rows, queries, -1)
        seen: list[Tensor] = []
        handle = part.register_forward_pre_hook(lambda _m, args: seen.append(args[0]))
        try:
            self._call(self.given)
        finally:
            handle.remove()
        for x in seen:
            given = x.detach().float().cpu().numpy()
            for own in (made, made.swapaxes(0, 1)):
                if given.size == own.size and np.allclose(
                    given.reshape(-1, own.shape[2]),
                    own.reshape(-1, own.shape[2]),
                    atol=1e-4,
                ):
                    return True
        return False


@contextmanager
def layers_made() -> Iterator[list[str]]:
    """Collect the types and sizes of the layers created inside the context."""
    made: dict[str, None] = {}

    def note(module: nn.Module, name: str, tensor: nn.Parameter | None) -> None:
        if tensor is not None:
            sizes = " x ".join(map(str, tensor.shape))
            made[f"{type(module).__name__}.{name} [{sizes}]"] = None

    handle = register_module_parameter_registration_hook(note)
    names: list[str] = []
    try:
        yield names
    finally:
        handle.remove()
        names += made


def is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal."""
    return one.shape == other.shape and torch.equal(one.detach().cpu(), other)


def along(x: Tensor, sizes: set[int]) -> list[int]:
    """Return the dimensions as long as the inputs, except features."""
    features = x.dim() - 1 if x.is_floating_point() and x.dim() > 2 else -1
    square = x.dim() > 2 and x.shape[-1] == x.shape[-2]  # a mask
    return [
        at for at, n in enumerate(x.shape) if n in sizes and (at != features or square)
    ]
