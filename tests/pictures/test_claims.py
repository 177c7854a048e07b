"""Every sentence about a run follows from its arrays, whatever the run is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pictures import claims_masks, claims_numbers, claims_stated
from tests.pictures.claims_named import NAMED
from tests.pictures.sweep import Claims, Reasons, said
from tests.pictures.swept_runs import CHANGES, RUNS, swept_run

TABLES = claims_masks.CLAIMS, claims_numbers.CLAIMS, claims_stated.CLAIMS
CLAIMS: Claims = {**TABLES[0], **TABLES[1], **TABLES[2]}
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


@pytest.mark.parametrize("name", [n for n in RUNS if n.startswith("watched")])
def test_findings_of_a_watched_run_follow_from_its_arrays(name: str) -> None:
    trace = swept_run(name).trace
    assert trace.certificate is not None
    found = {finding.id for finding in trace.certificate.findings}
    assert ("not-causal" in found) == claims_masks.reads_later(trace)
    assert ("padding-read" in found) == claims_masks.reads_pad(trace)


def test_no_template_both_claims_something_and_nothing() -> None:
    assert not CLAIMS.keys() & NO_CLAIMS.keys()
    assert len(CLAIMS) == sum(map(len, TABLES))


PICTURES = Path(__file__).parents[2] / "visformer" / "pictures"
MATTERS = re.compile(
    r"mask|leak|\bpads?\b|padding|later|causal|hidden|drawn|chosen|position|norms?\b|"
    r"\brank|\bmost\b|\bbest\b|NaN|sums? to|order|\breads?\b|predict",
    re.IGNORECASE,
)


def templates() -> Iterator[str]:
    """Yield the sentences of pictures/ about what claims are made of."""
    for file in sorted(
        (Path(__file__).parents[2] / "visformer/pictures").rglob("*.py")
    ):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            several = {"_": 1, "N_": 1, "ngettext": 2}.get(node.func.id, 0)
            for given in node.args[:several]:
                text = given.value if isinstance(given, ast.Constant) else ""
                words = re.sub(r"\{[^}]*\}", "", str(text))
                if len(str(text).split()) > 3 and MATTERS.search(words):
                    yield str(text)


def test_every_template_is_claimed_or_named_with_a_reason() -> None:
    """A new sentence needs a predicate, or a reason why there is nothing to refute."""
    found = set(templates())
    assert len(found) > 200
    rest = found - CLAIMS.keys() - NO_CLAIMS.keys()
    named = [one for several in NAMED.values() for one in several]
    assert [one for one in rest if not one.startswith(tuple(named))] == []
    assert [one for one in named if not any(t.startswith(one) for t in rest)] == []
