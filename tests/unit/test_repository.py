"""What a wheel, a host of repositories and an editor read of this one."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import visformer

ROOT = Path(__file__).parents[2]


def yaml_of(name: str) -> Any:
    return pytest.importorskip("yaml").safe_load((ROOT / name).read_text("utf-8"))


def test_the_wheel_says_that_it_is_typed_and_brings_what_is_no_code() -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel")
    builder = wheel.WheelBuilder(str(ROOT))
    builder.metadata.validate_fields()  # the classifiers, too
    held = {file.distribution_path for file in builder.recurse_included_files()}
    assert {
        "visformer/py.typed",
        "visformer/__init__.py",
        "visformer/resources/guide/window.md",
        "visformer/checkpoints/tatoeba-en-fr/model.safetensors",
    } <= held
    assert not [path for path in held if path.startswith("tests/")]
    assert builder.metadata.version == visformer.__version__


def test_the_version_stands_in_one_place() -> None:
    assert metadata.version("visformer") == visformer.__version__
    number = rf"\bvisformer\W+{re.escape(visformer.__version__)}"
    pages = [ROOT / "README.md", *(ROOT / "resources" / "guide").glob("*.md")]
    assert [page for page in pages if re.search(number, page.read_text("utf-8"))] == []
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert not re.search(r"^version\b", project, re.MULTILINE)


def test_the_workflow_runs_what_a_newcomer_runs() -> None:
    jobs = yaml_of(".github/workflows/ci.yml")["jobs"]
    steps = {name: job["steps"][-1]["run"] for name, job in jobs.items()}
    assert steps["linux"].endswith(" .ci/run")
    assert "tests/unit" in steps["untested"]
    assert jobs["untested"]["continue-on-error"] is True


def test_issue_templates_have_a_head() -> None:
    templates = list((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert len(templates) > 1
    for path in templates:
        head = path.read_text("utf-8").split("---\n")[1]
        assert re.search(r"^name: .+\nabout: .+\n", head), path


def test_hooks_are_local_and_keep_subjects_short(tmp_path: Path) -> None:
    (local,) = yaml_of(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    hooks = {hook["id"]: hook["entry"] for hook in local["hooks"]}
    assert {"ruff-check", "ruff-format", "mypy", "subject"} == set(hooks)
    message = tmp_path / "message"
    python, *words = shlex.split(hooks["subject"])
    assert python == ".venv/bin/python"
    for length, code in ((72, 0), (73, 1)):
        message.write_text("Ü" * length + "\n\n" + "body " * 40, "utf-8")
        command = [sys.executable, *words, str(message)]
        assert subprocess.run(command, check=False).returncode == code
