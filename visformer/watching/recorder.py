"""Recorder: sees every operation of a pass and finds the attention among them."""

import logging
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._compile import _disable_dynamo
from torch._ops import HigherOrderOperator
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import TorchDispatchMode

from visformer.errors import stack_words
from visformer.watching.axes import (
    INPUT,
    MADE,
    DataDimensions,
    better,
    elsewhere,
    fresh,
    size_of,
)
from visformer.watching.axis_rules import (
    MATRIX,
    MOVES,
    REDUCTIONS,
    REGROUPS,
    SCALINGS,
    done_by_parts,
    factor_of,
    ids_looked_up,
    is_composite,
    is_count,
    is_pointwise,
    left_out,
    of_product,
    picks,
    puts_anew,
    results_of,
    sums_to_one,
    tensors_in,
)
from visformer.watching.captured import Captured, Unclear, again, grouped, in_pieces
from visformer.watching.finding_attention import captured, has_one_key, one_key_product
from visformer.watching.ledger import (
    CHOSEN,
    COMPUTED,
    CONSTANT,
    LEARNED,
    VERBATIM,
    Known,
    Ledger,
    ScoreProduct,
    ScoreTrail,
    SeenInstead,
    doing_again,
    follow_edit,
    is_attribute,
    is_from_outside,
    mixes_positions,
    safe_softmax,
    storage_of,
    with_sum,
)
from visformer.watching.module_calls import ModuleCall, ModuleCalls
from visformer.watching.pass_changes import PassChanges

log = logging.getLogger(__name__)
SOFTMAX = {"_softmax", "_safe_softmax"}
DRAWN = {"bernoulli_", "bernoulli", "rand", "rand_like", "uniform_"}
KERNEL = re.compile(r"attention|attn")
CHOICES = {"argmax", "argmin", "topk", "max", "min", "sort", "argsort", "multinomial"}
HANDED_ON = {  # operations that return integers unchanged
    *(*MOVES, *REGROUPS, "slice", "select", "unbind", "split", "split_with_sizes"),
    *("cat", "stack", "transpose", "t", "permute", "expand", "clone", "_to_copy"),
    *("copy", "copy_", "masked_fill", "masked_fill_", "where", "fill_", "index_put_"),
    *("scatter", "scatter_", "constant_pad_nd", "detach", "alias", "masked_scatter"),
    *("lift_fresh", "chunk", "narrow", "index_copy", "slice_scatter", "select_scatter"),
}
SUMS = {"add", "sub", "add_", "sub_"}
JOINS = SUMS | {"cat", "stack", "lerp", "addcmul", "addcmul_", "where", "mul"}
LIKE = {  # operations that only use the shape of their input
    *("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"),
    *("new_zeros", "new_ones", "new_full", "new_empty"),
}
FUSED = {
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
}


