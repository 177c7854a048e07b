"""Every sentence about a run follows from its arrays, whatever the run is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import visformer
from tests.catalogue import in_the_code
from tests.unit.pictures import (
    claims_beside,
    claims_computed,
    claims_counted,
    claims_figures,
    claims_masks,
    claims_numbers,
    claims_read,
    claims_searched,
    claims_shown,
    claims_stated,
)
from tests.unit.pictures.claims_named import NAMED
from tests.unit.pictures.sweep import Claims, said
from tests.unit.pictures.swept_runs import CHANGES, RUNS, swept_run

TABLES = tuple(
    module.CLAIMS
    for module in (
        *(claims_beside, claims_computed, claims_figures, claims_masks),
        *(claims_counted, claims_numbers),
        *(claims_read, claims_searched, claims_shown, claims_stated),
    )
)
STATED: Claims = {words: test for each in TABLES for words, test in each.items()}
ONE = {one.forms[-1]: one.forms[0] for one in in_the_code()}
# a form for one thing claims what that for several does
CLAIMS: Claims = {**{ONE.get(one, one): test for one, test in STATED.items()}, **STATED}


def templates_in(file: Path) -> Iterator[str]:
    """Yield the templates of a file that are more than three words."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        for given in node.args[: {"_": 1, "N_": 1, "ngettext": 2}.get(node.func.id, 0)]:
            if isinstance(given, ast.Constant) and len(str(given.value).split()) > 3:
                yield str(given.value)


ROOMS = "pictures", "values"
PACKAGE = Path(visformer.__file__).parent


@cache
def in_rooms() -> dict[str, Path]:
    """Return the templates of these rooms, each with the file that has it."""
    return {
        words: file
        for room in ROOMS
        for file in sorted((PACKAGE / room).rglob("*.py"))
        for words in templates_in(file)
    }


TWICE = {f"pre-norm, {change}" for change in CHANGES}  # of another model, too
OFTEN = (  # of the changes: one of each sort, and what broke once
    *("causal off", "causal +1", "causal -1", "causal off @ L2", "multiply"),
    *("cell decoder 1 1 off", "cell cross 2 3 off", "hide 3", "pre-norm, causal off"),
    *("causal -1; masked score -inf", "scale off", "positions none"),
    *("positions permuted 8 0", "causal off; positions none"),
    *("cell cross 2 3 = 0.9", "head encoder * 3", "layer decoder off @ L2"),
    *("cell decoder 2 1 * 0 raw", "head decoder only @ L1H2"),
)
SELDOM = (TWICE | {"drawn, hot and cut", "masked by -1e9", *CHANGES}) - {*OFTEN}
OFTEN_SWEPT = [name for name in RUNS if name not in SELDOM]
# swept at every step and cell, of the heads by turns
FINE = ("causal off by masks", "marian, padded", "drawn, causal off", "NaN", "prompt")


def check(name: str, *, fine: bool) -> None:
    """Let a run be spoken of; every claim must follow from its arrays."""
    false, _heard = swept(name, fine=fine)
    assert not false, "\n".join(false)


@cache
def swept(name: str, *, fine: bool) -> tuple[list[str], frozenset[str]]:
    """Return what is false of a run, and all templates that were heard of it."""
    false: dict[str, str] = {}
    heard = set()
    run = replace(swept_run(name), fine=fine)
    for one in said(run, in_rooms().keys() | CLAIMS.keys()):
        heard.add(one.template)
        claim = CLAIMS.get(one.template)
        if claim is not None and one.template not in false and not claim(one):
            false[one.template] = str(one)
    return [*false.values()], frozenset(heard)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", OFTEN_SWEPT)
def test_what_is_said_of_a_run_is_true_of_its_arrays(name: str) -> None:
    check(name, fine=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(SELDOM))
def test_so_is_what_is_said_of_further_runs(name: str) -> None:
    check(name, fine=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
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


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_claim_is_heard() -> None:
    """A predicate that is never asked refutes nothing."""
    heard = frozenset[str]().union(*(swept(one, fine=False)[1] for one in OFTEN_SWEPT))
    assert [one for one in STATED if heard.isdisjoint((one, ONE.get(one)))] == []


def test_no_template_is_claimed_twice() -> None:
    assert len(STATED) == sum(map(len, TABLES))


MATTERS = re.compile(
    r"mask|leak|\bpads?\b|padding|later|causal|hidden|drawn|chosen|position|norms?\b|"
    r"\brank|\bmost\b|\bbest\b|NaN|sums? to|order|\breads?\b|predict|largest|"
    r"\bshares?\b|probabil|differ|\bsame\b|\beffect|\bparts?\b|exactly|\bequal|"
    r"\balike\b|\binstead\b|parameters?\b|{share}",
    re.IGNORECASE,
)


def templates() -> Iterator[str]:
    """Yield the sentences of pictures/ about what claims are made of."""
    for words, file in in_rooms().items():
        plain = re.sub(r"\{(?!share)[^}]*\}", "", words)
        if PACKAGE / "pictures" in file.parents and MATTERS.search(plain):
            yield words


def test_every_template_is_claimed_or_named_with_a_reason() -> None:
    """A new sentence needs a predicate, or a reason why there is nothing to refute."""
    found = set(templates())
    assert len(found) > 200
    rest = found - CLAIMS.keys()
    named = [one for several in NAMED.values() for one in several]
    assert [one for one in rest if not one.startswith(tuple(named))] == []
    assert [one for one in named if not any(t.startswith(one) for t in rest)] == []


def test_every_claim_is_a_template_of_the_code() -> None:
    in_code = {form for one in in_the_code() for form in one.forms}
    assert [one for one in CLAIMS if one not in in_code] == []
