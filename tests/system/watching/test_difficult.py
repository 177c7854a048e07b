"""Modules written to be difficult: what they do is found, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.system.watching import difficult_models as models
from tests.system.watching.comparing import assert_watched
from visformer.watching.watcher import watch

FOUND = {  # model -> kinds
    models.OddLetters: ["encoder"],
    models.HeadLoop: ["encoder"],
    models.HeadModules: ["decoder"],
    models.ChunkedQueries: ["encoder"],
    models.Alibi: ["decoder"],
    models.Rotary: ["encoder"],
    models.Windowed: ["encoder"],
    models.TalkingHeads: ["encoder"],
    models.SharedLayers: ["encoder"] * 3,
    models.HeadsBeforeBatch: ["encoder"],
    models.SoftCap: ["encoder"],
    models.ByHand: ["encoder"],
    models.SharedKeys: ["encoder"],
    models.GroupedKeys: ["encoder"],
    models.Sinks: ["encoder"],
}


@pytest.mark.parametrize("batch", [1, 3, 4])  # 4: as many as there are heads
@pytest.mark.parametrize("which", FOUND, ids=lambda model: str(model.__name__))
def test_it_is_found(which: type[models.Attending], batch: int) -> None:
    torch.manual_seed(2)
    model = which().eval()
    x = torch.randn(batch, 7, models.WIDTH)
    with torch.no_grad():
        model(x)
    own, model.kept = list(model.kept), []
    if which is models.SharedLayers:
        own = own[:3]
    watched = assert_watched(which.__name__, model, [x], FOUND[which], own)
    one = watched.attentions[0]
    assert one.weights.shape == (batch, models.HEADS, 7, 7)
    assert [f.id for f in watched.certificate.findings] == []
    assert one.scale == pytest.approx(0.5, rel=0.2 if one.mixed else 1e-4) or one.mixed


def test_linear_attention_has_no_matrix() -> None:
    watched = watch(models.LinearAttention())(torch.randn(2, 7, models.WIDTH))
    assert watched.attentions == []
    assert watched.traces == []
    assert not watched.certificate.passed
    sentence = "activations are multiplied without a softmax between them"
    assert sentence in watched.certificate.missed[0]


def test_a_router_is_no_attention() -> None:
    watched = watch(models.Experts())(torch.randn(2, 7, models.WIDTH))
    assert watched.attentions == []
    assert "a softmax over 3 choices" in watched.certificate.missed[0]


def test_a_recurrent_layer_is_named() -> None:
    watched = watch(models.Recurrent())(torch.randn(2, 7, models.WIDTH))
    assert watched.attentions == []
    assert "no attention matrix here" in watched.certificate.missed[0]


def test_memory_tokens_are_keys_of_no_token() -> None:
    model, x = models.MemoryTokens(), torch.randn(3, 7, models.WIDTH)
    watched = watch(model)(x)
    (one,) = watched.attentions
    assert np.allclose(one.weights, model.kept[-1], atol=1e-6)
    assert one.weights.shape == (3, 4, 7, 10)
    assert watched.traces == []
    assert "3 more keys than tokens" in watched.certificate.missed[0]


@pytest.mark.parametrize("batch", [1, 4])
def test_one_softmax_over_two_sides_is_merged(batch: int) -> None:
    model = models.TwoSources()
    source, target = (torch.randn(batch, n, models.WIDTH) for n in (6, 5))
    watched = watch(model)(source, target)
    (one,) = watched.attentions
    assert (one.kind, one.border) == ("merged", 5)
    assert np.allclose(one.weights, model.kept[-1], atol=1e-6)
    assert "6 keys of two sides" in watched.certificate.missed[0]


def test_inputs_are_named_where_places_do_not_tell() -> None:
    model = models.TwoSources()
    source, target = (torch.randn(2, n, models.WIDTH) for n in (6, 5))
    watched = watch(model, sources="target", targets=0)(source, target)
    assert watched.targets[0].shape[1] == 6
    assert watched.attentions[0].border == 5  # target comes first among the keys
