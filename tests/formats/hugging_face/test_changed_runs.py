"""Changes of the run of a model of transformers: exact, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visformer
from tests.formats.hugging_face.parity import CLOSE, Own, opened
from visformer.errors import InputError
from visformer.values.trace import Trace

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers' own
FolderOf = Callable[[str], Path]
TEXT = "the cat sees a dog"


def changed(model: Any, change: str, steps: int = 4) -> Trace:
    decoding = visformer.Decoding(model, TEXT, limit=6, intervention=change)
    trace: Trace = decoding.step(steps)
    return trace


@pytest.mark.parametrize("name", ["T5", "BART"])
def test_a_hidden_source_token_is_as_if_it_were_padding(
    name: str, folder_of: FolderOf
) -> None:
    model, own = opened(folder_of(name)), Own(folder_of(name), None)
    trace = changed(model, "hide 3")
    ids = torch.tensor(trace.source_ids[None])
    mask = torch.ones_like(ids)
    mask[0, 2] = 0
    target = torch.tensor(trace.target_ids[None])
    with torch.no_grad():
        output = own.model(
            input_ids=ids,
            attention_mask=mask,
            decoder_input_ids=target,
            output_attentions=True,
        )
    for layer in range(2):
        ours = trace.attention("cross", layer)
        theirs = output.cross_attentions[layer][0].numpy()
        assert abs(ours - theirs).max() < CLOSE
        assert ours[..., 2].max() == 0
    best = output.logits[0, -1].softmax(-1).max()
    assert trace.steps[-1].candidates[0].probability == pytest.approx(float(best), 1e-4)
    assert str(trace.intervention) == "hide 3"


@pytest.mark.parametrize("name", ["T5", "GPT-2"])
def test_without_the_causal_mask_rows_read_ahead(
    name: str, folder_of: FolderOf
) -> None:
    model = opened(folder_of(name))
    plain, ahead = changed(model, ""), changed(model, "causal off @ L2")
    assert not np.triu(plain.attention("decoder", 1, 0), 1).any()
    assert not np.triu(ahead.attention("decoder", 0, 0), 1).any()
    assert np.triu(ahead.attention("decoder", 1, 0), 1).any()
    assert ahead.attention("decoder", 1).sum(-1) == pytest.approx(1, abs=1e-5)


def test_scores_are_scaled(folder_of: FolderOf) -> None:
    model = opened(folder_of("BART"))
    plain, half = changed(model, ""), changed(model, "scale 0.5")
    assert half.scale("encoder", 0) == pytest.approx(plain.scale("encoder", 0) / 2)
    assert not half.is_captured("encoder", 0)
    ours = half.attention("encoder", 0, 1)
    expected = plain.scores("encoder", 0, 1) / 2
    weights = torch.tensor(expected).softmax(-1).numpy()
    assert abs(ours - weights).max() < CLOSE


def test_a_single_cell(folder_of: FolderOf) -> None:
    trace = changed(opened(folder_of("BERT")), "cell encoder 2 3 off @ L1", 0)
    assert trace.attention("encoder", 0)[:, 1, 2].max() == 0
    assert trace.attention("encoder", 1)[:, 1, 2].max() > 0


def test_nothing_of_a_change_stays(folder_of: FolderOf) -> None:
    model = opened(folder_of("BART"))
    before = changed(model, "")
    changed(model, "hide 2; scale 2")
    after = changed(model, "")
    assert np.array_equal(before.attention("cross", 1), after.attention("cross", 1))
    assert model.model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("T5", "positions none", "not positions or the value of a mask"),
        ("T5", "multiply", "not positions or the value of a mask"),
        ("T5", "hide 40", "the source has"),
        ("T5", "causal off @ L7", "the model has 2 such layers"),
        ("GPT-2", "hide 1", "no attention of the kind that"),
        ("BERT", "causal off", "no attention of the kind that"),
    ],
)
def test_what_is_out_of_reach_is_said(
    name: str, change: str, words: str, folder_of: FolderOf
) -> None:
    with pytest.raises(InputError, match=words):
        changed(opened(folder_of(name)), change)


def test_a_change_at_another_point_is_out_of_reach(
    folder_of: FolderOf,
) -> None:
    with pytest.raises(InputError, match="cannot be made: in a model of transf"):
        changed(opened(folder_of("T5")), "head cross off")


def test_a_model_without_the_door_says_so(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(folder_of("T5"))
    monkeypatch.setattr(type(model.model), "set_attn_implementation", lambda *_: None)
    with pytest.raises(InputError, match="cannot be intercepted"):
        changed(model, "hide 1")
