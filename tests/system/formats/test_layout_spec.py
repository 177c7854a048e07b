"""Adding a layout is one entry; and a file is read once, whatever is asked of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import visformer
from tests.system.formats import layout_models as models
from tests.system.formats.folders import write_letters
from tests.system.formats.layout_files import saved
from tests.system.formats.layout_models import MAKERS, state
from visformer.core.presets import Preset
from visformer.errors import CheckpointError, InputError
from visformer.files import read_regular
from visformer.formats.layout_spec import LayoutSpec
from visformer.formats.layouts import LAYOUTS
from visformer.formats.loading import checkpoint_files, inspect, load
from visformer.formats.names import Names, layer_names
from visformer.formats.tutorials import read_tutorial
from visformer.values.finding import Finding

SIZES = {
    "source_vocabulary": 11,
    "target_vocabulary": 13,
    "d_model": 8,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "feed_forward": 12,
    "max_positions": 9,
}
CHOICES = {"shared_embedding": False, "tied_output": False, "output_bias": True}
TOY = LayoutSpec(
    name="toy",
    title="toy (a test)",
    preset=Preset(name="toy", fields={**SIZES, **CHOICES, "norm_first": True}),
    names=Names(
        {
            "src": "source_embedding",
            "tgt": "target_embedding",
            "head": "output",
            **layer_names(
                "enc.layers.{l}. | dec.layers.{l}.",
                attention="att | att cross",
                projections="q k v o",
                feed="up down",
                norms="n1 n2 | n1 n2 n3",
            ),
        }
    ),
    read=read_tutorial,
    findings=(Finding("toy-1", "Toy", "It is a toy.", "Play."),),
)


def toy_file(path: Path) -> Path:
    """Write a file with the names of the toy's program."""
    table = {ours: theirs for theirs, ours in TOY.names.modules.items()}
    model = visformer.build("toy", device="cpu", seed=3).model
    tensors = {}
    for name, parameter in model.named_parameters():
        module, _, leaf = name.rpartition(".")
        general = module.replace(".0.", ".{l}.").replace(".1.", ".{l}.")
        number = "1" if ".1." in module else "0"
        tensors[f"{table[general].replace('{l}', number)}.{leaf}"] = parameter
    return saved(path, {name: t.clone() for name, t in tensors.items()})


def test_a_layout_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(LAYOUTS, "toy", TOY)
        path = toy_file(tmp_path / "m.pt")
        checkpoint = load(path, heads=4, device="cpu")
        assert (checkpoint.layout, checkpoint.config.norm_first) == ("toy", True)
        assert [f.id for f in checkpoint.findings][:1] == ["toy-1"]
        fresh = visformer.build("toy", device="cpu", seed=3).model
        for name, parameter in checkpoint.model.named_parameters():
            assert torch.equal(parameter, fresh.get_parameter(name)), name
        asked = checkpoint_files(str(path), ()).questionnaire()
        assert asked is not None
        assert asked.layout == "toy (a test)"
        defaults = {question.name: question.default for question in asked.questions}
        assert (defaults["heads"], defaults["max_positions"]) == (4, 9)
    with pytest.raises(CheckpointError, match="does not fit the layout"):
        load(path, heads=4, device="cpu")
    with pytest.raises(InputError, match="layout is 'toy', but must"):
        load(path, layout="toy", device="cpu")
    with pytest.raises(CheckpointError, match="no preset “toy”"):
        visformer.build("toy")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files of weights that were read, one for each reading."""
    names: list[str] = []

    def counted(path: Path, limit: int) -> bytes:
        names.append(path.name)
        return read_regular(path, limit)

    monkeypatch.setattr("visformer.formats.weight_file.read_regular", counted)
    return names


@pytest.mark.parametrize("layout", MAKERS)
def test_a_file_is_read_once_to_be_asked_about_and_opened(
    tmp_path: Path, layout: str, reads: list[str]
) -> None:
    files = checkpoint_files(
        str(saved(tmp_path / "m.pt", state(MAKERS[layout]))), (("heads", 2),)
    )
    assert files.questionnaire(every=True) is not None
    files.load(torch.device("cpu"))
    assert reads == ["m.pt"]


def test_a_file_is_read_once_to_be_inspected(tmp_path: Path, reads: list[str]) -> None:
    path = saved(tmp_path / "m.pt", state(models.handout))
    assert inspect(path, heads=2)["problem"] is None
    assert inspect(path)["problem"].startswith("m.pt does not say how many heads")
    assert reads == ["m.pt", "m.pt"]
    reads.clear()
    (tmp_path / "bad.pt").write_bytes(b"PK\x03\x04")
    assert "truncated or damaged" in inspect(tmp_path / "bad.pt")["problem"]
    assert reads == ["bad.pt"]
    reads.clear()
    assert inspect(write_letters(tmp_path / "native"))["problem"] is None
    assert reads == ["model.safetensors"]
