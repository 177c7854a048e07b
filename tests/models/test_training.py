"""The training that made the bundled models: figures, and tokenizers that grow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.models.__main__ import main
from tests.system.training.test_command import run, write_pairs
from tests.system.training.toys import TINY
from visformer.formats.layouts.native import read_native


def test_a_start_grows_and_figures_are_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_pairs(tmp_path / "numbers.tsv")
    few = {"data": data, "epochs": 1, "batch_tokens": 256, "valid": 20, "test": 9}
    run({**TINY, **few, "out": tmp_path / "first", "vocabulary": 1000})
    first, out = tmp_path / "first" / "checkpoint", tmp_path / "second"
    few_options = "--epochs 1 --batch-tokens 256 --valid 20 --test 9 --threads 1"
    options = [str(data), "--out", str(out), *few_options.split(), "--device", "cpu"]
    more = ["--figures", "300", "--source-language", "en", "--target-language", "fr"]
    counts = []
    for folder, added in ((tmp_path / "plain", []), (out, [*more, "--grow"])):
        options[2] = str(folder)
        assert main([*options, *added, "--start", str(first)]) == 0
        (steps,) = re.findall(r"of about (\d+)", capsys.readouterr().out)
        counts.append(int(steps))
    assert counts[1] > 2 * counts[0]
    cpu = torch.device("cpu")
    old, grown = read_native(first, cpu), read_native(out / "grown", cpu)
    for name, values in old.model.state_dict().items():  # nothing was missing
        torch.testing.assert_close(grown.model.state_dict()[name], values)
    with pytest.raises(ValueError, match="en, fr, zh"):
        main([*options[:2], str(tmp_path / "o"), *options[3:], "--figures", "3"])
    with pytest.raises(SystemExit, match="2"):
        main([*options, "--grow"])
