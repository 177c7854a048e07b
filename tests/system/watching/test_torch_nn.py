"""Twelve modules around torch.nn, in train and eval mode, with gradients or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.system.watching.comparing import assert_watched
from visformer.watching.watcher import watch

D, H, F = 16, 4, 32
KINDS = ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]
# name -> the module, its inputs, the kinds, and how many weights it keeps itself
Wrappers = dict[str, tuple[Any, Any, list[str], int]]
causal = nn.Transformer.generate_square_subsequent_mask


class Wrapped(nn.Module):
    """Calls something with parts of its own; keeps weights that are given back."""

    def __init__(self, call: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.call, self.parts = call, nn.ModuleDict(parts)
        self.kept: list[Tensor] = []

    def forward(self, *args: Any) -> Any:
        return self.call(self, *args)

    def mha(self, name: str, *args: Tensor, **options: Any) -> Tensor:
        out, weights = self.parts[name](*args, average_attn_weights=False, **options)
        self.kept.append(weights.detach())
        return out  # type: ignore[no-any-return]


def _self(model: Wrapped, x: Tensor) -> Tensor:
    return model.mha("a", x, x, x)


def _cross(model: Wrapped, x: Tensor, y: Tensor) -> Tensor:
    return model.mha("a", y, x, x)


def _ids(model: Wrapped, src: Tensor, tgt: Tensor) -> Any:
    embed, head, inner = (model.parts[name] for name in ("embed", "head", "inner"))
    y = inner(
        embed(src),
        embed(tgt),
        tgt_mask=causal(tgt.shape[1]),
        tgt_is_causal=True,
        src_key_padding_mask=src == 0,
        memory_key_padding_mask=src == 0,
    )
    return head(y)


def _fused(model: Wrapped, x: Tensor) -> Tensor:
    q, k, v = model.parts["qkv"](x).unflatten(-1, (3, H, D // H)).permute(2, 0, 3, 1, 4)
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).flatten(2)


def _grouped(model: Wrapped, x: Tensor) -> Tensor:
    q = model.parts["q"](x).unflatten(-1, (H, D // H)).transpose(1, 2)
    k, v = (
        model.parts[name](x).unflatten(-1, (2, D // H)).transpose(1, 2)
        for name in ("k", "v")
    )
    y = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.3)
    return y.transpose(1, 2).flatten(2)


def _masked(model: Wrapped, x: Tensor) -> Tensor:
    q, k, v = model.parts["qkv"](x).unflatten(-1, (3, H, D // H)).permute(2, 0, 3, 1, 4)
    allowed = torch.ones(x.shape[1], x.shape[1]).tril().bool()
    y = functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    return y.transpose(1, 2).flatten(2)


def _mha(**options: Any) -> nn.Module:
    return nn.MultiheadAttention(D, H, **{"batch_first": True, **options})


def _layer(kind: Any, **options: Any) -> Any:
    return kind(D, H, F, **{"batch_first": True, **options})


def x(n: int = 7, b: int = 3) -> Tensor:
    return torch.randn(b, n, D)


def _attentions() -> Wrappers:
    return {
        "MultiheadAttention": (Wrapped(_self, a=_mha()), [x()], ["encoder"], 1),
        "MultiheadAttention, cross, kdim": (
            Wrapped(_cross, a=_mha(kdim=D, vdim=D)),
            [x(), x(5)],
            ["cross"],
            1,
        ),
        "MultiheadAttention, bias_kv": (
            Wrapped(_self, a=_mha(add_bias_kv=True, add_zero_attn=True)),
            [x()],
            ["encoder"],
            1,
        ),
        "MultiheadAttention, sequence first": (
            Wrapped(_self, a=_mha(batch_first=False, bias=False)),
            [x(3, 7)],
            ["encoder"],
            1,
        ),
    }


def _stacks() -> Wrappers:
    encoder, decoder = nn.TransformerEncoderLayer, nn.TransformerDecoderLayer
    two = nn.TransformerEncoder(_layer(encoder), 2, enable_nested_tensor=False)
    parts = {
        "embed": nn.Embedding(24, D),
        "head": nn.Linear(D, 24),
        "inner": nn.Transformer(D, H, 2, 2, F, batch_first=True),
    }
    ids = torch.randint(1, 24, (3, 7)), torch.randint(1, 24, (3, 5))
    ids[0][1, -2:] = 0
    return {
        "TransformerEncoder": (two, [x()], ["encoder"] * 2, 0),
        "TransformerEncoderLayer, norm first": (
            _layer(encoder, norm_first=True),
            [x()],
            ["encoder"],
            0,
        ),
        "TransformerDecoder": (
            nn.TransformerDecoder(_layer(decoder), 2),
            [x(5), x(), causal(5)],
            ["decoder", "cross"] * 2,
            0,
        ),
        "Transformer": (
            nn.Transformer(D, H, 2, 2, F, batch_first=True),
            [x(), x(5), None, causal(5)],
            KINDS,
            0,
        ),
        "Transformer, from ids": (Wrapped(_ids, **parts), ids, KINDS, 0),
    }


def _fused_ones() -> Wrappers:
    linear = nn.Linear(D, 3 * D)
    return {
        "scaled_dot_product_attention": (
            Wrapped(_fused, qkv=linear),
            [x()],
            ["decoder"],
            0,
        ),
        "scaled_dot_product_attention, grouped": (
            Wrapped(
                _grouped,
                q=nn.Linear(D, D),
                k=nn.Linear(D, D // 2),
                v=nn.Linear(D, D // 2),
            ),
            [x()],
            ["encoder"],
            0,
        ),
        "scaled_dot_product_attention, bool mask": (
            Wrapped(_masked, qkv=linear),
            [x()],
            ["decoder"],
            0,
        ),
    }


def _wrappers() -> Wrappers:
    return _attentions() | _stacks() | _fused_ones()


# of the unwatched call, which takes torch's fast path
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", _wrappers())
@pytest.mark.parametrize("training", [False, True])
def test_a_wrapper_is_watched(name: str, training: bool) -> None:
    torch.manual_seed(3)
    model, args, kinds, many = _wrappers()[name]
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    model.train(training)
    with torch.no_grad():
        model(*args)
    own, model.kept = list(getattr(model, "kept", [])), []
    assert len(own) == many
    title = name + (", training" if training else "")
    watched = assert_watched(title, model, args, kinds, own)
    shape = watched.attentions[0].weights.shape
    assert shape[:2] == (3, H)
    assert watched.attentions[0].scale == pytest.approx(
        0.3 if "grouped" in name else 0.5
    )


@pytest.mark.parametrize("training", [False, True])
def test_a_row_that_may_read_nothing_is_zeros(training: bool) -> None:
    """scaled_dot_product_attention gives no NaN there, fused or not."""

    def attended(model: Wrapped, x: Tensor) -> Tensor:
        q, k, v = model.parts["qkv"](x).unflatten(-1, (3, H, D // H)).unbind(2)
        allowed = torch.ones(3, 1, 7, 7).bool()
        allowed[1, :, 2] = False
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return y.transpose(1, 2).flatten(2)

    model = Wrapped(attended, qkv=nn.Linear(D, 3 * D))
    inputs = x().requires_grad_(training)
    watched = watch(model)(inputs)
    (one,) = watched.attentions
    assert not one.weights[1, :, 2].any()
    assert watched.certificate.passed
    (finding,) = watched.certificate.findings
    assert finding.id == "no-key"
    assert "In batch row 2, row 3 of head 1 may read no key" in finding.what
    trace = watched.traces[1]
    assert not trace.attention("encoder", 0)[:, 2].any()


def test_a_gradient_flows_as_without() -> None:
    model = nn.Transformer(D, H, 1, 1, F, dropout=0.0, batch_first=True)
    src, tgt = torch.randn(2, 6, D), torch.randn(2, 5, D)
    model(src, tgt).square().sum().backward()
    plain = [p.grad for p in model.parameters()]
    model.zero_grad()
    with watch(model) as watched:
        model(src, tgt).square().sum().backward()
    assert len(watched.attentions) == 3
    assert not watched.seen  # the backward pass is no part of it
    for parameter, before in zip(model.parameters(), plain, strict=True):
        assert torch.equal(parameter.grad, before)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_within_its_tolerance(dtype: torch.dtype) -> None:
    model = nn.Transformer(D, H, 1, 1, F, batch_first=True).eval().to(dtype)
    watched = watch(model)(
        torch.randn(2, 6, D).to(dtype), torch.randn(2, 5, D).to(dtype)
    )
    assert [one.kind for one in watched.attentions] == ["encoder", "decoder", "cross"]
    assert watched.certificate.tolerance == 1e-2
    assert watched.certificate.worst <= 1e-2
    assert len(watched.traces) == 2


def test_autocast_and_inference_mode_are_seen_through() -> None:
    model = nn.Transformer(D, H, 1, 1, F, batch_first=True).eval()
    src, tgt = torch.randn(2, 6, D), torch.randn(2, 5, D)
    with torch.autocast("cpu", torch.bfloat16):
        watched = watch(model)(src, tgt)
    assert [one.kind for one in watched.attentions] == ["encoder", "decoder", "cross"]
    assert watched.certificate.passed
    with torch.inference_mode():
        watched = watch(model)(src, tgt)
    assert [one.kind for one in watched.attentions] == ["encoder", "decoder", "cross"]
    assert watched.certificate.passed
