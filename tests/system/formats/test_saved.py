"""What training scripts save around their weights, and whose weights they may be."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.system.formats import layout_models as models
from tests.system.formats.layout_models import MAKERS, state
from visformer.cli import main
from visformer.errors import CheckpointError
from visformer.files import read_regular
from visformer.formats import weight_file as weights
from visformer.formats.foreign import foreign, remote_words
from visformer.formats.loading import checkpoint_files, load


def saved(path: Path, what: object) -> Path:
    torch.save(what, path)
    return path


def split(tensors: dict[str, Tensor], ending: str = "") -> dict[str, Any]:
    """Put d2l's encoder and decoder apart, as one file may hold them."""
    return {
        f"{part}{ending}": {
            name.removeprefix(f"{part}."): tensor
            for name, tensor in tensors.items()
            if name.startswith(f"{part}.")
        }
        for part in ("encoder", "decoder")
    }


def renamed(tensors: dict[str, Tensor], encoder: str, decoder: str) -> dict[str, Any]:
    names = {"encoder.": encoder, "decoder.": decoder}
    return {
        new + name.removeprefix(old): tensor
        for name, tensor in tensors.items()
        for old, new in names.items()
        if name.startswith(old)
    }


ADAM = {"state": {0: {"exp_avg": torch.ones(8)}}, "param_groups": [{"lr": 0.1, "h": 1}]}
WRAPPED: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "another key": lambda t: {"net": t, "optimizer": ADAM},
    "two levels": lambda t: {"state": {"model": t, "optimizer": ADAM}, "epoch": 3},
    "averaged": lambda t: {
        "n_averaged": torch.tensor(4),
        **{f"module.{name}": tensor for name, tensor in t.items()},
    },
    "an average beside": lambda t: {
        "model": t,
        "ema": {name: torch.zeros_like(tensor) for name, tensor in t.items()},
    },
}
APART: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "in one file": split,
    "state dicts": lambda t: {**split(t, "_state_dict"), "optimizer": ADAM},
    "other names": lambda t: renamed(t, "enc.", "dec."),
    "parallel": lambda t: renamed(t, "encoder.module.", "decoder.module."),
}


@pytest.mark.parametrize("layout", MAKERS)
@pytest.mark.parametrize("how", WRAPPED)
def test_weights_are_found(tmp_path: Path, layout: str, how: str) -> None:
    tensors = state(MAKERS[layout])
    made = load(saved(tmp_path / "m.pt", WRAPPED[how](tensors)), heads=2, device="cpu")
    plain = load(saved(tmp_path / "n.pt", tensors), heads=2, device="cpu")
    assert made.layout == layout
    for name, weight in plain.model.named_parameters():
        assert torch.equal(made.model.get_parameter(name), weight)


@pytest.mark.parametrize("how", APART)
def test_parts_of_d2l_are_joined(tmp_path: Path, how: str) -> None:
    tensors = state(models.d2l)
    made = load(saved(tmp_path / "m.pt", APART[how](tensors)), heads=2, device="cpu")
    dense = made.model.output.weight
    assert made.layout == "d2l"
    assert torch.equal(dense, tensors["decoder.dense.weight"])
    first = made.model.get_parameter("encoder.layers.0.self_attention.query.weight")
    name = "encoder.blks.block0.attention.W_q.weight"
    assert torch.equal(first, tensors[name])


def test_only_an_optimizer_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no state dict of tensors"):
        load(saved(tmp_path / "m.pt", {"optimizer": ADAM}), heads=2)


def test_dicts_that_hold_each_other_are_looked_into_once(tmp_path: Path) -> None:
    wide: dict[str, Any] = {"model_name": "x"}
    for _ in range(30):  # 8 ** 30 ways lead to the last
        wide = {f"k{i}": wide for i in range(8)}
    round_: dict[str, Any] = {"wide": wide}
    round_["self"] = round_
    path = saved(tmp_path / "m.pt", {**round_, "model": state(models.scratch)})
    assert load(path, heads=2, device="cpu").layout == "scratch"
    with pytest.raises(CheckpointError, match="no state dict of tensors"):
        load(saved(path, round_))


