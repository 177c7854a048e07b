"""Lessons read from their text: what they say, and every fault with its line."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from tests.traces import make_trace
from visformer import paths
from visformer.errors import InputError
from visformer.session.lesson import Lesson, parsed, read_lesson
from visformer.session.lesson_walk import moved_stop, stop_titles
from visformer.session.looked import PAGES, Looked
from visformer.ui.views import VIEWS
from visformer.values.step import Strategy

HEAD = """---
visformer-lesson: 1
title: A title: with a colon
sentence: The cat sleeps.
---
"""


BODY = """# A title

## First
<!-- view: attention; kind encoder; head L2H3; step 4; form arcs; words; large -->
<!-- expect: sum encoder L2H3 from cat = 1 -->
<!-- expect: tokens source = 3 -->
Some **bold** text,

```
<b>a block</b>
## no title
```
- with `<s>`
<!-- ask: What
is it? -->
The answer.
<!-- do: press Left 2 times -->
<!-- notes: one -->
<!-- notes: two -->

## Second

## Third
<!-- view: masks; page lab -->
<!-- change: causal off; hide 2 -->
<!-- do: Put it back -> change none; attention -->

## Fourth
<!-- view: computation; stage scale; head 1; text "A; b"; strategy beam beams 3 -->
"""


def lesson(body: str, head: str = HEAD, folder: Path = Path("/nowhere")) -> Lesson:
    return parsed(head + body, folder / "x.lesson.md")


def test_a_lesson_says_what_each_stop_shows() -> None:
    made = lesson(BODY)
    first, second, third, fourth = made.stops
    assert (made.title, made.language, made.newer) == (
        "A title: with a colon",
        "en",
        False,
    )
    assert (first.title, first.line) == ("First", 8)
    assert first.setting.looked == Looked(
        kind="encoder", layer=2, head=3, steps=4, form="arcs", words=True
    )
    assert first.setting.large
    assert first.setting.path == str(paths.checkpoint())
    assert first.setting.run.sentence == "The cat sleeps."
    assert first.text.startswith("Some **bold** text,\n\n```\n<b>a block</b>")
    assert first.ask == "What\nis it?"
    assert first.after == "The answer."
    assert first.do is not None
    assert first.do.steps == -2
    assert first.notes == "one\n\ntwo"
    assert [one.line for one in first.expects] == [10, 11]
    assert second.setting == first.setting  # without a view all stays
    assert third.setting.looked == Looked(
        view="masks", page="lab", kind="encoder", layer=2, head=3, steps=4
    )
    assert str(third.setting.run.intervention) == "causal off; hide 2"
    assert third.do is not None
    assert third.do.setting is not None
    assert not third.do.setting.run.intervention
    assert third.do.setting.looked.view == "attention"
    assert fourth.setting.looked == Looked(
        view="computation", stage="scale", kind="encoder", head=1
    )
    assert fourth.setting.run.sentence == "A; b"
    assert fourth.setting.run.strategy == Strategy("beam", beams=3)
    assert not fourth.setting.run.intervention  # a view begins anew


def test_the_answer_is_the_darkest_key_of_the_step_shown() -> None:
    body = """## A
