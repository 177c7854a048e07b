"""Runs that leave the window: in a session file, as JSON, as a command, as Python."""

import json
import math
import shlex
from collections.abc import Sequence

from visformer.errors import InputError
from visformer.session.run import Run, parent_of, parents_of
from visformer.session.state import State
from visformer.text import CONTROL
from visformer.trace_file.saved_session import SavedRun
from visformer.values.facts import WATCHED
from visformer.values.questions import Overrides, location_and_keywords, options_of
from visformer.values.step import GREEDY, Step


def saved(state: State, keys: Sequence[int]) -> list[SavedRun]:
    """Return the runs of some keys as one file holds them.

    InputError where the numbers of one are no longer kept.
    """
    found, chosen = [], [run for run in state.tree if run.key in keys]
    order = [run.key for run in chosen]
    for run in chosen:
        if run.trace is None:
            raise InputError(
                "The numbers of “{name}” are no longer kept: show it first, and it is "
                "computed again.",
                name=run.name,
            )
        parent = parent_of(state.runs, run, among=order)
        number = None if parent is None else order.index(parent.key)
        found.append(
            SavedRun(trace=run.trace, name=run.name, note=run.note, parent=number)
        )
    return found


def runs_json(state: State, keys: Sequence[int]) -> str:
    """Return what is said of runs, and the steps of those that are kept, as JSON.

    Logarithms are natural; a number that is NaN or infinite is null.
    """
    above = parents_of(state.runs)
    names = {run.key: run.name for run in state.runs}
    listed = []
    for run in (run for run in state.tree if run.key in keys):
        known, parent = run.outline, above.get(run.key)
        listed.append(
            {
                "name": run.name,
                "parent": None if parent is None else names[parent],
                "model": known.model,
                "digest": known.digest,
                "source": known.source,
                "change": str(run.change),
                "text": known.text,
                "mean_logprob": _finite(known.mean),
                "steps": [] if run.trace is None else [*map(_step, run.trace.steps)],
            }
        )
    return json.dumps(listed, ensure_ascii=False, indent=2, allow_nan=False)


def _step(step: Step) -> dict[str, object]:
    return {
        "token": step.token,
        "id": step.id,
        "logprob": _finite(-step.loss),
        "rank": step.rank,
        "entropy": _finite(step.entropy),
        "origin": step.origin,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def as_python(state: State, key: int) -> str:
    """Return lines of Python that make a run again; InputError where none can."""
    run, overrides = _made_by(state, key)
    asked = run.request
    assert asked is not None
    path, words = location_and_keywords(run.path, overrides)
    given = [repr(path), *(f"{name}={value!r}" for name, value in words.items())]
    options = [repr(asked.source)]
    if asked.intervention:
        options.append(f"intervention={str(asked.intervention)!r}")
    if asked.strategy != GREEDY:
        options.append(f"strategy=visformer.{asked.strategy!r}")
    if asked.limit is not None:
        options.append(f"limit={asked.limit}")
    lines = [
        "import visformer",
        "",
        f"model = visformer.load({', '.join(given)})",
        f"decoding = visformer.Decoding(model, {', '.join(options)})",
    ]
    if asked.reference:
        return "\n".join([*lines, f"trace = decoding.feed({asked.reference!r})", ""])
    if asked.prefix:
        choices = [(choice.id, choice.origin) for choice in asked.prefix]
        lines.append(f"decoding.follow({choices!r})")
    return "\n".join([*lines, "trace = decoding.finish()", ""])


def as_command(state: State, key: int) -> str:
    """Return a command that draws a run, or searches it; InputError where none can."""
    run, overrides = _made_by(state, key)
    asked, opening = run.request, options_of(run.path, overrides)
    assert asked is not None
    plain = not (asked.prefix or asked.reference or asked.intervention or asked.limit)
    if asked.strategy.name == "beam" and plain:
        beams = "--beam", str(asked.strategy.beams), "--json"
        command = _pasted(["visformer", "translate", *opening, *beams])
        return f"{_pasted(['echo', asked.source])} | {command}"
    forced = [
        (step, choice.id)
        for step, choice in enumerate(asked.prefix, 1)
        if choice.origin == "forced"
    ]
    others = {choice.origin for choice in asked.prefix} - {"forced", "model", "rule"}
    if asked.strategy != GREEDY or asked.limit is not None or others:
        raise InputError(
            "No command makes this run: its tokens are drawn, searched, limited or fed "
            "in part. Copy it as Python."
        )
    words = ["visformer", "render", *opening, "--text", asked.source]
    words += ["--reference", asked.reference] if asked.reference else []
    words += ["--change", str(asked.intervention)] if asked.intervention else []
    for step, id in forced:
        words += ["--force", f"{step}={id}"]
    words += ["--steps", str(state.step), "--view", state.tab]
    page = state.views.pages.get(state.tab)
    words += ["--page", page] if page else []
    words += ["--kind", state.kind, "--layer", str(state.layer + 1)]
    return _pasted([*words, "--head", str(state.head + 1), "-o", "run.png"])


def _pasted(words: Sequence[str]) -> str:
    """Return words as a shell reads them; InputError for control characters.

    A terminal obeys those when they are pasted, quoted or not.
    """
    if any(map(CONTROL.search, words)):
        raise InputError(
            "No command makes this run: its text or its path holds a line break, a "
            "tab or a control character. Copy it as Python."
        )
    return shlex.join(words)


def _made_by(state: State, key: int) -> tuple[Run, Overrides]:
    """Return a run, and the answers about its checkpoint; InputError for no such run.

    What no file holds, or whose request is not known, is not made again.
    """
    run = state.find(key)
    served = run is not None and run.trace and run.trace.model.layout == WATCHED
    if run is None or run.request is None or not run.path or served:
        raise InputError(
            "Nothing can be copied: the checkpoint of this run, or what it was asked, "
            "is not known."
        )
    return run, state.answers.about(run.path) or ()
