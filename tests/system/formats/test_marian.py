"""Folders as transformers writes them for Marian: read, and run as it runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.system.formats.folders import PIECES, pieces
from visformer.core.checkpoint import Checkpoint
from visformer.errors import CheckpointError
from visformer.formats.layouts import LAYOUTS
from visformer.formats.loading import load
from visformer.formats.names import our_name
from visformer.tokenizers.sides import MarianSide

VOCABULARY = 60
PAD = VOCABULARY - 1


def vocabulary() -> dict[str, int]:
    """Return ids that are not the sentencepiece model's own."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor()
    model.LoadFromSerializedProto(pieces())
    own = [model.id_to_piece(i) for i in range(4, PIECES)]
    tokens = ["</s>", "<unk>", ">>fra<<", *reversed(own)]
    fill = [f"piece{i}" for i in range(len(tokens), PAD)]
    return {token: id for id, token in enumerate([*tokens, *fill, "<pad>"])}


def sizes(**changes: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 64,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": PAD,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "decoder_start_token_id": PAD,
        **changes,
    }


def random_model(**changes: Any) -> Any:
    import transformers

    torch.manual_seed(0)
    model = transformers.MarianMTModel(transformers.MarianConfig(**sizes(**changes)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        model.final_logits_bias.normal_()
    return model.eval()


def add_tokenizer(folder: Path) -> None:
    (folder / "source.spm").write_bytes(pieces())
    (folder / "target.spm").write_bytes(pieces())
    (folder / "vocab.json").write_text(json.dumps(vocabulary()))
    words = {"bad_words_ids": [[PAD], [5, 6]], "num_beams": 4, "max_length": 32}
    (folder / "generation_config.json").write_text(json.dumps(words))


def change(folder: Path, **keys: Any) -> Path:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | keys))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of a tiny random model."""
    random_model().save_pretrained(tmp_path)
    add_tokenizer(tmp_path)
    return tmp_path


def opened(path: Path) -> Checkpoint:
    return load(path, device="cpu")


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        opened(path)
    return str(caught.value)


def check_logits(checkpoint: Checkpoint, model: Any) -> None:
    source = torch.tensor([[7, 12, 33, 4, 0], [9, 8, 0, PAD, PAD]])
    target = torch.tensor([[PAD, 5, 9, 21], [PAD, 17, 3, 2]])
    with torch.no_grad():
        expected = model(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=target,
        ).logits
        made = checkpoint.model
        found = made.output(made(source, target, PAD))
    assert (found - expected).abs().max() < 2e-5 * max(1, float(expected.abs().max()))


def test_every_tensor_lands_and_logits_are_the_same(folder: Path) -> None:
    checkpoint = opened(folder)
    assert checkpoint.layout == "marian"
    assert (checkpoint.assumed, checkpoint.findings) == ((), ())
    parameters = dict(checkpoint.model.named_parameters())
    for name, tensor in load_file(folder / "model.safetensors").items():
        ours = our_name(LAYOUTS["marian"].names, name)
        assert ours is not None, name
        place = parameters.pop(ours)
        assert torch.equal(place, tensor.reshape(place.shape)), name
    assert not parameters
    check_logits(checkpoint, random_model())


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_file_means_its_folder(folder: Path, name: str) -> None:
    assert opened(folder / name).config == opened(folder).config


def test_an_old_file_that_repeats_its_tensors(tmp_path: Path) -> None:
    model = random_model()
    model.save_pretrained(tmp_path)
    tensors = model.state_dict()
    shared = tensors["model.shared.weight"]
    again = ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    tensors |= {f"{name}.weight": shared for name in again}
    for side in ("encoder", "decoder"):
        own = getattr(model.model, side).embed_positions.weight
        tensors[f"model.{side}.embed_positions.weight"] = own
    (tmp_path / "model.safetensors").unlink()
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    checkpoint = opened(tmp_path)
    check_logits(checkpoint, model)
    assert checkpoint.config.tied_output
    assert checkpoint.config.shared_embedding


def test_two_vocabularies(tmp_path: Path) -> None:
    model = random_model(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=VOCABULARY
    )
    model.save_pretrained(tmp_path)
    checkpoint = opened(tmp_path)
    assert not checkpoint.config.shared_embedding
    check_logits(checkpoint, model)


def test_vocabularies_of_two_sizes(tmp_path: Path) -> None:
    model = random_model(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=VOCABULARY + 7
    )
    model.save_pretrained(tmp_path)
    config = opened(tmp_path).config
    assert config.source_vocabulary == VOCABULARY
    assert config.target_vocabulary == VOCABULARY + 7


def test_special_ids(folder: Path) -> None:
    tokenizer = opened(folder).tokenizer
    assert (tokenizer.pad, tokenizer.bos, tokenizer.eos) == (PAD, PAD, 0)


def test_missing_and_surplus_are_named(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    gone = tensors.pop("model.decoder.layers.2.fc1.weight")
    torch.save({**tensors, "other": gone}, folder / "pytorch_model.bin")
    assert refusal(folder) == (
        "pytorch_model.bin does not fit its config. Missing: "
        "model.decoder.layers.2.fc1.weight. Unexpected: other."
    )
    (folder / "pytorch_model.bin").unlink()
    assert "holds no weights" in refusal(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("normalize_before", True),
        ("normalize_embedding", True),
        ("add_final_layer_norm", True),
        ("static_position_embeddings", False),
    ],
)
def test_older_architectures_are_refused(folder: Path, key: str, value: bool) -> None:
    assert f"{key} asks for an older variant" in refusal(change(folder, **{key: value}))


def test_other_models_of_transformers_are_refused(folder: Path) -> None:
    assert "lacks tensors" in refusal(change(folder, model_type="t5"))


def test_a_half_tokenizer_is_refused(folder: Path) -> None:
    (folder / "target.spm").unlink()
    assert refusal(folder).endswith(
        " lacks target.spm. Copy what is missing into the folder."
    )


def test_a_folder_without_tokenizer_takes_numbers(folder: Path) -> None:
    for name in ("source.spm", "target.spm", "vocab.json"):
        (folder / name).unlink()
    ids = [piece.id for piece in opened(folder).tokenizer.encode_source("5 6")]
    assert ids == [5, 6, 0]


def test_pieces_have_the_ids_of_the_vocabulary() -> None:
    ids = vocabulary()
    side = MarianSide(pieces(), ids, "source.spm")
    found = side.encode("the cat saw a 猫")
    assert [piece.id for piece in found][:1] == [ids["▁the"]]
    assert found[-1].id == ids["<unk>"]
    assert found[-1].token == "<unk:猫>"
    assert all("the cat saw a 猫"[p.start : p.end] for p in found[:3])
    assert side.decode([p.id for p in side.encode("the red house")]) == "the red house"


def test_a_language_code_is_one_token() -> None:
    side = MarianSide(pieces(), vocabulary(), "source.spm")
    code, *rest = side.encode(">>fra<< the cat")
    assert (code.token, code.start, code.end) == (">>fra<<", 0, 7)
    assert [p.id for p in rest] == [p.id for p in side.encode("the cat")]
    assert rest[0].start == 8
    assert side.encode(">>xyz<< the")[0].token != ">>xyz<<"


@pytest.mark.filterwarnings("ignore")
def test_ids_are_those_of_transformers(folder: Path) -> None:
    import transformers

    theirs = transformers.MarianTokenizer.from_pretrained(folder)
    tokenizer = opened(folder).tokenizer
    for text in ("the cat saw a red house", ">>fra<< the dog", "zebra 猫", ""):
        ours = [piece.id for piece in tokenizer.encode_source(text)]
        assert ours == theirs(text)["input_ids"], text
        if 1 not in ours:  # they leave unknown tokens out, we show them
            text = theirs.decode(ours, skip_special_tokens=True)
            assert tokenizer.decode(ours) == text
