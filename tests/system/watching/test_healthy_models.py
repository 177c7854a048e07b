"""Healthy models are accused of nothing; all their attention is theirs, or named."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.system.watching import healthy_pairs, healthy_scales
from tests.system.watching.healthy_models import MODELS, Healthy
from visformer.values.finding import Certificate
from visformer.watching.watcher import Watched, watch

# torch's own, where its fast path is taken
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
CLOSE = 2e-6
NO_NUMBER = re.compile(r"\b(?:inf|nan)\b|(?<![e\d])-\d+ [a-z]", re.IGNORECASE)
assert healthy_pairs  # adds its own to MODELS
assert healthy_scales


def by_hand(
    part: nn.MultiheadAttention, args: tuple[Any, ...], more: dict[str, Any]
) -> Tensor:
    """Return the weights [B, H, Q, K] that torch's module is to use."""
    names = "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask"
    given = {**dict(zip(names, args, strict=False)), **more}
    q, k = (
        torch.nn.functional.linear(x, w, b)
        .unflatten(-1, (part.num_heads, -1))
        .transpose(1, 2)
        for x, w, b in zip(
            (given["query"], given["key"]),
            part.in_proj_weight.chunk(3),
            part.in_proj_bias.chunk(3),
            strict=False,
        )
    )
    scores = q @ k.mT / q.shape[-1] ** 0.5
    for mask, axes in (
        (given.get("attn_mask"), (None, None)),
        (given.get("key_padding_mask"), (slice(None), None, None)),
    ):
        if mask is not None:
            hidden = mask if mask.dtype == torch.bool else mask == float("-inf")
            scores = scores.masked_fill(hidden[axes], float("-inf"))
    weights: Tensor = scores.softmax(-1)
    return weights


def own_weights(case: Healthy) -> dict[str, list[Tensor]]:
    """Call the model unwatched; return what each module says that it used."""
    seen: dict[str, list[Tensor]] = defaultdict(list)
    hooks = []
    for name, part in case.model.named_modules():
        if isinstance(part, nn.MultiheadAttention):

            def keep(part: Any, args: Any, more: Any, name: str = name) -> None:
                seen[name].append(by_hand(part, args, more).detach())

            hooks.append(part.register_forward_pre_hook(keep, with_kwargs=True))
    case.model(*case.args, **case.kwargs)  # with gradients: no fast path
    for hook in hooks:
        hook.remove()
    for name, part in case.model.named_modules():
        kept = getattr(part, "seen", None)
        if kept:
            seen[name] = list(kept)
            kept.clear()
    return dict(seen)


def built(name: str) -> Healthy:
    torch.manual_seed(0)
    case = MODELS[name]()
    case.model.train(case.training)
    return case


def watched_of(case: Healthy) -> Watched:
    with torch.no_grad():
        return watch(case.model, **case.options)(*case.args, **case.kwargs)


def sentences(certificate: Certificate) -> str:
    said = certificate.sentence, *certificate.missed, *certificate.checks
    return "\n".join([*said, *map(str, certificate.findings)])


def test_there_are_at_least_forty() -> None:
    assert len(MODELS) >= 40


@pytest.mark.parametrize("name", MODELS)
def test_it_is_accused_of_nothing(name: str) -> None:
    case = built(name)
    with torch.no_grad():
        certificate = watch(case.model, **case.options).certify(
            *case.args, **case.kwargs
        )
    said = sentences(certificate)
    assert [f for f in certificate.findings if f.severity == "fault"] == [], said
    assert not NO_NUMBER.search(said), said
    assert certificate.passed, said
    assert case.missed in "\n".join(certificate.missed)
    assert certificate.missed == () or not name.startswith("mask_"), said


@pytest.mark.parametrize("name", MODELS)
def test_all_its_attention_is_seen_as_it_is_or_named(name: str) -> None:
    case = built(name)
    own = own_weights(case)
    watched = watched_of(case)
    missed = "\n".join(watched.certificate.missed)
    for module, several in own.items():
        found = [one for one in watched.attentions if one.module == module]
        if len(found) < len(several):
            assert f"“{module}”" in missed, f"{module}: neither seen nor named"
            continue
        for one, theirs in zip(found, several, strict=True):
            assert one.weights.shape == theirs.shape, module
            apart = torch.tensor(one.weights) - theirs.float()
            assert float(apart.abs().max()) <= CLOSE, module
    kinds, wanted = [one.kind for one in watched.attentions], case.kinds.split()
    assert len(kinds) == len(wanted), kinds
    for kind, either in zip(kinds, wanted, strict=True):
        assert kind in either.split("|"), f"{kinds}, not {wanted}"
