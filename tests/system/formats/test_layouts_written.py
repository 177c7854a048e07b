"""What we write as a layout's own program would is read again; odd files are not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.system.formats import layout_models as models
from tests.system.formats.layout_files import TUTORIALS, opened, refusal, saved, weights
from tests.system.formats.layout_models import MAKERS, SOURCE, TARGET, WIDTH, state
from visformer.core.checkpoint import Checkpoint
from visformer.formats.layouts import LAYOUTS
from visformer.formats.loading import build, inspect, load
from visformer.formats.names import their_name

# Round trips


def written(checkpoint: Checkpoint, path: Path) -> Path:
    """Save a model of ours as the layout's own program would."""
    keys = LAYOUTS[checkpoint.layout].names
    tensors = {their_name(keys, name): t for name, t in weights(checkpoint).items()}
    return saved(path, tensors)


@pytest.mark.parametrize("layout", TUTORIALS)
def test_what_we_build_is_what_we_read(tmp_path: Path, layout: str) -> None:
    sizes = {"d_model": 16, "heads": 4, "feed_forward": 24}
    sizes |= {"source_vocabulary": SOURCE, "target_vocabulary": TARGET}
    built = build(layout, device="cpu", **sizes)
    checkpoint = load(written(built, tmp_path / "m.pt"), heads=4, device="cpu")
    assert checkpoint.config == built.config
    ids = torch.tensor([[4, 7, 5, 3]]), torch.tensor([[2, 7, 8]])
    with torch.no_grad():
        assert torch.equal(checkpoint.model(*ids, 0), built.model(*ids, 0))


def test_torch_runs_as_torch_does(tmp_path: Path) -> None:
    transformer, tables = models.bare().eval(), state(models.around)
    inner = transformer.state_dict()
    path = saved(
        tmp_path / "m.pt",
        {**tables, **{f"transformer.{name}": t for name, t in inner.items()}},
    )
    checkpoint = opened(path, positions="none", embedding_scale=False)
    source, target = torch.tensor([[4, 7, 5, 3]]), torch.tensor([[2, 7, 8]])
    causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
    with torch.no_grad():
        expected = transformer(
            tables["src_tok_emb.embedding.weight"][source],
            tables["tgt_tok_emb.embedding.weight"][target],
            tgt_mask=causal,
        )
        found = checkpoint.model(source, target, 0)
    assert (found - expected).abs().max() < 2e-5 * max(1, float(expected.abs().max()))


# Hostile tensors


ODD: list[Callable[[Tensor], Tensor]] = [
    lambda tensor: torch.ones(()),
    lambda tensor: torch.ones(0),
    lambda tensor: torch.ones(3),
    lambda tensor: torch.ones(3, 5),
    lambda tensor: torch.ones(1, 20, 8),
    lambda tensor: torch.ones(0, 8),
    lambda tensor: torch.ones_like(tensor).long(),
]


@pytest.mark.parametrize("layout", MAKERS)
def test_odd_tensors_are_refused_in_one_sentence(tmp_path: Path, layout: str) -> None:
    base = state(MAKERS[layout])
    drawn = random.Random(layout)
    for name in drawn.sample(sorted(base), 6):
        odd = drawn.choice(ODD)(base[name])
        path = saved(tmp_path / "m.pt", {**base, name: odd})
        assert len(refusal(path)) < 260, (name, odd)


def test_a_layer_number_beyond_reason_is_refused(tmp_path: Path) -> None:
    tensors = state(models.scratch)
    tensors["encoder_layers.999.norm1.weight"] = torch.ones(WIDTH)
    assert refusal(saved(tmp_path / "m.pt", tensors)) == (
        "encoder_layers is 1000, but must be a whole number from 1 to 128."
    )


@pytest.mark.parametrize(
    "config",
    [
        {"h": "2"},
        {"h": 2, "activation": []},
        {"h": 2, "src_pad_idx": [1, 2, 3]},
        {"h": 2, "num_layers": 10**30},
        {"h": 2, "max_len": 21},
        {"h": 2, "mask_rule": {}},
    ],
)
def test_a_hostile_config_beside_is_refused(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    path = saved(tmp_path / "m.pt", state(models.scratch))
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert len(refusal(path, heads=None)) < 260


# What inspect tells


def test_inspect_tells_the_layout_of_what_lacks_its_heads(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", state(models.handout))
    for opening in (path, tmp_path):
        report = inspect(opening)
        assert report["layout"] == "handout"
        assert "does not say how many heads" in report["problem"]
        assert report["missing"] == []
        assert len(report["tensors"]) == len(state(models.handout))
    report = inspect(path, heads=2)
    assert report["problem"] is None
    assert report["tokenizer"]["kind"] == "number"


def test_inspect_takes_two_files(tmp_path: Path) -> None:
    tensors = state(models.d2l)
    inner = [n for n in tensors if n.startswith("encoder.")]
    first = saved(tmp_path / "e.pt", {n: tensors[n] for n in inner})
    second = saved(
        tmp_path / "d.pt", {n: t for n, t in tensors.items() if n not in inner}
    )
    report = inspect((first, second), heads=2)
    assert report["problem"] is None
    assert len(report["tensors"]) == len(tensors)
    assert report["bytes"] == first.stat().st_size + second.stat().st_size
