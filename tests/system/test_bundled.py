"""What is shipped: the checkpoints and the recorded first Trace."""

from __future__ import annotations

import os
import random
import shutil
import string
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import visformer
from visformer import paths
from visformer.cli import command_parser, main
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.translation import translate
from visformer.formats.layouts import TUTORIALS
from visformer.formats.loading import load
from visformer.pictures.words.scene import telling_head
from visformer.trace_file.trace_file import read_trace


@pytest.fixture(scope="module")
def en_fr() -> Checkpoint:
    return load(paths.checkpoint())


def test_the_recorded_trace_is_what_the_model_makes(en_fr: Checkpoint) -> None:
    recorded = read_trace(paths.resource(paths.FIRST_TRACE))
    assert recorded.model.digest == en_fr.digest
    made = Decoding(en_fr, recorded.source_text).finish()
    assert made.target == recorded.target
    assert made.text == recorded.text
    for name in ("encoder_rows", "memory_rows", "decoder_rows"):
        ours, theirs = getattr(made, name), getattr(recorded, name)
        tolerance = 2e-5 * max(1.0, float(np.abs(theirs).max()))
        assert np.abs(ours - theirs).max() <= tolerance


def test_sizes_and_cards() -> None:
    folders = paths.bundled_checkpoints()
    assert [folder.name for folder in folders] == [
        "blackboard",
        "reverse",
        "tatoeba-en-fr",
        "tatoeba-zh-en",
    ]
    for folder in folders:
        assert "icen" in (folder / "README.md").read_text(encoding="utf-8")
        size = sum(file.stat().st_size for file in folder.iterdir())
        assert size <= 25e6


def test_sample_sentences_translate(en_fr: Checkpoint) -> None:
    animal = "The animal didn't cross the street because it was too tired."
    cat, tired = translate(en_fr, ["I have a cat.", animal])
    assert cat == "J'ai un chat."
    assert tired == "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."


def test_student_is_read_for_etudiant_where_the_sample_opens(
    en_fr: Checkpoint,
) -> None:
    trace = Decoding(en_fr, "I am a student.").finish()
    kind, layer, head, step = telling_head(trace)
    assert (kind, trace.steps[step - 1].token) == ("cross", "▁étudiant")
    row = trace.attention(kind, layer, head)[step - 1]
    assert trace.source[int(row.argmax())] == "▁student"


def test_the_handouts_sentence_translates() -> None:
    checkpoint = load(paths.checkpoint("tatoeba-zh-en"))
    assert (
        translate(checkpoint, ["我有一只猫", "我有一只猫。"]) == ["I have a cat."] * 2
    )
    decoding = Decoding(checkpoint, "我有一只猫")
    assert decoding.finish().text == "I have a cat."
    folder = paths.checkpoint("tatoeba-zh-en")
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 15e6


def test_reverse_reverses_and_its_attention_is_the_anti_diagonal() -> None:
    checkpoint = load(paths.checkpoint("reverse"))
    drawn = random.Random(1)
    words = ["".join(drawn.choices(string.ascii_lowercase, k=10)) for _ in range(50)]
    assert translate(checkpoint, words) == [word[::-1] for word in words]
    trace = Decoding(checkpoint, "abcdefgh").finish()
    weights = trace.attention("cross", trace.layers("cross") - 1)
    found = weights.argmax(-1)[:, :8]  # [H, T]: which source letter each row reads
    assert (found == np.arange(7, -1, -1)).all(-1).any()


def test_the_blackboards_model_copies_every_string_with_matrices_of_four_by_four() -> (
    None
):
    checkpoint = load(paths.checkpoint("blackboard"))
    words = ["".join(letters) for letters in product("abcd", repeat=3)]
    assert translate(checkpoint, words) == words
    config = checkpoint.config
    assert (config.d_model, config.heads, config.feed_forward) == (4, 1, 4)
    for text in ("dab", "abc"):
        trace = Decoding(checkpoint, text).finish()
        for kind in trace.kinds:
            weights = trace.attention(kind, 0, 0)
            assert weights.shape == (4, 4)
        read = trace.attention("cross", 0, 0)[:3].argmax(-1).tolist()
        assert read == [0, 1, 2]  # the letter that is written is the one that is read


@pytest.mark.parametrize("layout", TUTORIALS)
def test_the_lessons_have_a_model_of_each_tutorial(layout: str) -> None:
    folder = paths.checkpoint(f"lessons/{layout}")
    checkpoint = load(folder, device="cpu")
    assert checkpoint.layout == layout
    assert "icen" in (folder / "README.md").read_text(encoding="utf-8")
    assert not [line for line in checkpoint.assumed if "does not say" in line]


def test_the_models_of_the_lessons_are_small() -> None:
    files = paths.checkpoint("lessons").rglob("*.*")
    assert sum(file.stat().st_size for file in files) <= 5_000_000


def test_a_bundled_model_opens_by_its_name_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load("lessons/d2l").digest == load(paths.checkpoint("lessons/d2l")).digest
    assert load("tatoeba-en-fr").name == load(paths.checkpoint()).name
    assert visformer.translate("abc", "reverse") == ["cba"]
    assert visformer.Decoding("reverse", "abc").finish().text == "cba"
    assert visformer.compare("reverse", "blackboard", text="ab").names == (
        "reverse",
        "blackboard",
    )
    assert visformer.inspect("lessons/labml")["problem"] is None
    (pair,) = visformer.scan("reverse", [("abc", "cba")])
    assert pair.translation == "cba"
    Path("pairs.tsv").write_text("abc\tcba\n")
    for command in (
        ["inspect", "reverse"],
        ["compare", "reverse", "reverse", "--text", "abc"],
        ["scan", "pairs.tsv", "--checkpoint", "reverse", "--against", "reverse"],
    ):
        assert main(command) == 0, capsys.readouterr().err
    words = ["train", "--out", "x", "--start", "tatoeba-zh-en"]
    start = command_parser("train").parse_args(words).start
    assert start == paths.checkpoint("tatoeba-zh-en")
    monkeypatch.setattr("visformer.cli.check_screen", lambda: None)
    d2l = str(paths.checkpoint("lessons/d2l"))
    monkeypatch.setattr("visformer.app.run", lambda path, *_rest: int(path != d2l))
    assert main(["lessons/d2l"]) == 0


def test_what_exists_wins_over_a_bundled_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(paths.checkpoint("blackboard"), tmp_path / "reverse")
    assert load("reverse").digest == load(paths.checkpoint("blackboard")).digest
    for name in ("lessons", "../checkpoints/reverse", "README.md", ""):
        assert paths.model(name) == Path(name)


def test_an_installed_package_finds_its_models_by_name(tmp_path: Path) -> None:
    """A wheel has them inside the package."""
    package, empty = tmp_path / "site" / "visformer", tmp_path / "empty"
    package.mkdir(parents=True)
    empty.mkdir()
    for entry in Path(visformer.__file__).parent.iterdir():
        (package / entry.name).symlink_to(entry)
    shutil.copytree(paths.checkpoint("blackboard"), package / "checkpoints" / "mine")
    code = "import visformer; print(visformer.translate('abc', 'mine'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=empty,
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "['abc']\n", done.stderr
