"""Settings that tensors do not tell, found by the loss of reference pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import visformer
from tests.system.formats.layout_files import TUTORIALS, refusal, saved
from tests.system.formats.layout_models import MAKERS, state
from visformer.cli import main
from visformer.core.checkpoint import Checkpoint
from visformer.core.passes import run
from visformer.errors import CheckpointError, InputError
from visformer.formats.fitting import MOST_PAIRS, far_off, read_references
from visformer.formats.layouts import LAYOUTS
from visformer.formats.loading import checkpoint_files, inspect, load
from visformer.formats.names import their_name

HEADS, ROWS = 4, 24


def sharp(layout: str, **rules: Any) -> dict[str, Tensor]:
    """Return weights under which attention, and so the number of heads, matters."""
    sizes: dict[str, Any] = {
        **{"d_model": 32, "heads": HEADS, "encoder_layers": 2, "decoder_layers": 2},
        **{"source_vocabulary": ROWS, "target_vocabulary": ROWS, "feed_forward": 48},
    }
    model = visformer.build(layout, max_positions=40, **sizes, **rules).model
    drawn = torch.Generator().manual_seed(1)
    tensors = {}
    for name, parameter in model.named_parameters():
        size = 0.0
        if parameter.dim() == 2:
            size = 3.0 if "query" in name or "key" in name else 1.0
            size *= 0.6 if name == "output.weight" else 0.25
            size = 1.0 if "embedding" in name else size
        made = torch.randn(parameter.shape, generator=drawn) * size
        plain = torch.ones_like(made) if name.endswith("norm.weight") else made
        tensors[their_name(LAYOUTS[layout].names, name)] = plain
    return tensors


def references(
    path: Path, checkpoint: Checkpoint, change: str | None = None, count: int = 8
) -> Path:
    """Write what a model itself says to some sources, drawn as it is likely."""
    lines, drawn = [], torch.Generator().manual_seed(0)
    for number in range(count):
        source = [(3 * number + 5 * i) % (ROWS - 3) + 3 for i in range(5)]
        target = [checkpoint.tokenizer.bos]
        for _token in range(8):
            (trace,) = run(checkpoint, [source], [target], intervention=change)
            logits = torch.tensor(trace.logits)[-1]
            logits[checkpoint.tokenizer.pad] = -torch.inf  # no sentence has it inside
            likely = logits.softmax(-1)
            target.append(int(likely.multinomial(1, generator=drawn)))
        words = [" ".join(map(str, ids)) for ids in (source, target[1:])]
        lines.append("\t".join([*words, "more"]))
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(name, marks=[] if name == "handout" else pytest.mark.slow)
        for name in TUTORIALS
    ],
)
def test_the_true_number_of_heads_has_the_lowest_loss(
    tmp_path: Path, layout: str
) -> None:
    path = saved(tmp_path / "m.pt", sharp(layout))
    pairs = references(tmp_path / "refs.tsv", load(path, heads=HEADS, device="cpu"))
    made = load(path, pairs=pairs, device="cpu")
    assert made.config.heads == HEADS
    assert made.assumed[0].startswith(f"heads = {HEADS} (loss ")


def test_heads_that_are_told_stay_and_the_window_lets_pairs_tell(
    tmp_path: Path,
) -> None:
    path = saved(tmp_path / "m.pt", sharp("handout"))
    true = load(path, heads=HEADS, device="cpu")
    pairs = references(tmp_path / "refs.tsv", true, count=4)
    assert load(path, pairs=pairs, heads=2, device="cpu").config.heads == 2
    answered = (("heads", 0), ("pairs", str(pairs)))
    window = checkpoint_files(str(path), answered)
    assert window.load(torch.device("cpu")).config.heads == HEADS
    assert window.guessed_heads == 0


def test_other_switches_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """References of a run without a scale fit best without one."""
    path = saved(tmp_path / "m.pt", sharp("handout"))
    model = load(path, heads=HEADS, device="cpu")
    pairs = references(tmp_path / "refs.tsv", model, "scale off")
    fits = inspect(path, heads=HEADS, pairs=pairs)["fits"]
    assert fits[0]["settings"].startswith("scale off")
    assert [fit["loss"] for fit in fits] == sorted(fit["loss"] for fit in fits)
    known = {fit["settings"]: fit["loss"] for fit in fits}
    assert known.get("as it is", 99) > 1.02 * fits[0]["loss"]
    assert main(["inspect", str(path), "--pairs", str(pairs), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["config"]["heads"] in (1, 2, 4, 8)
    assert report["fits"][0]["settings"].startswith("heads=")


RULES: dict[str, Any] = {
    **{"norm_first": True, "activation": "gelu", "embedding_scale": False},
    "positions": "sinusoidal",
}


def test_settings_are_searched_jointly(tmp_path: Path) -> None:
    """Heads are judged wrongly while norms, activation and scale are others."""
    tensors = sharp("torch", **RULES)
    path = saved(tmp_path / "m.pt", tensors)
    true = load(path, heads=HEADS, device="cpu", **RULES)
    pairs = references(tmp_path / "refs.tsv", true)
    made = load(path, pairs=pairs, positions="sinusoidal", device="cpu")
    found = {name: getattr(made.config, name) for name in RULES}
    assert (made.config.heads, found) == (HEADS, RULES)
    assert made.assumed[0].startswith(
        "heads = 4, activation = gelu, embedding_scale = False, norm_first = True (loss"
    )
    assert not any(line.startswith("norm_first") for line in made.assumed)


def test_references_that_no_settings_explain_are_said(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", sharp("scratch"))
    pairs = tmp_path / "refs.tsv"
    pairs.write_text("3 4 5\t6 7 8 9\n5 6\t20 11 17\n")
    made = load(path, pairs=pairs, device="cpu")
    (finding,) = (f for f in made.findings if f.id == "pairs-unlikely")
    assert "guessing among 24 tokens has 3.18." in finding.what
    assert len(finding.what) <= 200
    assert far_off(0.4, 24) == ()


def test_an_accepted_default_is_listed_as_assumed(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", state(MAKERS["scratch"]))
    form = checkpoint_files(str(path), ()).questionnaire()
    assert form is not None
    assert [q.name for q in form.questions if q.guess] == ["heads"]
    answers = (("heads", 8), ("guessed.heads", True))
    files = checkpoint_files(str(path), answers)
    made = files.load(torch.device("cpu"))
    assert made.assumed[0] == (
        "heads = 8 (the usual value, accepted: the file does not say)"
    )
    assert files.guessed_heads == 8
    again = files.questionnaire(every=True)
    assert again is not None
    assert [q.guess for q in again.questions if q.name == "heads"] == [True]
    told = checkpoint_files(str(path), (("heads", 8),))
    assert told.guessed_heads == 0
    assert not any(
        line.startswith("heads") for line in told.load(torch.device("cpu")).assumed
    )
    known = told.questionnaire(every=True)
    assert known is not None
    assert [q.guess for q in known.questions if q.name == "heads"] == [False]


def test_pairs_that_cannot_be_used(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.pt", state(MAKERS["scratch"]))
    pairs = tmp_path / "refs.tsv"
    pairs.write_text("no tab here\n\t\n")
    assert "refs.tsv has no reference pairs" in refusal(path, heads=None, pairs=pairs)
    pairs.write_text("2 3\tword\n")
    with pytest.raises(InputError, match="“word” is not a token"):
        load(path, pairs=pairs, device="cpu")
    pairs.write_text("2 3\t4 5\n" * 99)
    assert len(read_references(pairs)) == MOST_PAIRS
    with pytest.raises(CheckpointError):
        load(path, pairs=tmp_path / "gone.tsv", device="cpu")
