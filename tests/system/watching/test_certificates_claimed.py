"""Every sentence of a certificate that claims something is said of some model here."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.system.watching import test_certificate_edits as edits
from tests.system.watching import test_certificate_fast_path as fast_path
from tests.system.watching import test_certificate_unseen as unseen
from tests.system.watching import test_checks_calls as calls
from tests.system.watching import test_checks_masks as masks
from tests.system.watching import test_checks_scale as scale
from tests.system.watching import test_checks_steps as steps
from tests.system.watching import test_difficult as difficult
from tests.system.watching import test_exotic as exotic
from tests.system.watching import test_sizes_of_one as sizes
from tests.system.watching.claims_found import CLAIMS, Heard
from tests.system.watching.claims_watched import CERTIFIED, NO_CLAIMS
from tests.system.watching.planted_faults import (
    PAD,
    PLANTED,
    DroppedAlways,
    sentences,
    trained,
)
from tests.system.watching.test_planted_faults import certified
from tests.unit.pictures.test_claims import PACKAGE, templates_in
from visformer.watching.watcher import watch

# what compares two models, and what refuses what it is given: no certificate says it
OTHERS = (
    # what the table says of checks, and what only whole runs of a model show:
    # tests/unit/core/test_check.py hears it, and plants each fault
    *("run_checks", "table"),
    "compared",
    "comparing.py",
    "inputs",
    "pass_changes",
    "row_tokens",
    "stepped",
    "watcher",
    "wrap",
)


def _watched(model: nn.Module, *given: Tensor) -> None:
    with torch.no_grad():
        assert watch(model, pad=PAD)(*given).certificate.attentions


def _dropping() -> None:
    """Watch a layer that drops weights, and a model with two that always do."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.5, batch_first=True)
    _watched(layer.train(), torch.randn(2, 5, 16))
    model: Any = trained()
    for layer in model.encoder:
        layer.attention.__class__ = DroppedAlways
    _watched(model, *sentences(3, 7)[:2])


def _learned_nothing() -> None:
    model = PLANTED["trained to predict what is given"].build()
    _watched(model, *sentences(3, 7)[:2])


FURTHER = (  # what says what no planted fault does
    *(_dropping, _learned_nothing),
    lambda: steps.test_what_is_not_compared_is_said(
        "dropped", "numbers are dropped at random"
    ),
    scale.test_no_scale_is_a_fault_of_several_heads_and_a_note_of_one,
    masks.test_a_layer_without_the_mask_of_the_others_is_a_note,
    masks.test_where_the_intent_is_unknown_it_is_a_note_that_says_so,
    masks.test_a_sentence_of_padding_alone_is_a_note,
    lambda: masks.test_a_row_that_may_read_nothing_has_no_key(-math.inf, "are NaN"),
    lambda: unseen.test_buffers_that_nothing_compares("meta"),
    calls.test_numbers_that_are_none_are_not_blamed_on_a_mask,
    calls.test_no_advice_on_inputs_where_there_is_no_attention,
    lambda: calls.test_a_cache_of_transformers_is_compared_with_a_full_pass(False),
    calls.test_noise_that_is_drawn_is_a_note,
    calls.test_two_sides_that_do_not_meet_are_no_decoder,
    exotic.test_an_operation_that_takes_functions_runs_as_without,
    sizes.test_one_token_of_one_row_tells_of_no_batch,
    fast_path.test_nan_of_the_fast_path_does_not_vanish,
    fast_path.test_the_output_of_an_unwatched_call_is_compared,
    scale.test_attention_to_states_as_they_are_has_no_scale,
    lambda: edits.test_differential_attention("chunk"),
    lambda: difficult.test_one_softmax_over_two_sides_is_merged(4),
)
UNHEARD = {
    "its beams end elsewhere than the model: test_generating looks at them": (
        "{n:,} of {all:,} sequences that",
    ),
    "it is a form of a plural, or of torch's kernels, that no model here needs": (
        *("“{module}”: {n:,} more key than", "“{module}”: torch's fast path is off"),
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
def test_every_claim_of_a_certificate_is_heard(certificates: list[Heard]) -> None:
    for fault in PLANTED.values():
        certified(fault)
    for further in FURTHER:
        further()
    told = {one.template for one in certificates}
    unheard = (CLAIMS.keys() | CERTIFIED.keys()) - told
    named = [one for several in UNHEARD.values() for one in several]
    assert [one for one in unheard if not one.startswith(tuple(named))] == []
    assert [one for one in named if not any(x.startswith(one) for x in unheard)] == []


def test_every_template_of_a_certificate_is_claimed_or_has_a_reason() -> None:
    rooms = "analysis/checks", "watching"
    files = [x for room in rooms for x in sorted((PACKAGE / room).glob("*.py"))]
    of_it = [x for x in files if not x.name.startswith(OTHERS)]
    found = {words for file in of_it for words in templates_in(file)}
    assert len(found) > 120
    rest = found - CLAIMS.keys() - CERTIFIED.keys()
    named = [one for several in NO_CLAIMS.values() for one in several]
    assert [one for one in rest if not one.startswith(tuple(named))] == []
    assert [one for one in named if not any(x.startswith(one) for x in rest)] == []
    assert (CLAIMS.keys() | CERTIFIED.keys()) <= found
