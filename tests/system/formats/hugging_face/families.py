"""Folders of transformers' families: random weights, real tokenizers, made here."""

from __future__ import annotations

import functools
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

_WORDS = (
    "the a my your this that cat dog house street sea book letter friend teacher train "
    "river garden window old new red small tired happy slow reads crosses sees opens "
    "writes has loves finds because when and not very soon today here"
)
WORDS = _WORDS.split()
SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
PLAIN = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}


def sentences(count: int, seed: int = 0) -> list[str]:
    """Return sentences of three to nine words; the same ones for a seed."""
    draw = random.Random(seed)
    made = [draw.choices(WORDS, k=draw.randint(3, 9)) for _ in range(count)]
    return [" ".join(words).capitalize() + draw.choice(".!?") for words in made]


@functools.cache
def pieces(vocabulary: int = 90, **ids: int) -> bytes:
    """Return a sentencepiece model; ``ids`` are those of its special pieces."""
    import sentencepiece

    made = io.BytesIO()
    usual: dict[str, Any] = {"unk_id": 2, "pad_id": 0, "eos_id": 1, "bos_id": -1}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(300)),
        model_writer=made,
        vocab_size=vocabulary,
        minloglevel=2,
        **{**usual, **ids},
    )
    return made.getvalue()


FAIRSEQ_IDS = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}


