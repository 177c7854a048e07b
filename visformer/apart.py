"""Windows and pictures in processes of their own, for programs that use visformer."""

from __future__ import annotations

import atexit
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

from visformer.errors import InputError, VisformerError


def started(
    function: str, *arguments: str, answers: int | None = None
) -> subprocess.Popen[str]:
    """Start a process by a function, such as "app:run_handed".

    It has a session of its own: what is typed to end this program leaves it open. What
    it is given goes through a pipe, since everybody can read a command line. It imports
    nothing from the current folder, which may be a stranger's, but finds what this
    program finds in other places. ``answers``: where its output goes; its input stays
    open then.
    """
    module, name = function.split(":")
    code = "import json, sys; given = json.loads(sys.stdin.readline()); "
    code += "sys.path.extend(given['path']); "
    code += "from visformer.program.plain_imports import import_plainly; "
    code += f"import_plainly(); from visformer.{module} import {name} as run; "
    code += "sys.exit(run(*given['arguments']))"
    home = str(Path(__file__).parents[1])  # maybe found by its being the current folder
    path = [*map(str, filter(None, sys.path)), home]
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=answers,
        encoding="utf-8",
        start_new_session=True,
    )
    _write(process, {"path": path, "arguments": arguments})
    if answers is None:
        cast("IO[str]", process.stdin).close()
    return process


def _write(process: subprocess.Popen[str], line: object) -> None:
    with contextlib.suppress(BrokenPipeError):
        pipe = cast("IO[str]", process.stdin)
        pipe.write(json.dumps(line) + "\n")
        pipe.flush()


class Painter:
    """Draws pictures, one after the other, in a process that starts with the first."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def draw(self, arguments: Sequence[str]) -> None:
        """Draw as ``visformer render`` does; InputError, in one sentence, where not."""
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self.close()
            if self._process is None:
                serve = "commands.render:serve"
                self._process = started(serve, answers=subprocess.PIPE)
                atexit.register(self.close)
            process = self._process
            _write(process, list(arguments))
            answer = cast("IO[str]", process.stdout).readline()
        if not answer:
            raise VisformerError(
                "The process that draws has ended ({code}): try again, or try another "
                "picture.",
                code=process.wait(),
            )
        if said := json.loads(answer):
            raise InputError(said)

    def close(self) -> None:
        """End the process: there is nothing more to draw."""
        atexit.unregister(self.close)
        if self._process is not None:
            self._process.communicate()
            self._process = None


painter = Painter()
