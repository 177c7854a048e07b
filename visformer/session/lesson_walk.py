"""Where a lesson stands: its stops set the State, as opening a session does.

Every function here is pure; what the user sees of a lesson is the window's.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from visformer import paths
from visformer.session import openings, tree
from visformer.session.expectation import Expectation
from visformer.session.lesson import MOST_TITLE, LessonTask, Setting, planned
from visformer.session.looked import Looked
from visformer.session.run import EditedRun
from visformer.session.runs import is_answered, look_at_telling_head, remembered
from visformer.session.state import Next, State
from visformer.values.step import GREEDY, strategy_text
from visformer.values.trace import Trace

# a block of code, a comment, also one without an end; or the title of a stop
_CUT = re.compile(
    r"^[^\S\n]*(?:```.*?(?:\n[^\S\n]*```|\Z)|<!--.*?(?:-->|\Z))|^## +([^\n]+)",
    re.MULTILINE | re.DOTALL,
)
_PLAN = re.compile(r'^(\s*plan-\d+\s*:\s*"?)(\d[\d\s,-]*)(?<!\s)')


def run_stop(state: State, setting: Setting) -> Next:
    """Show the run of a stop, which undo leads back from.

    A model that is not open is opened; a run that was made before is not made again. A
    recorded run is not asked for here: its file is opened.
    """
    opened, wanted = state.opened, setting.run
    if setting.recorded or _is_run(state, setting):
        return Next(replace(state, cursor=None) if not state.busy else state)
    opening = state.opening
    if opening is not None and opening.request.path == setting.path:
        again = replace(opening, resume=setting.recipe)
        return Next(replace(state, opening=again))
    if opened is None or opened.path != setting.path:
        return openings.resume(state, setting.recipe)
    request = wanted.wish.request(wanted.intervention)
    digest = opened.model.digest
    made = (run.key for run in state.runs if run.answers(request, digest))
    to = EditedRun(
        edit="run",
        wish=wanted.wish,
        intervention=wanted.intervention,
        step=setting.looked.steps or 1,
        revision=object(),
        run=next(made, 0),
    )
    return tree.put_back(remembered(state, "run"), to)


def _is_run(state: State, setting: Setting) -> bool:
    """Tell whether the run of a stop is on screen, or on its way."""
    opened, wanted = state.opened, setting.run
    asked = state.wish, state.intervention
    ours = opened is not None and opened.path == setting.path
    wants = asked == (wanted.wish, wanted.intervention)
    return ours and wants and (is_answered(state) or state.awaiting.decoding)


def is_there(state: State, setting: Setting, file: str) -> bool:
    """Tell whether the run of a stop is on screen, whole; ``file``: a trace's path."""
    if state.trace is None or state.busy:
        return False
    if setting.recorded:
        return state.recorded and file == setting.path
    return _is_run(state, setting) and is_answered(state)


def look(state: State, setting: Setting, steps: int | None = None) -> State:
    """Return a State looked at as a stop says, or at another step.

    What no stop has named is where the window opens. How tokens are written, and
    whether later ones are shown, is the user's own choice.
    """
    looked, own = setting.looked, state.look
    anywhere = (looked.kind, looked.layer, looked.head) == (None, None, None)
    if anywhere or looked.steps is None:
        telling = look_at_telling_head(state).state
        if anywhere:
            kind, layer, head = telling.kind, telling.layer, telling.head
            state = replace(state, kind=kind, layer=layer, head=head)
        if looked.steps is None:
            state = replace(state, step=telling.step)
    state = looked.on(state)
    return replace(
        state,
        look=replace(state.look, ahead=own.ahead, pieces=own.pieces),
        views=replace(state.views, beside=False),
        step=state.step if steps is None else steps,
        locked=None,
        hovered=None,
        locked_dimensions={},
        hovered_dimensions={},
    )


def on_rails(state: State) -> tuple[object, ...]:
    """Return what the user changes by leaving a lesson; walking steps is no leaving."""
    run = state.wish, state.intervention
    page = state.views.pages.get(state.tab)
    where = state.tab, page, state.stage, state.kind, state.layer, state.head
    return *run, *where, state.look, state.locked


def is_done(state: State, task: LessonTask, begun: int) -> bool:
    """Tell whether a task is done that began at a step."""
    setting, said = task.setting, task.said.keys()
    if setting is None:
        return state.step == begun + task.steps
    wanted = look(state, setting)
    fields = {
        "view": "tab",
        "steps": "step",
        **{name: name for name in ("stage", "kind", "layer", "head")},
        **dict.fromkeys(("form", "summary", "hide", "order", "words"), "look"),
    }
    for name in said & fields.keys():
        if getattr(state, fields[name]) != getattr(wanted, fields[name]):
            return False
    if "page" in said and state.views.pages.get(state.tab) != setting.looked.page:
        return False
    run = {"text", "checkpoint", "reference", "strategy", "change"} & said
    return not run or (_is_run(state, setting) and is_answered(state))


# ---- written ---------------------------------------------------------------------