<!-- view: attention; step 4 -->
<!-- expect: darkest cross L1H1 step 3 = a -->
<!-- expect: darkest cross L1H1 step 4 = b -->
"""
    assert lesson(body).stops[0].answer is None
    answer = lesson(f"{body}<!-- ask: Which? -->").stops[0].answer
    assert answer is not None
    assert answer.wanted == "b"


def test_plans_name_stops() -> None:
    head = HEAD.replace("---\nvis", "---\nplan-45: 1-2, 4\nplan-90: 1-4\nvis")
    made = lesson("## A\n## B\n## C\n## D\n", head)
    assert made.plans == {45: (0, 1, 3), 90: (0, 1, 2, 3)}


@pytest.mark.parametrize(
    ("stop", "to", "titles", "plans"),
    [
        (0, 2, "BCAD", ("1,2, 3-4", "3", "1-2, 4", '"3-4"', "4, 3")),
        (3, 0, "DABC", ("1,2, 3-4", "2", "1, 3-4", '"1-2"', "1-2")),
        (1, 2, "ACBD", ("1,2, 3-4", "1", "2-4", '"1, 4"', "4, 1")),
        (2, 2, "ABCD", ("1,2, 3-4", "1", "2-4", '"1, 4"', "4, 1")),
    ],
)
def test_a_stop_is_moved_and_plans_name_the_same_stops(
    stop: int, to: int, titles: str, plans: tuple[str, ...]
) -> None:
    def written(titles: str, plans: tuple[str, ...]) -> str:
        named = "".join(f"plan-{n}: {plan}\n" for n, plan in enumerate(plans, 1))
        first, second, third, fourth = (sections[title] for title in titles)
        head = HEAD.replace("---\nvis", f"---\n{named}vis")
        return f"{head}# Top\n{first}\n{second}\n\n\n{third}\n\n{fourth}"

    sections = {
        "A": "## A\n<!-- notes: one\n## none\n-->\nText, plan-9: 1.",
        "B": "## B\n\n```\n<!-- no comment\n## none\n```\nMore.",
        "C": "##  C",
        "D": "## D\n### Smaller\nplan-45: 1-2",
    }
    before = written("ABCD", ("1,2, 3-4", "1", "2-4", '"1, 4"', "4, 1"))
    assert moved_stop(before, stop, to) == written(titles, plans)


def test_a_plan_that_cannot_be_read_stays() -> None:
    head = HEAD.replace("---\nvis", "---\nplan-45: 1-3\nvis")
    assert moved_stop(f"{head}## A\n## B\n", 0, 1) == f"{head}## B\n## A\n"


def test_stops_are_cut_where_they_are_read() -> None:
    for path in paths.resource("lessons").rglob("*.lesson.md"):
        read = read_lesson(path)
        stops = [(stop.line - 1, stop.title) for stop in read.stops]
        assert stop_titles(read.written) == stops


def test_pages_are_those_of_the_views() -> None:
    named = {view.name: tuple(page.name for page in view.pages) for view in VIEWS}
    assert named == PAGES


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("", 5, "no stop"),
        ("text\n## A", 6, "first stop begins"),
        ("## A\n<!-- vew: masks -->", 7, "“vew” is not known"),
        ("## A\n<!-- view: maps -->", 7, "view is maps: choose"),
        ("## A\n<!-- view: attention; colour red -->", 7, "“colour” is not known"),
        ("## A\n<!-- view: attention; form pie -->", 7, "form is pie"),
        ("## A\n<!-- view: masks; page next -->", 7, "page is next"),
        ("## A\n<!-- view: attention; page x -->", 7, "this view has no pages"),
        ("## A\n<!-- view: attention; head x -->", 7, "“head” cannot be “x”"),
        ("## A\n<!-- view: attention; head -->", 7, "“head” cannot be “”"),
        ("## A\n<!-- view: attention; step -1 -->", 7, "“steps” cannot be"),
        ("## A\n<!-- view: masks; kind cross; kind cross -->", 7, "there twice"),
        ("## A\n<!-- view: output; strategy luck -->", 7, "strategy is 'luck'"),
        ("## A\n<!-- view: output; strategy sample seed -->", 7, "no strategy"),
        ("## A\n<!-- view: output; strategy sample top_p 3 -->", 7, "at most 1"),
        ("## A\n<!-- change: causal on -->", 7, "not a valid change"),
        ("## A\n<!-- change: head cross from /etc/x.vis -->", 7, "takes nothing"),
        ("## A\n<!-- change: head cross mean of x @ L1H1 -->", 7, "takes nothing"),
        ("## A\n<!-- expect: all is well -->", 7, "cannot be checked"),
        ("## A\n<!-- do: jump -->", 7, "A task is"),
        ("## A\n<!-- do: jump -> view moon -->", 7, "choose"),
        ("## A\n<!-- ask: a -->\n<!-- ask: b -->", 8, "one “ask” at most"),
        ("## A\n<!-- notes: -->", 7, "needs 1 to"),
        (f"## A\n<!-- notes: {'x' * 3000} -->", 7, "needs 1 to"),
        ("## A\n<!-- notes: open", 7, "has no end"),
        ("## A\ntext <!-- notes: a -->", 7, "no HTML"),
        ("## A\n<!-- notes: a --> text", 7, "lines of its own"),
        ("## A\n```\ncode", 8, "has no end"),
        ("## A\n\n<script>alert(1)</script>", 8, "no HTML"),
        ("## A\n![x](http://x/y.png)", 7, "no HTML, images"),
        ("## A\n[x](http://x/)", 7, "links"),
        ("## A\n[x]: http://x/", 7, "links"),
        ("## A\n<http://x/>", 7, "links"),
        ("## A\n> a", 7, "quotes"),
        ("## A\n\\`![x](y)\\`", 7, "between two"),  # which Markdown takes for no code
        ("## A\na ` b\n`<img src=x>`", 7, "between two"),
        ("## A\n" + "word\n" * 1001, 6, "at most 5,000 characters"),
        ("## A\n" + " " * 40 + "- deep", 7, "at most 12 blanks"),
        ("## A\nab\u202ecd", 7, "invisible"),
        ("## A\nab\0cd", 7, "invisible"),
        ("## A\n" * 201, 206, "at most 200 stops"),
        ("## A\n" + "<!-- expect: layers cross = 1 -->\n" * 51, 6, "at most 50"),
        ("## A\n<!-- view: masks; checkpoint ../x -->", 7, "outside the lesson's"),
        ("## A\n<!-- view: masks; checkpoint /etc -->", 7, "outside the lesson's"),
        ("## A\n<!-- view: masks; trace x.vis -->", 7, "neither a bundled"),
        ("## A\n<!-- view: masks; trace x.vis; text a -->", 7, "leave “text” out"),
        ("## A\n<!-- view: masks; checkpoint no-such -->", 7, "neither a bundled"),
        ("## A\n<!-- view: masks; checkpoint lessons/../.. -->", 7, "outside"),
    ],
)
def test_a_fault_is_one_sentence_with_file_and_line(
    body: str, line: int, words: str
) -> None:
    with pytest.raises(InputError) as raised:
        lesson(body)
    said = str(raised.value)
    assert said.startswith(f"x.lesson.md, line {line}: "), said
    assert words in said
    assert len(said) <= 200
    assert "\n" not in said


@pytest.mark.parametrize(
    ("head", "line", "words"),
    [
        ("", 1, "begins with"),
        ("---\ntitle: a\n---\n", 3, "begins with"),
        ("---\nvisformer-lesson: one\n---\n", 3, "begins with"),
        ("---\nvisformer-lesson: 1\ntitle: a\n", 3, "has no end"),
        ("---\nvisformer-lesson: 1\nsentence: a\n---\n", 4, "needs a title"),
        ("---\nvisformer-lesson: 1\ntitle: a\n---\n", 4, "needs a sentence"),
        (HEAD.replace("sentence", "colour: red\nsentence"), 6, "“colour” is not known"),
        (HEAD.replace("sentence", "title: b\nsentence"), 4, "there twice"),
        (HEAD.replace("sentence", "nonsense\nsentence"), 4, "NAME: VALUE"),
        (HEAD.replace("sentence", "plan-45: 1-9\nsentence"), 4, "stops from 1 to 1"),
        (HEAD.replace("sentence", "trace: x\nsentence"), 6, "leave “text” out"),
    ],
)
def test_a_fault_of_the_head_has_its_line(head: str, line: int, words: str) -> None:
    with pytest.raises(InputError) as raised:
        lesson("## A\n" if head.count("---") > 1 else "", head)
    assert f"line {line}: " in str(raised.value)
    assert words in str(raised.value)


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    head = HEAD.replace("lesson: 1", "lesson: 7\nmood: calm")
    made = lesson(
        """## A
