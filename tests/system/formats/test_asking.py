"""What is asked about a file: all that it does not tell, with ``load``'s defaults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.system.formats import layout_models as models
from tests.system.formats.folders import write_letters
from tests.system.formats.layout_models import MAKERS, SOURCE, TARGET, WIDTH, state
from visformer.core.checkpoint import Checkpoint
from visformer.errors import CheckpointError
from visformer.formats.layouts import LAYOUTS
from visformer.formats.loading import checkpoint_files, load
from visformer.values.questions import BY_PAIRS, Overrides, Question, Questionnaire

FILES = {"tokenizer", "target_tokenizer", "pairs"}
TOKENIZERS = ["target_tokenizer", "tokenizer"]


def saved(path: Path, layout: str) -> str:
    torch.save(state(MAKERS[layout]), path)
    return str(path)


def form(
    path: str, overrides: Overrides = (), *, every: bool = False
) -> Questionnaire | None:
    return checkpoint_files(path, overrides).questionnaire(every=every)


def asked(
    path: str, overrides: Overrides = (), *, every: bool = False
) -> dict[str, Question]:
    questionnaire = form(path, overrides, every=every)
    assert questionnaire is not None
    return {question.name: question for question in questionnaire.questions}


def load_with(path: str, overrides: Overrides) -> Checkpoint:
    return checkpoint_files(path, overrides).load(torch.device("cpu"))


@pytest.mark.parametrize("layout", MAKERS)
def test_what_load_takes_for_granted_is_asked(tmp_path: Path, layout: str) -> None:
    """No more and no less, but what is masked, which is told in the program's calls.

    Answering with the defaults changes nothing.
    """
    path = saved(tmp_path / "m.pt", layout)
    questions = asked(path)
    plain = load(path, heads=questions["heads"].default, device="cpu")  # type: ignore[arg-type]
    granted = {line.partition(" = ")[0] for line in plain.assumed} - {"mask_rule"}
    names = {name.removeprefix("names.") for name in questions}
    assert names - FILES - {"target_pad"} == granted - {"tokenizer", "output.bias"} | {
        "heads"
    }
    answers = tuple(
        (name, question.default)
        for name, question in questions.items()
        if question.default is not None
    )
    answered = load_with(path, answers)
    assert answered.config == plain.config
    for name in ("pad", "source_pad", "bos", "eos"):
        assert getattr(answered.tokenizer, name) == getattr(plain.tokenizer, name)
    assert questions["heads"].default == LAYOUTS[layout].preset.fields["heads"]
    assert all(question.why.endswith(".") for question in questions.values())


def test_sizes_are_told_by_the_tensors(tmp_path: Path) -> None:
    made = form(saved(tmp_path / "m.pt", "scratch"))
    assert isinstance(made, Questionnaire)
    count = sum(t.numel() for k, t in state(models.scratch).items() if k[-2:] != "pe")
    assert made.sizes == (
        f"3 + 2 layers, width 8, feed-forward 12, {SOURCE} source and {TARGET} target "
        f"tokens, {count:,} parameters"
    )


def test_only_possible_heads_are_offered(tmp_path: Path) -> None:
    heads = asked(saved(tmp_path / "m.pt", "labml"))["heads"]
    assert [value for value, _ in heads.choices] == [1, 2, 4, 8, BY_PAIRS]
    narrow = {
        name: tensor[
            tuple(slice(6 if size == WIDTH else size) for size in tensor.shape)
        ]
        for name, tensor in state(models.handout).items()
    }
    torch.save({k: t.clone() for k, t in narrow.items()}, tmp_path / "n.pt")
    heads = asked(str(tmp_path / "n.pt"))["heads"]
    assert [value for value, _ in heads.choices] == [1, 2, 3, 6, BY_PAIRS]
    assert heads.default is None  # the tutorial's four do not divide six


def test_a_config_beside_the_file_answers(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", "d2l")
    (tmp_path / "config.json").write_text(json.dumps({"num_heads": 2, "pad": 1}))
    assert set(asked(path)) - FILES == {"bos", "eos", "max_positions"}
    every = {"num_heads": 2, "pad": 1, "bos": 2, "eos": 3, "max_len": 50}
    (tmp_path / "config.json").write_text(json.dumps(every))
    assert form(path) is None
    again = asked(path, every=True)
    assert (again["heads"].default, again["max_positions"].default) == (2, 50)


def test_folders_ask_nothing(tmp_path: Path) -> None:
    assert form(str(write_letters(tmp_path))) is None
    assert form(str(write_letters(tmp_path)), every=True) is None


def test_a_tokenizer_that_names_its_ids_answers(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", "modular")
    words = ["<pad>", "<sos>", "<eos>", *(f"w{i}" for i in range(TARGET))]
    tokenizers = []
    for name, size in (("a", SOURCE), ("b", TARGET)):
        tokenizers.append(str(tmp_path / f"{name}.json"))
        ids = {word: id for id, word in enumerate(words[:size])}
        Path(tokenizers[-1]).write_text(json.dumps(ids))
    overrides: Overrides = (
        ("tokenizer", tokenizers[0]),
        ("target_tokenizer", tokenizers[1]),
    )
    assert set(asked(path, overrides)) - FILES == {"heads", "max_positions"}
    again = asked(path, overrides, every=True)
    assert [again[n].default for n in ("pad", "bos", "eos")] == [0, 1, 2]
    assert [again[n].default for n in TOKENIZERS] == tokenizers[::-1]
    opened = load_with(path, (*overrides, ("heads", 2)))
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
    assert questions["other"].label == f"{other.capitalize()} file"
    assert questions["other"].mandatory
    overrides: Overrides = (("other", paths[other]),)
    assert "other" not in asked(paths[half], overrides)
    opened = load_with(paths[half], (*overrides, ("heads", 2)))
    assert opened.config.target_vocabulary == TARGET


def test_ids_are_asked_for_within_the_vocabulary_of_their_side(tmp_path: Path) -> None:
    questions = asked(saved(tmp_path / "m.pt", "modular"))
    most = {name: questions[name].most for name in ("pad", "bos", "eos")}
    assert most == {"pad": SOURCE - 1, "bos": TARGET - 1, "eos": TARGET - 1}


def test_answers_are_offered_again(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", "modular")
    overrides: Overrides = (
        ("heads", 2),
        ("pad", 4),
        ("target_pad", 6),
        ("max_positions", 40),
    )
    again = asked(path, overrides, every=True)
    assert {name: again[name].default for name, _ in overrides} == dict(overrides)
    opened = load_with(path, overrides)
    assert (opened.tokenizer.source_pad, opened.tokenizer.pad) == (4, 6)
    assert opened.config.max_positions == 40


def test_no_answer_helps_a_file_that_lacks_tensors(tmp_path: Path) -> None:
    tensors = state(models.handout)
    del tensors["fc_output.bias"]
    tensors["fc_output.weight"] = tensors["fc_output.weight"][:, :5]
    torch.save(tensors, tmp_path / "m.pt")
    with pytest.raises(CheckpointError, match=r"Wrong shape: fc_output\.weight"):
        form(str(tmp_path / "m.pt"))


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
    overrides: Overrides = (("heads", 2), ("names.source_embedding", "b.weight"))
    model = load_with(path, overrides).model
    assert torch.equal(model.source_embedding.weight, second)
    assert torch.equal(model.target_embedding.weight, first)
    again = asked(path, overrides, every=True)
    assert again["names.source_embedding"].default == "b.weight"
    assert again["names.target_embedding"].default == "a.weight"
    assert "names.output" not in asked(str(_shared(tmp_path, tensors, first)))


def _shared(folder: Path, tensors: dict[str, Tensor], table: Tensor) -> Path:
    """Write a model whose only matrix beside the Transformer serves all three."""
    inside = {k: t for k, t in tensors.items() if not k.startswith("generator")}
    torch.save({**inside, "emb.weight": table}, folder / "s.pt")
    return folder / "s.pt"
