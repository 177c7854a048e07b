"""Inputs in a dict, a tuple or an object, and logits beside a loss, are found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from tests.system.watching.faulty_models import built
from visformer.watching.watcher import watch

KINDS = ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]


class Batch(NamedTuple):
    mask: Tensor
    tgt: Tensor
    src: Tensor


class Taking(nn.Module):
    """Takes one argument, out of which it takes its inputs; gives a loss first."""

    def __init__(self, taken: Callable[[Any], tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.inner, self.taken = built("healthy"), taken

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        logits = self.inner(*self.taken(batch))
        return logits.square().mean(), logits


@pytest.mark.parametrize("form", ["dict", "named tuple", "object", "tuple"])
def test_inputs_are_found_in_what_is_given(form: str) -> None:
    torch.manual_seed(6)
    src, tgt = torch.randint(2, 24, (3, 7)), torch.randint(2, 24, (3, 5))
    named = {"mask": src != 0, "tgt": tgt, "src": src}
    given, taken = {
        "dict": (named, lambda batch: (batch["src"], batch["tgt"])),
        "named tuple": (Batch(**named), lambda batch: (batch.src, batch.tgt)),
        "object": (SimpleNamespace(**named), lambda batch: (batch.src, batch.tgt)),
        "tuple": ((src, tgt), lambda batch: batch),
    }[form]
    watched = watch(Taking(taken).eval(), pad=0)(given)
    assert [one.kind for one in watched.attentions] == KINDS
    assert watched.certificate.findings == ()
    trace = watched.traces[1]
    assert trace.source_ids.tolist() == src[1].tolist()
    assert trace.target_ids.tolist() == tgt[1].tolist()
    last = watched.output[1][1, -1].softmax(-1)
    assert trace.steps[-1].id == last.argmax()


def test_names_tell_which_side_is_which_in_any_order() -> None:
    class Reversed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = built("healthy")

        def forward(self, dec_ids: Tensor, enc_ids: Tensor) -> Tensor:
            return self.inner(enc_ids, dec_ids)  # type: ignore[no-any-return]

    tgt, src = torch.randint(2, 24, (3, 5)), torch.randint(2, 24, (3, 7))
    watched = watch(Reversed())(tgt, src)
    assert [one.kind for one in watched.attentions] == KINDS
    assert watched.traces[1].source_ids.tolist() == src[1].tolist()


def test_a_batch_that_cannot_be_copied_is_given_as_it_is() -> None:
    model = Taking(lambda batch: (batch.src, batch.tgt)).eval()
    src, tgt = torch.randint(2, 24, (3, 7)), torch.randint(2, 24, (3, 5))
    batch = SimpleNamespace(src=src, tgt=tgt, lock=threading.Lock())
    watched = watch(model)(batch)
    assert watched.output_difference == 0.0
    assert len(watched.attentions) == 6


def test_a_cache_that_is_given_is_no_input() -> None:
    class Cached(nn.Module):
        def forward(self, x: Tensor, past_key_values: Any) -> Tensor:
            past = past_key_values.layers[0]
            k, v = (torch.cat([old, x], 1) for old in (past.keys, past.values))
            return (x @ k.mT / 4).softmax(-1) @ v

    layer = SimpleNamespace(keys=torch.randn(2, 4, 16), values=torch.randn(2, 4, 16))
    cache = SimpleNamespace(layers=[layer])
    watched = watch(Cached())(torch.randn(2, 1, 16), cache)
    assert len(watched.sources) == 1
    assert watched.targets == []
    assert [one.weights.shape for one in watched.attentions] == [(2, 1, 1, 5)]
