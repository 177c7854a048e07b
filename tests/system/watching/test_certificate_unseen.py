"""What nothing compares, what torch does not compute, and what is random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.system.watching.weighing import IDS, Weighing, seen
from visformer.watching.watcher import watch

SQUARE = torch.arange(16.0).view(4, 4)
BUFFERS: dict[str, Callable[[], Tensor]] = {
    "sparse": SQUARE.to_sparse,
    "quantised": lambda: torch.quantize_per_tensor(SQUARE, 0.1, 0, torch.quint8),
    "meta": lambda: SQUARE.to("meta"),
    "nested": lambda: torch.nested.nested_tensor([SQUARE[:2], SQUARE]),
    "jagged": lambda: torch.nested.nested_tensor(
        [SQUARE[:2], SQUARE], layout=torch.jagged
    ),
    "eight bits": lambda: SQUARE.to(torch.float8_e4m3fn),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:.*[Qq]uantiz")
@pytest.mark.parametrize("kind", BUFFERS)
def test_buffers_that_nothing_compares(kind: str) -> None:
    model = Weighing()
    model.register_buffer("extra", BUFFERS[kind](), persistent=False)
    model.register_buffer("calls", torch.zeros(1))
    model.register_forward_pre_hook(lambda one, _args: one.calls.add_(1) and None)
    watched = seen(model).watched
    assert watched.certificate.ok, str(watched.certificate)
    assert model.calls == 1  # the unwatched call is put back
    with torch.no_grad():
        assert watch(model).certify(IDS).ok


def test_a_sparse_parameter() -> None:
    model = Weighing()
    model.extra = nn.Parameter(SQUARE.to_sparse())
    assert seen(model).watched.certificate.ok


Back = Callable[[np.ndarray[Any, Any]], Tensor]


class Outside(nn.Module):
    """A layer that is computed with numpy beside one of torch."""

    def __init__(self, back: Back | None) -> None:
        super().__init__()
        self.inner, self.back = Weighing(), back
        self.inner.embed.register_forward_hook(lambda _m, _x, y: self.more(y))
        # of the batch's size, but there all along
        self.table = torch.from_numpy(np.zeros((2, 6, 16), np.float32))

    def more(self, x: Tensor) -> Tensor:
        rows = torch.from_numpy(np.linspace(0, 1, 6, dtype=np.float32))
        x = x + self.table + rows[:, None]  # [T, 1]: of no batch
        if self.back is None:
            return x
        own = np.asarray(x.detach())  # [B, T, D]
        scores = np.exp(own @ own.swapaxes(1, 2))
        return x + self.back(scores / scores.sum(-1, keepdims=True) @ own)

    def forward(self, ids: Tensor) -> Tensor:
        y: Tensor = self.inner(ids)
        return y


BACK: dict[str, Back] = {
    "from_numpy": torch.from_numpy,
    "as_tensor": lambda y: torch.as_tensor(y).float(),
    "tensor": torch.tensor,
}


@pytest.mark.parametrize("how", BACK)
def test_a_layer_of_numpy_is_named(how: str) -> None:
    with torch.no_grad():
        certificate = watch(Outside(BACK[how]).eval())(IDS).certificate
    assert certificate.passed
    assert not certificate.ok
    assert certificate.missed == (
        "“inner.embed”: it reads numbers that torch did not compute: what was "
        "done outside torch, with numpy for example, is not seen.",
    )


def test_tables_of_numpy_are_no_layer() -> None:
    with torch.no_grad():
        certificate = watch(Outside(None).eval())(IDS).certificate
    assert certificate.ok, str(certificate)


def dropped(scores: Tensor) -> Tensor:
    return functional.dropout(scores.softmax(-1), 0.5)


def drawn(scores: Tensor) -> Tensor:
    return functional.gumbel_softmax(scores, dim=-1)


@pytest.mark.parametrize(
    ("weigh", "finding"), [(dropped, "dropout-always"), (drawn, "calls-differ")]
)
def test_random_weights_in_eval_are_not_told_to_call_it(
    weigh: Callable[[Tensor], Tensor], finding: str
) -> None:
    model = Weighing(weigh).eval()
    with torch.no_grad():
        watched = watch(model)(IDS)
        certificate = watch(model).certify(IDS)
    assert watched.certificate.passed
    assert [x.id for x in certificate.findings][:1] == [finding]
    assert "model.eval()" not in str(certificate)


class Nested(nn.Module):
    """An attention over strided nested tensors, which are made of a list of ids."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(20, 16)
        self.inner = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, given: list[Tensor]) -> Tensor:
        x = torch.nested.as_nested_tensor([*map(self.embed, given)])
        return self.inner(x, x, x, need_weights=False)[0]  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_strided_nested_tensors_are_said_not_to_be_followed() -> None:
    model, ids = Nested().eval(), [IDS[0], IDS[1, :3]]
    fast = torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad():
        watched = watch(model)(ids)
        certificate = watch(model).certify(ids)
    assert watched.traces == []
    assert watched.output_difference == 0
    assert certificate.missed == watched.certificate.missed
    assert certificate.missed == (
        "“Nested”: attention over these nested tensors is not followed. Give it padded "
        "ones to see it.",
    )
    assert torch.backends.mha.get_fastpath_enabled() == fast


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_strided_nested_tensors_that_a_model_is_given() -> None:
    x = torch.nested.nested_tensor([torch.ones(5, 16), torch.ones(3, 16)])
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    with torch.no_grad(), watch(model) as watched:
        model(x)
    assert watched.traces == []
    assert "nested tensors is not followed" in watched.certificate.missed[0]
