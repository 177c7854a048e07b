"""Files of other programs: recognised, renamed, told apart, refused with a reason."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.formats import layout_models as models
from tests.formats.layout_models import (
    FEED,
    LENGTH,
    MAKERS,
    SOURCE,
    TARGET,
    WIDTH,
    state,
)
from visformer.core.check import check
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.incremental import warm_up
from visformer.core.parameters import layer_parameters
from visformer.core.passes import run
from visformer.core.positions import sinusoidal
from visformer.core.presets import build
from visformer.errors import CheckpointError, InputError
from visformer.formats.keys import KEYS, our_name, their_name
from visformer.formats.loading import inspect, load

CUDA_FREE = "cpu"
opened = partial(load, heads=2, device=CUDA_FREE)


def saved(path: Path, tensors: dict[str, Tensor]) -> Path:
    torch.save(tensors, path)
    return path


def refusal(path: Any, **told: Any) -> str:
    with pytest.raises((CheckpointError, InputError)) as caught:
        load(path, **{"heads": 2, "device": "cpu", **told})
    return str(caught.value)


def weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    return dict(checkpoint.model.named_parameters())


def check_weights(checkpoint: Checkpoint, tensors: dict[str, Tensor]) -> None:
    """Every tensor of the file is in the model, and nothing else is."""
    keys, found = KEYS[checkpoint.layout], weights(checkpoint)
    for name, tensor in tensors.items():
        ours = our_name(keys, name)
        assert ours is not None, name
        place = checkpoint.model.positions if ours == "positions" else found.pop(ours)
        assert torch.equal(place, tensor.reshape(place.shape)), name
    assert not found


TUTORIALS = [name for name in MAKERS if name != "torch"]


@pytest.mark.parametrize("layout", TUTORIALS)
def test_every_tensor_lands(tmp_path: Path, layout: str) -> None:
    tensors = state(MAKERS[layout])
    checkpoint = opened(saved(tmp_path / "m.pt", tensors))
    assert checkpoint.layout == layout
    check_weights(checkpoint, tensors)
    config = checkpoint.config
    assert (config.source_vocabulary, config.target_vocabulary) == (SOURCE, TARGET)
    assert (config.d_model, config.feed_forward, config.heads) == (WIDTH, FEED, 2)
    assert config.encoder_layers == (3 if layout == "scratch" else 2)
    assert config.decoder_layers == 2
    assert config.final_norm == (layout == "labml")


@pytest.mark.parametrize("layout", TUTORIALS)
def test_names_go_both_ways(layout: str) -> None:
    for name in state(MAKERS[layout]):
        ours = our_name(KEYS[layout], name)
        assert ours is not None
        assert their_name(KEYS[layout], ours) == name


def as_safetensors(path: Path, tensors: dict[str, Tensor]) -> Path:
    save_file(tensors, path.with_suffix(".safetensors"))
    return path.with_suffix(".safetensors")


def under(prefix: str, path: Path, tensors: dict[str, Tensor]) -> Path:
    return saved(path, {f"{prefix}{name}": t for name, t in tensors.items()})


def wrapped(key: str, path: Path, tensors: dict[str, Tensor]) -> Path:
    torch.save({key: tensors, "epoch": 3}, path)
    return path


WRITERS: dict[str, Callable[[Path, dict[str, Tensor]], Path]] = {
    "safetensors": as_safetensors,
    "module.": partial(under, "module."),
    "_orig_mod.": partial(under, "_orig_mod."),
    "both": partial(under, "module._orig_mod."),
    "a larger model": partial(under, "net.transformer."),
    "state_dict": partial(wrapped, "state_dict"),
    "model": partial(wrapped, "model"),
}


@pytest.mark.parametrize("layout", MAKERS)
@pytest.mark.parametrize("how", WRITERS)
def test_wrappers_and_prefixes(tmp_path: Path, layout: str, how: str) -> None:
    tensors = state(MAKERS[layout])
    plain = opened(saved(tmp_path / "m.pt", tensors))
    other = opened(WRITERS[how](tmp_path / "n.pt", tensors))
    assert other.layout == layout
    assert other.config == plain.config
    for name, weight in weights(other).items():
        assert torch.equal(weight, weights(plain)[name]), name


@pytest.mark.parametrize("layout", MAKERS)
def test_faults_name_the_tensors_of_the_file(tmp_path: Path, layout: str) -> None:
    tensors = state(MAKERS[layout])
    norms = [n for n in tensors if n.endswith(("norm1.weight", "norm1.ln.weight"))]
    norm = (
        next(n for n in tensors if "norm" in n or "ln1" in n) if not norms else norms[0]
    )
    path = tmp_path / "m.pt"
    del tensors[norm]
    assert f"missing: {norm}" in refusal(saved(path, tensors))
    tensors = state(MAKERS[layout]) | {"stranger": torch.ones(2)}
    assert "surplus: stranger" in refusal(saved(path, tensors))
    tensors = state(MAKERS[layout])
    tensors[norm] = torch.ones(3)
    assert f"mis-shaped: {norm} [3], not [8]" in refusal(saved(path, tensors))


@pytest.mark.parametrize("layout", TUTORIALS)
def test_a_missing_embedding_is_named(tmp_path: Path, layout: str) -> None:
    tensors = state(MAKERS[layout])
    name = next(
        n for n in tensors if our_name(KEYS[layout], n) == "source_embedding.weight"
    )
    del tensors[name]
    assert f"missing: {name}" in refusal(saved(tmp_path / "m.pt", tensors))


@pytest.mark.parametrize("layout", MAKERS)
def test_only_heads_are_mandatory(tmp_path: Path, layout: str) -> None:
    path = saved(tmp_path / "m.pt", state(MAKERS[layout]))
    assert refusal(path, heads=None) == (
        "m.pt does not tell its number of heads: give heads=…, which divides d_model = "
        "8, such as 1, 2, 4, 8."
    )
    assert refusal(path, heads=3) == "3 heads do not divide d_model = 8 evenly."


def test_a_config_beside_tells_the_heads_and_keywords_win(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", state(models.modular))
    config = '{"n_head": 4, "src_pad_idx": 3, "max_len": 30, "learning_rate": 0.1}'
    (tmp_path / "config.json").write_text(config)
    for opening in (path, tmp_path, tmp_path / "config.json"):
        checkpoint = load(opening, device="cpu")
        assert checkpoint.config.heads == 4
        assert checkpoint.config.max_positions == 30
        assert checkpoint.tokenizer.pad == 3
    checkpoint = load(path, device="cpu", n_head=2, max_len=40, trg_pad_idx=5)
    assert checkpoint.config.heads == 2
    assert checkpoint.config.max_positions == 40
    assert (checkpoint.tokenizer.source_pad, checkpoint.tokenizer.pad) == (3, 5)


def test_unknown_keywords_and_layouts_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", state(models.scratch))
    assert refusal(path, hats=2).startswith("there is no option hats")
    assert refusal(path, layout="lab").startswith("there is no layout “lab”")
    assert refusal(path, pad=-1) == "pad is -1: it must be a token's id."
    assert refusal(path, eos=99).startswith("eos is 99, outside the vocabulary")


def test_a_size_that_contradicts_the_file_is_mis_shaped(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", state(models.scratch))
    assert "mis-shaped: encoder_layers.0.feed_forward.fc1" in refusal(path, d_ff=64)


def test_what_was_assumed_is_listed(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", state(models.labml))
    assumed = opened(path).assumed
    for word in ("activation = relu", "max_positions = 5000", "pad = 0", "tokenizer"):
        assert any(line.startswith(word) for line in assumed), word
    told = opened(path, activation=torch.nn.GELU(), max_len=64, pad=0, bos=1, eos=2)
    assert [line.split()[0] for line in told.assumed] == ["tokenizer"]
    assert told.config.activation == "gelu"
    assert told.config.max_positions == 64


# d2l


def test_d2l_in_two_files_in_either_order(tmp_path: Path) -> None:
    tensors = state(models.d2l)
    halves = [
        saved(
            tmp_path / f"{part}.pt",
            {
                name.removeprefix(f"{part}."): tensor
                for name, tensor in tensors.items()
                if name.startswith(f"{part}.")
            },
        )
        for part in ("encoder", "decoder")
    ]
    for pair in (halves, halves[::-1]):
        checkpoint = opened((pair[0], pair[1]))
        assert checkpoint.layout == "d2l"
        check_weights(checkpoint, tensors)
        assert len(checkpoint.digest) == 64
    assert refusal(halves[0]) == (
        "encoder.pt holds a d2l encoder and no decoder: give both files, as (encoder "
        "file, decoder file)."
    )
    assert "which the other file holds too" in refusal((halves[0], halves[0]))


def test_biases_are_read_by_presence(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    config = opened(saved(path, state(models.d2l))).config
    assert (config.encoder_bias, config.decoder_bias) == ("none", "none")
    config = opened(saved(path, state(models.d2l, bias="1111"))).config
    assert (config.encoder_bias, config.decoder_bias) == ("all", "none")
    config = opened(saved(path, state(models.labml, bias=False))).config
    assert (config.encoder_bias, config.decoder_bias) == ("value_output",) * 2


def over_time(tensors: dict[str, Tensor], encoder: int, decoder: int) -> None:
    """Give the norms of both stacks the shape [T, D]."""
    for name in [name for name in tensors if ".ln." in name]:
        length = encoder if name.startswith("encoder") else decoder
        if length:
            tensors[name] = torch.randn(length, WIDTH)


@pytest.mark.parametrize("lengths", [(5, 4), (5, 0), (0, 4)])
def test_a_norm_over_time_runs_at_its_length(
    tmp_path: Path, lengths: tuple[int, int]
) -> None:
    tensors = state(models.d2l)
    over_time(tensors, *lengths)
    checkpoint = opened(saved(tmp_path / "m.pt", tensors), pad=0)
    check_weights(checkpoint, tensors)
    config = checkpoint.config
    assert (config.encoder_norm_length, config.decoder_norm_length) == lengths
    told = [line for line in checkpoint.findings if line.startswith("001-12")]
    assert len(told) == 1
    assert all(str(n) in told[0] for n in lengths if n)
    source, target = [[4, 7, 5, 3, 6]], [[2, 7, 8, 4]]
    assert len(run(checkpoint, source, target)) == 1
    for side, wrong in ((0, [[4, 7]]), (1, [[2, 3, 4]])):
        pair = (source, wrong) if side else (wrong, target)
        if lengths[side]:
            with pytest.raises(InputError, match=f"exactly {lengths[side]}, and the"):
                run(checkpoint, *pair)
    assert check(checkpoint)["passed"]
    with pytest.raises(InputError, match="cannot be shown token by token"):
        layer_parameters(checkpoint, "encoder" if lengths[0] else "decoder", 0)
    if lengths[1]:
        warm_up(checkpoint.packed)
        with pytest.raises(InputError, match="neither its own program nor this one"):
            Decoding(checkpoint, source[0])
        return
    with pytest.raises(InputError, match="exactly 5, and the source has 2"):
        Decoding(checkpoint, [4, 7])
    trace = Decoding(checkpoint, source[0], limit=6).feed([4, 5, 6, 7])
    ids = [trace.target_ids.tolist()]
    full = run(checkpoint, source, ids)[0]
    assert abs(trace.logits - full.logits).max() < 2e-5 * abs(full.logits).max()


def test_sizes_that_cannot_run_are_refused(tmp_path: Path) -> None:
    """Every attention of d2l is handed what is num_hiddens wide."""
    tensors = state(models.d2l)
    name = "decoder.blks.block1.attention2.W_k.weight"
    tensors[name] = torch.randn(WIDTH, 6)
    sentence = refusal(saved(tmp_path / "m.pt", tensors))
    assert sentence.startswith(f"m.pt: {name} reads 6 numbers a token (key_size) and")
    assert sentence.endswith("Build it with key_size = 8.")


# labml


def test_gate_and_learned_positions_show_in_the_names(tmp_path: Path) -> None:
    tensors = state(models.labml, gated=True, learned=True)
    checkpoint = opened(saved(tmp_path / "m.pt", tensors))
    check_weights(checkpoint, tensors)
    config = checkpoint.config
    assert config.gated
    assert (config.positions, config.position_axis) == ("learned", "time")
    assert config.max_positions == LENGTH
    assert not any(line.startswith("002-3") for line in checkpoint.findings)


def test_a_stored_wave_is_not_taken_for_a_learned_table(tmp_path: Path) -> None:
    """Both have one name; a buffer made persistent is [1, P, D]."""
    tensors = state(models.labml)
    waves = sinusoidal(LENGTH, WIDTH)
    for side in ("src_embed", "tgt_embed"):
        tensors[f"{side}.positional_encodings"] = waves[None]
    checkpoint = opened(saved(tmp_path / "m.pt", tensors))
    config = checkpoint.config
    assert (config.positions, config.position_axis) == ("sinusoidal", "batch")
    assert config.max_positions == LENGTH
    assert torch.equal(checkpoint.model.positions, waves)
    assert any(line.startswith("002-3") for line in checkpoint.findings)
    one = "src_embed.positional_encodings"
    tensors = state(models.labml, learned=True)
    del tensors[one]
    assert f"missing: {one}" in refusal(saved(tmp_path / "m.pt", tensors))


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
    assert "mis-shaped: generator.weight [13, 8], not [11, 8]" in sentence
    assert "does not hold" in refusal(path, names={"output": "head"})
    assert "no place for “head”" in refusal(path, names={"head": "generator"})


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
        "m.pt is a torch.nn.Transformer without embeddings, which can be inspected"
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
        with pytest.raises(InputError, match="type ids from 0 to 10"):
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
    return {line.partition(":")[0] for line in checkpoint.findings}


@pytest.mark.parametrize("layout", MAKERS)
def test_findings_of_a_layout(tmp_path: Path, layout: str) -> None:
    checkpoint = opened(saved(tmp_path / "m.pt", state(MAKERS[layout])))
    assert ids_of(checkpoint) == LAYOUT_FINDINGS[layout]
    for line in checkpoint.findings:
        assert line.endswith(".")
        assert line.count(". ") == 0


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


def test_a_table_in_the_other_order_is_noticed_and_used(tmp_path: Path) -> None:
    tensors = state(models.handout)
    waves = tensors["positional_encoding.pe"]
    halves = torch.cat((waves[..., ::2], waves[..., 1::2]), -1)
    tensors["positional_encoding.pe"] = halves
    checkpoint = opened(saved(tmp_path / "m.pt", tensors))
    assert "positions-order" in ids_of(checkpoint)
    assert torch.equal(checkpoint.model.positions, halves[0])


# Round trips


def written(checkpoint: Checkpoint, path: Path) -> Path:
    """Save a model of ours as the layout's own program would."""
    keys = KEYS[checkpoint.layout]
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
        "encoder_layers is 1000: it must be a whole number from 1 to 128."
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
        assert "does not tell its number of heads" in report["problem"]
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
