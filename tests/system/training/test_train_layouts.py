"""``visformer train --layout``: the tutorial's program reads what is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch import nn

from tests.system.training.toys import TASK, TOY
from tests.system.tutorials.d2l import D2l
from tests.system.tutorials.handout import Handout
from tests.system.tutorials.labml import Labml
from tests.system.tutorials.modular import Modular
from tests.system.tutorials.scratch import Scratch
from tests.system.tutorials.sizes import Sizes
from tests.unit.core.variants import sizes_of
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.errors import InputError
from visformer.formats.layouts import TUTORIALS
from visformer.formats.loading import load
from visformer.training.prepare import ToyData
from visformer.training.train_command import options_for, train

MODULES: dict[str, Callable[[Sizes], nn.Module]] = {
    "handout": Handout,
    "d2l": D2l,
    "labml": Labml,
    "modular": Modular,
    "scratch": Scratch,
}
GIVEN = {key: value for key, value in TOY.items() if key != "max_positions"}


def trained(out: Path, layout: str) -> tuple[Path, Checkpoint]:
    train(options_for({**GIVEN, "epochs": 1, "layout": layout, "out": out}), print)
    return out / "checkpoint", load(out / "checkpoint", device="cpu")


def own_module(layout: str, checkpoint: Checkpoint) -> nn.Module:
    """Return the tutorial's model in the checkpoint's sizes."""
    return MODULES[layout](sizes_of(checkpoint.config))


@pytest.mark.parametrize("layout", TUTORIALS)
def test_a_tutorials_program_reads_what_is_written(tmp_path: Path, layout: str) -> None:
    folder, checkpoint = trained(tmp_path, layout)
    stored = load_file(folder / f"{layout}.safetensors")
    own_module(layout, checkpoint).load_state_dict(stored)  # raises if any name differs
    assert checkpoint.layout == layout
    choices = TUTORIALS[layout].choices
    assert {n: getattr(checkpoint.config, n) for n in choices} == choices
    assert not [line for line in checkpoint.assumed if "does not say" in line]
    kinds = {finding.id for finding in TUTORIALS[layout].findings}
    assert kinds <= {finding.id for finding in checkpoint.findings}
    trace = Decoding(checkpoint, "abc").finish()
    ends = trace.source[-1] == "</s>"
    assert ends == TUTORIALS[layout].ends_source
    assert f"layout {layout}" in (folder / "README.md").read_text("utf-8")


def test_row_one_of_modular_stays_zero(tmp_path: Path) -> None:
    _folder, checkpoint = trained(tmp_path, "modular")
    for table in (
        checkpoint.model.source_embedding,
        checkpoint.model.target_embedding,
    ):
        assert not table.weight[1].any()
        assert bool((table.weight[2:] != 0).any(1).all())
    assert any("padding_idx" in str(finding) for finding in checkpoint.findings)


def test_training_reads_sources_as_the_program_does() -> None:
    pairs = TASK.pairs("valid", 5)
    ends = [
        {example.source[-1] == 3 for example in data.valid}
        for data in (
            ToyData(TASK, count=5, valid=pairs, ends_source=ends)
            for ends in (True, False)
        )
    ]
    assert ends == [{True}, {False}]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"layout": "torch"}, "must be one of handout, d2l, labml, modular, scratch"),
        ({"layout": "labml", "norm_first": False}, "Leave --post-norm out"),
        ({"layout": "d2l", "task": None, "start": Path("x")}, "fresh weights"),
        ({"layout": "labml", "batch_tokens": 10_002}, "at most 10,000"),
    ],
)
def test_layouts_that_cannot_be_trained(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    given = {**GIVEN, "out": tmp_path, **changes}
    if not given["task"]:
        given["data"] = tmp_path / "pairs.tsv"
    with pytest.raises(InputError, match=reason):
        train(options_for(given), print)
