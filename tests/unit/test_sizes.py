"""Files and functions stay short enough to be read at once, and files are worth one."""

from __future__ import annotations

import ast
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "visformer"
FILE, FUNCTION = 700, 60  # lines at most
SMALL = 100  # a file with fewer lines moves into its only importer, unless listed here
ALONE = {  # pattern of such files -> why each is a file of its own
    "**/__init__.py": "makes a folder a package",
    "__main__.py": "python -m visformer",
    "commands/*.py": "a command, imported by its name when it is called",
    "formats/layouts/*.py": "a layout: developing.md's recipe is to add a file",
    "apart.py": "processes of our own, beside an interface without any",
    "analysis/checks/table.py": "the table of checks, which another room asks",
    "engine/reasons.py": "sentences alone, beside a handle full of threads",
    "pictures/notebook.py": "a picture, which its importer may not know of before",
    "pictures/token_bars.py": "a picture, which ui draws",
    "program/desktop.py": "a command, imported by its name when it is called",
    "program/plain_imports.py": "runs before anything else is imported",
    "session/receive.py": "pure, while its importer is a widget",
    "ui/bars/status.py": "a bar of the window is a file",
    "ui/views/diagnosis/*.py": "a tab, imported by its name, and a file per page",
}


def _long(name: str, source: str) -> list[str]:
    """Name the file, and its functions, that have too many lines."""
    too_long = [name] if len(source.splitlines()) > FILE else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno >= FUNCTION:
                too_long.append(f"{name}: {node.name}")
    return too_long


def test_files_and_functions_are_short() -> None:
    paths = sorted([*PACKAGE.rglob("*.py"), *ROOT.glob("tests/**/*.py")])
    assert len(paths) > 300
    too_long = [
        name
        for path in paths
        for name in _long(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    ]
    assert too_long == []


def _importers(package: Path) -> dict[str, set[Path]]:
    """Return the files of a package that import each module, by its dotted name."""
    found = defaultdict[str, set[Path]](set)
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                for name in ("", *(f".{alias.name}" for alias in node.names)):
                    found[f"{node.module}{name}"].add(path)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.name].add(path)
    return found


def _small(package: Path) -> list[str]:
    """Name the small files that have one importer at most."""
    importers = _importers(package)
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        several = importers[".".join(parts).removesuffix(".__init__")]
        if len(several) < 2 and len(path.read_text("utf-8").splitlines()) < SMALL:
            found.append(path.relative_to(package).as_posix())
    return found


def test_a_small_file_has_several_importers_or_a_reason() -> None:
    small = _small(PACKAGE)
    assert [n for n in small if not any(fnmatch(f"/{n}", f"/{x}") for x in ALONE)] == []


def test_a_small_file_with_one_importer_is_named(tmp_path: Path) -> None:
    package = tmp_path / "visformer"
    package.mkdir()
    (package / "small.py").write_text("x = 1\n")
    (package / "one.py").write_text("import visformer.small\n" + "x = 1\n" * SMALL)
    assert _small(package) == ["small.py"]
    (package / "two.py").write_text("from visformer import small\n" + "x = 1\n" * SMALL)
    assert _small(package) == []


def test_what_is_too_long_is_named() -> None:
    inner = "class A:\n    def f():\n" + "        x = 1\n" * (FUNCTION - 1)
    assert _long("a.py", inner) == []
    assert _long("a.py", inner + "        x = 2\n") == ["a.py: f"]
    assert _long("a.py", "x = 1\n" * FILE) == []
    assert _long("a.py", "x = 1\n" * (FILE + 1)) == ["a.py"]
