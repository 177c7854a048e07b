"""Folders of transformers that are no complete translator: parts, heads, no words."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import visformer
from tests.system.formats.hugging_face import families
from tests.system.formats.hugging_face.families import (
    FAMILIES,
    known_ids,
    own_tokenizer,
)
from tests.system.formats.hugging_face.parity import opened, opened_once
from visformer.errors import CheckpointError, InputError
from visformer.values.facts import Kind

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers' own
FolderOf = Callable[[str], Path]
TEXT = "The cat sees a dog."
KINDS: dict[
    str, tuple[str, Kind]
] = {  # a class -> the family whose config and tokenizer it has, what is shown
    "BertModel": ("BERT", "encoder"),
    "BertForSequenceClassification": ("BERT", "encoder"),
    "RobertaForTokenClassification": ("RoBERTa", "encoder"),
    "DistilBertForQuestionAnswering": ("DistilBERT", "encoder"),
    "T5EncoderModel": ("T5", "encoder"),
    "GPT2ForSequenceClassification": ("GPT-2", "decoder"),
    "LlamaModel": ("Llama", "decoder"),
}


def write(folder: Path, kind: str, family: str, **changes: Any) -> Path:
    """Write a folder of a class, with a family's config and tokenizer."""
    made, own = getattr(transformers, kind), FAMILIES[family]
    folder.mkdir()
    made.config_class(**own.config).save_pretrained(folder)
    own.tokenizer(folder)
    tokens = known_ids(own_tokenizer(folder))
    torch.manual_seed(3)
    config = made.config_class(**{**own.config, "vocab_size": tokens, **changes})
    made(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_what_reads_and_writes_nothing_is_shown(kind: str, tmp_path: Path) -> None:
    family, shown = KINDS[kind]
    model = opened(write(tmp_path / "f", kind, family))
    trace = visformer.Decoding(model, TEXT).finish()
    assert (trace.kinds, len(trace.steps), dict(trace.fills)) == ((shown,), 0, {})
    tokens = trace.source or trace.target
    ids = own_tokenizer(tmp_path / "f")(TEXT).input_ids
    assert len(tokens) == len(ids)
    reader = getattr(transformers, kind).from_pretrained(
        tmp_path / "f", attn_implementation="eager"
    )
    with torch.no_grad():
        made = reader.eval()(torch.tensor([ids]), output_attentions=True)
    for layer, own in enumerate(made.attentions):
        assert abs(trace.attention(shown, layer) - own[0].numpy()).max() < 2e-5
    with pytest.raises(InputError, match="reads text and writes none"):
        visformer.translate([TEXT], model)
    ran = f"run as {type(model.model).__name__} (config.json says {kind})"
    assert (ran in model.assumed) == (type(model.model).__name__ != kind)
    assert visformer.inspect(tmp_path / "f", check=True)["check"]["passed"]


def test_a_pooler_that_a_file_lacks_is_not_missed(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = write(tmp_path / "f", "BertModel", "BERT")
    tensors = load_file(folder / "model.safetensors")
    kept = {n: t for n, t in tensors.items() if not n.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    assert len(kept) < len(tensors)
    assert opened(folder).facts.kinds == ("encoder",)
    del kept["encoder.layer.1.attention.self.key.weight"]
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="lacks tensors that its config asks"):
        opened(folder)


def test_half_a_decoder_is_no_encoder(folder_of: FolderOf, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(folder_of("T5"), tmp_path / "f"))
    tensors = load_file(folder / "model.safetensors")
    del tensors["decoder.block.1.layer.0.SelfAttention.k.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"lacks tensors .*decoder\.block\.1"):
        opened(folder)


@pytest.mark.parametrize(
    "name", ["T5", "BART", "M2M100", "Marian, unequal", "GPT-2", "Llama", "BERT"]
)
def test_without_a_tokenizer_ids_are_typed(
    name: str, folder_of: FolderOf, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folder_of(name), tmp_path / "f"))
    for file in folder.iterdir():
        if "config" not in file.name and file.suffix != ".safetensors":
            file.unlink()
    model = opened(folder)
    trace = visformer.Decoding(model, "5 6 7", limit=3).finish()
    assert (trace.source or trace.target)[:3] == ("5", "6", "7")
    assert trace.text == " ".join(str(step.id) for step in trace.steps[-3:])
    assert "tokenizer = numbers (the folder has none: type ids)" in model.assumed
    with pytest.raises(InputError, match="Type ids from 0 to"):
        visformer.Decoding(model, "a cat")
    visformer.inspect(folder, check=name in ("T5", "GPT-2", "BERT"))


def test_a_tokenizer_of_other_files_is_named(
    folder_of: FolderOf, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folder_of("BART"), tmp_path / "f"))
    for name in ("tokenizer.json", "vocab.json", "merges.txt"):
        (folder / name).unlink(missing_ok=True)
    shutil.copy(folder_of("BERT") / "vocab.txt", folder)
    with pytest.raises(
        CheckpointError, match="its files are missing or belong to another"
    ):
        opened(folder)


@pytest.mark.parametrize("words", ["ACGT", "мир дом лес", "天地", "০১২"])
def test_words_of_any_script_are_read(words: str, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    own = (
        words.split()
        if " " in words
        else map("".join, itertools.product(words, repeat=2))
    )
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *own]
    ids = {name: id for id, name in enumerate(names)}
    plain = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    config = {**FAMILIES["BERT"].config, "vocab_size": len(names)}
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(transformers.BertConfig(**config))
    model.save_pretrained(tmp_path)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, **special)
    fast.save_pretrained(tmp_path)
    text = f"{names[5]} [MASK] {names[7]}"
    trace = visformer.Decoding(opened(tmp_path), text).finish()
    assert trace.source == tuple(text.split())
    assert list(trace.fills) == [1]


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("ViTModel", {"image_size": 8, "patch_size": 4, **families._BERT}),
        (
            "WhisperForConditionalGeneration",
            {**families._BART, "num_mel_bins": 8, "max_source_positions": 8}
            | {"vocab_size": 9, "pad_token_id": 0, "decoder_start_token_id": 0},
        ),
    ],
)
def test_what_reads_no_ids_is_told_the_way(
    kind: str, config: dict[str, Any], tmp_path: Path
) -> None:
    config.pop("max_position_embeddings", None)
    made = getattr(transformers, kind)
    made(made.config_class(**config)).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        opened(tmp_path)
    said = str(caught.value)
    named = f"config.json describes a “{made.config_class.model_type}”"
    assert said.startswith(f"{named}, which ids of tokens alone do not run.")
    assert said.endswith("call visformer.watch(model)(…) with its inputs.")


@pytest.mark.parametrize("name", ["T5", "GPT-2", "Llama", "Qwen2", "BERT"])
def test_runs_of_every_kind_are_saved_with_their_tokens(
    name: str, folder_of: FolderOf, tmp_path: Path
) -> None:
    model = opened_once(folder_of(name))
    trace = visformer.Decoding(model, TEXT, limit=4).finish()
    trace.save(tmp_path / "one.vis")
    saved: list[Any] = [
        visformer.SavedRun(trace=trace, name="a"),
        trace.until(len(trace) // 2),
    ]
    visformer.save_session(tmp_path / "both.vis", saved)
    again = visformer.open_trace(tmp_path / "one.vis")
    kept = visformer.open_session(tmp_path / "both.vis").traces[0]
    for one in (again, kept):
        assert (one.source, one.target, one.text) == (
            *(trace.source, trace.target),
            trace.text,
        )
        assert one.source_text == TEXT
        assert one.source_spans == trace.source_spans
        for kind in trace.kinds:
            assert (one.attention(kind, 1) == trace.attention(kind, 1)).all()
