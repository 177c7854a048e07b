"""The tested versions: one for each direct dependency, within what is allowed."""

from __future__ import annotations

import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"].values()
LISTED = [Requirement(line) for line in sum(EXTRAS, PROJECT["dependencies"])]
# an extra takes others by the name of the project
DIRECT = [one for one in LISTED if one.name != PROJECT["name"]]
LINES = (ROOT / "resources" / "constraints.txt").read_text("utf-8").splitlines()
PINS = [Requirement(line) for line in LINES if line and line[0] != "#"]
PINNED = {canonicalize_name(one.name): one for one in PINS}


def version(pin: Requirement) -> str:
    (only,) = pin.specifier
    assert only.operator == "=="
    return only.version


def test_each_direct_dependency_has_one_version_that_is_allowed() -> None:
    assert len(PINNED) == len(PINS)
    assert set(PINNED) == {canonicalize_name(one.name) for one in DIRECT}
    for one in DIRECT:
        pinned = version(PINNED[canonicalize_name(one.name)])
        assert one.specifier.contains(pinned), one


@pytest.mark.skipif(
    Path(sys.prefix) != ROOT / ".venv", reason="not installed by README's command"
)
def test_they_are_what_readmes_command_has_installed() -> None:
    found = {}
    for name in PINNED:
        try:
            found[name] = Version(metadata.version(name)).public
        except metadata.PackageNotFoundError:
            continue  # of another extra
    assert found == {name: version(PINNED[name]) for name in found}
    assert {"torch", "numpy", "pytest"} <= set(found)


def test_each_is_listed_once() -> None:
    """PySide6 alone has a line for each Python."""
    named = [(one.name, str(one.marker or "")) for one in DIRECT]
    assert len(named) == len(set(named))
    assert "dependency-groups" not in PYPROJECT


def test_an_installed_torch_is_kept_and_pyside_stays_sound() -> None:
    """PySide6 6.12 drops references on Python 3.11, until the process aborts."""
    (torch,) = (one for one in DIRECT if one.name == "torch")
    assert torch.specifier.contains("2.99.1")
    old = {"python_version": "3.11"}
    for one in DIRECT:
        if one.name == "PySide6-Essentials" and one.marker and one.marker.evaluate(old):
            assert not one.specifier.contains("6.12.0")
