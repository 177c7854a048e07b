"""Models around torch.nn.Transformer, tokenizers beside a file, and findings."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.system.formats import layout_models as models
from tests.system.formats.layout_files import opened, refusal, saved, weights
from tests.system.formats.layout_models import (
    LENGTH,
    MAKERS,
    SOURCE,
    TARGET,
    WIDTH,
    state,
)
from visformer.core.checkpoint import Checkpoint
from visformer.core.position_rules import sinusoidal
from visformer.errors import InputError
from visformer.formats.loading import inspect

# torch.nn.Transformer


def check_torch(checkpoint: Checkpoint, tensors: dict[str, Tensor]) -> None:
    found = weights(checkpoint)
    joint = tensors["transformer.decoder.layers.1.multihead_attn.in_proj_weight"]
    ours = "decoder.layers.1.cross_attention"
    parts = [found[f"{ours}.{part}.weight"] for part in ("query", "key", "value")]
    assert torch.equal(torch.cat(parts), joint)
    last = tensors["transformer.encoder.layers.1.norm2.bias"]
    assert torch.equal(found["encoder.layers.1.feed_forward_norm.bias"], last)


def test_torch_with_parts_found_by_shape(tmp_path: Path) -> None:
    tensors = state(models.around)
    checkpoint = opened(saved(tmp_path / "m.pt", tensors))
    check_torch(checkpoint, tensors)
    found = weights(checkpoint)
    source = tensors["src_tok_emb.embedding.weight"]
    assert torch.equal(found["source_embedding.weight"], source)
    assert torch.equal(found["output.weight"], tensors["generator.weight"])
    assert any("source_embedding = src_tok_emb" in line for line in checkpoint.assumed)
    assert any(line.startswith("norm_first = False") for line in checkpoint.assumed)


def test_torch_with_parts_named(tmp_path: Path) -> None:
    tensors = state(models.around)
    swapped = {
        "source_embedding": "tgt_tok_emb.embedding",
        "target_embedding": "src_tok_emb.embedding.weight",
        "output": "generator.weight",
        "output_bias": "generator.bias",
    }
    path = saved(tmp_path / "m.pt", tensors)
    sentence = refusal(path, names=swapped)  # 13 rows of output, 11 of target
    assert "Wrong shape: generator.weight is [13, 8], not [11, 8]" in sentence
    assert "no such tensor" in refusal(path, names={"output": "head"})
    assert "does not accept “head”" in refusal(path, names={"head": "generator"})


def test_torch_positions_stored_and_learned(tmp_path: Path) -> None:
    path, table = tmp_path / "m.pt", torch.randn(LENGTH, 1, WIDTH)
    tensors = state(models.around)
    waves = sinusoidal(LENGTH, WIDTH)[:, None]
    checkpoint = opened(saved(path, {**tensors, "pe.pos_embedding": waves}))
    assert checkpoint.config.positions == "sinusoidal"
    assert torch.equal(checkpoint.model.positions, waves[:, 0])
    checkpoint = opened(saved(path, {**tensors, "pe.pos_embedding": table}))
    assert checkpoint.config.positions == "learned"
    assert torch.equal(weights(checkpoint)["target_positions"], table[:, 0])
    assert torch.equal(weights(checkpoint)["source_positions"], table[:, 0])
    for name in ("pe", "inner.pe"):  # a plain buffer [P, D]
        checkpoint = opened(saved(path, {**tensors, name: waves[:, 0]}))
        assert torch.equal(checkpoint.model.positions, waves[:, 0])


def test_torch_position_tables_without_a_side_are_in_order(tmp_path: Path) -> None:
    first, second = torch.randn(2, LENGTH, 1, WIDTH)
    tables = {"first.pos": first, "second.pos": second}
    checkpoint = opened(saved(tmp_path / "m.pt", {**state(models.around), **tables}))
    assert torch.equal(weights(checkpoint)["source_positions"], first[:, 0])
    assert torch.equal(weights(checkpoint)["target_positions"], second[:, 0])


def test_torch_shares_what_is_there_once(tmp_path: Path) -> None:
    tensors = {
        f"transformer.{name}": tensor for name, tensor in state(models.bare).items()
    } | {"embed.weight": torch.randn(SOURCE, WIDTH)}
    config = opened(saved(tmp_path / "m.pt", tensors)).config
    assert config.shared_embedding
    assert config.tied_output


def test_a_bare_torch_transformer_is_for_inspection(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", state(models.bare))
    report = inspect(path)
    assert report["problem"].startswith(
        "m.pt is a torch.nn.Transformer without embeddings, so it cannot run"
    )
    assert len(report["tensors"]) == len(state(models.bare))


# Tokenizers


def test_without_a_tokenizer_ids_are_typed(tmp_path: Path) -> None:
    tokenizer = opened(saved(tmp_path / "m.pt", state(models.handout))).tokenizer
    pieces = tokenizer.encode_source(" 7  10 0")
    assert [piece.id for piece in pieces] == [7, 10, 0]
    assert [piece.token for piece in pieces] == ["7", "10", "0"]
    assert [(piece.start, piece.end) for piece in pieces] == [(1, 2), (4, 6), (7, 8)]
    assert tokenizer.decode([3, 12]) == "3 12"
    assert tokenizer.target_id("12") == 12
    assert [piece.id for piece in tokenizer.encode_source("")] == [tokenizer.eos]
    for wrong in ("11", "-1", "x", "²", "9" * 30):
        with pytest.raises(InputError, match="Type ids from 0 to 10"):
            tokenizer.encode_source(wrong)


def test_a_vocabulary_of_words_is_read_by_its_ids(tmp_path: Path) -> None:
    words = ["eat", "cat", "<pad>", "<sos>", "<eos>", *(f"w{i}" for i in range(8))]
    ids = {word: i for i, word in reversed(list(enumerate(words)))}
    for side, size in (("source", SOURCE), ("target", TARGET)):
        text = str({w: i for w, i in ids.items() if i < size}).replace("'", '"')
        (tmp_path / f"{side}.json").write_text(text)
    pair = (tmp_path / "source.json", tmp_path / "target.json")
    path = saved(tmp_path / "m.pt", state(models.scratch))
    tokenizer = opened(path, tokenizer=pair).tokenizer
    assert (tokenizer.pad, tokenizer.bos, tokenizer.eos) == (2, 3, 4)
    assert [piece.id for piece in tokenizer.encode_source("cat eat")] == [1, 0]
    assert tokenizer.decode([3, 1, 0, 4]) == "cat eat"
    with pytest.raises(InputError, match=r"dog.* is not in the vocabulary"):
        tokenizer.encode_source("dog")


# Findings


LAYOUT_FINDINGS = {
    "handout": {"000-2", "000-3", "000-6", "000-4"},
    "d2l": {"001-4", "001-5", "001-6", "001-7", "001-9"},
    "labml": {"002-3", "002-4", "002-6", "002-7", "002-9", "002-10", "002-12"},
    "modular": {"003-4", "003-7", "003-9", "003-11", "003-12"},
    "scratch": {"004-2", "004-6", "004-8"},
    "torch": set(),
}


def ids_of(checkpoint: Checkpoint) -> set[str]:
    return {finding.id for finding in checkpoint.findings}


@pytest.mark.parametrize("layout", MAKERS)
def test_findings_of_a_layout(tmp_path: Path, layout: str) -> None:
    checkpoint = opened(saved(tmp_path / "m.pt", state(MAKERS[layout])))
    assert ids_of(checkpoint) == LAYOUT_FINDINGS[layout]
    for finding in checkpoint.findings:
        for sentence in (finding.what, finding.remedy):
            assert sentence.endswith(".")
            assert sentence.count(". ") == 0


def test_findings_known_from_weights(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    fresh = models.modular().state_dict()
    assert {"003-8", "untrained-norms"} <= ids_of(opened(saved(path, fresh), pad=0))
    assert "003-8" not in ids_of(opened(path))  # whose pad is 1

    copied = state(models.labml)
    for name in copied:
        if ".layers.1." in name and "norm" not in name and name.endswith("bias"):
            copied[name] = copied[name.replace(".layers.1.", ".layers.0.")]
    assert "002-14" in ids_of(opened(saved(path, copied)))

    broken = state(models.scratch)
    broken["fc_out.weight"][0, 0] = float("nan")
    broken["encoder_layers.0.self_attn.W_q.weight"].fill_(0.5)
    broken["encoder_embedding.weight"][4] = 0
    broken["pos_encoding.pe"].add_(1)
    found = ids_of(opened(saved(path, broken)))
    assert {"not-finite", "constant", "untrained-rows", "positions-unknown"} <= found


SPOILT = (
    "Row {row} is zero but the pad id is {pad}, so token {row} was treated as padding "
    "and never learned."
)


def test_each_side_is_judged_by_its_own_pad(tmp_path: Path) -> None:
    tensors = state(models.modular)
    tensors["encoder.emb.tok_emb.weight"][2] = 0
    tensors["decoder.emb.tok_emb.weight"][3] = 0
    path = saved(tmp_path / "m.pt", tensors)
    assert "003-8" not in ids_of(opened(path, pad=(2, 3)))
    swapped = [f for f in opened(path, pad=(3, 2)).findings if f.id == "003-8"]
    assert [(finding.where, finding.what) for finding in swapped] == [
        ("Source embedding", SPOILT.format(row=2, pad=3)),
        ("Target embedding", SPOILT.format(row=3, pad=2)),
    ]


def test_a_table_in_the_other_order_is_noticed_and_used(tmp_path: Path) -> None:
    tensors = state(models.handout)
    waves = tensors["positional_encoding.pe"]
    halves = torch.cat((waves[..., ::2], waves[..., 1::2]), -1)
    tensors["positional_encoding.pe"] = halves
    checkpoint = opened(saved(tmp_path / "m.pt", tensors))
    assert "positions-order" in ids_of(checkpoint)
    assert torch.equal(checkpoint.model.positions, halves[0])
