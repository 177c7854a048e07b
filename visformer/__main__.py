"""The command: ``visformer``, or ``python -m visformer``.

From its first line on Ctrl-C ends it with a word: a traceback out of the imports would
say nothing to anybody.
"""

import os
import signal
from types import FrameType


def main() -> int:
    """Run the command line; returns the exit code."""
    before = signal.signal(signal.SIGINT, _stopped)
    from visformer.cli import main as run

    signal.signal(signal.SIGINT, before)
    return run()


def _stopped(number: int, frame: FrameType | None) -> None:
    os.write(2, b"visformer: stopped\n")
    os._exit(130)


if __name__ == "__main__":
    raise SystemExit(main())
