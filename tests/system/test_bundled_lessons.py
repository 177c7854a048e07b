"""The bundled lessons say what the numbers say, and both languages have the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from visformer import paths
from visformer.commands.lesson_command import checked
from visformer.formats.layouts import TUTORIALS
from visformer.session.lesson import Lesson, LessonStop, read_lesson

FILES = sorted(paths.resource("lessons").glob("*/*.lesson.md"))
_NUMBER = re.compile(r"(?<![\w√/=.-])(\d+\.\d+)(?![\w])")


def ids(file: Path) -> str:
    return f"{file.parent.name}/{file.name.partition('.')[0]}"


@pytest.fixture(params=FILES, ids=ids)
def lesson(request: pytest.FixtureRequest) -> Lesson:
    return read_lesson(request.param)


def test_both_languages_have_the_same_lessons() -> None:
    names = {
        language: {file.name for file in FILES if file.parent.name == language}
        for language in ("en", "zh")
    }
    assert names["en"] == names["zh"]
    needed = {"lecture", "what-if", "find-a-fault", *TUTORIALS}
    assert {f"{name}.lesson.md" for name in needed} <= names["en"]


def test_every_expectation_holds(lesson: Lesson) -> None:
    assert [sentence for sentence, holds in checked(lesson) if not holds] == []


def test_every_stop_is_checked_and_short(lesson: Lesson) -> None:
    assert lesson.language == Path(lesson.path).parent.name
    for stop in lesson.stops:
        assert stop.expects, stop.title
        assert not stop.ask or stop.after or stop.answer, stop.title
        ends = re.findall(r"[.?!:](?=\s|$)|[。？！：]", stop.text)
        assert 1 <= len(ends) <= 6, stop.title


def _expected(stop: LessonStop) -> set[float]:
    return {
        float(one.wanted)
        for one in stop.expects
        if re.fullmatch(r"-?\d+(\.\d+)?", one.wanted)
    }


def _sayable(stops: tuple[LessonStop, ...]) -> set[float]:
    """Return the numbers that the expectations of some stops give, in a lesson."""
    return {number for stop in stops for number in _expected(stop)}


def test_decimal_numbers_in_the_text_are_expected(lesson: Lesson) -> None:
    """A number with a point is one that the run shows, here or at a stop before.

    What stands after “=” is computed in the sentence itself, as √32 = 5.7.
    """
    for at, stop in enumerate(lesson.stops):
        known = _sayable(lesson.stops[: at + 1])
        text = f"{stop.text} {stop.after}"
        said = {float(n) for n in _NUMBER.findall(text)}
        derived = {float(n) for n in re.findall(r"= (\d+\.\d+)", text)}
        assert said - derived <= known, (stop.title, said - derived - known)


def test_the_lecture_has_a_plan_for_45_minutes() -> None:
    for language in ("en", "zh"):
        lesson = read_lesson(paths.resource(f"lessons/{language}/lecture.lesson.md"))
        assert len(lesson.plans[45]) >= 12
        assert set(lesson.plans[45]) < set(lesson.plans[90])
        assert sum(bool(stop.ask) for stop in lesson.stops) >= 5
        assert all(stop.notes or stop.ask for stop in lesson.stops[:5])


@pytest.mark.parametrize(
    ("language", "guide"), [("en", "lecturing.md"), ("zh", "lecturing.zh-CN.md")]
)
def test_the_guide_shows_every_stop(language: str, guide: str) -> None:
    lesson = read_lesson(paths.resource(f"lessons/{language}/lecture.lesson.md"))
    file = paths.resource("guide") / guide
    shown = re.findall(r"!\[(.+)\]\((.+)\)", file.read_text("utf-8"))
    assert [title for title, _picture in shown] == [s.title for s in lesson.stops]
    for _title, picture in shown:
        assert 0 < (file.parent / picture).stat().st_size < 60_000
