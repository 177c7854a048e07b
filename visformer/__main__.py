"""The command: ``visformer``, or ``python -m visformer``.

Ctrl-C ends it with one word from the first line on, rather than with a traceback from
somewhere in the imports.
"""

import os
import signal
import sys
from types import FrameType

# they read untrusted files in this process
READERS = ("translate", "inspect", "compare")


def main() -> int:
    """Run the command line; returns the exit code."""
    if sys.platform == "linux" and sys.argv[1:2] in [[name] for name in READERS]:
        return _contained()
    return _run()


def _run() -> int:
    before = signal.signal(signal.SIGINT, _stopped)
    from visformer.cli import main as run

    signal.signal(signal.SIGINT, before)
    return run()


def _stopped(number: int, frame: FrameType | None) -> None:
    os.write(2 if sys.stderr is None else sys.stderr.fileno(), b"visformer: stopped\n")
    os._exit(130)


if sys.platform == "linux":

    def _contained() -> int:
        """Run the command in a child process, and report if a file makes it crash.

        Signals from the terminal reach the child directly; others are passed on.
        """
        awaited = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD
        before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
        parent, child = os.getpid(), os.fork()
        if not child:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            from visformer.own_process import end_with_parent, limit_memory

            end_with_parent(parent)
            limit_memory()
            _only_ours()
            return _run()
        while True:
            heard = signal.sigwaitinfo(awaited)
            if heard.si_signo != signal.SIGCHLD:
                if heard.si_code <= 0:  # sent by a process, not by the terminal
                    os.kill(child, heard.si_signo)
                continue
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return _told(os.waitstatus_to_exitcode(status))

    def _only_ours() -> None:
        """Silence what libraries in C and Rust write to standard error.

        What Python writes still goes there.
        """
        if sys.stderr is not None:
            own = os.dup(2)
            sys.stderr = os.fdopen(own, "w", 1, "utf-8", "backslashreplace")
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 2)
            os.close(null)

    def _told(code: int) -> int:
        """Return the exit code; report a signal that ended the child."""
        if code >= 0 or -code in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            return code if code >= 0 else 128 - code
        from visformer.commands.shared import complain
        from visformer.language import _

        complain(
            _(
                "The reader was killed by signal {number}. Try again; if that happens "
                "again, the file may be damaged.",
                number=-code,
            )
        )
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
