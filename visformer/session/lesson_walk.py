"""Where a lesson stands: its stops set the State, as opening a session does.

Every function here is pure; what the user sees of a lesson is the window's.
"""

from __future__ import annotations

from dataclasses import replace

from visformer.session import openings, tree
from visformer.session.lesson import LessonTask, Setting
from visformer.session.run import EditedRun
from visformer.session.runs import is_answered, look_at_telling_head, remembered
from visformer.session.state import Next, State


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
