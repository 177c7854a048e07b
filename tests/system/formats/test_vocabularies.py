"""Vocabularies in a checkpoint and beside it: found, used where they fit, and said."""

from __future__ import annotations

import json
import pickle
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from torch import nn

from tests.system.formats import layout_models as models
from tests.system.formats.hostile import Evil
from tests.system.formats.layout_files import opened, refusal
from tests.system.formats.layout_models import MAKERS, SOURCE, TARGET, state
from visformer.formats.loading import checkpoint_files, load
from visformer.tokenizers.vocabularies import is_vocabulary, vocabulary_in


def saved(path: Path, value: Any) -> Path:
    torch.save(value, path)
    return path


def words(size: int, name: str = "w") -> list[str]:
    start = ["<pad>", "<sos>", "<eos>", "<unk>"]
    return [*start, *(f"{name}{i}" for i in range(4, size))]


def ids(size: int, name: str = "w") -> dict[str, int]:
    return {word: id for id, word in enumerate(words(size, name))}


class Vocab:
    """A student's own class, which is gone when the file is opened."""

    def __init__(self, tokens: list[str]) -> None:
        self.itos = tokens
        self.stoi = {token: id for id, token in enumerate(tokens)}
        self.freqs = Counter(tokens)


class VocabPybind:
    """torchtext's Vocab in C++: its state is a version, a default, tokens, tensors."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def __getstate__(self) -> tuple[Any, ...]:
        return ("0.0.2", [3], self.tokens, [])


class TextVocab(nn.Module):
    """torchtext's Vocab, which wraps it."""

    def __init__(self, tokens: list[str]) -> None:
        super().__init__()
        self.vocab = VocabPybind(tokens)


SHAPES: dict[str, Callable[[int, str], Any]] = {
    "token -> id": ids,
    "id -> token": lambda n, w: dict(enumerate(words(n, w))),
    "list": words,
    "word2idx": lambda n, w: {"word2idx": ids(n, w), "n_words": n},
    "idx2word": lambda n, w: {"idx2word": dict(enumerate(words(n, w))), "n": n},
    "an object": lambda n, w: Vocab(words(n, w)),
    "torchtext": lambda n, w: TextVocab(words(n, w)),
    "an array of texts": lambda n, w: np.array(words(n, w)),
    "an array of objects": lambda n, w: np.array(words(n, w), dtype=object),
}
LINE = "tokenizer = {names} (found {where})"


def check_used(made: Any, name: str = "w") -> None:
    tokenizer = made.tokenizer
    assert tokenizer.source.token(5) == f"{name}5"
    assert [piece.id for piece in tokenizer.source.encode(f"{name}4 {name}6")] == [4, 6]
    assert (tokenizer.pad, tokenizer.bos, tokenizer.eos) == (0, 1, 2)
    assert tokenizer.target.token(TARGET - 1) == f"v{TARGET - 1}"
    assert not any(line.startswith(("pad", "bos", "eos")) for line in made.assumed)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [("src_vocab", "tgt_vocab"), ("first", "second")])
