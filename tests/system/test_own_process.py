"""What a file does to the process that reads it is told, and has a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from visformer.own_process import SHARE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asked of Linux")
SCRIPT = """
import os, sys, types
from visformer.__main__ import main
from visformer.cli import COMMANDS, Command

def run(options):
    {does}
    return 3

module = types.ModuleType("reader")
module.add_options, module.run = lambda parser: None, run
sys.modules["reader"] = module
COMMANDS["inspect"] = Command("reader", "Read.")
sys.argv = ["visformer", "inspect"]
raise SystemExit(main())
"""


def start(does: str) -> subprocess.Popen[str]:
    """Run ``inspect``, which does something of ours."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(does=does)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        # what a shell runs in the background ignores it, and so would this
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.parametrize(
    ("does", "code", "said"),
    [
        ("print('read')", 3, ""),
        ("os.write(2, b'panic'); sys.stderr.write('ours')", 3, "ours"),
        ("os.write(2, b'panic'); os.abort()", 2, "visformer: The reader was killed"),
        ("os.abort()", 2, "visformer: The reader was killed by signal 6. Try again"),
        ("bytearray(1 << 50)", 2, "visformer: There is not enough memory: close"),
    ],
)
def test_a_reader_that_a_file_ends_is_one_sentence(
    does: str, code: int, said: str
) -> None:
    process = start(does)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.startswith(said)
    assert err.count("\n") == (said not in ("", "ours"))
    assert out == ("read\n" if "read" in does else "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_the_command_ends_its_reader(number: signal.Signals) -> None:
    # waits without standard input, which the tests may have none of
    process = start("import signal; print(os.getpid(), flush=True); signal.pause()")
    assert process.stdout is not None
    reader = os.pidfd_open(int(process.stdout.readline()))
    process.send_signal(number)
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err == ("visformer: stopped\n" if number == signal.SIGINT else "")
    with pytest.raises(ProcessLookupError):
        signal.pidfd_send_signal(reader, 0)
    os.close(reader)


def test_a_reader_has_a_share_of_the_memory() -> None:
    limit = "import resource; print(resource.getrlimit(resource.RLIMIT_DATA)[0])"
    out, _err = start(limit).communicate(timeout=60)
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < int(out) <= SHARE * whole


RETURNED = """
from visformer.own_process import return_memory

def megabytes():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if "VmRSS" in line) // 1024

kept = [bytearray(5000) for _ in range(40_000)][-1]  # the others, below it, are free
before = megabytes()
return_memory()
print(before - megabytes())
"""


def test_what_is_free_is_given_back() -> None:
    command = [sys.executable, "-c", RETURNED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 100