<!-- view: hologram -->
<!-- smell: roses -->
<!-- expect: joy > 3 -->
<!-- do: dance -->
Text
## B
<!-- view: masks; colour red -->
""",
        head,
    )
    assert made.newer
    assert made.stops[0].text == "Text"
    assert made.stops[0].setting.looked == Looked()
    assert made.stops[1].setting.looked == Looked(view="masks")


def test_what_lies_beside_a_lesson_wins_over_a_bundled_name(tmp_path: Path) -> None:
    body = "## A\n<!-- view: masks; checkpoint reverse -->"
    bundled = lesson(body, folder=tmp_path).stops[0].setting.path
    assert bundled == str(paths.checkpoint("reverse"))
    (tmp_path / "reverse").mkdir()
    beside = lesson(body, folder=tmp_path).stops[0].setting.path
    assert beside == str(tmp_path / "reverse")


def test_files_beside_a_lesson_are_used(tmp_path: Path) -> None:
    make_trace().save(tmp_path / "run.vis")
    head = "---\nvisformer-lesson: 1\ntitle: a\ntrace: run.vis\n---\n"
    path = tmp_path / "a.lesson.md"
    path.write_text(f"\ufeff{head}## A\n", encoding="utf-8")
    setting = read_lesson(path).stops[0].setting
    assert setting.recorded
    assert setting.path == str(tmp_path / "run.vis")
    (tmp_path / "out.vis").symlink_to("/etc/hostname")
    path.write_text(head.replace("run", "out") + "## A\n", encoding="utf-8")
    with pytest.raises(InputError, match="outside the lesson's folder"):
        read_lesson(path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\xff\xfe-\0", "not UTF-8"),
        (b"x" * (1 << 19), "too large"),
    ],
)
def test_what_is_no_lesson_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "a.lesson.md"
    path.write_bytes(data)
    with pytest.raises(InputError, match=words):
        read_lesson(path)


def test_hostile_text_is_read_in_no_time() -> None:
    """Patterns that go back and forth would take minutes."""
    long: Any = "`" * 100_000
    for body in (
        f"## A\n{long}",
        f"## A\n{'[' * 100_000}",
        f"## A\n{'*_' * 50_000}",
        f"## A\n<!-- view: {';' * 1900} -->",
        f"## A\n<!-- expect: weight cross L1H1 step 1 {'a ' * 900} = -->",
    ):
        with contextlib.suppress(InputError):
            lesson(body)
    assert stop_titles("<!--\n" * 50_000) == stop_titles("```" * 50_000) == []