@functools.cache
def byte_pairs(special: tuple[str, ...]) -> tuple[str, str]:
    """Return vocab.json and merges.txt of byte-level pairs, special tokens first."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=[*special],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(sentences(300), trainer)
    model = json.loads(made.to_str())["model"]
    merges = (" ".join(pair) for pair in model["merges"])
    return json.dumps(model["vocab"]), "#version: 0.2\n" + "\n".join(merges) + "\n"


@functools.cache
def word_pieces() -> str:
    """Return the vocab.txt of a BERT."""
    letters = sorted(set("".join(WORDS)))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "!", "?", *WORDS]
    return "\n".join([*tokens, *letters, *(f"##{c}" for c in letters)]) + "\n"


def _of_bytes(folder: Path, *special: str, **config: Any) -> None:
    vocabulary, merges = byte_pairs(special)
    (folder / "vocab.json").write_text(vocabulary)
    (folder / "merges.txt").write_text(merges)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def bart_tokenizer(folder: Path) -> None:
    _of_bytes(folder, "<s>", "<pad>", "</s>", "<unk>", "<mask>")


def gpt2_tokenizer(folder: Path) -> None:
    _of_bytes(folder, "<|endoftext|>", tokenizer_class="GPT2Tokenizer")


def qwen_tokenizer(folder: Path) -> None:
    _of_bytes(folder, "<|endoftext|>", tokenizer_class="Qwen2Tokenizer")


def t5_tokenizer(folder: Path) -> None:
    (folder / "spiece.model").write_bytes(pieces())
    (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 0}))


def pegasus_tokenizer(folder: Path) -> None:
    (folder / "spiece.model").write_bytes(pieces())
    words: dict[str, Any] = {
        "tokenizer_class": "PegasusTokenizer",
        "offset": 0,
        "mask_token": None,
    }
    words |= {"mask_token_sent": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(words))


def llama_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.model").write_bytes(pieces(**FAIRSEQ_IDS))
    words = {"tokenizer_class": "LlamaTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(words))


def bert_tokenizer(folder: Path) -> None:
    (folder / "vocab.txt").write_text(word_pieces())


def marian_tokenizer(folder: Path) -> None:
    import sentencepiece

    (folder / "source.spm").write_bytes(pieces())
    (folder / "target.spm").write_bytes(pieces())
    model = sentencepiece.SentencePieceProcessor()
    model.LoadFromSerializedProto(pieces())
    own = [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    tokens = ["</s>", "<unk>", *own, "<pad>"]
    ids = {token: id for id, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids))
    words = {"source_lang": "en", "target_lang": "fr"}
    (folder / "tokenizer_config.json").write_text(json.dumps(words))


def mbart_tokenizer(folder: Path, name: str = "MBartTokenizer") -> None:
    model = pieces(**FAIRSEQ_IDS)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    words = {"tokenizer_class": name}
    (folder / "tokenizer_config.json").write_text(json.dumps(words))


def m2m_tokenizer(folder: Path) -> None:
    import sentencepiece

    data = pieces(**FAIRSEQ_IDS)
    (folder / "sentencepiece.bpe.model").write_bytes(data)
    model = sentencepiece.SentencePieceProcessor()
    model.LoadFromSerializedProto(data)
    own = [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *own]
    ids = {token: id for id, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids))
    words = {"tokenizer_class": "M2M100Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(words))


def nllb_tokenizer(folder: Path) -> None:
    mbart_tokenizer(folder, name="NllbTokenizer")
    inner = own_tokenizer(folder)
    inner.add_tokens(["eng_Latn", "fra_Latn", "zho_Hans"], special_tokens=True)
    inner.src_lang = "eng_Latn"
    inner.save_pretrained(folder)
    (folder / "sentencepiece.bpe.model").unlink()


class Family(NamedTuple):
    """How a folder of a family is made."""

    kind: str  # the class of its model in transformers, without "Config"
    suffix: str  # of the class with a head
    tokenizer: Callable[[Path], None]
    config: dict[str, Any]
    languages: tuple[str, str] | None = None


_SIDES = ("encoder", "decoder")
_BART = {
    "d_model": 32,
    **{f"{side}_layers": 2 for side in _SIDES},
    **{f"{side}_attention_heads": 4 for side in _SIDES},
    **{f"{side}_ffn_dim": 48 for side in _SIDES},
    "max_position_embeddings": 64,
}
_UNEQUAL: dict[str, Any] = {
    **_BART,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 40,
}
_UNEQUAL |= {"encoder_layers": 3, "activation_function": "gelu_new"}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
_BERT = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "max_position_embeddings": 64},
}
_DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
_START = {"decoder_start_token_id": 2}
_END = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, **_END}
_GROUPED = {**_BERT, "num_key_value_heads": 2}
_WRITER = "ForConditionalGeneration"
FAMILIES: dict[str, Family] = {
    "T5": Family("T5", _WRITER, t5_tokenizer, {**_T5, **PLAIN}),
    "Flan-T5": Family(
        *("T5", _WRITER, t5_tokenizer),
        {**_T5, **PLAIN, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": 0},
    ),
    "mT5": Family("MT5", _WRITER, t5_tokenizer, {**_T5, **PLAIN}),
    "BART": Family("Bart", _WRITER, bart_tokenizer, {**_BART, **SPECIAL, **_START}),
    "mBART": Family(
        *("MBart", _WRITER, mbart_tokenizer, {**_BART, **SPECIAL}),
        ("en_XX", "de_DE"),
    ),
    "mBART-50": Family(
        *("MBart", _WRITER),
        functools.partial(mbart_tokenizer, name="MBart50Tokenizer"),
        {**_BART, **SPECIAL, **_START},
        ("en_XX", "fr_XX"),
    ),
    "Pegasus": Family(
        *("Pegasus", _WRITER, pegasus_tokenizer),
        {**_BART, **PLAIN, "forced_eos_token_id": 1},
    ),
    "M2M100": Family(
        *("M2M100", _WRITER, m2m_tokenizer, {**_BART, **SPECIAL, **_START}),
        ("en", "fr"),
    ),
    "NLLB": Family(
        *("M2M100", _WRITER, nllb_tokenizer, {**_BART, **SPECIAL, **_START}),
        ("eng_Latn", "fra_Latn"),
    ),
    "Marian, unequal": Family("Marian", "MTModel", marian_tokenizer, _UNEQUAL),
    "GPT-2": Family("GPT2", "LMHeadModel", gpt2_tokenizer, _GPT2),
    "Llama": Family(
        *("Llama", "ForCausalLM", llama_tokenizer),
        {**_GROUPED, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "Qwen2": Family("Qwen2", "ForCausalLM", qwen_tokenizer, {**_GROUPED, **_END}),
    "BERT": Family("Bert", "ForMaskedLM", bert_tokenizer, _BERT),
    "RoBERTa": Family("Roberta", "ForMaskedLM", bart_tokenizer, {**_BERT, **SPECIAL}),
    "DistilBERT": Family("DistilBert", "ForMaskedLM", bert_tokenizer, _DISTIL),
}
RULES = {"max_new_tokens": 10, "min_new_tokens": 4}


def own_tokenizer(folder: Path) -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def known_ids(inner: Any) -> int:
    """Return how many rows a model has for a tokenizer: languages come last."""
    known: list[int] = [len(inner), *inner.get_vocab().values()]
    known += getattr(inner, "lang_token_to_id", {}).values()
    return max(known) + 1


def random_model(family: Family, tokens: int, **changes: Any) -> Any:
    """Return a model with weights large enough that its attention is uneven."""
    import transformers

    config = {**family.config, "vocab_size": tokens, **changes}
    if family.kind == "Marian":
        config |= {"pad_token_id": tokens - 1, "eos_token_id": 0}
        config |= {"decoder_start_token_id": tokens - 1, "bos_token_id": None}
    torch.manual_seed(5)
    made = getattr(transformers, family.kind + "Config")(**config)
    model = getattr(transformers, family.kind + family.suffix)(made)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "position" not in name:
                parameter.normal_(std=0.35)
    return model.eval()


def write_folder(folder: Path, name: str) -> Path:
    """Write the folder of a family, as a download from the Hub has it."""
    import transformers

    family = FAMILIES[name]
    folder.mkdir(parents=True, exist_ok=True)
    model = random_model(family, 8)  # AutoTokenizer reads the type in its config
    model.config.save_pretrained(folder)
    family.tokenizer(folder)
    inner = own_tokenizer(folder)
    model = random_model(family, known_ids(inner))
    rules = dict(RULES)
    if name == "mBART":  # as in facebook/mbart-large-en-ro
        rules["decoder_start_token_id"] = inner.convert_tokens_to_ids("ro_RO")
    model.generation_config.update(**rules) if family.suffix != "ForMaskedLM" else None
    model.save_pretrained(folder)
    assert isinstance(model, transformers.PreTrainedModel)
    return folder
