"""The five tutorials' models: their weights, and what certificates find in them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.system.tutorials import handout, labml
from tests.system.tutorials.d2l import D2l
from tests.system.tutorials.handout import Handout
from tests.system.tutorials.labml import Labml
from tests.system.tutorials.modular import Modular
from tests.system.tutorials.scratch import Scratch
from tests.system.watching import test_checks_masks as masks
from tests.system.watching.comparing import assert_watched
from tests.system.watching.faulty_models import built
from visformer.analysis.checks.observation import Observation
from visformer.analysis.checks.table import CHECKS, EXPLAINS, Check
from visformer.values.finding import Finding
from visformer.watching.watcher import watch

KINDS = ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]
FAULTS = {"d2l": ["not-causal"], "labml": ["padding-read"]}  # out of training; always


def padded(rows: int, length: int, pad: int) -> Tensor:
    """Return random ids [B, N] of which row 1 ends in two pads."""
    ids = torch.randint(3, 24, (rows, length))
    ids[1, -2:] = pad
    return ids


def the_call(name: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Return a tutorial's model, what to call it with, and what ``watch`` is told."""
    torch.manual_seed(1)
    pad = 1 if name == "modular" else 0
    src, tgt = padded(3, 7, pad), padded(3, 5, pad)
    if name == "handout":
        return Handout(), (src, tgt, *handout.masks(src, tgt)), {"pad": 0}
    if name == "d2l":
        return D2l(), (src, tgt, torch.tensor([7, 5, 7])), {}
    if name == "labml":  # whose forward wants lengths that are the same (002-4)
        src = padded(3, 5, pad)
        return Labml(), (src, tgt, *labml.masks(src, tgt)), {"pad": 0}
    model = Modular() if name == "modular" else Scratch()
    return model, (src, tgt), {"pad": pad}


@pytest.mark.parametrize("name", ["handout", "d2l", "labml", "modular", "scratch"])
def test_a_tutorial_is_watched(name: str) -> None:
    model, args, options = the_call(name)
    watched = assert_watched(model.eval(), args, KINDS, **options)
    assert [t.layers(kind) for t in watched.traces[:1] for kind in t.kinds] == [2] * 3
    assert all(one.scale == pytest.approx(0.5) for one in watched.attentions)
    assert [f.id for f in watched.certificate.findings] == FAULTS.get(name, [])
    trace = watched.traces[1]
    assert trace.source_ids.tolist() == args[0][1].tolist()
    assert trace.target_ids.tolist() == args[1][1].tolist()
    assert len(trace.steps) == 5
    assert trace.steps[0].id == args[1][1, 1]
    output = watched.output.transpose(0, 1) if name == "labml" else watched.output
    last = output[1, -1] if name == "handout" else output[1, -1].softmax(-1)
    assert trace.steps[-1].id == last.argmax()
    assert trace.steps[-1].probability == pytest.approx(float(last.max()), abs=1e-6)


@pytest.mark.parametrize("name", ["handout", "d2l", "labml"])
def test_dropped_weights_are_those_that_were_used(name: str) -> None:
    model, args, options = the_call(name)
    watched = assert_watched(model.train(), args, KINDS, own=[], **options)
    always = FAULTS["labml"] if name == "labml" else []
    assert [f.id for f in watched.certificate.findings] == ["dropout-on", *always]
    assert all(one.dropout for one in watched.attentions)


def test_cached_steps_are_one_growing_trace() -> None:
    """The d2l decoder keeps its inputs: three steps of one token each."""
    model = D2l().eval()
    src, tgt = torch.randint(3, 24, (2, 6)), torch.randint(3, 24, (2, 4))
    with torch.no_grad(), watch(model) as watched:
        state = model.decoder.init_state(model.encoder(src, None), None)
        for at in range(4):
            model.decoder(tgt[:, at : at + 1], state)
    assert [one.kind for one in watched.attentions] == KINDS[:2] + KINDS[2:] * 4
    assert len(watched.traces) == 2
    trace = watched.traces[1]
    assert trace.target_ids.tolist() == tgt[1].tolist()
    assert trace.source_ids.tolist() == src[1].tolist()
    assert trace.attention("decoder", 1).shape == (4, 4, 4)
    assert trace.mask("decoder", 0).tolist() == torch.ones(4, 4).tril().bool().tolist()
    assert trace.attention("cross", 1).shape == (4, 4, 6)
    assert watched.output_difference is None


# ---- what certificates find ----------------------------------------------------------


def ids(length: int) -> Tensor:
    torch.manual_seed(6)
    made = torch.randint(2, 24, (3, length))
    made[1, -2:] = 0
    return made


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


@pytest.mark.parametrize("may", [masks.causal, masks.unpadded])
def test_a_language_model_without_its_mask_is_told_by_its_labels(may: Any) -> None:
    tokens = torch.randint(2, 20, (2, 8))
    watcher = watch(masks.One(may), labels=tokens[:, 1:])
    findings = watcher(tokens[:, :-1]).certificate.findings
    assert [f.id for f in findings] == ([] if may is masks.causal else ["not-causal"])


def test_certify_tries_lengths_batches_and_prefixes() -> None:
    certificate = watch(built("healthy"), pad=0).certify(ids(7), ids(6))
    assert certificate.findings == ()
    said = " ".join(certificate.checks)
    for length in (1, 2, 12, 33, 129):
        assert f"Length {length:,}:" in said
    assert "One row alone and in a batch" in said
    assert "with another last token" in said


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
