"""Files of other programs: recognised, renamed, told apart, refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.system.formats import layout_models as models
from tests.system.formats.layout_files import (
    TUTORIALS,
    check_weights,
    opened,
    refusal,
    saved,
    weights,
)
from tests.system.formats.layout_models import (
    FEED,
    LENGTH,
    MAKERS,
    SOURCE,
    TARGET,
    WIDTH,
    state,
)
from visformer.core.check import check
from visformer.core.decoding import Decoding
from visformer.core.incremental import warm_up
from visformer.core.passes import run
from visformer.core.position_rules import sinusoidal
from visformer.core.side_runs import layer_parameters
from visformer.errors import InputError
from visformer.formats.layouts import LAYOUTS
from visformer.formats.loading import load
from visformer.formats.names import our_name, their_name


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
        ours = our_name(LAYOUTS[layout].names, name)
        assert ours is not None
        assert their_name(LAYOUTS[layout].names, ours) == name


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
    assert f"Missing: {norm}" in refusal(saved(path, tensors))
    tensors = state(MAKERS[layout]) | {"stranger": torch.ones(2)}
    assert "Unexpected: stranger" in refusal(saved(path, tensors))
    tensors = state(MAKERS[layout])
    tensors[norm] = torch.ones(3)
    assert f"Wrong shape: {norm} is [3], not [8]" in refusal(saved(path, tensors))


@pytest.mark.parametrize("layout", TUTORIALS)
def test_a_missing_embedding_is_named(tmp_path: Path, layout: str) -> None:
    tensors = state(MAKERS[layout])
    name = next(
        n
        for n in tensors
        if our_name(LAYOUTS[layout].names, n) == "source_embedding.weight"
    )
    del tensors[name]
    assert f"Missing: {name}" in refusal(saved(tmp_path / "m.pt", tensors))


@pytest.mark.parametrize("layout", MAKERS)
def test_only_heads_are_mandatory(tmp_path: Path, layout: str) -> None:
    path = saved(tmp_path / "m.pt", state(MAKERS[layout]))
    assert refusal(path, heads=None) == (
        "m.pt does not say how many heads it has. Give heads=…, a divisor of "
        "d_model = 8, such as 1, 2, 4, 8."
    )
    assert refusal(path, heads=3) == "d_model = 8 is not a multiple of heads = 3."


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
    assert refusal(path, hats=2).startswith("Unknown option: hats.")
    assert refusal(path, layout="lab").startswith("layout is 'lab', but must be one")
    assert refusal(path, pad=-1) == "pad is -1, but must be the id of a token."
    assert refusal(path, eos=99).startswith("eos is 99, which is outside the")
    for name, rows in (("pad", models.SOURCE), ("eos", models.TARGET)):
        first = f"{name} is {rows}, which is outside the vocabulary"
        assert refusal(path, **{name: rows}).startswith(first)


def test_a_size_that_contradicts_the_file_is_mis_shaped(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", state(models.scratch))
    assert "Wrong shape: encoder_layers.0.feed_forward.fc1" in refusal(path, d_ff=64)


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
        "encoder.pt holds only the encoder; the decoder is missing. Give both files, "
        "as (encoder file, decoder file)."
    )
    assert "Both files hold encoder." in refusal((halves[0], halves[0]))


def test_biases_are_read_by_presence(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    config = opened(saved(path, state(models.d2l))).config
    assert (config.encoder_bias, config.decoder_bias) == ("none", "none")
    config = opened(saved(path, state(models.d2l, bias=True))).config
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
    (finding,) = (f for f in checkpoint.findings if f.id == "001-12")
    assert all(str(n) in finding.what for n in lengths if n)
    source, target = [[4, 7, 5, 3, 6]], [[2, 7, 8, 4]]
    assert len(run(checkpoint, source, target)) == 1
    for side, wrong in ((0, [[4, 7]]), (1, [[2, 3, 4]])):
        pair = (source, wrong) if side else (wrong, target)
        if lengths[side]:
            with pytest.raises(InputError, match=f"exactly {lengths[side]}, but the"):
                run(checkpoint, *pair)
    assert check(checkpoint)["passed"]
    with pytest.raises(InputError, match="cannot be shown token by token"):
        layer_parameters(checkpoint, "encoder" if lengths[0] else "decoder", 0)
    if lengths[1]:
        warm_up(checkpoint.packed)
        with pytest.raises(InputError, match="cannot run token by token"):
            Decoding(checkpoint, source[0])
        return
    with pytest.raises(InputError, match="exactly 5, but the source has 2"):
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
    assert sentence.startswith(f"m.pt: {name} reads 6 numbers per token (key_size),")
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
    assert not any(finding.id == "002-3" for finding in checkpoint.findings)


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
    assert any(finding.id == "002-3" for finding in checkpoint.findings)
    one = "src_embed.positional_encodings"
    tensors = state(models.labml, learned=True)
    del tensors[one]
    assert f"Missing: {one}" in refusal(saved(tmp_path / "m.pt", tensors))
