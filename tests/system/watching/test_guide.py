"""The recipes of the guide: each is short, and runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import visformer
from tests.system.watching.faulty_models import built
from tests.system.watching.other_programs import Fairseq, JoeyNMT, OpenNMT

GUIDE = Path(__file__).parents[3] / "resources" / "guide" / "watching.md"
PARTS = re.split(r"^## ", GUIDE.read_text("utf-8"), flags=re.MULTILINE)[1:]
RECIPES = {
    part.partition("\n")[0]: re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    for part in PARTS
    if "```python" in part
}


LOOPS = "A training loop", "torchrun", "accelerate"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A group of one process."""
    meet = f"file://{tmp_path}/group"
    torch.distributed.init_process_group("gloo", init_method=meet, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


class Task:
    """The least of a task of fairseq's: decodes two steps."""

    def inference_step(self, _generator: Any, models: list[Any], sample: Any) -> None:
        src, state = sample["net_input"]["src_tokens"], {}  # type: ignore[var-annotated]
        tgt = sample["net_input"]["prev_output_tokens"]
        memory = models[0].encoder(src, src_lengths=None)
        for length in (1, 2):
            models[0].decoder(tgt[:, :length], memory, incremental_state=state)


class Pieces:
    """The least of a tokenizer of transformers."""

    def __call__(self, text: str, return_tensors: str) -> dict[str, Tensor]:
        return {"input_ids": torch.arange(3, 3 + len(text.split()))[None]}

    def convert_ids_to_tokens(self, id: int) -> str:
        return f"t{id}"


def names(recipe: str) -> dict[str, Any]:
    """Return what a recipe takes for granted."""
    torch.manual_seed(8)
    src, tgt = torch.randint(2, 24, (3, 7)), torch.randint(2, 24, (3, 6))
    given: dict[str, Any] = {"visformer": visformer, "torch": torch}
    given |= {"model": built("healthy"), "src": src, "tgt": tgt[:, :-1]}
    given |= {"labels": tgt[:, 1:], "weights": torch.rand(1, 2, 4, 4).softmax(-1)}
    if recipe == "Hugging Face":
        transformers = pytest.importorskip("transformers")
        sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
        config = transformers.T5Config(
            **sizes, vocab_size=50, pad_token_id=0, decoder_start_token_id=0
        )
        model = transformers.T5ForConditionalGeneration(config).eval()
        given |= {"model": model, "tokenizer": Pieces()}
    lengths = torch.full((3,), 7)
    if recipe == "fairseq":
        net = {"src_tokens": src, "src_lengths": lengths, "prev_output_tokens": tgt}
        given |= {"model": Fairseq(), "sample": {"net_input": net}}
        given |= {"task": Task(), "generator": None}
    if recipe == "OpenNMT":
        batch = {"src": src.T[:, :, None], "tgt": tgt.T[:, :, None], "srclen": lengths}
        given |= {"model": OpenNMT(), "batch": batch}
    if recipe == "JoeyNMT":
        sides = {"src": src, "trg": tgt[:, 1:], "trg_input": tgt[:, :-1]}
        given["batch"] = SimpleNamespace(**sides, src_length=lengths, ntokens=15)
        given |= {"model": JoeyNMT()}
    if recipe.startswith("Two models"):
        given |= {"good": built("healthy"), "bad": built("not-scaled")}
    if recipe in LOOPS:
        given |= {"batches": [(src, tgt)] * 3, "train": lambda *_given: None}
        main = SimpleNamespace(is_main_process=True, unwrap_model=lambda model: model)
        given |= {"accelerator": main, "step": 0, "tgt": tgt}
    if recipe == "Lightning":
        lightning = ModuleType("lightning")
        lightning.Callback = object  # type: ignore[attr-defined]
        given["lightning"] = lightning
    return given


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_runs(
    recipe: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[Any] = []
    monkeypatch.setattr(visformer, "show", lambda *it, **more: shown.append((it, more)))
    given = names(recipe)
    if recipe == "torchrun":
        request.getfixturevalue("alone")
        parallel = torch.nn.parallel.DistributedDataParallel
        given["model"] = parallel(given["model"])
    for snippet in RECIPES[recipe]:
        assert len(snippet.splitlines()) < 10
        exec(compile(snippet, "watching.md", "exec"), given)
    if recipe == "Lightning":
        module, trainer = SimpleNamespace(model=given["model"]), SimpleNamespace()
        trainer.global_step, trainer.is_global_zero = 3, True
        batch = {"src": given["src"], "tgt": given["tgt"]}
        given["Watching"]().on_validation_batch_start(trainer, module, batch, 0)
        assert visformer.open_trace("step-3.vis").kinds
    elif recipe in LOOPS:
        assert len(visformer.open_trace("step-0.vis")) == 5
    elif recipe.startswith("Weights"):
        assert "cross" in shown[0][1]["attentions"]
    elif recipe.startswith("Typed"):
        assert shown[0][0] == (given["wrapped"],)
        assert given["decoding"].trace.steps[0].id == 9
    elif recipe.startswith("Two models"):
        assert (given["first"].kind, given["first"].layer) == ("encoder", 0)
    elif "certify" in RECIPES[recipe][0]:
        assert given["certificate"].passed
    else:
        ((watched,), _more) = shown[0]
        if recipe == "fairseq":
            assert len(given["steps"].traces[0].target) == 2
        assert watched.certificate.passed
        kinds = {one.kind for one in watched.attentions}
        assert kinds == {"encoder", "decoder", "cross"}
        assert watched.traces


def test_the_guide_has_all_recipes() -> None:
    more = "OpenNMT", "JoeyNMT", "training"
    for wanted in ("own", "torch.nn", "Hugging", "Lightning", "fairseq", *LOOPS, *more):
        assert any(wanted in recipe for recipe in RECIPES)
    assert "lightning" not in sys.modules
