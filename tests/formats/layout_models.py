"""Modules with the tensors of each layout: names and shapes, nothing that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from visformer.core.position_rules import sinusoidal

WIDTH, FEED, SOURCE, TARGET, LAYERS, LENGTH = 8, 12, 11, 13, 2, 20


def tree(**parts: nn.Module) -> nn.Module:
    """Return a module with these children; ``a__b`` stands for ``b`` inside ``a``."""
    made = nn.Module()
    for name, part in parts.items():
        first, _, rest = name.partition("__")
        if not rest:
            made.add_module(name, part)
        elif hasattr(made, first):
            getattr(made, first).add_module(rest, part)
        else:
            made.add_module(first, tree(**{rest: part}))
    return made


def linear(rows: int = WIDTH, columns: int = WIDTH, bias: bool = True) -> nn.Linear:
    return nn.Linear(columns, rows, bias=bias)


def four(names: str, bias: str = "1111") -> nn.Module:
    parts = zip(names.split(), bias, strict=True)
    return tree(**{name: linear(bias=b == "1") for name, b in parts})


def feed(first: str, second: str) -> nn.Module:
    return tree(**{first: linear(FEED, WIDTH), second: linear(WIDTH, FEED)})


def norm() -> nn.LayerNorm:
    return nn.LayerNorm(WIDTH)


class GreekNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(WIDTH))
        self.beta = nn.Parameter(torch.zeros(WIDTH))


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("pe", sinusoidal(LENGTH, WIDTH)[None])


def repeated(make: Callable[[], nn.Module], count: int = LAYERS) -> nn.ModuleList:
    return nn.ModuleList(make() for _ in range(count))


def blocks(make: Callable[[], nn.Module]) -> nn.Module:
    return tree(**{f"block{i}": make() for i in range(LAYERS)})


W = "W_q W_k W_v W_o"


def handout() -> nn.Module:
    def layer(*, cross: bool) -> nn.Module:
        made = tree(self_att=four(W), ffn=feed("linear1", "linear2"))
        if cross:
            made.cross_att = four(W)
        for i in range(2 + cross):
            made.add_module(f"norm{i + 1}", norm())
        return made

    return tree(
        encoder_embed=nn.Embedding(SOURCE, WIDTH),
        decoder_embed=nn.Embedding(TARGET, WIDTH),
        positional_encoding=Table(),
        encoder__layers=repeated(lambda: layer(cross=False)),
        decoder__layers=repeated(lambda: layer(cross=True)),
        fc_output=linear(TARGET),
    )


def d2l(bias: str = "0000") -> nn.Module:
    def layer(*names: str, bias: str) -> nn.Module:
        made = tree(ffn=feed("dense1", "dense2"))
        for i, name in enumerate(names):
            made.add_module(name, four(W, bias))
            made.add_module(f"addnorm{i + 1}", tree(ln=norm()))
        made.add_module(f"addnorm{len(names) + 1}", tree(ln=norm()))
        return made

    return tree(
        encoder__embedding=nn.Embedding(SOURCE, WIDTH),
        encoder__blks=blocks(lambda: layer("attention", bias=bias)),
        decoder__embedding=nn.Embedding(TARGET, WIDTH),
        decoder__blks=blocks(lambda: layer("attention1", "attention2", bias="0000")),
        decoder__dense=linear(TARGET),
    )


def labml(
    *, bias: bool = True, gated: bool = False, learned: bool = False
) -> nn.Module:
    def attention() -> nn.Module:
        parts = {
            "query__linear": linear(bias=bias),
            "key__linear": linear(bias=bias),
            "value__linear": linear(),
            "output": linear(),
        }
        return tree(**parts)

    def layer(*, cross: bool) -> nn.Module:
        made = tree(
            self_attn=attention(),
            feed_forward=feed("layer1", "layer2"),
            norm_self_attn=norm(),
            norm_ff=norm(),
        )
        if gated:
            made.get_submodule("feed_forward").add_module("linear_v", linear(FEED))
        if cross:
            made.src_attn, made.norm_src_attn = attention(), norm()
        return made

    made = tree(
        src_embed__linear=nn.Embedding(SOURCE, WIDTH),
        tgt_embed__linear=nn.Embedding(TARGET, WIDTH),
        encoder__layers=repeated(lambda: layer(cross=False)),
        encoder__norm=norm(),
        decoder__layers=repeated(lambda: layer(cross=True)),
        decoder__norm=norm(),
        generator__projection=linear(TARGET),
    )
    if learned:
        for side in (made.src_embed, made.tgt_embed):
            table = nn.Parameter(torch.zeros(LENGTH, 1, WIDTH))
            side.register_parameter("positional_encodings", table)  # type: ignore
    return made


def modular() -> nn.Module:
    def layer(*names: str) -> nn.Module:
        made = tree(ffn=feed("fc1", "fc2"))
        for name in names:
            made.add_module(name, four("w_q w_k w_v fc"))
        for i in range(len(names) + 1):
            made.add_module(f"ln{i + 1}", GreekNorm())
        return made

    return tree(
        encoder__emb=tree(tok_emb=nn.Embedding(SOURCE, WIDTH, padding_idx=1)),
        encoder__layers=repeated(lambda: layer("mha")),
        decoder__emb=tree(tok_emb=nn.Embedding(TARGET, WIDTH, padding_idx=1)),
        decoder__layers=repeated(lambda: layer("mha1", "mha2")),
        decoder__linear=linear(TARGET),
    )


def scratch() -> nn.Module:
    def layer(*, cross: bool) -> nn.Module:
        made = tree(self_attn=four(W), feed_forward=feed("fc1", "fc2"))
        if cross:
            made.cross_attn = four(W)
        for i in range(2 + cross):
            made.add_module(f"norm{i + 1}", norm())
        return made

    return tree(
        encoder_embedding=nn.Embedding(SOURCE, WIDTH),
        decoder_embedding=nn.Embedding(TARGET, WIDTH),
        pos_encoding=Table(),
        encoder_layers=repeated(lambda: layer(cross=False), 3),
        decoder_layers=repeated(lambda: layer(cross=True)),
        fc_out=linear(TARGET),
    )


def bare() -> nn.Transformer:
    return nn.Transformer(WIDTH, 2, LAYERS, LAYERS, FEED, batch_first=True)


def around() -> nn.Module:
    return tree(
        src_tok_emb__embedding=nn.Embedding(SOURCE, WIDTH),
        tgt_tok_emb__embedding=nn.Embedding(TARGET, WIDTH),
        transformer=bare(),
        generator=linear(TARGET),
    )


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "handout": handout,
    "d2l": d2l,
    "labml": labml,
    "modular": modular,
    "scratch": scratch,
    "torch": around,
}


def state(
    make: Callable[[], nn.Module], seed: int = 0, **sizes: Any
) -> dict[str, Tensor]:
    """Return random tensors, none of which looks fresh; stored positions stay."""
    made = make(**sizes).state_dict()
    torch.manual_seed(seed)
    for name, tensor in made.items():
        if not name.endswith(".pe"):
            tensor.copy_(torch.randn_like(tensor) * 0.3)
    return made
