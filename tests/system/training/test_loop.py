"""The loop: resume to the bit, early stop, damaged state."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from tests.system.training.toys import trainer
from visformer.core.model import Transformer
from visformer.errors import InputError
from visformer.training import loop
from visformer.training.loop import (
    BEST,
    STATE,
    Progress,
    Trainer,
    read_file,
)


class Stopped(Exception):
    """Stands for a kill."""


def weights(model: Transformer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def run_until(made: Trainer, step: int) -> None:
    def report(progress: Progress) -> None:
        if progress.step >= step:
            raise Stopped

    with pytest.raises(Stopped):
        made.run(report)


@pytest.mark.parametrize("step", [1, 4, 9])
def test_a_resumed_run_is_the_uninterrupted_one(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "REPORT_STEPS", 1)
    whole = trainer(tmp_path / "whole", save_seconds=0.0)
    best = whole.run(lambda progress: None)
    assert whole.state.step > 9
    run_until(trainer(tmp_path / "cut", save_seconds=0.0), step)
    resumed = trainer(tmp_path / "cut", save_seconds=0.0)
    assert resumed.state.step == step
    assert resumed.run(lambda progress: None) == best
    assert torch.equal(weights(resumed.model), weights(whole.model))
    averages = (read_file(tmp_path / name / BEST) for name in ("whole", "cut"))
    one, other = (torch.cat([t.flatten() for t in a.values()]) for a in averages)
    assert torch.equal(one, other)
    assert resumed.state.history == whole.state.history


def test_the_best_weights_are_the_averaged_ones_and_are_judged_without_dropout(
    tmp_path: Path,
) -> None:
    made = trainer(tmp_path, dropout=0.5, epochs=1, learning_rate=0.05)
    made.run(lambda progress: None)
    best, average = read_file(tmp_path / BEST), made.average.module.state_dict()
    assert all(torch.equal(best[name], tensor) for name, tensor in average.items())
    own = made.model.state_dict()
    assert not all(torch.equal(best[name], tensor) for name, tensor in own.items())
    assert made.held_out_loss() == made.held_out_loss() == made.state.best


def test_an_output_bias_is_trained(tmp_path: Path) -> None:
    """A row's loss is that of the whole output, and its gradient reaches the bias."""
    plain = trainer(tmp_path / "a", dropout=0.0)
    config = dataclasses.replace(plain.model.config, output_bias=True)
    model = Transformer(config)
    model.load_state_dict(plain.model.state_dict(), strict=False)
    with torch.no_grad():
        model.output.bias.normal_()
    made = Trainer(
        model, plain.data, plain.options, tmp_path / "b", device=torch.device("cpu")
    )
    example = plain.data.valid[:1]
    loss, count = made._loss(model, list(example), 0.0)
    loss.backward()
    source = torch.tensor([example[0].source])
    target = torch.tensor([example[0].target])
    logits = model.output(model(source, target[:, :-1], plain.data.pad)[0])
    expected = F.cross_entropy(logits, target[0, 1:], reduction="sum")
    assert count == len(target[0]) - 1
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-2)
    shares = logits.detach().softmax(-1).sum(0)
    shares -= F.one_hot(target[0, 1:], len(shares)).sum(0)
    torch.testing.assert_close(model.output.bias.grad, shares, atol=0.02, rtol=0.02)


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    made = [trainer(tmp_path / name, epochs=1, seed=3) for name in "ab"]
    for one in made:
        one.run(lambda progress: None)
    assert torch.equal(weights(made[0].model), weights(made[1].model))


def test_training_learns_and_reports(tmp_path: Path) -> None:
    made, seen = trainer(tmp_path, epochs=3, learning_rate=0.01), list[Progress]()
    before = made.held_out_loss()
    best = made.run(seen.append)
    assert best == made.state.best == min(made.state.history)
    assert best < before
    assert [p.epoch for p in seen if p.valid_loss is not None] == [1, 2, 3]
    assert made.state.seconds > 0
    assert made.done


def test_early_stop_and_no_more_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, 2.0, 2.5, 2.0, 9.0])
    monkeypatch.setattr(Trainer, "held_out_loss", lambda self: next(losses))
    made = trainer(tmp_path, epochs=50, patience=2)
    assert made.run(lambda progress: None) == 2.0
    assert made.state.epoch == 4
    again = trainer(tmp_path, epochs=50, patience=2)
    assert again.run(lambda progress: None) == 2.0
    assert again.state.epoch == 4


def test_state_of_an_older_version_is_read(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    made.run(lambda progress: None)
    state = torch.load(tmp_path / STATE, weights_only=True)
    assert set(state) == {"place", "model", "average", "optimizer"}
    del state["place"]["seconds"]
    state["place"] |= {"world": 2, "batch": 3}  # batches of each of two processes
    torch.save(state, tmp_path / STATE)
    again = trainer(tmp_path).state
    assert (again.step, again.batch) == (made.state.step, 6)


def test_damaged_state_is_one_sentence(tmp_path: Path) -> None:
    trainer(tmp_path, epochs=1).run(lambda progress: None)
    path, whole = tmp_path / STATE, (tmp_path / STATE).read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not a state"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"training\.pt is damaged\. Delete it"):
            trainer(tmp_path)
    torch.save({"place": {}}, path)
    with pytest.raises(InputError, match="another model"):
        trainer(tmp_path)
    torch.save([1], path)
    with pytest.raises(InputError, match="not a training state"):
        trainer(tmp_path)


def test_what_a_kill_left_is_swept(tmp_path: Path) -> None:
    for name in (STATE, BEST):
        left = tmp_path / f".{name}.0a1b2c3d.part"
        left.write_bytes(b"half")
        os.utime(left, (0, 0))  # long ago
    trainer(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_loss_that_explodes_is_one_sentence(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    with torch.no_grad():
        made.model.output.weight.fill_(float("nan"))
    with pytest.raises(InputError, match="learning rate below"):
        made.run(lambda progress: None)
