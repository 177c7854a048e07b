"""In Python everything counts from 0: each public layer, head, step and token.

What the command line and the texts of changes name counts from 1.
"""

from __future__ import annotations

import functools
import inspect
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visformer
from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace
from visformer.cli import command_parser
from visformer.values.arrays import Floats

COUNTED = {"layer", "head", "step", "token"}
# a token itself, no number of one
TOKENS = {"Candidate(token)", "Step(token)", "Decoding.force(token)"}
TRACE = make_trace(layers=3, heads=2)
WEIGHTS = TRACE.attention("cross")  # [L, H, Q, K]
MASKS = visformer.parse_change("causal off @ L2; scale 2 @ L2")
SCALED = replace(TRACE, intervention=MASKS)
(OFF,) = HEAD_OFF = visformer.parse_change("head cross off @ L2H2")
CAUSAL, OPEN = np.tri(3, dtype=bool), np.ones((3, 3), bool)


@functools.cache
def decoding(change: str = "head cross off @ L2H2") -> visformer.Decoding:
    """Return one that wrote three tokens with a change in its second layer."""
    made = visformer.Decoding(tiny_checkpoint(), "abc", intervention=change, limit=3)
    made.step(3)
    return made


@functools.cache
def passes(change: str) -> tuple[visformer.Trace, visformer.Trace]:
    """Return a pass over some ids without a change, and with it."""
    model, ids = tiny_checkpoint(), ([[4, 5, 6]], [[1, 7, 8]])
    (before,), (after,) = (
        visformer.run(model, *ids, intervention=one) for one in ("", change)
    )
    return before, after


def second(method: str, *given: object) -> bool:
    """Tell whether layer 1 is the second of all that no number gives."""
    take = getattr(TRACE, method)
    return np.array_equal(take(*given, layer=1), take(*given)[1])


def second_head(method: str) -> bool:
    take = getattr(TRACE, method)
    return np.array_equal(take("cross", head=1), take("cross")[:, 1])


def begins(page: str, **expected: int) -> bool:
    """Tell whether a web page begins there; its numbers count from 0."""
    start = page[page.index('"start":') + len('"start":') :]
    begun = json.JSONDecoder().raw_decode(start)[0]
    return bool({**begun, **expected} == begun)


def shown(selection: visformer.RunSelection) -> str:
    return visformer.to_html(visformer.SavedRun(trace=TRACE, selection=selection))


