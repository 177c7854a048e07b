"""What README and the guide tell people to type does what they say."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

import visformer
from tests.bundle import listed_packages
from visformer.cli import COMMANDS, command_parser, window_parser
from visformer.ui.window.keys_page import COLUMNS
from visformer.values.intervention import CHANGES, parse
from visformer.values.trace import Trace

ROOT = Path(__file__).parents[2]
GUIDE = "resources/guide"
CHINESE = "resources/README.zh-CN.md"
COMMAND_PAGES = ["README.md", f"{GUIDE}/install.md", f"{GUIDE}/commands.md"]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (ROOT, ROOT / ".github", ROOT / "resources")
    for path in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text_of(page), re.DOTALL)


def command_lines(page: str) -> list[str]:
    lines = "\n".join(blocks(page, "bash")).splitlines()
    return [line for line in lines if line.startswith("visformer ")]


@pytest.mark.parametrize("page", ["README.md", CHINESE, f"{GUIDE}/python.md"])
@pytest.mark.filterwarnings("ignore:visformer.render now counts")
def test_the_python_snippets_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[Trace] = []

    def show(path: str) -> None:
        shown.append(visformer.open_trace(path))

    monkeypatch.setattr(visformer, "show", show)
    names: dict[str, object] = {}
    for snippet in blocks(page, "python"):
        exec(compile(snippet, page, "exec"), names)
    trace = names["trace"]
    assert isinstance(trace, Trace)
    assert [token.text for token in shown] == [trace.text]
    weights = trace.attention("cross", layer=2, head=1)
    assert weights.sum(-1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("page", COMMAND_PAGES)
def test_the_command_lines_are_understood(page: str) -> None:
    lines = command_lines(page)
    assert lines
    for line in lines:
        # [PATH] and [--text T] may be left out
        words = shlex.split(line.replace("[", "").replace("]", ""), comments=True)[1:]
        words = words[: words.index("<")] if "<" in words else words
        if words[0] in COMMANDS:
            command_parser(words[0]).parse_args(words[1:])
        else:
            window_parser().parse_args(words)


def test_every_command_has_a_line() -> None:
    lines = command_lines(f"{GUIDE}/commands.md")
    assert {line.split()[1] for line in lines} - {"[PATH]"} == set(COMMANDS)


def test_the_programs_for_developers_are_there() -> None:
    texts = "".join(map(text_of, PAGES))
    names = set(re.findall(r"python -m (tests\.\w+)", texts))
    assert len(names) > 4
    assert [name for name in names if importlib.util.find_spec(name) is None] == []


def table(page: str, header: str) -> list[list[str]]:
    """Return the rows of the table below a header, as the texts of their cells."""
    rows = text_of(page).partition(header)[2].partition("\n\n")[0].strip().splitlines()
    assert len(rows) > 3
    return [row.split("|")[1:-1] for row in rows[1:]]


def test_every_kind_of_change_is_named_and_can_be_made() -> None:
    kinds = set()
    for cell, _ in table(f"{GUIDE}/commands.md", "| change | what it does |"):
        for text in re.findall(r"`([^`]+)`", cell):
            kinds |= {type(change) for change in parse([text])}
    assert kinds == set(CHANGES.values())


def test_the_window_knows_the_keys_that_the_guide_names() -> None:
    known = {
        key
        for column in COLUMNS
        for _, entries in column
        for keys, _ in entries
        for key in keys.split(", ")
    }
    rows = table(f"{GUIDE}/window.md", "| key | what it does |")
    assert {key for cell, _ in rows for key in cell.strip().split(", ")} <= known


def test_the_house_names_every_room_and_no_other() -> None:
    rows = table(f"{GUIDE}/developing.md", "| where | what |")
    named = {
        name.removeprefix("visformer/").rstrip("/")
        for name in re.findall(r"`([^`]+)`", "".join(row[0] for row in rows))
    }
    package = ROOT / "visformer"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    rooms |= {path.name for path in package.glob("*.py") if path.stem[0] != "_"}
    assert named == rooms | {"checkpoints", "resources", "tests"}


def test_the_tables_to_add_to_are_there() -> None:
    header = "| to add | write | and enter it in |"
    for _, written, entered in table(f"{GUIDE}/developing.md", header):
        (name, file) = re.findall(r"`([^`]+)`", entered)
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        assert getattr(importlib.import_module(f"visformer.{module}"), name)
        for path in re.findall(r"`([a-z_/]+/)(?:\w+\.py)?`", written):
            assert (ROOT / "visformer" / path).is_dir(), path


def slug(heading: str) -> str:
    """Return the anchor that a heading has on a page."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str) -> None:
    prose = re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.MULTILINE)
            assert anchor in map(slug, headings), link


def test_the_pages_are_short() -> None:
    assert len(text_of("README.md")) <= 8_000
    guide = [page for page in PAGES if page.startswith(f"{GUIDE}/")]
    assert len(guide) > 9
    assert [page for page in guide if len(text_of(page)) > 12_000] == []
    assert len(blocks("README.md", "python")[0].replace("\n\n", "\n").split("\n")) <= 11


def test_what_a_newcomer_types_is_what_ci_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    (setup,) = re.findall(r"^setup='(.*)'$", script, re.MULTILINE)
    (quick,) = re.findall(r'^quick="(.*)"$', script, re.MULTILINE)
    packages = " ".join(["python3-venv", *listed_packages()])
    install = setup.replace('-e ".[dev]"', ".")
    needed = {
        f"sudo apt-get install -y --no-install-recommends {packages}",
        f"{setup} && {quick}",
        f"{install} && .venv/bin/visformer",
    }
    for page in ("README.md", CHINESE, f"{GUIDE}/install.md"):
        assert needed <= set(text_of(page).splitlines()), page
    assert needed <= set(text_of("README.md").splitlines()[:40])


def test_the_chinese_readme_has_the_same_code_and_models() -> None:
    def code(page: str) -> list[str]:
        lines = "".join(blocks(page, "bash") + blocks(page, "python")).splitlines()
        return [line.partition("  #")[0].rstrip() for line in lines]

    of_chinese = [line for line in code(CHINESE) if "fonts-wqy" not in line]
    assert of_chinese == code("README.md")
    models = table("README.md", "| name | what it does | quality |")
    chinese_models = table(CHINESE, "| 名称 | 用途 | 质量 |")
    assert [row[0] for row in chinese_models] == [row[0] for row in models]
