"""The target's ids are those that the decoder read, also where the model made them."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor, nn

from tests.system.watching.faulty_models import built
from visformer.watching.watcher import watch

os.environ.setdefault("HF_HUB_OFFLINE", "1")


class Shifting(nn.Module):
    """Leaves out the last token of its target itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = built("healthy")

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.inner(src, tgt[:, :-1])  # type: ignore[no-any-return]


def ids(length: int) -> Tensor:
    torch.manual_seed(6)
    return torch.randint(2, 24, (3, length))


def test_a_model_that_shifts_its_target_itself() -> None:
    src, tgt = ids(7), ids(6)
    watched = watch(Shifting(), pad=0, labels=tgt[:, 1:])(src, tgt)
    assert watched.certificate.findings == ()
    trace = watched.traces[1]
    assert trace.target_ids.tolist() == tgt[1, :-1].tolist()
    assert trace.steps[0].id == tgt[1, 1]
    assert [one.origin for one in trace.steps] == ["reference"] * 4 + ["model"]


def test_labels_that_a_model_of_transformers_shifts_itself() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        **{"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4},
        **{"vocab_size": 50, "pad_token_id": 0, "decoder_start_token_id": 0},
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    src, labels = ids(7), ids(5)
    labels[1, -1] = -100
    watched = watch(model, pad=0, labels=labels)(input_ids=src, labels=labels)
    assert watched.traces[1].target_ids.tolist() == [0, *labels[1, :-1].tolist()]
    assert [step.id for step in watched.traces[1].steps[:4]] == labels[1, :4].tolist()
    # that it begins with the id of padding is no padding that is read
    assert watched.certificate.findings == ()


@pytest.mark.parametrize("sequence_first", [False, True])
def test_the_same_token_over_and_over_is_shifted(sequence_first: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = built("healthy")

        def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
            y = self.inner(src.T, tgt.T) if sequence_first else self.inner(src, tgt)
            return y.transpose(0, 1) if sequence_first else y  # type: ignore[no-any-return]

    src, tgt = ids(7), torch.full((3, 6), 5)
    given = [src, tgt[:, :-1], tgt[:, 1:]]
    src, tgt, labels = [x.T for x in given] if sequence_first else given
    assert watch(Model(), labels=labels)(src, tgt).certificate.findings == ()
    tgt = ids(5).T if sequence_first else ids(5)
    for labels in (tgt, tgt.flatten()):  # as they are, and as a loss takes them
        found = watch(Model(), labels=labels)(src, tgt).certificate.findings
        assert [finding.id for finding in found] == ["not-shifted"]


def test_one_label_says_nothing_of_a_shift() -> None:
    found = watch(built("healthy"), labels=ids(1))(ids(7), ids(1)).certificate.findings
    assert found == ()
