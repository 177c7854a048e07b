"""Folders of transformers held against each other and against their runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import visformer
from tests.system.formats.hugging_face.parity import opened, opened_once
from visformer.values.intervention import parse

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers' own
SOURCE = [[5, 6, 7, 8, 9], [5, 6, 7, 4, 3]]


@pytest.mark.parametrize(
    ("name", "kind", "parameter"),
    [
        ("T5", "encoder", "encoder.block.1.layer.0.SelfAttention.k.weight"),
        ("BART", "decoder", "model.decoder.layers.1.self_attn.k_proj.weight"),
        ("GPT-2", "decoder", "transformer.h.1.attn.c_attn.weight"),
        ("BERT", "encoder", "bert.encoder.layer.1.attention.self.key.weight"),
    ],
)
def test_the_first_head_is_found_in_folders(
    name: str, kind: str, parameter: str, folder_of: Callable[[str], Path]
) -> None:
    good, bad = opened_once(folder_of(name)), opened(folder_of(name))
    target = [[max(good.bos, 0), 6, 7], [max(good.bos, 0), 8, 9]]
    ids: Any = (SOURCE, target) if good.task == "seq2seq" else (SOURCE,)
    assert visformer.compare(good, bad, *ids).kind is None
    with torch.no_grad():
        bad.model.get_parameter(parameter).mul_(1.5)
    for other in (bad, bad.model):
        made = visformer.compare(good, other, *ids)
        assert (made.kind, made.layer, made.head) == (kind, 1, 0)
    trace = visformer.Decoding(good, SOURCE[0], limit=3).finish()
    assert visformer.compare(trace, good).kind is None
    made = visformer.compare(trace, bad)
    assert (made.kind, made.layer, made.head) == (kind, 1, 0)


def test_a_change_of_the_run_is_found(folder_of: Callable[[str], Path]) -> None:
    model = opened_once(folder_of("GPT-2"))
    changed = model.watched_batch([torch.tensor(SOURCE)], parse(["causal off"]))
    made = visformer.compare(changed, model)
    assert (made.kind, made.layer) == ("decoder", 0)
