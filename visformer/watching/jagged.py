"""Attention over jagged nested tensors: seen once more on the same numbers, padded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nested._internal import ops
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils._python_dispatch import _disable_current_modes

from visformer.watching.axes import INPUT, DataDimension, DataDimensions, fresh
from visformer.watching.captured import Apart, worst
from visformer.watching.inputs import IdsRead, InputMarks
from visformer.watching.ledger import COMPUTED, Known
from visformer.watching.recorder import Recorder
from visformer.watching.row_tokens import words_first


@contextmanager
def jagged_attention(
    recorder: Recorder, marks: InputMarks, pad: int | None
) -> Iterator[None]:
    """Follow torch's attention over jagged nested tensors while this lasts."""
    name = "jagged_scaled_dot_product_attention"
    followed = _Followed(recorder, marks, pad or 0, getattr(ops, name))
    with patch.object(ops, name, followed):
        yield


class _Followed:
    """Torch's function, whose results are its own, and what is told of each call."""

    def __init__(
        self,
        recorder: Recorder,
        marks: InputMarks,
        pad: int,
        own: Callable[..., Tensor],
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
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        given = attn_mask, dropout_p, is_causal, scale, enable_gqa
        several = query, key, value
        with _disable_current_modes():
            made: Any = self._own(*several, *given)
        heads = all(x.dim() == 4 and x._ragged_idx == 2 for x in several)
        if attn_mask is not None or dropout_p or not heads:
            self._recorder.see("nested")
            return made
        q, k, v = map(self._dense, several)
        may_read = _real(query)[:, None, :, None] & _real(key)[:, None, None]
        before = len(self._recorder.found)
        again = functional.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=may_read.tril() if is_causal else may_read,
            scale=scale,
            enable_gqa=enable_gqa,
        )
        marks = self._recorder.ledger.marks([x._values for x in several])
        with _disable_current_modes():
            real = _real(query)[:, None, :, None]
            apart = worst(_dense(made), again.where(real, 0))
        for one in self._recorder.found[before:]:
            one.apart = Apart.worse([one.apart, Apart(apart, one.apart.allowed)])
            marks |= one.mark
        known = self._recorder.ledger.known(query._values)
        dimensions = *known.dimensions[:2], *fresh(made._values.shape[2:], 0)
        told = Known(dimensions, COMPUTED, gives=True)
        self._recorder.ledger.learn(made._values, told, marks)
        return made

    def _dense(self, nested: Any) -> Tensor:
        """Return the same numbers, [B, H, N, d], of which as much is known."""
        ledger = self._recorder.ledger
        known = ledger.known(nested._values)
        heads, tokens, depth = known.dimensions
        with _disable_current_modes():
            dense = _dense(nested)
        if tokens not in self._axes:
            self._axes[tokens] = fresh((len(dense), dense.shape[2]), INPUT)
            self._name(tokens, nested)
        batch, along = self._axes[tokens]
        own = replace(known, dimensions=(batch, heads, along, depth))
        ledger.learn(dense, own, ledger.marks([nested._values]))
        return dense

    def _name(self, tokens: DataDimension, nested: Any) -> None:
        """Note the ids of what was padded as an embedding would have been given it."""
        found = _flat(tokens, words_first(self._marks.read))
        if found is None:
            return
        with _disable_current_modes():
            real = _real(nested)
            ids = found.ids.new_full(real.shape, self._pad)
            ids[real] = found.ids.flatten()
        self._marks.read.append(found._replace(ids=ids, axes=self._axes[tokens]))


def _flat(tokens: DataDimension, read: list[IdsRead]) -> IdsRead | None:
    """Return the ids of all sequences, one after the other, as they were looked up."""
    if len(tokens) != 1:
        return None
    (axis,) = tokens
    several = [_flat(axes, read) for axes, _size, _marks in axis.parts]
    if several and None not in several:
        parts = [x for x in several if x is not None]
        marks = 0
        for x in parts:
            marks |= x.marks
        return parts[-1]._replace(ids=torch.cat([x.ids for x in parts]), marks=marks)
    for one in read:
        own = [x for dimension in one.axes for x in dimension]
        at = axis.positions_on(own[0]) if len(own) == 1 else None
        if at is not None:
            return one._replace(ids=one.ids.flatten()[at])
    return None


def _dense(nested: Any) -> Tensor:
    """[B, H, j, d] -> [B, H, N, d], with zeros after the end of each sequence."""
    several = nested.detach().transpose(1, 2).unbind()  # of [j, H, d]
    return pad_sequence([*several], batch_first=True).transpose(1, 2)


def _real(nested: Any) -> Tensor:
    """Return which places of the padded tokens are real, bool [B, N]."""
    lengths = nested.lengths()
    lengths = nested.offsets().diff() if lengths is None else lengths
    real: Tensor = torch.arange(int(lengths.max())).to(lengths) < lengths[:, None]
    return real
