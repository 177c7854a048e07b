"""Models called as those of fairseq, OpenNMT and JoeyNMT are seen as they ran."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.system.watching.comparing import apart, assert_watched
from tests.system.watching.other_programs import Fairseq, JoeyNMT, OpenNMT
from visformer.watching.watcher import watch

KINDS = ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]


def ids(length: int) -> Tensor:
    torch.manual_seed(6)
    made = torch.randint(4, 24, (3, length))
    made[1, -2:] = 1
    return made


def kept(model: nn.Module) -> list[Tensor]:
    """Return the weights that one call kept, in the order in which they came."""
    halves: list[Any] = [model.encoder, model.decoder]
    several = [m for half in halves for layer in half.layers for m in parts(layer)]
    own = [module.kept[-1] for module in several]
    for module in several:
        module.kept.clear()
    return own


def parts(layer: Any) -> list[Any]:
    return [m for m in (layer.self_attn, layer.encoder_attn) if m is not None]


def the_call(name: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(5)
    src, tgt, lengths = ids(7), ids(6), torch.tensor([7, 5, 7])
    if name.startswith("fairseq"):
        given = {"src_tokens": src, "src_lengths": lengths}
        given["prev_output_tokens"] = tgt[:, :-1]
        return Fairseq(name.rpartition(" ")[2]), (), given
    if name == "OpenNMT":
        sides = [x.T[:, :, None].contiguous() for x in (src, tgt)]
        return OpenNMT(), (*sides, lengths), {"bptt": False}
    batch = {"trg": tgt[:, 1:], "trg_mask": tgt[:, None, 1:] != 1, "src": src}
    batch |= {"trg_input": tgt[:, :-1], "src_length": lengths}
    return JoeyNMT(), (), {"return_type": "loss", **batch}


@pytest.mark.parametrize("name", ["fairseq, dict", "fairseq, tuple", "OpenNMT", "Joey"])
def test_its_attention_is_its_own(name: str) -> None:
    model, args, given = the_call(name)
    model.eval()
    with torch.no_grad():
        model(*args, **given)
    labels = ids(6)[:, 1:].T if name == "OpenNMT" else ids(6)[:, 1:]
    options = {"pad": 1, "labels": labels}
    own = kept(model)
    watched = assert_watched(name, model, args, KINDS, own, given, **options)
    assert watched.certificate.findings == ()
    assert watched.certificate.missed == ()
    trace = watched.traces[1]
    assert trace.source_ids.tolist() == ids(7)[1].tolist()
    assert trace.target_ids.tolist() == ids(6)[1, :-1].tolist()
    assert [step.id for step in trace.steps[:-1]] == ids(6)[1, 1:-1].tolist()


@pytest.mark.parametrize("form", ["dict", "tuple"])
def test_the_steps_of_incremental_state_are_one_run(form: str) -> None:
    """As a generator calls it: all tokens so far are given, and the last one read."""
    torch.manual_seed(5)
    model = Fairseq(form).eval()
    src, tgt = ids(7), ids(4)
    state: dict[str, dict[str, Tensor]] = {}
    with torch.no_grad(), watch(model, pad=1) as watched:
        memory = model.encoder(src, src_lengths=None)
        for length in range(1, 5):
            model.decoder(tgt[:, :length], memory, incremental_state=state)
    assert [one.kind for one in watched.attentions] == KINDS[:2] + KINDS[2:] * 4
    assert watched.certificate.findings == ()
    with torch.no_grad():
        whole = watch(model)(src, torch.tensor([7, 5, 7]), tgt)
    for ours, theirs in zip(watched.traces, whole.traces, strict=True):
        assert ours.source_ids.tolist() == theirs.source_ids.tolist()
        assert ours.target_ids.tolist() == theirs.target_ids.tolist()
        for kind in theirs.kinds:
            for layer in range(2):
                gap = apart(ours.attention(kind, layer), theirs.attention(kind, layer))
                assert gap <= 2e-5