def written_head(state: State, title: str) -> str:
    """Return the head of a new lesson on the run on screen."""
    lines = ["---", "visformer-lesson: 1", f"title: {title}"]
    if state.opened is not None:
        lines.append(f"checkpoint: {_file(state.opened.path)}")
    return "\n".join([*lines, f"sentence: {state.wish.sentence}", "---", ""])


def written_stop(state: State, before: Setting | None, title: str, file: str) -> str:
    """Return the view on screen as a stop, which follows what is set ``before`` it.

    ``file`` is the path of a trace that is on screen. Tokens that were forced are not
    written: no stop has them.
    """
    look = state.look
    parts = [state.tab]
    if page := state.views.pages.get(state.tab):
        parts.append(f"page {page}")
    if state.tab == "computation":
        parts.append(f"stage {state.stage}")
    place = f"head L{state.layer + 1}H{state.head + 1}"
    parts += [f"kind {state.kind}", place, f"step {state.step}"]
    chosen = {"form": look.form, "summary": look.summary, "order": look.order}
    usual = Looked()
    parts += [f"{n} {v}" for n, v in chosen.items() if v != getattr(usual, n)]
    if hidden := [*sorted(look.hide), *["renormalise"] * look.renormalise]:
        parts.append(f"hide {', '.join(hidden)}")
    parts += ["words"] * look.words
    if state.recorded and file:
        parts.append(f"trace {_file(file)}")
    else:
        parts += _written_run(state, before)
    lines = [f"## {title}", f"<!-- view: {'; '.join(parts)} -->"]
    if state.intervention:
        lines.append(f"<!-- change: {state.intervention} -->")
    if state.tab == "attention" and look.raw and state.visible and state.step:
        lines += _written_answer(state, state.visible)
    return "\n".join((*lines, ""))


def _written_run(state: State, before: Setting | None) -> Iterator[str]:
    """Write what of the run differs from the one before, or is of this stop alone."""
    wish, opened = state.wish, state.opened
    if opened is not None and before is not None and opened.path != before.path:
        yield f"checkpoint {_file(opened.path)}"
    if before is not None and wish.sentence != before.run.sentence:
        yield f'text "{wish.sentence}"'
    if wish.reference and wish.fed:
        yield f'reference "{wish.reference}"'
    if wish.strategy != GREEDY:
        yield f"strategy {strategy_text(wish.strategy)}"


def _written_answer(state: State, trace: Trace) -> Iterator[str]:
    """Write which key is the darkest of the row on screen, to be checked."""
    row = f"step {state.step}"
    if state.kind == "encoder":
        cell = state.locked
        if cell is None or cell.kind != "encoder":
            return
        row = f"from token {cell.query + 1}"
    head = f"{state.kind} L{state.layer + 1}H{state.head + 1}"
    one = Expectation.read(f"darkest {head} {row} = ?")
    found = one.found(trace)
    assert isinstance(found, tuple)
    shown = found[0] if " " not in found[0] else f'"{found[0]}"'
    yield f"<!-- expect: darkest {head} {row} = {shown} -->"


def _file(path: str) -> str:
    """Return the name of a bundled model, or that of a file beside the lesson."""
    small = Path(path).parent == paths.checkpoint("lessons")
    return f"lessons/{Path(path).name}" if small else Path(path).name


# ---- moved -----------------------------------------------------------------------


def stop_titles(text: str) -> list[tuple[int, str]]:
    """Return the line, from 0, on which each stop of a text begins, and its title."""
    found = (one for one in _CUT.finditer(text) if 0 < len(one[1] or "") <= MOST_TITLE)
    return [(text.count("\n", 0, one.start()), one[1].strip()) for one in found]


def moved_stop(text: str, stop: int, to: int) -> str:
    """Return a lesson's text with a stop moved to another place; both count from 0.

    Blank lines between stops stay where they are. Plans name the same stops as before,
    and walk them in the order of the text if they did.
    """
    lines, starts = text.split("\n"), [line for line, _title in stop_titles(text)]
    ends = zip(starts, [*starts[1:], None], strict=True)
    written = ["\n".join(lines[start:end]) for start, end in ends]
    stops = [one.rstrip("\n") for one in written]
    order = [*range(len(stops))]
    order.insert(to, order.pop(stop))
    head = lines[: starts[0]]
    parts = [_PLAN.sub(lambda it: it[1] + _plan(it[2], order), line) for line in head]
    for place, at in enumerate(order):
        parts.append(stops[at] + written[place][len(stops[place]) :])
    return "\n".join(parts)


def _plan(text: str, order: list[int]) -> str:
    """Return a plan that names the same stops in another order of them."""
    walked = planned(text, len(order))
    now = [order.index(at) for at in walked]
    if walked == sorted(walked):
        now.sort()
    if now == walked:
        return text
    ends: list[list[int]] = []
    for at in now:
        if ends and at == ends[-1][1] + 1:
            ends[-1][1] = at
        else:
            ends.append([at, at])
    return ", ".join(f"{a + 1}" if a == b else f"{a + 1}-{b + 1}" for a, b in ends)
