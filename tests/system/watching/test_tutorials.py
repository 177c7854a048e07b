"""The five tutorials' models: every weight is the one that their own forward used."""

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
from tests.system.watching.comparing import assert_watched

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
    watched = assert_watched(name, model.eval(), args, KINDS, **options)
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
    watched = assert_watched(
        name + ", training", model.train(), args, KINDS, own=[], **options
    )
    always = FAULTS["labml"] if name == "labml" else []
    assert [f.id for f in watched.certificate.findings] == ["dropout-on", *always]
    assert all(one.dropout for one in watched.attentions)


def test_cached_steps_are_one_growing_trace() -> None:
    """The d2l decoder keeps its inputs: three steps of one token each."""
    from visformer.watching.watcher import watch

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