OPTIONS: dict[str, object] = {
    "args": Namespace(num_heads=4, pad_idx=3, lr=0.1, d_ff=77, max_seq_len=9),
    "config": {"model": {"heads": 4}, "data": {"pad_idx": 3, "batch_size": 7}},
    "hyper_parameters": {"n_head": 4, "src_pad_idx": 3, "vocab_size": None},
    "nhead": 4,
}


@pytest.mark.parametrize("word", OPTIONS)
def test_options_beside_the_weights_tell_the_heads(tmp_path: Path, word: str) -> None:
    """What the tensors tell, such as d_ff or the table's length, is not taken."""
    kept = {"state_dict": state(models.scratch), "pad": 3, word: OPTIONS[word]}
    path = saved(tmp_path / "m.pt", kept)
    checkpoint = load(path, device="cpu")
    assert checkpoint.config.heads == 4
    assert checkpoint.config.max_positions == models.LENGTH
    assert checkpoint.tokenizer.pad == 3
    assert not any(line.startswith(("heads", "pad")) for line in checkpoint.assumed)
    assert load(path, heads=2, pad=5, device="cpu").config.heads == 2
    assert load(path, heads=2, pad=5, device="cpu").tokenizer.pad == 5
    (tmp_path / "config.json").write_text('{"heads": 8}')
    assert load(path, device="cpu").config.heads == 8


def test_options_of_another_kind_are_passed_over(tmp_path: Path) -> None:
    odd = {
        "heads": "four",
        "pad": "<pad>",
        "eos": -1,
        "activation": ["relu"],
        "h": True,
    }
    path = saved(tmp_path / "m.pt", {"model": state(models.labml), "args": odd})
    with pytest.raises(CheckpointError, match="does not say how many heads"):
        load(path, device="cpu")
    assert load(path, heads=2, device="cpu").config.activation == "relu"


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "m.pt", state(models.handout))
    read: list[str] = []

    def counted(path: Path, limit: int) -> bytes:
        read.append(path.name)
        return read_regular(path, limit)

    monkeypatch.setattr(weights, "read_regular", counted)
    load(path, heads=2, device="cpu")
    assert read == ["m.pt"]


_OWN = "encoder.layers.0.self_attn.out_proj.weight"
FOREIGN = {
    "T5": ("encoder.block.0.layer.0.SelfAttention.q.weight",),
    "BERT": ("bert.encoder.layer.11.attention.self.query.weight",),
    "DistilBERT": ("distilbert.transformer.layer.0.attention.q_lin.weight",),
    "GPT": ("transformer.h.0.attn.c_attn.weight",),
    "Llama": ("model.layers.0.self_attn.q_proj.weight",),
    "Whisper": ("model.encoder.conv2.weight", _OWN),
    "BART": ("model.encoder.layernorm_embedding.weight",),
    "NLLB": (
        "model.decoder.layer_norm.bias",
        "model.decoder.layers.0.encoder_attn.k_proj.weight",
    ),
    "OpenNMT": ("encoder.embeddings.make_embedding.emb_luts.0.weight",),
    "fairseq": ("encoder.layers.0.self_attn_layer_norm.weight", _OWN),
    "JoeyNMT": ("decoder.layers.0.trg_trg_att.k_layer.weight",),
    "The Annotated Transformer": ("encoder.layers.0.self_attn.linears.0.weight",),
    "a vision Transformer": ("patch_embed.proj.weight", "blocks.0.attn.qkv.weight"),
    "a recurrent network": ("encoder.rnn.weight_ih_l0",),
}
OF_TRANSFORMERS = {"T5", "BERT", "DistilBERT", "GPT", "Llama", "BART", "NLLB"}
UNKNOWN = (  # names that several programs have
    "encoder.layers.0.self_attn_layer_norm.weight",
    "encoder.conv1.weight",
    "blocks.0.attn.qkv.weight",
    "model.decoder.layer_norm.bias",
)


