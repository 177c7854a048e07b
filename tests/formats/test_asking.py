"""What is asked about a file: all that it does not tell, with ``load``'s defaults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.formats import layout_models as models
from tests.formats.folders import write_letters
from tests.formats.layout_models import MAKERS, SOURCE, TARGET, WIDTH, state
from visformer.core.presets import PRESETS
from visformer.errors import CheckpointError
from visformer.formats.loading import form, load, load_told
from visformer.values.questions import Form, Question, Told

FILES = {"tokenizer", "target_tokenizer"}


def saved(path: Path, layout: str) -> str:
    torch.save(state(MAKERS[layout]), path)
    return str(path)


def asked(path: str, told: Told = (), *, every: bool = False) -> dict[str, Question]:
    made = form(path, told, every=every)
    assert made is not None
    return {question.name: question for question in made.questions}


@pytest.mark.parametrize("layout", MAKERS)
def test_what_load_takes_for_granted_is_asked(tmp_path: Path, layout: str) -> None:
    """No more and no less; and answering with the defaults changes nothing."""
    path = saved(tmp_path / "m.pt", layout)
    questions = asked(path)
    plain = load(path, heads=questions["heads"].default, device="cpu")  # type: ignore[arg-type]
    granted = {line.partition(" = ")[0] for line in plain.assumed}
    names = {name.removeprefix("names.") for name in questions}
    assert names - FILES - {"target_pad"} == granted - {"tokenizer", "output.bias"} | {
        "heads"
    }
    answers = tuple(
        (name, question.default)
        for name, question in questions.items()
        if question.default is not None
    )
    told = load_told(path, answers, "cpu")
    assert told.config == plain.config
    for name in ("pad", "source_pad", "bos", "eos"):
        assert getattr(told.tokenizer, name) == getattr(plain.tokenizer, name)
    assert questions["heads"].default == PRESETS[layout]["heads"]
    assert all(question.why.endswith(".") for question in questions.values())


def test_sizes_are_told_by_the_tensors(tmp_path: Path) -> None:
    made = form(saved(tmp_path / "m.pt", "scratch"), ())
    assert isinstance(made, Form)
    count = sum(t.numel() for k, t in state(models.scratch).items() if k[-2:] != "pe")
    assert made.sizes == (
        f"3 + 2 layers, width 8, feed-forward 12, {SOURCE} source and {TARGET} target "
        f"tokens, {count:,} parameters"
    )


def test_only_possible_heads_are_offered(tmp_path: Path) -> None:
    heads = asked(saved(tmp_path / "m.pt", "labml"))["heads"]
    assert [value for value, _ in heads.choices] == [1, 2, 4, 8]
    narrow = {
        name: tensor[
            tuple(slice(6 if size == WIDTH else size) for size in tensor.shape)
        ]
        for name, tensor in state(models.handout).items()
    }
    torch.save({k: t.clone() for k, t in narrow.items()}, tmp_path / "n.pt")
    heads = asked(str(tmp_path / "n.pt"))["heads"]
    assert [value for value, _ in heads.choices] == [1, 2, 3, 6]
    assert heads.default is None  # the tutorial's four do not divide six


def test_a_config_beside_the_file_answers(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", "d2l")
    (tmp_path / "config.json").write_text(json.dumps({"num_heads": 2, "pad": 1}))
    assert set(asked(path)) - FILES == {"bos", "eos", "max_positions"}
    every = {"num_heads": 2, "pad": 1, "bos": 2, "eos": 3, "max_len": 50}
    (tmp_path / "config.json").write_text(json.dumps(every))
    assert form(path, ()) is None
    again = asked(path, every=True)
    assert (again["heads"].default, again["max_positions"].default) == (2, 50)


def test_folders_ask_nothing(tmp_path: Path) -> None:
    assert form(str(write_letters(tmp_path)), ()) is None
    assert form(str(write_letters(tmp_path)), (), every=True) is None


def test_a_tokenizer_that_names_its_ids_answers(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", "modular")
    words = ["<pad>", "<sos>", "<eos>", *(f"w{i}" for i in range(TARGET))]
    tokenizers = []
    for name, size in (("a", SOURCE), ("b", TARGET)):
        tokenizers.append(str(tmp_path / f"{name}.json"))
        ids = {word: id for id, word in enumerate(words[:size])}
        Path(tokenizers[-1]).write_text(json.dumps(ids))
    told: Told = (("tokenizer", tokenizers[0]), ("target_tokenizer", tokenizers[1]))
    assert set(asked(path, told)) - FILES == {"heads", "max_positions"}
    again = asked(path, told, every=True)
    assert [again[n].default for n in ("pad", "bos", "eos")] == [0, 1, 2]
    assert [again[n].default for n in sorted(FILES)] == tokenizers[::-1]
    opened = load_told(path, (*told, ("heads", 2)), "cpu")
    assert opened.tokenizer.source.token(3) == "w0"
    assert opened.tokenizer.pad == 0
    gone = (("tokenizer", str(tmp_path / "gone.model")),)
    assert asked(path, gone, every=True)["tokenizer"].default == gone[0][1]


@pytest.mark.parametrize("half", ["encoder", "decoder"])
def test_half_of_a_model_asks_for_the_other(tmp_path: Path, half: str) -> None:
    other = "decoder" if half == "encoder" else "encoder"
    paths = {}
    for name in (half, other):
        tensors = state(models.d2l).items()
        inside = {
            k.removeprefix(f"{name}."): t for k, t in tensors if k[:3] == name[:3]
        }
        paths[name] = str(tmp_path / f"{name}.pt")
        torch.save(inside, paths[name])
    questions = asked(paths[half])
    assert questions["other"].label == f"File of the {other}"
    assert questions["other"].mandatory
    told: Told = (("other", paths[other]),)
    assert "other" not in asked(paths[half], told)
    opened = load_told(paths[half], (*told, ("heads", 2)), "cpu")
    assert opened.config.target_vocabulary == TARGET


def test_answers_are_offered_again(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", "modular")
    told: Told = (("heads", 2), ("pad", 4), ("target_pad", 6), ("max_positions", 40))
    again = asked(path, told, every=True)
    assert {name: again[name].default for name, _ in told} == dict(told)
    opened = load_told(path, told, "cpu")
    assert (opened.tokenizer.source_pad, opened.tokenizer.pad) == (4, 6)
    assert opened.config.max_positions == 40


def test_no_answer_helps_a_file_that_lacks_tensors(tmp_path: Path) -> None:
    tensors = state(models.handout)
    del tensors["fc_output.bias"]
    tensors["fc_output.weight"] = tensors["fc_output.weight"][:, :5]
    torch.save(tensors, tmp_path / "m.pt")
    with pytest.raises(CheckpointError, match=r"mis-shaped: fc_output\.weight"):
        form(str(tmp_path / "m.pt"), ())


def test_which_tensor_is_which_can_be_told(tmp_path: Path) -> None:
    """Two tables of one shape, whose names do not say whose they are."""
    tensors = state(models.around)
    first = tensors.pop("src_tok_emb.embedding.weight")
    second = tensors.pop("tgt_tok_emb.embedding.weight")[:SOURCE].clone()
    tensors["generator.weight"] = tensors["generator.weight"][:SOURCE].clone()
    tensors["generator.bias"] = tensors["generator.bias"][:SOURCE].clone()
    torch.save({**tensors, "a.weight": first, "b.weight": second}, tmp_path / "m.pt")
    path = str(tmp_path / "m.pt")
    questions = asked(path)
    source = questions["names.source_embedding"]
    assert source.default == "a.weight"
    assert {value for value, _ in source.choices} == {
        "a.weight",
        "b.weight",
        "generator.weight",
    }
    told: Told = (("heads", 2), ("names.source_embedding", "b.weight"))
    model = load_told(path, told, "cpu").model
    assert torch.equal(model.source_embedding.weight, second)
    assert torch.equal(model.target_embedding.weight, first)
    again = asked(path, told, every=True)
    assert again["names.source_embedding"].default == "b.weight"
    assert again["names.target_embedding"].default == "a.weight"
    assert "names.output" not in asked(str(_shared(tmp_path, tensors, first)))


def _shared(folder: Path, tensors: dict[str, Tensor], table: Tensor) -> Path:
    """Write a model whose only matrix beside the Transformer serves all three."""
    inside = {k: t for k, t in tensors.items() if not k.startswith("generator")}
    torch.save({**inside, "emb.weight": table}, folder / "s.pt")
    return folder / "s.pt"
