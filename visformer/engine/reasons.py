"""The sentences that say what happened to an engine's process, and what to do."""

from __future__ import annotations

from visformer.engine.messages import Open
from visformer.engine.opening import STILL_SECONDS
from visformer.engine.worker import Worker
from visformer.errors import brief
from visformer.language import _


def silent(seconds: float) -> str:
    return _(
        "The engine has not answered for {seconds:.0f} s: wait for it, or press Stop "
        "to end it.",
        seconds=seconds,
    )


def ended_hung() -> str:
    return _("The engine did not answer and was ended; another one has taken over.")


def replaced(worker: Worker) -> str:
    return brief(
        _(
            "The engine ended ({end}); another one has taken over.",
            end=worker.how_it_ended(),
        )
    )


def ended_twice(worker: Worker) -> str:
    return brief(
        _(
            "The engine ended twice on this request ({end}): try a shorter sentence.",
            end=worker.how_it_ended(),
        )
    )


def down(worker: Worker) -> str:
    return brief(
        _(
            "The engine does not start ({end}): press Translate to try again.",
            end=worker.how_it_ended(),
        )
    )


def not_opened(request: Open, worker: Worker) -> str:
    """Say why a process that should open a checkpoint ended."""
    name, end = _name(request), worker.how_it_ended()
    if worker.heard:
        reason = _(
            "{name} could not be opened: its reader ended ({end}). Open it again; if "
            "it ends again, the file may be damaged.",
            name=name,
            end=end,
        )
    else:
        reason = _(
            "{name} could not be opened: the engine does not start ({end}). Open it "
            "again to try once more.",
            name=name,
            end=end,
        )
    return brief(reason)


def stood_still(request: Open) -> str:
    return brief(
        _(
            "{name} was given up: for {seconds:.0f} s its process neither computed nor "
            "read. Check the disk that the file is on, and open it again.",
            name=_name(request),
            seconds=STILL_SECONDS,
        )
    )


def changed(request: Open) -> str:
    return brief(
        _(
            "{name} has changed on the disk since it was opened: open it again to see "
            "what it holds now.",
            name=_name(request),
        )
    )


def gone(request: Open, reason: str) -> str:
    return brief(
        _(
            "{name} can no longer be opened. {reason}",
            name=_name(request),
            reason=reason,
        )
    )


def _name(request: Open) -> str:
    return request.path.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]
