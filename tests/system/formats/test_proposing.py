"""Names that a layout does not know: what is proposed, asked, said and listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.system.formats.layout_files import opened, refusal, saved, weights
from tests.system.formats.layout_models import MAKERS, WIDTH, state
from visformer.core.checkpoint import Checkpoint
from visformer.errors import CheckpointError
from visformer.formats.layouts import LAYOUTS
from visformer.formats.loading import checkpoint_files, inspect, load
from visformer.formats.proposing import MOST_UNITS, general, proposal, shortest_rules
from visformer.values.questions import Questionnaire

Changes = tuple[tuple[str, str], ...]
RENAMED: dict[str, tuple[str, Changes, str]] = {  # layout, changes, words of the remedy
    "a projection": ("scratch", (("W_q", "query_proj"),), '{"query_proj": "W_q"}'),
    "projections": (
        "scratch",
        (("W_q", "to_q"), ("W_k", "to_k"), ("W_v", "to_v"), ("W_o", "to_out")),
        '{"to_q": "W_q", "to_k": "W_k", "to_v": "W_v", "to_out": "W_o"}',
    ),
    "stacks": (
        "scratch",
        (("encoder_layers", "enc_layers"), ("decoder_layers", "dec_layers")),
        '{"enc_layers": "encoder_layers", "dec_layers": "decoder_layers"}',
    ),
    "a prefix": ("scratch", ((r"^(.*layers)", r"net.\1"),), '{"net.": ""}'),
    "around": (
        "handout",
        (("encoder_embed", "src"), ("decoder_embed", "tgt"), ("fc_output", "gen")),
        '{"src": "encoder_embed", "tgt": "decoder_embed", "gen": "fc_output"}',
    ),
    "attentions": (
        "handout",
        ((r"self_att\.", "attn1."), (r"cross_att\.", "attn2.")),
        '{"attn1": "self_att", "attn2": "cross_att"}',
    ),
    "norms": ("modular", (("gamma", "weight"), ("beta", "bias")), "inspect"),
    "a level less": ("labml", ((r"\.linear\.", "."),), "inspect"),
    "blocks": ("d2l", ((r"blks\.block", "layers."),), '{"layers.0": "blks.block0"'),
    "around torch": (
        "torch",
        (("transformer.encoder", "enc"), ("transformer.decoder", "dec")),
        "inspect",
    ),
    "everything": (
        "scratch",
        (
            *(("encoder_layers", "enc"), ("decoder_layers", "dec")),
            *(("self_attn", "attn"), ("cross_attn", "enc_attn"), ("W_", "")),
            *(("feed_forward", "mlp"), ("fc1", "up"), ("fc2", "down")),
            *(("norm", "ln"), ("encoder_embedding", "src_emb"), ("fc_out", "head")),
            *(("decoder_embedding", "tgt_emb"), ("pos_encoding", "pos")),
        ),
        "inspect",
    ),
}


def changed(layout: str, changes: Changes) -> dict[str, Tensor]:
    tensors = {}
    for name, tensor in state(MAKERS[layout]).items():
        for pattern, replacement in changes:
            name = re.sub(pattern, replacement, name)
        tensors[name] = tensor
    return tensors


def form(path: Path) -> Questionnaire:
    made = checkpoint_files(str(path), ()).questionnaire()
    assert made is not None
    return made


def accepted(path: Path) -> Checkpoint:
    """Open a file with what its form proposes."""
    answers = {q.name: q.default for q in form(path).questions if q.mandatory}
    given = tuple((n, a) for n, a in {**answers, "heads": 2}.items() if a is not None)
    return checkpoint_files(str(path), given).load(torch.device("cpu"))


def check_same(made: Checkpoint, layout: str, path: Path) -> None:
    plain = opened(saved(path, state(MAKERS[layout])))
    assert made.layout == layout
    assert {*weights(made)} == {*weights(plain)}
    for name, weight in weights(plain).items():
        assert torch.equal(weights(made)[name], weight), name


@pytest.mark.parametrize("what", RENAMED)
def test_renamed_files_open_as_proposed(tmp_path: Path, what: str) -> None:
    """By the form's answers, by the keywords listed, by the sentence's own words."""
    layout, changes, words = RENAMED[what]
    path = saved(tmp_path / "m.pt", changed(layout, changes))
    sentence = refusal(path)
    assert f"m.pt does not fit the layout {layout}." in sentence
    assert words in sentence
    assert len(sentence) <= 200
    check_same(accepted(path), layout, tmp_path / "plain.pt")
    listed = inspect(path, heads=2)["proposed"]
    made = load(path, heads=2, device="cpu", layout=layout, **listed)
    check_same(made, layout, tmp_path / "plain.pt")
    assert inspect(path, heads=2, layout=layout, **listed)["proposed"] == {}


def test_another_tensor_of_the_same_shape_may_be_chosen(tmp_path: Path) -> None:
    layout, changes, _words = RENAMED["around"]
    path = saved(tmp_path / "m.pt", changed(layout, changes))
    question = next(q for q in form(path).questions if q.name.startswith("place."))
    assert question.label == "encoder_embed"
    assert [words for _, words in question.choices] == ["src", "tgt", "gen"]
    assert question.default == "src.weight"
    answers = (
        *(("heads", 2), ("place.encoder_embed.weight", "src.weight")),
        *(("place.fc_output.weight", "tgt.weight"),),
        *(("place.decoder_embed.weight", "gen.weight"),),
    )
    with pytest.raises(CheckpointError, match=r"Unexpected: decoder_embed\.bias"):
        checkpoint_files(str(path), answers).load(torch.device("cpu"))


def test_surplus_tensors_are_offered_to_be_left_out(tmp_path: Path) -> None:
    surplus = {"extra.weight": torch.ones(3), "extra.bias": torch.ones(3)}
    path = saved(tmp_path / "m.pt", {**state(MAKERS["scratch"]), **surplus})
    assert refusal(path) == (
        "m.pt does not fit the layout scratch. Unexpected: extra.weight, extra.bias. "
        'Try ignore=["extra.weight", "extra.bias"].'
    )
    labels = [q.label for q in form(path).questions if q.name.startswith("ignore.")]
    assert labels == ["extra.weight", "extra.bias"]
    check_same(accepted(path), "scratch", tmp_path / "plain.pt")


def test_added_norms_after_the_stacks_are_used(tmp_path: Path) -> None:
    added = {
        f"{stack}_norm.{leaf}": torch.full((WIDTH,), 3.0)
        for stack in ("encoder", "decoder")
        for leaf in ("weight", "bias")
    }
    path = saved(tmp_path / "m.pt", {**state(MAKERS["scratch"]), **added})
    made = accepted(path)
    assert made.config.final_norm
    assert torch.equal(weights(made)["decoder.norm.bias"], torch.full((WIDTH,), 3.0))


def test_what_nothing_can_mend_is_no_form(tmp_path: Path) -> None:
    tensors = changed("scratch", RENAMED["a projection"][1])
    del tensors["fc_out.weight"]
    path = saved(tmp_path / "m.pt", tensors)
    with pytest.raises(CheckpointError, match="Missing: encoder_layers") as caught:
        form(path)
    assert "Try" not in str(caught.value)


def test_strange_files_are_not_searched_for_long(tmp_path: Path) -> None:
    names = LAYOUTS["scratch"].names
    many = {f"{chr(97 + i % 26)}x{i}": torch.ones(4, 4) for i in range(MOST_UNITS + 1)}
    assert proposal(names, "", many).places == {}
    assert proposal(names, "", {"x" * 300 + ".weight": torch.ones(4, 4)}).places == {}
    few = {f"a{i}.weight": torch.ones(4, 4) for i in range(4)}
    assert proposal(names, "", few).places


def test_general_names() -> None:
    assert general("encoder.layers.3.mlp.0.weight") == "encoder.layers.{l}.mlp.0.weight"
    assert general("blks.block12.a") == "blks.block{l}.a"
    assert general("norm1.weight") == "norm1.weight"


def test_words_that_would_change_more_are_no_rule() -> None:
    assert shortest_rules({"a.q.w": "a.W.w"}, ["a.q.w", "b.w"]) == {"q": "W"}
    assert shortest_rules({"a.q.w": "a.W.w"}, ["a.q.w", "b.q.w"]) == {}
