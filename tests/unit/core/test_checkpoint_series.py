"""A training series from a folder: its points, their order and their numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import visformer
from tests.tiny_models import tiny_checkpoint
from visformer.analysis.head_measures import entropy
from visformer.core.checkpoint import Checkpoint
from visformer.core.checkpoint_series import MeasuredRun, entries, series_of
from visformer.core.decoding import Decoding
from visformer.core.models import WorkDone
from visformer.errors import InputError, VisformerError

SENTENCE = "abc", "cba"


def opened(path: Path) -> Checkpoint:
    """The model that a folder's name stands for."""
    if path.name == "step-30":
        raise InputError("It is damaged.")
    return tiny_checkpoint(seed=int(path.name.rpartition("-")[2]))


def made_of(folder: Path) -> list[WorkDone | MeasuredRun | VisformerError]:
    return [*series_of(folder, *SENTENCE, opened)]


def points(folder: Path) -> list[MeasuredRun]:
    others = WorkDone, VisformerError
    return [one for one in made_of(folder) if not isinstance(one, others)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for step in (100, 20, 3, 30):
        (tmp_path / f"step-{step}").mkdir()
    (tmp_path / "notes.txt").write_text("no checkpoint")
    return tmp_path


def test_checkpoints_come_by_number_and_one_that_fails_is_told(folder: Path) -> None:
    made = made_of(folder)
    assert [one for one in made if isinstance(one, WorkDone)] == [
        WorkDone(at, 4, "points") for at in range(4)
    ]
    assert [point.step for point, _trace in points(folder)] == [3, 20, 100]
    assert [str(e) for e in made if isinstance(e, VisformerError)] == ["It is damaged."]


def test_a_point_is_the_loss_of_the_same_tokens_and_each_heads_measure(
    folder: Path,
) -> None:
    for point, trace in points(folder):
        model = tiny_checkpoint(seed=point.step)
        tokenizer = model.tokenizer
        source = torch.tensor([model.vocabulary.read("abc").ids])
        wanted = model.vocabulary.reference("cba")
        fed = torch.tensor([[tokenizer.bos, *wanted[:-1]]])
        with torch.no_grad():
            hidden = model.model(source, fed, tokenizer.pad)
            log_p = model.model.output(hidden)[0].log_softmax(-1)
        own = -log_p[range(len(wanted)), wanted].mean().item()
        assert point.loss == pytest.approx(own, abs=1e-5)
        grid = point.heads["entropy"]["cross"]
        assert grid.shape == (trace.layers("cross"), trace.heads("cross"))
        assert grid[0, 1] == pytest.approx(
            entropy(trace.attention("cross", 0, 1)), abs=1e-6
        )


def test_importance_along_a_series_is_that_of_each_run(folder: Path) -> None:
    for point, _trace in points(folder):
        model = tiny_checkpoint(seed=point.step)
        alone = visformer.importance(model, *SENTENCE)
        for kind, grid in alone.gradient.items():
            assert point.heads["importance"][kind] == pytest.approx(grid, abs=1e-5)


def test_recorded_runs_are_points_too(tmp_path: Path) -> None:
    for seed, name in enumerate(("late 12", "early 2")):
        decoding = Decoding(tiny_checkpoint(seed=seed), "abc")
        decoding.feed("cba").save(tmp_path / f"{name}.vis")
    (tmp_path / "damaged.vis").write_bytes(b"no trace")
    (tmp_path / "step-5").mkdir()  # runs count, where there are any
    found = [point for point, _trace in points(tmp_path)]
    assert [(p.name, p.step, p.path) for p in found] == [
        ("early 2", 2, ""),
        ("late 12", 12, ""),
    ]
    first, second = (
        Decoding(tiny_checkpoint(seed=seed), "abc").feed("cba") for seed in (1, 0)
    )
    assert found[0].heads["importance"] == {}
    for point, trace in zip(found, (first, second), strict=True):
        assert point.loss == pytest.approx(np.mean([s.loss for s in trace.steps]))


def test_folders_without_a_series(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no checkpoints"):
        entries(tmp_path)
    with pytest.raises(InputError, match="There is no folder “nowhere”"):
        entries(tmp_path / "nowhere")
    (tmp_path / "step-1").mkdir()
    with pytest.raises(InputError, match="translate one first"):
        next(series_of(tmp_path, "", "", opened))
