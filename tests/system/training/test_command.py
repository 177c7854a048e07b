"""The whole of ``visformer train``: pairs in, a measured checkpoint out."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.system.training.toys import TINY, TOY
from visformer.core.decoding import Decoding
from visformer.errors import InputError, VisformerError
from visformer.files import Pair, read_pairs
from visformer.formats.layouts.native import read_native
from visformer.tokenizers.tokenizer import SentencePieceSide as Side
from visformer.training.prepare import SubwordData, split, train_sentencepiece
from visformer.training.train_command import TrainCommand, check, options_for, train

ROOT = Path(__file__).parents[3]


def made_pairs(count: int = 200) -> list[Pair]:
    """Return sentences of numbers in two made languages, each once."""
    draw = random.Random(0)
    ones = ["zero", "one", "two", "three", "four", "five", "six", "seven"]
    others = ["nul", "een", "twee", "drie", "vier", "vijf", "zes", "zeven"]
    made: dict[str, Pair] = {}
    while len(made) < count:
        digits = draw.choices(range(8), k=draw.randint(3, 6))
        pair = Pair(*(" ".join(names[d] for d in digits) for names in (ones, others)))
        made[pair.source] = pair
    return list(made.values())


def write_pairs(path: Path) -> Path:
    path.write_text("".join(f"{s}\t{t}\n" for s, t in made_pairs()), "utf-8")
    return path


def run(options: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    train(options_for(options), lines.append)
    return lines


def test_pairs_become_a_checkpoint(tmp_path: Path) -> None:
    options = {
        **TINY,
        "out": tmp_path / "out",
        "data": write_pairs(tmp_path / "numbers.tsv"),
        "vocabulary": 1000,
        "sampling": 0.2,
        "epochs": 1,
        "batch_tokens": 256,
        "valid": 20,
        "test": 30,
        "source_language": "en",
        "target_language": "nl",
    }
    lines = run(options)
    assert lines[1] == "Pairs: 150 for training, 20 for validation, 30 for the test"
    assert any("held-out loss" in line for line in lines)
    checkpoint = read_native(tmp_path / "out" / "checkpoint", torch.device("cpu"))
    assert checkpoint.name == "numbers"
    assert checkpoint.config.target_vocabulary <= 1000
    Decoding(checkpoint, "one two three").step()
    test, valid = (read_pairs(tmp_path / "out" / f"{n}.tsv") for n in ("test", "valid"))
    assert (len(test), len(valid)) == (30, 20)
    assert not {p.source for p in test} & {p.source for p in valid}
    card = (tmp_path / "out" / "checkpoint" / "README.md").read_text("utf-8")
    for part in (
        "# numbers",
        "en to nl",
        "150 for training",
        "BLEU",
        "chrF",
        "on 30 sen",
    ):
        assert part in card
    assert "is already complete" in run(options)[0]
    with pytest.raises(InputError, match="started with vocabulary = 1000, not 1001"):
        run({**options, "vocabulary": 1001})
    with (tmp_path / "numbers.tsv").open("a") as file:
        file.write("eight\tacht\n")
    with pytest.raises(InputError, match="started on other pairs"):
        run(options)


def test_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "numbers.tsv")
    few = {"data": data, "epochs": 1, "batch_tokens": 256, "valid": 20, "test": 9}
    run({**TINY, **few, "out": tmp_path / "first", "vocabulary": 1000})
    first = tmp_path / "first" / "checkpoint"
    tiny_step = {"learning_rate": 1e-9, "threads": 1, "device": "cpu"}
    run({**few, **tiny_step, "out": tmp_path / "second", "start": first})
    cpu = torch.device("cpu")
    before = read_native(first, cpu)
    after = read_native(tmp_path / "second" / "checkpoint", cpu)
    assert after.config == before.config  # not the sizes that a fresh run would have
    for old, new in zip(
        before.model.parameters(), after.model.parameters(), strict=True
    ):
        torch.testing.assert_close(new, old, rtol=0, atol=1e-5)
    text = "three four"
    assert after.tokenizer.encode_target(text) == before.tokenizer.encode_target(text)


def test_training_starts_only_where_it_can(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "numbers.tsv")
    toy = {**TOY, "out": tmp_path / "toy", "epochs": 1}
    with pytest.raises(InputError, match="--start is not for a task"):
        run({**toy, "start": tmp_path})
    with pytest.raises(InputError, match="cannot be read"):
        run({"out": tmp_path / "out", "data": data, "start": tmp_path / "none"})
    run(toy)
    letters = tmp_path / "toy" / "checkpoint"
    with pytest.raises(InputError, match="lacks a joint sentencepiece"):
        run({"out": tmp_path / "other", "data": data, "start": letters})


def test_a_toy_task_becomes_a_checkpoint(tmp_path: Path) -> None:
    lines = run({**TOY, "out": tmp_path, "epochs": 1, "name": "copied letters"})
    assert "exact on 20 sentences" in lines[-1]
    assert "BLEU" not in lines[-1]
    checkpoint = read_native(tmp_path / "checkpoint", torch.device("cpu"))
    assert checkpoint.name == "copied letters"
    assert checkpoint.tokenizer.target_id("z") == 29


def test_checkpoints_along_the_way_are_kept(tmp_path: Path) -> None:
    options = {**TOY, "out": tmp_path, "epochs": 1, "keep_every": 2}
    run(options)
    kept = sorted((tmp_path / "steps").iterdir())
    assert [path.name for path in kept[:3]] == [
        *("step-0000000", "step-0000002", "step-0000004")
    ]
    cpu = torch.device("cpu")
    first, *_others, last = (read_native(path, cpu) for path in kept)
    assert first.name.endswith(" 0")
    weights = [one.model.output.weight for one in (first, last)]
    assert not torch.equal(*weights)
    before = [path.stat().st_mtime_ns for path in kept]
    run({**options, "keep_every": 5})  # complete: nothing is trained again
    assert [path.stat().st_mtime_ns for path in kept] == before


def start(folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Start the toy training in a process of its own; it tells each step."""
    script = (
        "import sys; from pathlib import Path; "
        "from tests.system.training import shared_run; "
        "shared_run.main(Path(sys.argv[1]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    with start(tmp_path / "killed") as process:
        assert process.stdout
        for line in process.stdout:
            if "step 3 " in line:
                process.send_signal(signal.SIGKILL)
                break
    assert not (tmp_path / "killed" / "checkpoint").exists()
    lines = run({**TOY, "out": tmp_path / "killed"})
    assert any(line.startswith("Continuing after step") for line in lines)
    run({**TOY, "out": tmp_path / "whole"})
    one, other = (
        (tmp_path / name / "checkpoint" / "model.safetensors").read_bytes()
        for name in ("killed", "whole")
    )
    assert one == other
    assert not list(tmp_path.rglob("*.part"))


def test_sampling_differs_by_epoch_and_is_repeatable() -> None:
    parts = split(made_pairs(), valid=10, test=10, seed=0)
    side = Side(train_sentencepiece(parts.train, 1000), "test")
    data = SubwordData(side, parts, longest=500, alpha=0.2, seed=1)
    first = data.epoch(0)
    assert first == data.epoch(0)
    assert first != data.epoch(1)
    assert side.decode(first[0].source[:-1]) == parts.train[0].source
    plain = SubwordData(side, parts, longest=500, alpha=0.0, seed=1)
    assert plain.epoch(0) == plain.epoch(1)
    assert SubwordData(side, parts, longest=5, alpha=0.0, seed=1).dropped > 0


def test_a_large_vocabulary_of_little_text_is_smaller() -> None:
    side = Side(train_sentencepiece(made_pairs(), 8000), "test")
    assert 500 < side.size < 1500
    with pytest.raises(InputError, match="cannot make 5 pieces"):
        train_sentencepiece(made_pairs(), 5)


@pytest.mark.parametrize(
    "changes",
    [
        {"task": None},
        {"data": Path("a.tsv")},
        {"epochs": 0},
        {"dropout": 1.0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"valid": 0},
    ],
)
def test_options_out_of_range(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        check(TrainCommand(**{"out": tmp_path, "task": "copy", **changes}))


def test_folders_and_data_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "training.pt").write_text("")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "options.json").write_text("{")
    few = tmp_path / "few.tsv"
    few.write_text("a\tb\n")
    cases = {
        "cannot be used": {**TOY, "out": tmp_path / "file"},
        "another training": {**TOY, "out": tmp_path / "other"},
        "damaged": {**TOY, "out": tmp_path / "damaged"},
        "cannot be read": {
            **TINY,
            "out": tmp_path / "a",
            "data": tmp_path / "none.tsv",
        },
        r"too few pairs \(1\)": {**TINY, "out": tmp_path / "b", "data": few},
        "is not a multiple of": {**TOY, "out": tmp_path / "c", "heads": 3},
        "no device": {**TOY, "out": tmp_path / "d", "device": "tpu"},
    }
    for reason, options in cases.items():
        with pytest.raises(VisformerError, match=reason):
            run(options)


