"""Every sentence about a run follows from its arrays, whatever the run is."""

from __future__ import annotations

import pytest

from tests.pictures import claims_masks, claims_numbers
from tests.pictures.sweep import Claims, Reasons, said
from tests.pictures.swept_runs import CHANGES, RUNS, swept_run

CLAIMS: Claims = {**claims_masks.CLAIMS, **claims_numbers.CLAIMS}
NO_CLAIMS: Reasons = {**claims_masks.NO_CLAIMS, **claims_numbers.NO_CLAIMS}
TWICE = {f"pre-norm, {change}" for change in CHANGES}  # of another model, too
# swept at every step, head and cell, which takes some 20 s each
FINE = ("causal off by masks", "marian, padded", "drawn, causal off", "NaN", "prompt")


def check(name: str, *, fine: bool) -> None:
    """Let a run be spoken of; every claim must follow from its arrays."""
    told = said(swept_run(name), CLAIMS, fine=fine)
    false = {s.template: str(s) for s in told if not CLAIMS[s.template](s)}
    assert not false, "\n".join(false.values())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in RUNS if name not in TWICE])
def test_what_is_said_of_a_run_is_true_of_its_arrays(name: str) -> None:
    check(name, fine=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(TWICE))
def test_so_is_what_is_said_of_another_model(name: str) -> None:
    check(name, fine=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FINE)
def test_so_is_all_that_is_said(name: str) -> None:
    check(name, fine=True)


def test_no_template_both_claims_something_and_nothing() -> None:
    assert not CLAIMS.keys() & NO_CLAIMS.keys()
    assert not claims_masks.CLAIMS.keys() & claims_numbers.CLAIMS.keys()
