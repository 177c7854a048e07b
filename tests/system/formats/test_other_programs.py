"""Folders and files of other programs, named in one sentence with the way in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.system.formats import layout_models as models
from tests.system.formats.layout_models import state
from visformer.cli import main
from visformer.errors import CheckpointError, brief
from visformer.formats.loading import load

FOLDERS = {  # a file in it -> words of the sentence
    "adapter_config.json": "merge_and_unload()",
    "__0_0.distcp": "dcp_to_torch_save(folder, “model.pt”)",
    "manifest.ocdbt": "was made for orbax",
    "saved_model.pb": "was made for TensorFlow",
    "flax_model.msgpack": "was made for Flax",
    "model_index.json": "was made for diffusers",
}


def refused(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load(path, heads=2, device="cpu")
    assert "…" not in str(caught.value).replace("(…)", "")
    assert len(str(caught.value)) <= 200
    return str(caught.value)


@pytest.mark.parametrize("file", FOLDERS)
def test_a_folder_of_another_program_is_named(file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("{}")
    assert FOLDERS[file] in refused(tmp_path)


def test_files_of_adapters_and_of_small_numbers_are_named(tmp_path: Path) -> None:
    save_file({"a.lora_A.weight": torch.ones(2, 2)}, tmp_path / "a.safetensors")
    assert "is an adapter without its base model" in refused(tmp_path / "a.safetensors")
    whole = {"a.weight": torch.ones(2, 2, dtype=torch.int8)}
    torch.save(whole, tmp_path / "q.pt")
    assert "holds quantised weights" in refused(tmp_path / "q.pt")
    head = b"\x06\0\0\0\x10\0TransformerSpec\0" + bytes(40)
    (tmp_path / "model.bin").write_bytes(head)
    assert "was made for CTranslate2" in refused(tmp_path / "model.bin")


def test_weights_in_parts_open_by_folder_index_and_part(tmp_path: Path) -> None:
    own = state(models.handout)
    places: dict[str, str] = {}
    for at, names in enumerate((sorted(own)[::2], sorted(own)[1::2]), 1):
        file = f"model-0000{at}-of-00002.safetensors"
        save_file({n: own[n].clone() for n in names}, tmp_path / file)
        places |= dict.fromkeys(names, file)
    assert "copy model.safetensors.index.json" in refused(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    for path in (tmp_path, index, tmp_path / "model-00001-of-00002.safetensors"):
        bias = load(path, heads=2, device="cpu").model.output.bias
        assert torch.equal(bias, own["fc_output.bias"])


def test_a_folder_of_folders_names_them(tmp_path: Path) -> None:
    for name in ("step-1", "step-2"):
        (tmp_path / name).mkdir()
        torch.save(state(models.handout), tmp_path / name / "m.pt")
    assert refused(tmp_path).endswith("Choose one of them: step-1, step-2.")


def test_advice_is_never_cut(tmp_path: Path) -> None:
    advice = "Load it yourself and call visformer.watch(model)(…)."
    made = brief(f"{'a word and ' * 30}which is not read. {advice}")
    assert made.endswith(f" … {advice}")
    assert len(made) <= 200


def test_render_draws_a_recorded_run_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.traces import make_trace

    make_trace(source=3, target=2).save(tmp_path / "run.vis")
    picture = tmp_path / "a.png"
    words = ["render", "--checkpoint", str(tmp_path / "run.vis")]
    assert main([*words, "--text", "a", "-o", str(picture)]) == 2
    assert "run.vis is a recorded run, which is drawn as it is" in (
        capsys.readouterr().err
    )
    assert not picture.exists()
    assert main([*words, "-o", str(picture)]) == 0
    assert picture.exists()