@pytest.mark.timeout(60)  # they have no end
@pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
def test_what_has_no_end_is_not_trained_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for data in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(VisformerError, match=r"is a \w+, not a file"):
            run({**TINY, "out": tmp_path / "out", "data": data})
    assert not (tmp_path / "out").exists()


def test_a_word_is_the_same_piece_after_an_apostrophe() -> None:
    pairs = [Pair("the animal sleeps", "un animal dort"), Pair("a cat", "l'été")] * 50
    side = Side(train_sentencepiece(pairs, 1000), "test")
    word = [piece.token for piece in side.encode("animal")]
    for text in ("un animal", "l'animal"):
        pieces = side.encode(text)
        assert [piece.token for piece in pieces][-len(word) :] == word
    apostrophe, *_ = pieces[-len(word) - 1 :]
    assert (apostrophe.token[-1], apostrophe.start, apostrophe.end) == ("'", 1, 2)
    assert (pieces[-len(word)].start, pieces[-1].end) == (2, 8)
    for text in ("l'animal", "'un' animal", "un' animal"):
        ids = [piece.id for piece in side.encode(text)]
        assert side.decode(ids).replace("’", "'") == text
    assert side.decode([p.id for p in side.encode("L’été".lower())]) == "l'été"


def test_custom_rules_still_normalise_as_nfkc() -> None:
    pairs = [Pair("the animal sleeps", "l'été fini")] * 50
    side = Side(train_sentencepiece(pairs, 1000), "test")
    for typed, plain in (
        ("ﬁni", "fini"),
        ("e\u0301te\u0301", "été"),
        ("a\u00a0?", "a ?"),
    ):
        assert [p.id for p in side.encode(typed)] == [p.id for p in side.encode(plain)]
