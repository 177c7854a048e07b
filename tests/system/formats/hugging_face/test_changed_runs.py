"""Changes of the run of a model of transformers: exact, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visformer
from tests.changes_by_hand import (
    EFFECTS,
    PATCHES,
    SOURCE,
    HandModel,
    fed,
    gpt2,
    largest,
    t5,
    texts,
)
from tests.system.formats.hugging_face.parity import CLOSE, Own, opened, opened_once
from visformer.core.models import BatchRow, SourceTokens
from visformer.errors import InputError
from visformer.values.intervention import parse
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
    model, own = opened_once(folder_of(name)), Own(folder_of(name), None)
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
    model = opened_once(folder_of(name))
    plain, ahead = changed(model, ""), changed(model, "causal off @ L2")
    assert not np.triu(plain.attention("decoder", 1, 0), 1).any()
    assert not np.triu(ahead.attention("decoder", 0, 0), 1).any()
    assert np.triu(ahead.attention("decoder", 1, 0), 1).any()
    assert ahead.attention("decoder", 1).sum(-1) == pytest.approx(1, abs=1e-5)


def test_scores_are_scaled(folder_of: FolderOf) -> None:
    model = opened_once(folder_of("BART"))
    plain, half = changed(model, ""), changed(model, "scale 0.5")
    assert half.scale("encoder", 0) == pytest.approx(plain.scale("encoder", 0) / 2)
    assert not half.is_captured("encoder", 0)
    ours = half.attention("encoder", 0, 1)
    expected = plain.scores("encoder", 0, 1) / 2
    weights = torch.tensor(expected).softmax(-1).numpy()
    assert abs(ours - weights).max() < CLOSE


def test_a_single_cell(folder_of: FolderOf) -> None:
    trace = changed(opened_once(folder_of("BERT")), "cell encoder 2 3 off @ L1", 0)
    assert trace.attention("encoder", 0)[:, 1, 2].max() == 0
    assert trace.attention("encoder", 1)[:, 1, 2].max() > 0


def test_nothing_of_a_change_stays(folder_of: FolderOf) -> None:
    model = opened_once(folder_of("BART"))
    before = changed(model, "")
    changed(model, "hide 2; scale 2")
    after = changed(model, "")
    assert np.array_equal(before.attention("cross", 1), after.attention("cross", 1))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("T5", "positions none", "neither positions nor the value"),
        ("T5", "multiply", "neither positions nor the value"),
        ("T5", "hide 40", "the source has"),
        ("T5", "causal off @ L7", "the model has 2 such layers"),
        ("T5", "head cross off @ L1H9", "such a layer has 4 heads"),
        ("GPT-2", "hide 1", "no attention of the kind that"),
        ("GPT-2", 'embedding source 1 = "cat"', "from which table"),
        ("BERT", "causal off", "no attention of the kind that"),
        ("BERT", "layer decoder off", "no attention of the kind that"),
    ],
)
def test_what_is_out_of_reach_is_said(
    name: str, change: str, words: str, folder_of: FolderOf
) -> None:
    with pytest.raises(InputError, match=words):
        changed(opened_once(folder_of(name)), change)


def calmed(folder: Path) -> Any:
    """Return a model whose attention is spread over several tokens."""
    model = opened(folder)
    with torch.no_grad():
        for parameter in model.model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(0.6)
    return model


@pytest.fixture(scope="module")
def by_name(folder_of: FolderOf) -> dict[str, tuple[Any, HandModel]]:
    models = {name: calmed(folder_of(name)) for name in ("T5", "GPT-2")}
    hand = {"T5": t5, "GPT-2": gpt2}
    return {name: (model, hand[name](model.model)) for name, model in models.items()}


@pytest.mark.parametrize("text", [*EFFECTS, *PATCHES])
@pytest.mark.parametrize("name", ["T5", "GPT-2"])
def test_a_run_is_what_the_change_says(
    name: str, text: str, by_name: dict[str, tuple[Any, HandModel]]
) -> None:
    model, hand = by_name[name]
    if text in texts(model):
        assert largest(model, hand, text) < 1e-5
    else:
        with pytest.raises(InputError, match=r"no attention of the kind|which table"):
            model.can(parse([text]), SourceTokens(SOURCE))


@pytest.mark.parametrize("name", ["BART", "Llama"])
def test_a_head_is_off_as_if_its_columns_were_zero(
    name: str, folder_of: FolderOf
) -> None:
    model = opened(folder_of(name))
    kind = model.facts.kinds[0]
    paths = {one.kind: one.module for one in model.shown[0].last_run}
    part = model.model.get_submodule(paths[kind])  # of the last layer
    names = dict(part.named_modules())
    out = next(names[n] for n in ("out_proj", "o_proj") if n in names)
    size = model.facts.attention[kind].value_size
    source = SourceTokens(model.vocabulary.read(TEXT).ids)

    def logits(text: str) -> Any:
        return model.watched_pass(source, source.ids, parse([text]))[1]

    off, plain = logits(f"head {kind} off @ L2H2"), logits("")
    with torch.no_grad():
        out.weight[:, size : 2 * size] = 0
    assert torch.equal(off, logits(""))
    assert not torch.equal(off, plain)


def test_a_padded_batch_is_changed_row_by_row(folder_of: FolderOf) -> None:
    model = calmed(folder_of("T5"))
    sources = [model.vocabulary.read(text) for text in (TEXT, "a cat")]
    rows = [BatchRow(source, [model.bos, 8, 9]) for source in sources]
    change = parse(["cell cross 2 1 off @ L1H1; hide 2; value decoder 1 off @ L2"])
    for made, source in zip(model.batch(rows, [change] * 2), sources, strict=True):
        alone = fed(model, change, source.ids, [model.bos, 8, 9])
        size = len(source.ids)
        for layer in range(2):
            ours = made.attention("cross", layer)[..., :size]
            assert abs(ours - alone.attention("cross", layer)).max() < CLOSE
        assert abs(made.logits - alone.logits).max() < CLOSE
    with pytest.raises(InputError, match="one by one"):
        model.batch(rows, [parse(["head cross mean"])] * 2)
