"""Modules with the tensors of each layout, in the smallest sizes; and their states."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tests.system.tutorials.d2l import D2l
from tests.system.tutorials.handout import Handout
from tests.system.tutorials.labml import Labml
from tests.system.tutorials.modular import Modular
from tests.system.tutorials.scratch import Scratch
from tests.system.tutorials.sizes import Sizes

WIDTH, FEED, SOURCE, TARGET, LAYERS, LENGTH = 8, 12, 11, 13, 2, 20
SIZES = Sizes(SOURCE, TARGET, WIDTH, 2, LAYERS, LAYERS, FEED, LENGTH)

handout = partial(Handout, SIZES)
d2l = partial(D2l, SIZES)
labml = partial(Labml, SIZES)
modular = partial(Modular, SIZES)
scratch = partial(Scratch, Sizes(SOURCE, TARGET, WIDTH, 2, 3, LAYERS, FEED, LENGTH))


def tree(**parts: nn.Module) -> nn.Module:
    """Return a module with these children; ``a__b`` stands for ``b`` inside ``a``."""
    made = nn.Module()
    for name, part in parts.items():
        first, _, rest = name.partition("__")
        made.add_module(first, tree(**{rest: part}) if rest else part)
    return made


def bare() -> nn.Transformer:
    return nn.Transformer(WIDTH, 2, LAYERS, LAYERS, FEED, batch_first=True)


def around() -> nn.Module:
    return tree(
        src_tok_emb__embedding=nn.Embedding(SOURCE, WIDTH),
        tgt_tok_emb__embedding=nn.Embedding(TARGET, WIDTH),
        transformer=bare(),
        generator=nn.Linear(WIDTH, TARGET),
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
    make: Callable[[], nn.Module], seed: int = 0, **choices: Any
) -> dict[str, Tensor]:
    """Return random tensors, none of which looks fresh; stored positions stay."""
    made = make(**choices).state_dict()
    torch.manual_seed(seed)
    for name, tensor in made.items():
        if not name.endswith(".pe"):
            tensor.copy_(torch.randn_like(tensor) * 0.3)
    return made
