"""What every test needs before Qt or torch is imported."""

from __future__ import annotations

import atexit
import gc
import os
import tempfile

import pytest
import torch
from hypothesis import HealthCheck, settings

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["VISFORMER_LANGUAGE"] = "en"
# logs, settings and examples never reach the user's folders or this one
_folder = tempfile.TemporaryDirectory(prefix="visformer-tests-")
atexit.register(_folder.cleanup)
for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
    os.environ[name] = os.path.join(_folder.name, name)
os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = os.path.join(_folder.name, "hypothesis")
# on a busy machine data are drawn slowly, which is no fault of a test
settings.register_profile(
    "busy", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")
# with two threads on two busy cores, small models run up to a hundred times slower
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def patience() -> None:
    """Let searches that are limited in time find, on a busy machine, what there is."""
    from visformer.formats import fitting, switches

    fitting._SECONDS = switches._SECONDS = 60.0


def pytest_collection_finish() -> None:
    """Leave what is imported out of collections of garbage, and make those seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


MOST_PROCESSES = 8  # each takes about half a gigabyte of memory


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Say where long bytes differ: to compare pictures line by line takes minutes."""
    if op != "==" or not (isinstance(left, bytes) and isinstance(right, bytes)):
        return None
    apart = (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    at = next(apart, min(len(left), len(right)))
    return [f"{len(left)} bytes == {len(right)} bytes: they differ first at {at}"]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite in a process for each core, a few files in this one."""
    whole = config.args in ([], config.getini("testpaths"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return min(cores or os.cpu_count() or 1, MOST_PROCESSES) if whole else 0
