"""Checkpoints as sides, and runs of their own."""

from __future__ import annotations

import pytest
import torch

import visformer
from tests.system.watching.test_comparing import IDS, Program, opened
from visformer.errors import InputError

SAME = "Attention is the same in every head, and so is what follows it."
PADDED = [[5, 6, 7, 3], [8, 9, 0, 0]], [[1, 6, 7, 8], [1, 3, 0, 0]]
SIZES = {
    **{"d_model": 16, "heads": 4, "encoder_layers": 2, "decoder_layers": 2},
    **{"source_vocabulary": 12, "target_vocabulary": 12},
}


def fresh(**fields: object) -> visformer.Checkpoint:
    """Return a fresh model with other settings."""
    torch.manual_seed(0)
    given = {**SIZES, "feed_forward": 24, **fields}
    made = visformer.build("scratch", device="cpu", **given)  # type: ignore[arg-type]
    torch.manual_seed(1)
    for parameter in made.model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


@pytest.mark.parametrize(
    "fields",
    [{"norm": "unbiased"}, {"embedding_scale": False}, {"mask_rule": "causal"}],
)
def test_two_checkpoints_of_other_settings_differ(fields: dict[str, object]) -> None:
    good, bad = fresh(mask_rule="keys"), fresh(**{"mask_rule": "keys", **fields})
    made = visformer.compare(good, bad, *PADDED)
    assert (made.kind, made.remedy) == ("encoder", "")
    assert str(visformer.compare(bad, bad, *PADDED)) == SAME


def test_a_trace_is_a_side() -> None:
    good, bad = fresh(), fresh(norm="unbiased")
    traces = visformer.run(good, *PADDED)
    assert str(visformer.compare(good, traces[1])) == SAME
    assert str(visformer.compare(traces[1], good, *PADDED)) == SAME
    made = visformer.compare(traces[1], bad)
    assert (made.kind, made.layer, made.head) == ("encoder", 1, 0)


def test_a_watched_program_is_a_side() -> None:
    program = Program("scale")
    with torch.no_grad():
        seen = visformer.watch(program)(*map(torch.tensor, IDS))
    for sides in ((seen, opened(program)), (opened(program), seen)):
        made = visformer.compare(sides[0], sides[1])
        assert (made.kind, made.layer, made.head) == ("encoder", 0, 0)


def test_the_last_norm_is_found_after_all_attention() -> None:
    good, bad = fresh(final_norm=True), fresh(final_norm=True)
    bad.model.decoder.norm.eps = 0.5  # type: ignore[assignment]
    made = visformer.compare(good, bad, *PADDED)
    assert (made.kind, made.log_probabilities > 0.01) == (None, True)


def test_a_target_is_needed() -> None:
    with pytest.raises(InputError, match="a source and a target: give both"):
        visformer.compare(fresh(), fresh(), PADDED[0])
