"""Faults in a forward pass are named with their place; healthy models have none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.system.watching.faulty_models import built
from tests.system.watching.test_tutorials import the_call
from visformer.analysis.checks.observation import Observation
from visformer.analysis.checks.table import CHECKS, EXPLAINS, Check
from visformer.values.finding import Finding
from visformer.watching.watcher import watch

FAULTS = {  # finding -> where, and what its sentence says
    "not-causal": ("decoder layer", "which comes after it, with weight 0."),
    "mask-multiplied": ("layer", "so a masked one counts as 0"),
    "softmax-axis": ("layer", "The softmax runs over the queries, not over the keys"),
    "not-scaled": ("encoder layer 1 (encoder_layers.0.self_attn)", "sqrt(4) = 2"),
    "padding-read": ("layer", "in batch row 2, row"),
    "positions-along-batch": ("batch", "than alone: they differ by"),
    "not-shifted": ("labels", "14 of 14 labels are the very token"),
    "dropout-on": ("dropout", "Dropout is on in"),
    "rows-not-one": ("layer", "not to 1."),
}


def ids(length: int) -> Tensor:
    torch.manual_seed(6)
    made = torch.randint(2, 24, (3, length))
    made[1, -2:] = 0
    return made


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_alone(fault: str) -> None:
    src, tgt = ids(7), ids(6)
    labels = tgt[:, :-1] if fault == "not-shifted" else tgt[:, 1:]
    watcher = watch(built(fault), pad=0, labels=labels)
    certificate = watcher.certify(src, tgt[:, :-1])
    assert certificate.passed
    assert [finding.id for finding in certificate.findings] == [fault]
    (finding,) = certificate.findings
    where, what = FAULTS[fault]
    assert where in finding.where
    assert what in finding.what
    if fault not in ("positions-along-batch", "not-shifted", "dropout-on"):
        assert "head" in finding.what
        assert "row" in finding.what.lower()


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("handout", []),
        ("d2l", ["not-causal"]),  # out of training (001-5)
        ("labml", ["positions-along-batch"]),  # (002-3)
        ("modular", []),
        ("scratch", []),
    ],
)
def test_of_a_tutorial_the_faults_of_its_text_are_found(
    name: str, faults: list[str]
) -> None:
    model, args, options = the_call(name)
    certificate = watch(model.eval(), **options).certify(*args)
    assert certificate.passed
    assert [finding.id for finding in certificate.findings] == faults
    assert len(certificate.checks) >= (1 if name == "labml" else 3)


def _lm(**more: Any) -> nn.Module:
    from torch.nn import TransformerEncoder, TransformerEncoderLayer

    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(24, 16)
            layer = TransformerEncoderLayer(16, 4, 32, batch_first=True)
            self.body = TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(16, 24)

        def forward(self, x: Tensor) -> Any:
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            given = {"mask": mask} if more["causal"] else {}
            return self.head(self.body(self.embed(x), **given))

    return Causal().eval()


@pytest.mark.parametrize("causal", [True, False])
def test_a_language_model_without_its_mask_is_told_by_its_labels(causal: bool) -> None:
    tokens = torch.randint(2, 24, (2, 8))
    watcher = watch(_lm(causal=causal), labels=tokens[:, 1:])
    certificate = watcher(tokens[:, :-1]).certificate
    assert [f.id for f in certificate.findings] == ([] if causal else ["not-causal"])


def test_certify_tries_lengths_batches_and_prefixes() -> None:
    certificate = watch(built("healthy"), pad=0).certify(ids(7), ids(6))
    assert certificate.findings == ()
    said = " ".join(certificate.checks)
    for length in (1, 2, 12, 33, 129):
        assert f"Length {length:,}:" in said
    assert "One row alone and in a batch" in said
    assert "with another last token" in said


def test_a_norm_over_time_is_found_by_the_prefix() -> None:
    class OverTime(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = built("healthy")

        def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
            y: Tensor = self.inner(src, tgt)
            return y - y.mean(1, keepdim=True)

    certificate = watch(OverTime().eval(), pad=0).certify(ids(7), ids(6))
    assert [finding.id for finding in certificate.findings] == ["later-tokens-count"]


def test_what_cannot_be_computed_again_is_not_shown() -> None:
    class Tampering(nn.Module):
        """Writes into the weights behind the back of the operations."""

        def forward(self, x: Tensor) -> Tensor:
            scores = x @ x.mT / 4
            scores.data.numpy()[:] += torch.rand(scores.shape).numpy()
            return scores.softmax(-1) @ x

    with torch.no_grad():
        watched = watch(Tampering())(torch.randn(2, 7, 16))
    assert not watched.certificate.passed
    assert watched.traces == []
    assert "so it is not shown" in " ".join(watched.certificate.missed)


def test_a_check_is_added_by_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def sharp(seen: Observation) -> Finding | None:
        return Finding("sharp-head", "layer", "A head is sharp.", "Look at it.")

    monkeypatch.setitem(CHECKS, "sharp-head", Check(sharp, "No head is sharp"))
    monkeypatch.setitem(EXPLAINS, "sharp-head", frozenset({"not-causal"}))
    watcher = watch(built("not-causal"), pad=0)
    findings = watcher.certify(ids(7), ids(6)[:, :-1]).findings
    assert [finding.id for finding in findings] == ["sharp-head"]
