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
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence
from torch.utils._python_dispatch import _disable_current_modes

from visformer.watching.axes import INPUT, DataDimension, DataDimensions, fresh
from visformer.watching.captured import Apart, worst
from visformer.watching.inputs import IdsRead, InputMarks
from visformer.watching.ledger import COMPUTED, Known
from visformer.watching.recorder import Recorder
from visformer.watching.row_tokens import words_first

_NAME = "jagged_scaled_dot_product_attention"


@contextmanager
def jagged_attention(recorder: Recorder, marks: InputMarks, pad: int) -> Iterator[None]:
    """Follow torch's attention over jagged nested tensors while this lasts.

    ``pad`` is the id of the places that a sentence does not reach.
    """
    with patch.object(ops, _NAME, _Followed(recorder, marks, pad, getattr(ops, _NAME))):
        yield


class _Followed:
    """Torch's function, whose results are its own, and what is told of each call."""

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
        again = scaled_dot_product_attention(q, k, v, attn_mask=mask, **more)
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
        """Return the same numbers, [B, H, N, d], of which as much is known.

        The ids of its tokens are as if an embedding had been given them padded.
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
    """Return the ids of all sentences, one after the other, as they were looked up."""
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
    """[B, H, j, d] -> [B, H, N, d], with zeros after the end of each sentence."""
    several = nested.detach().transpose(1, 2).unbind()  # of [j, H, d]
    return pad_sequence([*several], batch_first=True).transpose(1, 2)


def _real(nested: Any) -> Tensor:
    """Return which places of the padded tokens are real, bool [B, N]."""
    lengths = nested.lengths()
    lengths = nested.offsets().diff() if lengths is None else lengths
    real: Tensor = torch.arange(int(lengths.max())).to(lengths) < lengths[:, None]
    return real
