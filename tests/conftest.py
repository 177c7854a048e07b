"""What every test needs before Qt or torch is imported, and which tests are run.

``pytest`` alone runs the quick tier: ``unit`` and ``window`` without most rows of large
families, and the first test of each file of ``system``. With paths, -k or -m all rows
that are asked for are run; those marked slow only with -m or ``--every``.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import os
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
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
TESTS = Path(__file__).parent
LARGE = 8  # a family of more rows is sampled in the quick tier
DRAWN = 3  # rows of it that are drawn, beside the first and the last
MOST_PROCESSES = 8  # each takes about half a gigabyte of memory


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for all rows of everything."""
    told = "run every row of what is asked for, slow ones too"
    parser.addoption("--every", action="store_true", help=told)


def _is_quick(config: pytest.Config) -> bool:
    """Whether nothing narrower than the quick tier is asked for."""
    option = config.option
    narrower = option.every or option.keyword or option.markexpr
    return not narrower and config.args in ([], config.getini("testpaths"))


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what is slow or for a release, and in the quick tier most rows."""
    kept = items
    if not config.option.markexpr:
        out = {"release"} if config.option.every else {"release", "slow"}
        kept = [one for one in kept if out.isdisjoint(_marks(one))]
    if _is_quick(config):
        kept = _sample(kept)
    chosen = {*kept}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def _sample(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the rows of the quick tier, in their order."""
    families = defaultdict[str, list[pytest.Item]](list)
    files = dict[Path, pytest.Item]()  # of the system's tests -> the first one
    for item in items:
        if item.path.relative_to(TESTS).parts[0] in ("unit", "window"):
            families[item.nodeid.partition("[")[0]].append(item)
        else:
            files.setdefault(item.path, item)
    chosen = {*files.values()}
    for rows in families.values():
        if len(rows) > LARGE:
            drawn = sorted(rows[1:-1], key=_draw)[:DRAWN]
            rows = [rows[0], *drawn, rows[-1]]
        chosen.update(rows)
    return [item for item in items if item in chosen]


def _draw(item: pytest.Item) -> bytes:
    """Return a key that sorts rows as if at random, but everywhere alike."""
    return hashlib.sha256(item.nodeid.encode()).digest()


def pytest_collection_finish() -> None:
    """Leave what is imported out of collections of garbage, and make those seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def pytest_runtest_setup() -> None:
    """Let torch use one thread: on busy cores, two are up to a hundred times slower."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Say where long bytes differ: to compare pictures line by line takes minutes."""
    if op != "==" or not (isinstance(left, bytes) and isinstance(right, bytes)):
        return None
    apart = (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    at = next(apart, min(len(left), len(right)))
    return [f"{len(left)} bytes == {len(right)} bytes: they differ first at {at}"]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run whole tiers in a process for each core, a few files in this one."""
    whole = config.option.every or config.args in ([], config.getini("testpaths"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return min(cores or os.cpu_count() or 1, MOST_PROCESSES) if whole else 0