def test_vocabularies_in_the_checkpoint(
    tmp_path: Path, shape: str, order: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ModuleType("gone_vocab")
    for kind in (Vocab, VocabPybind, TextVocab):
        monkeypatch.setattr(kind, "__module__", gone.__name__)
        vars(gone)[kind.__name__] = kind
    monkeypatch.setitem(sys.modules, gone.__name__, gone)
    kept = {
        "model": state(MAKERS["scratch"]),
        order[0]: SHAPES[shape](SOURCE, "w"),
        order[1]: SHAPES[shape](TARGET, "v"),
    }
    path = saved(tmp_path / "m.pt", kept)
    monkeypatch.delitem(sys.modules, gone.__name__)
    made = opened(path)
    check_used(made)
    told = [line for line in made.assumed if line.startswith("tokenizer")]
    assert len(told) == 1
    assert told[0].startswith(f"tokenizer = {order[0]}")
    assert told[0].endswith("(found in the file)")
    form = checkpoint_files(str(path), ()).questionnaire()
    assert form is not None
    assert {q.name for q in form.questions}.isdisjoint({"pad", "bos", "eos"})
    numbers = opened(path, tokenizer="numbers")
    assert numbers.tokenizer.source.token(5) == "5"


def test_vocabularies_that_a_whole_model_keeps(tmp_path: Path) -> None:
    module = MAKERS["scratch"]()
    vars(module).update(src_vocab=ids(SOURCE), tgt_vocab=words(TARGET, "v"))
    made = opened(saved(tmp_path / "m.pt", module))
    check_used(made)
    assert "tokenizer = src_vocab, tgt_vocab (found in the file)" in made.assumed


def as_pickle(path: Path, value: Any) -> Path:
    path.write_bytes(pickle.dumps(value))
    return path


def as_text(path: Path, value: Any) -> Path:
    path.write_text("\n".join(value) + "\n")
    return path


def as_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


FILES: dict[str, Callable[[Path, list[str]], Path]] = {
    "json": lambda p, w: as_json(
        p.with_suffix(".json"), {word: id for id, word in enumerate(w)}
    ),
    "json of ids": lambda p, w: as_json(p.with_suffix(".json"), dict(enumerate(w))),
    "json list": lambda p, w: as_json(p.with_suffix(".json"), w),
    "json object": lambda p, w: as_json(
        p.with_suffix(".json"), {"word2idx": {word: id for id, word in enumerate(w)}}
    ),
    "text": lambda p, w: as_text(p.with_suffix(".txt"), w),
    "text with ids": lambda p, w: as_text(
        p.with_suffix(".txt"), [f"{word}\t{id}" for id, word in enumerate(w)]
    ),
    "pickle": lambda p, w: as_pickle(p.with_suffix(".pkl"), w),
    "pickled object": lambda p, w: as_pickle(p.with_suffix(".pkl"), Vocab(w)),
    "torch.save": lambda p, w: saved(p.with_suffix(".pt"), {"itos": w}),
    "torch.save of an object": lambda p, w: saved(p.with_suffix(".pth"), Vocab(w)),
}


@pytest.mark.parametrize("kind", FILES)
def test_vocabularies_beside_the_checkpoint(tmp_path: Path, kind: str) -> None:
    path = saved(tmp_path / "m.pt", state(MAKERS["scratch"]))
    pair = [
        FILES[kind](tmp_path / f"{side}_vocab", words(size, letter))
        for side, size, letter in (("tgt", TARGET, "v"), ("src", SOURCE, "w"))
    ]
    made = opened(path)
    check_used(made)
    names = f"{pair[1].name}, {pair[0].name}"
    assert LINE.format(names=names, where="beside the file") in made.assumed
    check_used(opened(path, tokenizer=(pair[1], pair[0])))
    if kind != "torch.save":
        check_used(opened(tmp_path))  # a vocabulary is no second file of weights


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "m.pt", {"model": state(MAKERS["scratch"]), "vocab": ids(50)}
    )
    as_text(tmp_path / "vocab.txt", words(7))
    as_json(tmp_path / "tokenizer_config.json", {"model_max_length": 3})
    assumed = opened(path).assumed
    assert "tokenizer = numbers (the file does not say)" in assumed
    assert any(
        line.startswith("vocab, a vocabulary in the file, is not") for line in assumed
    )
    assert any(
        line.startswith("vocab.txt, beside the file, is not") for line in assumed
    )


def test_one_vocabulary_serves_both_sides_of_one_size(tmp_path: Path) -> None:
    tensors = state(models.scratch)
    for name in ("decoder_embedding.weight", "fc_out.weight"):
        tensors[name] = tensors[name][:SOURCE].clone()
    tensors["fc_out.bias"] = tensors["fc_out.bias"][:SOURCE].clone()
    made = opened(saved(tmp_path / "m.pt", {"model": tensors, "stoi": ids(SOURCE)}))
    assert made.tokenizer.source.token(7) == made.tokenizer.target.token(7) == "w7"


def test_words_are_no_settings(tmp_path: Path) -> None:
    """A vocabulary with the words “h” and “pad” says nothing about the model."""
    odd = {**ids(SOURCE - 2), "h": SOURCE - 2, "pad": SOURCE - 1}
    path = saved(tmp_path / "m.pt", {"model": state(MAKERS["scratch"]), "words": odd})
    assert "does not say how many heads" in refusal(path, heads=None)


def test_sentencepiece_beside_the_checkpoint(tmp_path: Path) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c", "b c d", "c d a"] * 20),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=SOURCE,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    tensors = state(models.scratch)
    for name in ("decoder_embedding.weight", "fc_out.weight", "fc_out.bias"):
        tensors[name] = tensors[name][:SOURCE].clone()
    made = opened(saved(tmp_path / "m.pt", tensors))
    assert made.tokenizer.source.kind == "sentencepiece"
    assert "tokenizer = spm.model (found beside the file)" in made.assumed


def tokenizer_json(path: Path, size: int, kind: str) -> Path:
    library = pytest.importorskip("tokenizers")
    vocabulary = ids(size)
    if kind == "WordLevel":
        inner = library.models.WordLevel(vocabulary, unk_token="<unk>")
    else:
        inner = library.models.WordPiece(vocabulary, unk_token="<unk>")
    made = library.Tokenizer(inner)
    made.pre_tokenizer = library.pre_tokenizers.Whitespace()
    made.save(str(path))
    return path


