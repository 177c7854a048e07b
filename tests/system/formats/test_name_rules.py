"""rename= and ignore=, a model's two halves, and norms without a shift."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.system.formats import layout_models as models
from tests.system.formats.layout_files import opened, refusal, saved, weights
from tests.system.formats.layout_models import MAKERS, SOURCE, TARGET, WIDTH, state
from visformer.core.passes import run
from visformer.errors import CheckpointError
from visformer.formats.loading import checkpoint_files, inspect, load

RENAMED = {
    "handout": ("encoder_embed.", "src_emb."),
    "d2l": (".attention1.", ".self_att."),
    "labml": ("src_embed.", "source."),
    "modular": (".w_q.", ".query_proj."),
    "scratch": ("encoder_layers.", "enc_layers."),
    "torch": ("transformer.decoder.", "transformer.dec."),
}


def renamed(layout: str) -> dict[str, Tensor]:
    ours, theirs = RENAMED[layout]
    return {k.replace(ours, theirs): t for k, t in state(MAKERS[layout]).items()}


@pytest.mark.parametrize("layout", MAKERS)
def test_renamed_and_surplus_tensors(tmp_path: Path, layout: str) -> None:
    plain = opened(saved(tmp_path / "m.pt", state(MAKERS[layout])))
    path = saved(tmp_path / "n.pt", {**renamed(layout), "extra.weight": torch.ones(3)})
    with pytest.raises(CheckpointError):
        opened(path)
    ours, theirs = RENAMED[layout]
    rules: dict[str, Any] = {
        "rename": {theirs.replace(".", r"\."): ours},
        "ignore": [r"^extra\."],
    }
    made = opened(path, **rules)
    assert made.layout == layout
    assert made.digest
    for name, weight in weights(plain).items():
        assert torch.equal(weights(made)[name], weight), name
    overrides = (
        ("heads", 2),
        (f"rename.{theirs}", ours),
        ("ignore.extra", True),
        ("ignore.W_", False),
    )
    window = checkpoint_files(str(path), overrides).load(torch.device("cpu"))
    assert window.config == plain.config
    listed = [tensor["name"] for tensor in inspect(path, heads=2, **rules)["tensors"]]
    assert "extra.weight" not in listed
    assert len(listed) == len(renamed(layout))


def test_rules_are_applied_in_their_order(tmp_path: Path) -> None:
    tensors = {f"x.{k}": t for k, t in state(models.scratch).items()}
    path = saved(tmp_path / "m.pt", {**tensors, "y": torch.ones(1)})
    rules = {r"^x\.": "z.", r"^z\.(.*)": r"net.\1"}
    assert opened(path, rename=rules, ignore="^y$").layout == "scratch"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"rename": {"qu(": "x"}}, "rename=… cannot use the pattern “qu(”"),
        ({"rename": {"fc": r"\7"}}, "invalid group reference"),
        ({"ignore": ["*"]}, "ignore=… cannot use the pattern “*”"),
        ({"rename": {"nowhere": "x"}}, "that matches “nowhere”"),
        ({"ignore": ["nowhere"]}, "that matches “nowhere”"),
        ({"rename": {"fc_out.*": "x"}}, "gives two tensors of m.pt the name x"),
    ],
)
def test_rules_that_cannot_be_are_refused(
    tmp_path: Path, rules: dict[str, Any], words: str
) -> None:
    assert words in refusal(saved(tmp_path / "m.pt", state(models.scratch)), **rules)


@pytest.mark.parametrize(
    "rules", [{"rename": ["a"]}, {"rename": {1: "a"}}, {"ignore": 3}, {"ignore": [3]}]
)
def test_rules_of_another_type_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"rename is|ignore is"):
        load("m.pt", **rules)


def half(layout: str, part: str) -> dict[str, Tensor]:
    """Return what ``model.encoder.state_dict()`` holds, or all with "enc" in its name.

    The second is of layouts whose halves are no modules of their own.
    """
    tensors = state(MAKERS[layout])
    if layout in ("d2l", "modular"):
        start = f"{part}."
        return {k[len(start) :]: t for k, t in tensors.items() if k.startswith(start)}
    encoder = ("src", "enc", "transformer.enc", "pos")
    inside = {k: t for k, t in tensors.items() if k.startswith(encoder)}
    return (
        inside
        if part == "encoder"
        else {k: tensors[k] for k in tensors.keys() - inside.keys()}
    )


@pytest.mark.parametrize("layout", MAKERS)
def test_two_halves_in_two_files(tmp_path: Path, layout: str) -> None:
    files = {
        part: saved(tmp_path / f"{part}.pt", half(layout, part))
        for part in ("encoder", "decoder")
    }
    plain = opened(saved(tmp_path / "m.pt", state(MAKERS[layout])))
    encoder, decoder = files.values()
    for pair in ((encoder, decoder), (decoder, encoder)):
        made = opened(pair)
        assert made.layout == layout
        for name, weight in weights(plain).items():
            assert torch.equal(weights(made)[name], weight), name
    for part, other in (("encoder", "decoder"), ("decoder", "encoder")):
        sentence = refusal(files[part])
        assert f"holds only the {part};" in sentence
        assert f"the {other} is missing" in sentence
        form = checkpoint_files(str(files[part]), ()).questionnaire()
        assert form is not None
        assert form.questions[0].name == "other"


def test_a_renamed_half_is_no_missing_one(tmp_path: Path) -> None:
    assert "decoder is missing" not in refusal(
        saved(tmp_path / "m.pt", renamed("torch"))
    )


@pytest.mark.parametrize("norm_first", [False, True])
def test_torch_without_biases(tmp_path: Path, norm_first: bool) -> None:
    """Norms without a shift, held against torch itself."""
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"):  # of nested tensors
        model = nn.Transformer(
            WIDTH, 2, 2, 2, 12, batch_first=True, bias=False, norm_first=norm_first
        )
    parts = models.tree(
        src=nn.Embedding(SOURCE, WIDTH),
        tgt=nn.Embedding(TARGET, WIDTH),
        transformer=model,
        out=nn.Linear(WIDTH, TARGET, bias=False),
    ).eval()
    for parameter in parts.parameters():
        nn.init.normal_(parameter, std=0.4)
    path = saved(tmp_path / "m.pt", parts.state_dict())
    checkpoint = opened(
        path, norm_first=norm_first, positions="none", embedding_scale=False
    )
    assert not checkpoint.config.norm_bias
    source, target = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 6, 7, 8]])
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    with torch.no_grad():
        hidden = model(
            parts.get_submodule("src")(source),
            parts.get_submodule("tgt")(target),
            tgt_mask=mask,
        )
        expected = parts.get_submodule("out")(hidden)[0]
    (trace,) = run(checkpoint, source.tolist(), target.tolist())
    assert torch.allclose(torch.tensor(trace.logits), expected, atol=1e-5)


def test_a_file_with_other_names_is_no_file_of_the_layout_s_author(
    tmp_path: Path,
) -> None:
    """Its program's rules are assumed, each of them, and no quirk is claimed of it."""
    own = state(MAKERS["modular"])
    others = {name.replace(".mha", ".attn"): tensor for name, tensor in own.items()}
    path = tmp_path / "m.pt"
    torch.save(others, path)
    told = load(path, heads=2, rename={r"\.attn": ".mha"}, norm="layer")
    said = {line.partition(" = ")[0] for line in told.assumed}
    rules = {"norm_eps", "norm_first", "activation", "embedding_scale", "positions"}
    rules |= {"position_form", "position_axis", "mask_rule", "masked_value"}
    assert rules <= said
    assert "norm" not in said
    assert not [f for f in told.findings if f.id.startswith("003")]
    torch.save(own, path)
    assert [f.id for f in load(path, heads=2).findings][:1] == ["003-4"]