@pytest.mark.parametrize("what", FOREIGN)
def test_models_that_are_not_read_are_named(tmp_path: Path, what: str) -> None:
    names = [*FOREIGN[what], "norm.weight"]
    path = saved(tmp_path / "m.pt", {name: torch.ones(2, 2) for name in names})
    with pytest.raises(CheckpointError) as caught:
        load(path, heads=2, pad=1, device="cpu")
    assert str(caught.value).startswith(f"m.pt has the tensor names of {what}")
    way = "Load it yourself and call visformer.watch(model)(…) or visformer.wrap."
    if what == "a recurrent network":
        way = "None of its tensors is called attention."
    elif what in OF_TRANSFORMERS:
        way = "or load it yourself and call visformer.watch(model)(…)."
    assert str(caught.value).endswith(way)
    assert len(str(caught.value)) <= 200


@pytest.mark.parametrize("layout", MAKERS)
def test_models_that_are_read_are_not_taken_for_others(layout: str) -> None:
    assert foreign(state(MAKERS[layout])) == ""


OTHER_FILES = {
    "a.gguf": b"x",
    "weights.bin": b"GGUF\x03\0\0\0" + bytes(40),
    "a.onnx": b"\x08\x07" + bytes(40),
    "a.tflite": bytes(40),
    "model.h5": b"\x89HDF\r\n\x1a\n" + bytes(40),
    "saved_model.pb": b"\x08\x01",
    "model.npz": b"PK\x03\x04" + bytes(40),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_files_of_other_programs_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(OTHER_FILES[name])
    with pytest.raises(CheckpointError, match=r"which is not read.*visformer\.wrap"):
        load(tmp_path / name, heads=2)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("Helsinki-NLP/opus-mt-en-fr", "“hf download Helsinki-NLP/opus-mt-en-fr "),
        ("https://huggingface.co/google/t5", "“hf download google/t5 --local-dir t5”"),
        ("runs/best", "“runs/best” does not exist. If it is on the Hugging Face Hub"),
        ("https:/hf.co/a/b/tree/main", "“hf download a/b --local-dir b”"),
        ("https://example.org/model.pt", "is an address, and nothing is downloaded"),
        ("checkpoints/typo", ""),
        ("model.pt", ""),
        ("/a/b", ""),
        ("a/b/c", ""),
    ],
)
def test_what_is_not_here_is_not_fetched(
    path: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.chdir(tmp_path)
    said = remote_words(path)
    assert bool(said) == bool(words)
    assert words in said
    with pytest.raises(CheckpointError) as caught:
        load(path, heads=2)
    assert (words or "does not exist") in str(caught.value)
    assert main([path]) == 2


def test_the_model_that_a_tutorial_is_based_on(tmp_path: Path) -> None:
    """hyunwoongko/transformer's names are proposed for the modular layout."""
    names = {
        "encoder.layers.{l}.mha.": "encoder.layers.{l}.attention.",
        "decoder.layers.{l}.mha1.": "decoder.layers.{l}.self_attention.",
        "decoder.layers.{l}.mha2.": "decoder.layers.{l}.enc_dec_attention.",
    }
    tensors = {}
    for name, tensor in state(models.modular).items():
        general = name.replace(".0.", ".{l}.").replace(".1.", ".{l}.")
        for ours, theirs in names.items():
            general = general.replace(ours, theirs)
        new = general.replace("{l}", "1" if ".1." in name else "0")
        new = new.replace(".ln", ".norm").replace(".fc.", ".w_concat.")
        tensors[new.replace("ffn.fc", "ffn.linear")] = tensor
    path = saved(tmp_path / "m.pt", tensors)
    form = checkpoint_files(str(path), ()).questionnaire()
    assert form is not None
    given = {q.name: q.default for q in form.questions if q.mandatory} | {"heads": 2}
    answers = tuple((n, v) for n, v in given.items() if v is not None)
    made = checkpoint_files(str(path), answers).load(torch.device("cpu"))
    plain = load(saved(tmp_path / "n.pt", state(models.modular)), heads=2, device="cpu")
    assert made.layout == "modular"
    for name, weight in plain.model.named_parameters():
        assert torch.equal(made.model.get_parameter(name), weight), name


@pytest.mark.parametrize("name", UNKNOWN)
def test_nothing_is_called_by_a_name_that_several_have(
    tmp_path: Path, name: str
) -> None:
    tensors = {name: torch.ones(2, 2), "rnn.weight_ih_l0": torch.ones(2, 2)}
    path = saved(tmp_path / "m.pt", {**tensors, "attention.v": torch.ones(2, 2)})
    with pytest.raises(CheckpointError) as caught:
        load(path, heads=2, device="cpu")
    assert "has the tensor names" not in str(caught.value)
    assert str(caught.value).endswith("visformer.watch(model)(…) or visformer.wrap.")


AVERAGED = {  # where a training script keeps a second set of weights
    "model and ema": ("model", "ema"),
    "ema and model": ("model", "ema"),
    "the last and the best": ("last", "best"),
    "averages within another": ("state_dict", "averaged.shadow"),
}


@pytest.mark.parametrize("case", AVERAGED)
def test_of_two_sets_of_weights_one_is_chosen(case: str, tmp_path: Path) -> None:
    usual, other = AVERAGED[case]
    first = state(models.handout)
    second = {name: tensor + 1 for name, tensor in first.items()}
    outer, _dot, inner = other.partition(".")
    beside = {"decay": 0.9, inner: second} if inner else second
    sets = {usual: first, outer: beside}
    if case == "ema and model":
        sets = dict(reversed(sets.items()))
    path = saved(tmp_path / "m.pt", {**sets, "epoch": 3})
    bias = first["fc_output.bias"]
    opened = load(path, heads=2, device="cpu")
    assert torch.equal(opened.model.output.bias, bias)
    told = f"weights = {usual} (the file also holds {other}; give weights=… to choose)"
    assert opened.assumed[0] == told
    chosen = load(path, heads=2, weights=other, device="cpu")
    assert torch.equal(chosen.model.output.bias, bias + 1)
    assert not [line for line in chosen.assumed if line.startswith("weights")]
    assert chosen.digest != opened.digest
    given = load({**sets}, heads=2, device="cpu")
    assert torch.equal(given.model.output.bias, bias)
    asked = checkpoint_files(str(path), ()).questionnaire()
    assert asked is not None
    assert asked.questions[0].name == "weights"
    assert [value for value, _words in asked.questions[0].choices] == [usual, other]
    again = checkpoint_files(str(path), (("weights", other), ("heads", 2)))
    assert torch.equal(again.load(torch.device("cpu")).model.output.bias, bias + 1)
    with pytest.raises(CheckpointError, match="no set of weights “swa” beside"):
        load(path, heads=2, weights="swa", device="cpu")


def test_one_set_under_two_names_is_one_set(tmp_path: Path) -> None:
    own = state(models.handout)
    path = saved(tmp_path / "m.pt", {"model": own, "state_dict": own})
    assert not [s for s in load(path, heads=2).assumed if s.startswith("weights")]


@pytest.mark.parametrize("prefix", ["ema", "model_ema", "ema.module"])
def test_sets_under_prefixes_of_one_dict_are_told_apart(
    prefix: str, tmp_path: Path
) -> None:
    own, other = state(models.handout), prefix.partition(".")[0]
    flat = {f"{prefix}.{name}": tensor + 1 for name, tensor in own.items()}
    flat |= {"ema.n_averaged": torch.tensor(3)}
    flat |= {f"model.{name}": tensor for name, tensor in own.items()}
    path, bias = saved(tmp_path / "m.pt", flat), own["fc_output.bias"]
    opened = load(path, heads=2, device="cpu")
    assert torch.equal(opened.model.output.bias, bias)
    told = f"weights = model (the file also holds {other}; give weights=… to choose)"
    assert opened.assumed[0] == told
    chosen = load(path, heads=2, weights=other, device="cpu")
    assert torch.equal(chosen.model.output.bias, bias + 1)