@pytest.mark.parametrize("kind", ["WordLevel", "WordPiece"])
def test_a_tokenizer_json(tmp_path: Path, kind: str) -> None:
    pair = (
        tokenizer_json(tmp_path / "src_tokenizer.json", SOURCE, kind),
        tokenizer_json(tmp_path / "tgt_tokenizer.json", TARGET, kind),
    )
    path = saved(tmp_path / "m.pt", state(MAKERS["scratch"]))
    for made in (opened(path), opened(path, tokenizer=pair)):
        pieces = made.tokenizer.source.encode("w4 w6 zebra")
        assert [piece.id for piece in pieces] == [4, 6, 3]
        assert [piece.start for piece in pieces] == [0, 3, 6]
        assert pieces[2].token == "<unk:zebra>"
        assert made.tokenizer.eos == 2


def test_a_tokenizer_json_needs_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tokenizer_json(tmp_path / "a.json", SOURCE, "WordPiece")
    model = saved(tmp_path / "m.pt", state(MAKERS["scratch"]))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert "Run pip install tokenizers." in refusal(model, tokenizer=path)
    monkeypatch.undo()
    path.write_text('{"model": {"type": "BPE", "vocab": 3}}')
    assert "not a valid tokenizer.json" in refusal(model, tokenizer=path)


REFUSED: dict[str, tuple[str, bytes, str]] = {
    "numbers": ("a.json", b"[1, 2]", "is no vocabulary"),
    "twice": ("a.json", b'{"a": 1, "b": 1, "c": 2}', "is no vocabulary"),
    "gaps": ("a.json", b'{"<pad>": 0, "b": 999}', "is no vocabulary"),
    "lines": ("a.txt", b"a\n" * 4_000_001, "more than 4,000,000 lines or entries"),
    "entries": ("a.json", b"[" + b"[]," * 4_000_001, "more than 4,000,000 lines"),
    "not UTF-8": ("a.txt", b"\xff\xfe", "is not UTF-8"),
    "no pickle": ("a.pkl", b"hello", "holds no vocabulary"),
    "another pickle": ("a.pkl", pickle.dumps({"x": 3}), "holds no vocabulary"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_vocabulary_is_refused(tmp_path: Path, what: str) -> None:
    name, data, sentence = REFUSED[what]
    (tmp_path / name).write_bytes(data)
    path = saved(tmp_path / "m.pt", state(MAKERS["scratch"]))
    assert sentence in refusal(path, tokenizer=tmp_path / name)


def test_no_code_of_a_vocabulary_runs(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    path = as_pickle(tmp_path / "vocab.pkl", [Evil(canary), *words(SOURCE)])
    model = saved(tmp_path / "m.pt", state(MAKERS["scratch"]))
    assert refusal(model, tokenizer=path)
    assert opened(model).tokenizer.source.kind == "number"
    assert not canary.exists()


def test_a_module_in_memory_looks_into_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    as_text(tmp_path / "vocab.txt", words(SOURCE))
    whole: nn.Module = models.scratch()
    assert load(whole, heads=2).tokenizer.source.kind == "number"
    kept = {
        "model": whole.state_dict(),
        "src": words(SOURCE),
        "tgt": words(TARGET, "v"),
    }
    check_used(load(kept, heads=2))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"<pad>": 0, "a": 1}, True),
        ({"<pad>": 0, "a": 12}, True),  # as many gaps as there may be
        ({"<pad>": 0, "a": 13}, False),
        ({"lr": 1, "epochs": 30, "seed": 0}, False),
        ({"a": 0.5}, False),
        ([], False),
        ({}, False),
        ("text", False),
        ({"n_layers": 2, "heads": 3, "width": 64}, False),
    ],
)
def test_settings_are_no_vocabulary(value: Any, found: bool) -> None:
    assert (vocabulary_in(value) is not None) == found
    if isinstance(value, dict):
        assert not is_vocabulary(value)  # too few to be sure


def test_tensors_are_no_vocabulary() -> None:
    assert vocabulary_in({"a": torch.ones(2)}) is None


def test_a_token_that_is_listed_twice_has_its_first_id() -> None:
    once = {"<pad>": 0, "a": 1, "b": 2}
    assert vocabulary_in(["<pad>", "a", "b", "a"]) == once
    assert vocabulary_in({0: "<pad>", 1: "a", 2: "b", 3: "a"}) == once
