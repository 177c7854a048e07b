"""A module in memory is opened under the settings that a call of it shows."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import visformer
from tests.system.tutorials.scratch import Attention
from tests.system.tutorials.sizes import Sizes
from tests.system.watching.faulty_models import Healthy
from visformer.core.position_rules import sinusoidal

WIDTH, ROWS = 16, 13


class Program(nn.Module):
    """An ordinary program around torch.nn.Transformer."""

    def __init__(
        self, *, rows_first: bool = True, pad: int | None = None, **rules: Any
    ):
        super().__init__()
        self.rows_first, self.pad = rows_first, pad
        self.scale = rules.pop("scale", 1.0)
        self.hidden = rules.pop("hidden", True)
        self.src_emb, self.tgt_emb = nn.Embedding(11, WIDTH), nn.Embedding(ROWS, WIDTH)
        with warnings.catch_warnings(action="ignore"):
            self.transformer = nn.Transformer(
                *(WIDTH, 4, 2, 2, 24), batch_first=rows_first, dropout=0.5, **rules
            )
        self.out = nn.Linear(WIDTH, ROWS)
        torch.manual_seed(0)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.4)
        self.calls = 0

    def forward(self, src: Tensor, tgt: Tensor, mask: Tensor | None = None) -> Tensor:
        self.calls += 1
        sides, pads = [], []
        for ids, table in ((src, self.src_emb), (tgt, self.tgt_emb)):
            places = sinusoidal(50, WIDTH)[: ids.shape[self.rows_first]]
            places = places if self.rows_first else places[:, None]
            sides.append(table(ids) * self.scale + places)
            pads.append((ids if self.rows_first else ids.T) == self.pad)
        length = tgt.shape[self.rows_first]
        masks = {
            **{"src_key_padding_mask": pads[0], "tgt_key_padding_mask": pads[1]},
            "memory_key_padding_mask": pads[0],
        }
        later = torch.ones(length, length).triu(1).bool() if self.hidden else None
        given = {"tgt_mask": later, **(masks if self.pad is not None else {})}
        logits: Tensor = self.out(self.transformer(*sides, **given))
        return logits


def gap(program: Program, checkpoint: visformer.Checkpoint) -> float:
    """Return how far the logits of padded rows are apart."""
    source, target = torch.randint(5, 11, (2, 8)), torch.randint(5, ROWS, (2, 9))
    source[1, 5:] = target[1, 6:] = program.pad or 0
    given = [x if program.rows_first else x.T for x in (source, target)]
    with torch.no_grad():
        own = program.eval()(*given)
    own = own if program.rows_first else own.transpose(0, 1)
    rows = visformer.run(checkpoint, source, target)
    made = torch.stack([torch.as_tensor(row.logits) for row in rows])
    real = target != (-1 if program.pad is None else program.pad)
    return float((made - own)[real].abs().max())


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"scale": math.sqrt(WIDTH), "pad": 0},
        {"rows_first": False, "pad": 1},
        {"norm_first": True, "activation": "gelu"},
    ],
    ids=str,
)
def test_settings_are_those_of_the_call(rules: dict[str, Any]) -> None:
    program = Program(**rules).train()
    before = {k: v.clone() for k, v in program.state_dict().items()}
    chance = torch.random.get_rng_state()
    made = visformer.load(program, device="cpu")
    assert torch.equal(chance, torch.random.get_rng_state())
    assert gap(program, made) < 1e-5
    assert not [f for f in made.findings if f.id.startswith("module-")]
    fields = {line.split(" = ")[0] for line in made.assumed}
    assert fields.isdisjoint({"embedding_scale", "norm_first", "mask_rule", "heads"})
    assert ("pad" in fields) is (program.pad is None)
    assert all(torch.equal(before[k], v) for k, v in program.state_dict().items())


def test_the_module_is_left_as_it_was() -> None:
    program = Program().train()
    program.seen = program(torch.ones(1, 3).long(), torch.ones(1, 2).long())
    made = visformer.load(program.to(torch.bfloat16), device="cpu")
    assert not made.config.embedding_scale
    assert program.training
    assert program.calls == 1
    assert {p.dtype for p in program.parameters()} == {torch.bfloat16}
    assert all(p.requires_grad and p.grad is None for p in program.parameters())


def test_what_is_given_is_kept_and_a_difference_said() -> None:
    made = visformer.load(Program(), device="cpu", embedding_scale=True)
    assert made.config.embedding_scale
    (finding,) = (f for f in made.findings if f.id == "module-differs")
    assert "None of the settings tried" in finding.what
    assert "encoder attention, layer 1, head 1" in finding.what


def test_a_fault_of_the_module_is_said_and_not_taken_over() -> None:
    made = visformer.load(Program(hidden=False), device="cpu")
    (finding,) = (f for f in made.findings if f.id == "module-differs")
    assert "only with causal off," in finding.what
    assert not made.config.embedding_scale


def test_masks_that_it_must_be_given_are_not_known() -> None:
    class Masked(Program):
        def forward(  # type: ignore[override]
            self, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor
        ) -> Tensor:
            return super().forward(src, tgt)

    made = visformer.load(Masked(hidden=False, scale=4.0), device="cpu")
    (finding,) = (f for f in made.findings if f.id.startswith("module-"))
    assert (finding.id, finding.severity) == ("module-unmasked", "note")
    assert "with None for src_mask, tgt_mask." in finding.what
    assert made.config.embedding_scale
    assert any(line.startswith("mask_rule = ") for line in made.assumed)


def test_what_cannot_be_called_is_assumed() -> None:
    class Batched(Program):
        def forward(self, batch: dict[str, Tensor]) -> Tensor:  # type: ignore[override]
            return super().forward(batch["src"], batch["tgt"])

    made = visformer.load(Batched(), device="cpu")
    (finding,) = (f for f in made.findings if f.id == "module-not-called")
    assert (finding.severity, "TypeError" in finding.what) == ("note", True)
    assert len(finding.what) <= 200
    assert any(line.startswith("embedding_scale = ") for line in made.assumed)


class Unsaid(Attention):
    """The number of heads is the class's, not the object's."""

    num_heads = 4

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        del self.num_heads


def test_unknown_heads_are_those_of_the_call() -> None:
    module = Healthy(attention=Unsaid).eval()
    made = visformer.load(module, device="cpu")
    assert made.config.heads == 4
    source, target = [[3, 4, 5, 6, 7]], [[1, 6, 7, 8]]
    assert visformer.compare(module, made, source, target).kind is None