def drawn(layer: int | None = None, head: int | None = None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        visformer.render(TRACE, page, kind="cross", layer=layer, head=head)
        return page.read_text("utf-8")


def plotted(layer: int, head: int) -> Floats:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = TRACE.plot("cross", layer, head)
    pyplot.close(axes.figure)
    return np.asarray(axes.images[0].get_array(), np.float32)


def first_difference() -> tuple[int, int]:
    found = visformer.compare(*passes("cell cross 1 1 * 0.5 @ L2H2"))
    return found.layer, found.head


def added(layer: int) -> Any:
    biases: Any = {"cross": (None, np.ones((1, 4, 5), np.float32), None)}
    return replace(TRACE, biases=biases).added("cross", layer)


def zeroing(layer: int) -> Any:
    return decoding().attribution("zeroing", layer=layer).values


def rolled(layer: int) -> Floats:
    return TRACE.rollout("encoder", layer)


def of_each_step(trace: visformer.Trace, report: Callable[[int], Any]) -> bool:
    """Tell whether the reports of the first, second and third step are theirs."""
    tokens = [report(step).token for step in (0, 1, 2)]
    return tokens == [step.token for step in trace.steps]


def all_reports(step: int) -> Any:
    made = decoding()
    return made.change_reports([one.choice for one in made.trace.steps], step)


def reads(layer: int, head: int | None = None) -> bool:
    """Tell whether query 1 may read key 1 by the mask of a run without that cell."""
    change = f"cell cross 1 1 off @ L2{'' if head is None else 'H2'}"
    return bool(decoding(change).trace.mask("cross", layer, head)[0, 0])


def watched_steps() -> set[int]:
    model = torch.nn.Transformer(8, 2, 1, 1, 8, batch_first=True).eval()
    found = visformer.watch(model)(torch.ones(1, 3, 8), torch.ones(1, 2, 8) / 3)
    return {one.step for one in found.attentions}


# public parameter -> whether number 1 is the second one, told by what a call returns
ROWS: dict[str, Callable[[], bool]] = {
    **{
        f"Trace.{method}({name})": functools.partial(test, method, *given)
        for method in ("attention", "entropy", "queries", "keys", "values", "scores")
        for name, test, given in (
            ("layer", second, ("cross",)),
            ("head", second_head, ()),
        )
    },
    "Trace.hidden(layer)": lambda: second("hidden", "decoder"),
    "Trace.mask(layer)": lambda: reads(0) and not reads(1),
    "Trace.mask(head)": lambda: reads(1, 0) and not reads(1, 1),
    "Trace.scale(layer)": lambda: SCALED.scale("cross", 1) != TRACE.scale("cross", 1),
    "Trace.added(layer)": lambda: added(1) is not None and added(0) is None,
    "Trace.rollout(layer)": lambda: np.allclose(
        rolled(0), (TRACE.attention("encoder", 0).mean(0) + np.eye(5)) / 2, atol=1e-6
    ),
    "Trace.plot(layer)": lambda: np.array_equal(plotted(1, 0), WEIGHTS[1, 0]),
    "Trace.plot(head)": lambda: np.array_equal(plotted(0, 1), WEIGHTS[0, 1]),
    "Trace.key_head(head)": lambda: TRACE.key_head("cross", 1) == 1,
    "Trace.attention_heads(layer)": lambda: np.array_equal(
        TRACE.attention_heads("cross", 1).weights(), WEIGHTS[1]
    ),
    "Trace.attention_heads(head)": lambda: np.array_equal(
        TRACE.attention_heads("cross", 0, 1).weights(), WEIGHTS[0, [1]]
    ),
    "Trace.z(layer)": lambda: np.allclose(
        TRACE.z("cross", 1, 0), WEIGHTS[1, 0] @ TRACE.values("cross", 1, 0)
    ),
    "Trace.z(head)": lambda: np.allclose(
        TRACE.z("cross", 0, 1), WEIGHTS[0, 1] @ TRACE.values("cross", 0, 1)
    ),
    "Trace.is_captured(layer)": lambda: replace(
        TRACE, captured={("cross", 1): WEIGHTS[1]}
    ).is_captured("cross", 1),
    "render(layer)": lambda: begins(drawn(layer=1), layer=1, head=0),
    "render(head)": lambda: begins(drawn(head=-1), layer=2, head=1),
    "change_report(step)": lambda: of_each_step(
        passes("head cross off")[1],
        lambda step: visformer.change_report(*passes("head cross off"), step=step),
    ),
    "Decoding.change_report(step)": lambda: of_each_step(
        decoding().trace, decoding().change_report
    ),
    "Decoding.change_reports(step)": lambda: of_each_step(
        decoding().trace, lambda step: all_reports(step)[step]
    ),
    "Decoding.attribution(layer)": lambda: np.array_equal(zeroing(1), zeroing(-1)),
    "RunSelection(layer)": lambda: begins(
        shown(visformer.RunSelection(layer=1)), layer=1
    ),
    "RunSelection(head)": lambda: begins(shown(visformer.RunSelection(head=1)), head=1),
    "RunSelection(step)": lambda: begins(shown(visformer.RunSelection(step=0)), step=0),
    "Comparison(layer)": lambda: first_difference()[0] == 1,
    "Comparison(head)": lambda: first_difference()[1] == 1,
    "WatchedAttention(step)": lambda: watched_steps() == {0},
    "Causal(layer)": lambda: str(visformer.Causal(None, 1)) == "causal off @ L2",
    "Cell(layer)": lambda: "@ L2" in str(visformer.Cell("cross", 1, 4, False, 1)),
    "HideSource(token)": lambda: str(visformer.HideSource(2)) == "hide 3",
    "HideSource(layer)": lambda: str(visformer.HideSource(2, 1)) == "hide 3 @ L2",
    "ScoreScale(layer)": lambda: (
        "@ L2" in str(MASKS.scales[0]) and MASKS.scales[0].layer == 1
    ),
    "RunChange.concerns(layer)": lambda: OFF.concerns("cross", 1),
    "RunChange.concerns_head(head)": lambda: OFF.concerns_head(1),
    "Intervention.at(layer)": lambda: bool(HEAD_OFF.at("cross", 1).changes),
    "Intervention.here(layer)": lambda: HEAD_OFF.here("cross", 1, OFF.point) != "",
    "Intervention.here(head)": lambda: (
        HEAD_OFF.here("cross", 1, OFF.point, head=1) != ""
    ),
    "Intervention.mask(layer)": lambda: bool(
        MASKS.mask("decoder", 1, CAUSAL, OPEN).all()
    ),
    "Intervention.scale(layer)": lambda: MASKS.scale(0.5, "cross", 1) != 0.5,
}


def counted() -> Iterator[str]:
    """Yield each public parameter that names a layer, a head, a step or a token."""
    for name in visformer.__all__:
        public: Any = getattr(visformer, name)
        functions = {name: public} if callable(public) else {}
        if inspect.isclass(public):
            if issubclass(public, Exception):
                continue
            members = inspect.getmembers(public, inspect.isroutine)
            functions |= {
                one.__qualname__: one
                for name, one in members
                if name[0] != "_" and callable(one)
            }
        for place, function in functions.items():
            try:
                found = inspect.signature(function).parameters
            except ValueError:  # written in C
                continue
            yield from (f"{place}({one})" for one in COUNTED & found.keys())


def test_every_public_number_has_a_row() -> None:
    assert set(counted()) == {*ROWS, *TOKENS}
    options = vars(command_parser("render").parse_args(["-o", "x.png"]))
    assert COUNTED & options.keys() == {"layer", "head"}  # which are named by render


@pytest.mark.filterwarnings("ignore:visformer.render now counts")
@pytest.mark.parametrize("parameter", ROWS)
def test_a_public_number_counts_from_0(parameter: str) -> None:
    assert ROWS[parameter]()


def test_render_says_once_that_it_counts_from_0() -> None:
    code = """
import visformer
for place in ({}, {"layer": 0}, {"head": -1}):
    try:
        visformer.render(None, **place)
    except TypeError:
        pass
    print(place, flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    before, after = done.stdout.split("FutureWarning: ")
    assert before.startswith("{}\n")
    assert after.startswith("visformer.render now counts layers and heads from 0")