class Recorder(TorchDispatchMode):
    """A dispatch mode that runs every operation unchanged and records attention."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Do without torch's guard, which imports the compiler: that takes 2 s."""
        return False

    def __init__(
        self,
        ledger: Ledger,
        calls: ModuleCalls,
        embeds: Callable[[ModuleCall, Tensor, Tensor, Tensor], None],
        changes: PassChanges | None = None,
    ) -> None:
        """``embeds`` is called with the table, ids and result of every embedding.

        ``changes`` are made of the attention that is found.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        torch.clear_autocast_cache()  # so that casts of weights are seen again
        self.ledger, self.calls, self._embeds = ledger, calls, embeds
        self.changes = changes
        self.found: list[Captured] = []
        self.seen: Counter[SeenInstead] = Counter()
        self.batch_size = 1
        self.operations = 0
        self.dropout: Counter[str] = Counter()  # by module
        self.multiplied: set[int] = set()  # ids of storages of weights in products
        self.joined = 0  # marks in sums whose other term lacks them
        self._waiting: dict[ScoreTrail, SeenInstead] = {}  # softmaxes not yet used
        self._outside: WeakKeyDictionary[object, SeenInstead] = WeakKeyDictionary()
        self._before: Counter[SeenInstead] = Counter()  # before the first attention
        self._mixers: dict[ScoreProduct, SeenInstead] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operation and record its result; none of this is ever compiled."""
        compiles = "torch._dynamo" in sys.modules
        recorded = self._uncompiled if compiles else self._recorded
        return recorded(func, types, args, dict(kwargs or {}))

    def _recorded(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...],
        given: dict[str, Any],
    ) -> Any:
        if torch._C._current_graph_task_id() != -1:  # a backward pass
            return func(*args, **given)
        if isinstance(func, HigherOrderOperator):
            return self._higher_order(func, args, given)
        if any(issubclass(one, NestedTensor) for one in types):
            return NotImplemented  # it then runs visible operations on its values
        ins = tensors_in((*args, *given.values()))
        if self._is_nested(ins):
            return func(*args, **given)
        if is_composite(func):
            with self:
                return func._op_dk(
                    DispatchKey.CompositeImplicitAutograd, *args, **given
                )
        out = func(*args, **given)
        self.operations += 1
        name = func._schema.name.rpartition("::")[2]
        if name == "native_dropout" and len(args) > 2 and args[2] is False:
            name = "clone"  # nothing is dropped
        try:
            if not self._is_nested(tensors_in((out,))):
                self._note(func, name, args, given, ins, out)
        except Exception as error:  # must not disturb the model
            log.debug("%s: %s", name, stack_words(error))
            self.see("unknown", name=name)
        return out

    _uncompiled = _disable_dynamo(_recorded)

    def _higher_order(
        self, func: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        name = func.name()
        seen = done_by_parts(self, name, args, kwargs)
        if seen is not None:
            return seen
        out = func(*args, **kwargs)
        ins, outs = tensors_in((*args, *kwargs.values())), tensors_in((out,))
        marks = self.ledger.marks(ins)
        if marks:
            self.see("kernel" if KERNEL.search(name) else "unknown", name=name)
        for one in outs:
            known = Known(fresh(one.shape, MADE), COMPUTED if marks else CONSTANT)
            self.ledger.learn(one, known, marks)
        return out

    def _is_nested(self, several: list[Tensor]) -> bool:
        """Whether there are nested tensors among arguments or results; records it."""
        nested = any(one.is_nested for one in several)
        if nested:
            self.seen[SeenInstead("nested", "", 0)] += 1
        return nested

    def finish(self) -> None:
        """Record the softmaxes and products that were never used."""
        for seen in self._waiting.values():
            if seen.size > 1:
                self.seen[seen] += 1
        self.seen.update(self._mixers.values())
        if not self.found:
            self.seen.update(self._before)
        self._waiting, self._mixers = {}, {}

    # ---- what is known about a result ------------------------------------------------

    def _note(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        ins: list[Tensor],
        out: Any,
    ) -> None:
        ledger = self.ledger
        self._see_outside(name, ins, out)
        knowns, trail = [ledger.known(one) for one in ins], None
        if name in LIKE:
            return self._note_like(name, args, ins, knowns, out)
        if (ids := ids_looked_up(name, args, ins, ledger)) is not None:
            self._embeds(self.calls.current, ins[0], ids, out)
            knowns = [ledger.known(one) for one in ins]
        marks = self._marks_after(name, ins)
        if name in FUSED:
            marks |= fused_attention(self, func, name, args, kwargs, out)
        elif name in MATRIX:
            marks |= self._product(func, name, args, kwargs, out, marks)
            return
        elif KERNEL.search(name) and marks and "backward" not in name:
            self.see("kernel", name=name)
        elif marks and mixes_positions(name, args, ins, ledger):
            self._see_mixing(name, marks)
        if marks and name == "mul" and self._weighs_one_key(ins, knowns, out):
            marks |= self.found[-1].mark
        else:
            trail = self._next_trail(func, name, args, kwargs, ins, knowns, out)
        looks_up = ids is not None and not is_count(ids, ledger)
        own = COMPUTED if marks or looks_up else CONSTANT
        state = max([own, *(known.state for known in knowns)])
        factor = factor_of(name, args, ins, knowns)
        random = self._draws(name, knowns)
        stands = is_pointwise(func) or KERNEL.search(name) is not None
        again = doing_again(func, args, kwargs, ins[0]) if name in MOVES else None
        told_of = name, args, ins, knowns, ledger, out, again
        results = results_of(*told_of, pointwise=stands)
        weighs = self._weighed(name, args, ins, knowns) if marks and not trail else None
        picked = tuple(dict.fromkeys(pick for known in knowns for pick in known.picked))
        counts = name == "arange" or any(known.counts for known in knowns)
        gives = bool(marks) and self._gives(name, knowns)
        self._see_joined("" if trail else name, ins, marks)
        in_place = bool(args) and out is args[0]
        blank = in_place and not ledger.marks(ins[:1])
        for at, (one, dimensions) in enumerate(results):
            if name in CHOICES and not one.is_floating_point():
                marks = CHOSEN if marks else 0
            more = picks(name, args, ins, ledger, at) if marks else ()
            told = dimensions, state, factor, random and not trail, (*picked, *more)
            out_of = left_out(name, knowns, dimensions) if marks else 0
            more_told = trail, weighs, counts, gives, out_of
            ledger.learn(one, Known(*told, *more_told), marks)
            trail = trail if name in ("split", "split_with_sizes", "unbind") else None
        if in_place:
            anew = puts_anew(name, args, ins, ledger)
            ledger.rewrite(out, knowns[0].dimensions, anew=anew, blank=blank)
            follow_edit(ledger, func, args, kwargs)

    def _draws(self, name: str, knowns: list[Known]) -> bool:
        """Whether a result is drawn; dropout, which is counted, only scales one."""
        if name in ("native_dropout", "bernoulli_"):
            self.dropout[self.calls.current.path] += 1
        drawn = name in DRAWN or any(known.random for known in knowns)
        return drawn and name != "native_dropout"

    def _note_like(
        self,
        name: str,
        args: tuple[Any, ...],
        ins: list[Tensor],
        knowns: list[Known],
        out: Any,
    ) -> None:
        """Record the result of an operation that only uses shapes, like zeros_like."""
        ledger = self.ledger
        weights = any(known.trail for known in knowns)
        told_of = name, args, ins, knowns, ledger, out, None
        for one, dimensions in results_of(*told_of, pointwise=True):
            own = dimensions if weights else elsewhere(dimensions)
            ledger.learn(one, Known(own, random=name in DRAWN), 0)

    def _see_outside(self, name: str, ins: list[Tensor], out: Any) -> None:
        """Record tensors computed outside torch when activations meet them."""
        for one in ins:
            outside = is_from_outside(name, one, self.ledger, self.batch_size)
            if outside and not is_attribute(one, self.calls.modules):
                own = SeenInstead("outside", self.calls.current.path, 0)
                self._outside[storage_of(one)] = own
        if not self._outside:
            return
        read = ins[-2:] if name in MATRIX else ins[:3] if name in FUSED else ins
        found = [self._outside.get(storage_of(one)) for one in read]
        seen = next((one for one in found if one is not None), None)
        products = name in MATRIX or name in FUSED
        scores = any(self.ledger.known(one).trail for one in ins)
        if seen is None or (scores and not products):
            return
        for one in tensors_in((out,)):
            if products or (self.ledger.marks(ins) and one.is_floating_point()):
                self.seen[seen] += 1
            elif one.dtype != torch.bool:
                self._outside[storage_of(one)] = seen

    def _see_joined(self, name: str, ins: list[Tensor], marks: int) -> None:
        several = [x for x in ins if x.is_floating_point()] if name in JOINS else []
        for part in filter(None, (self.ledger.marks([x]) for x in several)):  # not bias
            self.joined |= marks & ~part

    def _see_mixing(self, name: str, marks: int) -> None:
        """Record position mixing, except convolutions before any attention."""
        after = any(marks & one.mark for one in self.found)
        seen = SeenInstead("mixing", self.calls.current.path, 0, name)
        (self.seen if after or name != "convolution" else self._before)[seen] += 1

    def _marks_after(self, name: str, ins: list[Tensor]) -> int:
        """Return the marks of a result."""
        marks = self.ledger.marks(ins)
        if name in MOVES:  # indices move values, but the result does not hold them
            marks &= ~CHOSEN | self.ledger.marks(ins[:1])
        return marks if name in HANDED_ON else marks & ~VERBATIM

    def _weighed(
        self, name: str, args: tuple[Any, ...], ins: list[Tensor], knowns: list[Known]
    ) -> SeenInstead | None:
        """Return the non-attention softmax that a result is computed from."""
        if name in SOFTMAX and knowns[0].state == COMPUTED:
            size = ins[0].shape[args[1]]
            return SeenInstead("other scores", self.calls.current.path, size)
        if name in REDUCTIONS:
            return None
        found = [(x, k.weighs) for x, k in zip(ins, knowns, strict=True) if k.weighs]
        for weights, weighs in found if name in ("mul", "mul_") else ():
            spread = [x for x in ins if x.numel() > weights.numel()]
            if self.ledger.marks(spread) and weighs.size > 1:  # a router, for example
                self.seen[weighs] += 1
        return found[0][1] if found else None

    def _next_trail(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        ins: list[Tensor],
        knowns: list[Known],
        out: Any,
    ) -> ScoreTrail | None:
        on = [(x, k) for x, k in zip(ins, knowns, strict=True) if k.trail is not None]
        softmax = name in SOFTMAX
        if not on:
            return None
        tensor, known = max(on, key=lambda pair: pair[0].numel())
        before = known.trail
        assert before is not None
        if name in REDUCTIONS and not (before.normalised() and _of_heads(args, known)):
            return None
        others = tuple(
            k.trail
            for _x, k in on
            if k.trail is not None
            and k.trail.product is not before.product
            and k.trail.normalised()
        )
        again = doing_again(func, args, kwargs, tensor)
        if name == "native_dropout":
            mask, left = out[1], 1 / (1 - args[1]) if args[1] < 1 else 0.0

            def again(given: Tensor) -> Tensor:
                dropped: Tensor = given * mask * left
                return dropped

        made = ScoreTrail(
            product=before.product,
            before=before,
            again=again,
            operation=name,
            softmax=(known.dimensions[args[1]], known.dimensions) if softmax else None,
            random=name == "native_dropout" or any(k.random for k in knowns),
            others=others,
        )
        if softmax:
            size = tensor.shape[args[1]]
            path = self.calls.current.path
            self._waiting[made] = SeenInstead("no product", path, size)
        return made

    def _gives(self, name: str, knowns: list[Known]) -> bool:
        """Whether a result is still an attention's output; records sums of two."""
        if name in FUSED:
            return True
        if name not in SUMS:
            own = name in HANDED_ON or name in SCALINGS
            return own and any(x.gives for x in knowns)
        if len(knowns) == 2 and all(x.gives for x in knowns):
            one, other = (
                ([a for d in x.dimensions for a in d if a.origin == INPUT], x.picked)
                for x in knowns
            )
            if one == other:
                self.see("together")
        return False

    def see(self, reason: str, size: int = 0, name: str = "") -> None:
        """Record something other than attention for the running module."""
        of_choices = reason in ("other scores", "axes")
        if of_choices and size < 2:  # a single choice is no weighting
            return
        self.seen[SeenInstead(reason, self.calls.current.path, size, name)] += 1

    # ---- products --------------------------------------------------------------------

    def _product(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Tensor,
        marks: int,
    ) -> int:
        """Record a matrix product and return the marks of its result."""
        plus = len(args) > 2
        left, right = args[-2:] if not plus else args[1:3]
        first, second = self.ledger.known(left), self.ledger.known(right)
        self.multiplied |= {
            id(storage_of(x))
            for x, known in ((left, first), (right, second))
            if known.state == LEARNED
        }
        of_left, of_right = self.ledger.marks([left]), self.ledger.marks([right])
        trail: ScoreTrail | None = None
        attention = False
        for known, tensor, others, is_left in (
            (first, left, (second, of_right, right), True),
            (second, right, (first, of_left, left), False),
        ):
            if known.weighs and others[1] and known.weighs.size > 1:
                self.seen[known.weighs] += 1  # weighs activations, as attention does
            if known.trail is None or attention:
                continue
            if others[0].state == COMPUTED:  # or learned queries
                if known.trail.normalised() and not plus:
                    attention = self._attend(
                        known, tensor, others[2], others[1], out, left=is_left
                    )
                    self.change(attention, out)
            elif others[0].state != COMPUTED:
                again = doing_again(func, args, kwargs, tensor)
                trail = ScoreTrail(known.trail.product, known.trail, again, name)
        dimensions = of_product(first, second)
        activations = first.state == second.state == COMPUTED
        if activations and not attention and trail is None:
            made = self.score_product(left, right, first, second, (of_left, of_right))
            dimensions = (*made.shared, made.left_rows, made.right_columns)
            trail = ScoreTrail(made)
            if plus:
                trail = with_sum(trail, name, args[0], kwargs)
        if attention:
            marks |= self.found[-1].mark
        state = COMPUTED if max(first.state, second.state) > CONSTANT else CONSTANT
        picked = tuple(dict.fromkeys((*first.picked, *second.picked)))
        known = Known(dimensions, state, picked=picked, trail=trail, gives=attention)
        self.ledger.learn(out, known, marks)
        return marks

    def _weighs_one_key(
        self, ins: list[Tensor], knowns: list[Known], out: Tensor
    ) -> bool:
        """Whether a multiplication is an attention over one key; records it."""
        for at, known in enumerate(knowns):
            if not has_one_key(known.trail):
                continue
            values = ins[1 - at] if len(ins) == 2 else None
            if values is None or knowns[1 - at].trail is not None:
                continue
            marks = self.ledger.marks([values])
            made = one_key_product(known, ins[at], values, out)
            if made is not None and marks and knowns[1 - at].state == COMPUTED:
                given = made.weights, made.values, marks, made.result
                found = self._attend(made.known, *given, left=True)
                self.change(found, out, made.arranged)
                return found
        return False

    def score_product(
        self,
        left: Tensor,
        right: Tensor,
        first: Known,
        second: Known,
        marks: tuple[int, int],
    ) -> ScoreProduct:
        """Return a product of two activations."""
        before = second.dimensions[-1]
        contracted = (*first.dimensions[-1], *second.dimensions[-2])
        call = self.calls.current
        made = ScoreProduct(
            left=left.detach(),
            right=right.detach(),
            picked=(first.picked, second.picked),
            shared=tuple(map(better, first.dimensions[:-2], second.dimensions[:-2])),
            own_shared=(first.dimensions[:-2], second.dimensions[:-2]),
            summed=contracted,
            left_rows=first.dimensions[-2],
            right_columns=tuple(axis.copy() for axis in before),
            right_before=before,
            factors=(first.factor, second.factor),
            marks=marks,
            module=call.path,
            call=call.number,
        )
        mixes = any(axis.origin == INPUT for axis in contracted) and all(marks)
        weighed = any(k.trail and k.trail.normalised() for k in (first, second))
        if mixes and not weighed:
            self._mixers[made] = SeenInstead("no softmax", call.path, 0)
        return made

    def _attend(
        self,
        known: Known,
        weights: Tensor,
        values: Tensor,
        value_marks: int,
        result: Tensor,
        *,
        left: bool,
    ) -> bool:
        trail = known.trail
        assert trail is not None
        if not any(step.softmax for step in trail.steps()) and not sums_to_one(
            weights, -1 if left else -2
        ):
            return False
        steps = trail.steps()
        for step in [*steps, *(x for s in steps for o in s.others for x in o.steps())]:
            self._waiting.pop(step, None)
        found = (weights, known.dimensions), (values, value_marks)
        return self.capture(trail, *found, result, left=left)

    def capture(
        self,
        trail: ScoreTrail,
        weights: tuple[Tensor, DataDimensions],
        values: tuple[Tensor, int],
        result: Tensor,
        *,
        left: bool = True,
    ) -> bool:
        """Record an attention; returns False, and records why, if axes are unclear.

        ``values`` come with their marks; ``left`` is False if the weights are the right
        factor of ``result``.
        """
        self._mixers.pop(trail.product, None)
        try:
            found = captured(
                trail,
                weights,
                *values,
                result,
                left=left,
                batch_size=self.batch_size,
                call=self.calls.current,
                mark=self.ledger.new_mark(),
                bare=self.changes is not None,
            )
        except Unclear:
            self.see("axes", size_of(weights[1][-1 if left else -2]))
            return False
        self.found.append(found)
        if in_pieces(trail.product):
            self.see("pieces")
        return True

    def change(
        self,
        found: bool,
        out: Tensor,
        arranged: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Change the attention that was ``found`` last, whose result is in ``out``."""
        if found and self.changes is not None:
            spots = torch.arange(out.numel()).view(out.shape)
            one = self.found[-1]
            self.changes.attend(
                one, out, one.in_order(arranged(spots) if arranged else spots)
            )


def _of_heads(args: tuple[Any, ...], known: Known) -> bool:
    """Whether a sum or mean of weights runs over the heads only."""
    several = args[1] if len(args) > 1 and isinstance(args[1], list) else []
    gone = {axis for at in several for axis in known.dimensions[at]}
    shared = known.trail.product.shared if known.trail else ()
    return bool(gone) and gone <= {axis for one in shared for axis in one}


# ---- Fused kernels: the weights are recomputed beside the kernel ---------------------


def fused_attention(
    recorder: Recorder,
    func: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    out: Any,
) -> int:
    """Record the attention of a fused kernel; returns the mark of its result."""
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    query, key, value = (given[name] for name in names[:3])  # [B, H, N, d]
    marks = [recorder.ledger.marks([one]) for one in (query, key, value)]
    product = _product(recorder, query, key, (marks[0], marks[1]))
    trail = _trail(product, name, given)
    dimensions = (*product.shared, product.left_rows, product.right_columns)
    weights = again(trail).weights
    result = out[0] if isinstance(out, tuple | list) else out
    values = grouped(value, query.shape[1]), marks[2]
    if not recorder.capture(trail, (weights, dimensions), values, result):
        return 0
    recorder.change(True, result)
    return recorder.found[-1].mark


def _product(
    recorder: Recorder, query: Tensor, key: Tensor, marks: tuple[int, int]
) -> ScoreProduct:
    of_query, of_key = map(recorder.ledger.known, (query, key))
    *shared, rows, depth = of_key.dimensions
    turned = replace(of_key, dimensions=(*shared, depth, rows))
    right = grouped(key.detach().float(), query.shape[1]).mT
    return recorder.score_product(query.float(), right, of_query, turned, marks)


def _trail(product: ScoreProduct, name: str, given: dict[str, Any]) -> ScoreTrail:
    """Return the operations that the kernel fuses."""
    scale = given.get("scale")
    scale = 1 / math.sqrt(product.left.shape[-1]) if scale is None else scale
    bias = given.get("attn_mask", given.get("attn_bias"))
    mask = _mask(product, bias, causal=bool(given.get("is_causal")))

    def masked(numbers: Tensor) -> Tensor:
        return numbers if mask is None else numbers + mask.to(numbers.dtype)

    dimensions = (*product.shared, product.left_rows, product.right_columns)
    scores = ScoreTrail(product, ScoreTrail(product), lambda x: x * scale, name)
    scores = ScoreTrail(product, scores, masked, name)
    return ScoreTrail(
        product,
        scores,
        lambda x: safe_softmax(x, -1),
        name,
        softmax=(dimensions[-1], dimensions),
        random=bool(given.get("dropout_p")),
    )


def _mask(product: ScoreProduct, bias: Tensor | None, *, causal: bool) -> Tensor | None:
    """Return the bias of the scores, [Q, K] or broadcastable to [B, H, Q, K]."""
    if bias is not None:
        if bias.dtype == torch.bool:
            zeros = torch.zeros(bias.shape, device=bias.device)
            return zeros.masked_fill(~bias, -math.inf)
        return bias.detach().float()
    if not causal:
        return None
    shape = product.left.shape[-2], product.right.shape[-1]
    return torch.full(shape, -math.inf, device=product.left.device).triu(1)
