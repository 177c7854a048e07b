"""``visformer lesson``: what a lesson says, against its runs, and how it is printed."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage

import visformer
from tests.system.formats.folders import write_letters
from tests.traces import make_trace
from visformer.cli import main
from visformer.session.lesson import parsed
from visformer.ui.lesson_pages import lesson_pdf

Said = pytest.CaptureFixture[str]

HEAD = """---
visformer-lesson: 1
title: Letters
checkpoint: letters
sentence: abc
---
## A stop
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lesson")
    (folder / "letters").mkdir()
    write_letters(folder / "letters")
    return folder


def check(folder: Path, body: str, capsys: Said, *options: str) -> tuple[int, str, str]:
    path = folder / "a.lesson.md"
    path.write_text(body, encoding="utf-8")
    code = main(["lesson", "check", str(path), *options])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_what_holds_is_counted_and_what_does_not_is_told(
    folder: Path, capsys: Said
) -> None:
    text = visformer.translate("abc", folder / "letters")[0]
    good = (
        f"<!-- expect: translation = {text} -->\n<!-- expect: tokens source > 2 -->\n"
    )
    assert check(folder, HEAD + good, capsys) == (
        0,
        "a.lesson.md: 2 of 2 expectations hold.\n",
        "",
    )
    code, told, _err = check(folder, HEAD + good, capsys, "--all")
    assert code == 0
    assert f"line 8: translation = {text} holds: it is “{text}”." in told
    bad = "<!-- expect: sum cross L1H1 step 1 > 2 -->\n"
    missing = "<!-- expect: weight cross L1H1 step 1 zebra > 0 -->\n"
    code, told, _err = check(folder, HEAD + good + bad + missing, capsys)
    assert code == 1
    assert told.splitlines() == [
        "a.lesson.md, line 10: sum cross L1H1 step 1 > 2 does not hold: it is 1.",
        "a.lesson.md, line 11: weight cross L1H1 step 1 zebra > 0: The run "
        "has no “zebra” here.",
        "a.lesson.md: 2 of 4 expectations hold.",
    ]


def test_each_run_is_the_one_that_its_stop_names(folder: Path, capsys: Said) -> None:
    """The sentence, what is fed, how tokens are chosen, and what is changed."""
    model = visformer.load(folder / "letters")
    beam = visformer.Decoding(
        model, "abc", strategy=visformer.Strategy("beam", beams=3)
    )
    fed = visformer.Decoding(model, "abc").feed("cab")
    leaky = visformer.Decoding(
        model, "abc", intervention=visformer.parse_change("causal off")
    )
    # as the window shows a step: later ones change its rows
    first = leaky.step(2).attention("decoder", 0, 0)[1, 0]
    plain = visformer.Decoding(model, "abc").finish()
    trace = make_trace()
    trace.save(folder / "run.vis")
    body = f"""
<!-- expect: probability step 1 = {plain.steps[0].probability:.6f} -->
## Beams
<!-- view: output; strategy beam beams 3 -->
<!-- expect: translation = {beam.finish().text} -->
## Fed
<!-- view: output; reference cab -->
<!-- expect: probability step 2 = {fed.steps[1].probability:.6f} -->
## Changed
<!-- view: masks -->
<!-- change: causal off -->
<!-- expect: weight decoder L1H1 step 2 to token 1 = {first:.6f} -->
<!-- expect: later decoder L1H1 > 0.001 -->
## Recorded
<!-- view: attention; trace run.vis -->
<!-- expect: translation = {trace.text} -->
"""
    code, told, err = check(folder, HEAD + body, capsys)
    assert (code, err) == (0, ""), told
    whole = leaky.finish().attention("decoder", 0, 0)[1, 0]
    assert abs(whole - first) > 0.01


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (HEAD.replace("## A", "# A"), "a.lesson.md, line 8: The first stop begins"),
        (HEAD + "<!-- change: head cross off @ L9H9 -->\n", "a.lesson.md, line 7: "),
        ("text", "a.lesson.md, line 1: "),
    ],
)
def test_a_bad_lesson_is_one_sentence_and_exit_code_2(
    folder: Path, capsys: Said, body: str, words: str
) -> None:
    expects = "<!-- expect: sum cross L1H1 step 1 = 1 -->\n"
    code, told, err = check(folder, body + expects, capsys)
    assert (code, told) == (2, "")
    assert err.startswith(f"visformer: {words}")
    assert err.count("\n") == 1


PRINTED = """---
visformer-lesson: 1
title: Letters & <more>
checkpoint: letters
sentence: abc
plan-45: 2
---
## The first stop
<!-- view: attention; kind cross; head L1H1; step 2; large -->
<!-- expect: tokens source > 2 -->
A **bold** word and `<s>`.
<!-- ask: Which letter is darkest? -->
It is *a*.
<!-- notes: Wait for guesses. -->

## The second one
<!-- view: masks -->
The end.
<!-- do: press Left once -->
"""


def test_a_lesson_is_printed_with_its_pictures(folder: Path) -> None:
    lesson, page = folder / "p.lesson.md", folder / "p.html"
    lesson.write_text(PRINTED, encoding="utf-8")
    command = [sys.executable, "-m", "visformer", "lesson", "print"]
    done = subprocess.run(
        [*command, str(lesson), "-o", str(page)], capture_output=True, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    text = page.read_text(encoding="utf-8")
    assert text.count("<h2") == 3  # two stops, and the answers
    assert "<h1>Letters &amp; &lt;more&gt;</h1>" in text
    for words in ("Which letter is darkest?", "Wait for guesses.", "Press Left once"):
        assert words in text
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    sizes = [QImage.fromData(base64.b64decode(one)).size() for one in pictures]
    assert len(sizes) == 2
    assert all(min(size.width(), size.height()) > 300 for size in sizes)
    plan = text[text.index("<table") : text.index("</table>")]
    marked = ["•" in row for row in plan.split("<tr>")[2:]]
    assert marked == [False, True]


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs pdftotext")
def test_on_paper_the_answers_follow_the_stops(qapp: object, tmp_path: Path) -> None:
    lesson = parsed(PRINTED.replace("checkpoint: letters\n", ""), tmp_path / "p")
    picture = QImage(900, 700, QImage.Format.Format_RGB32)
    picture.fill(Qt.GlobalColor.blue)
    (tmp_path / "p.pdf").write_bytes(lesson_pdf(lesson, [picture, picture]))
    command = ["pdftotext", str(tmp_path / "p.pdf"), "-"]
    told = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    told = unicodedata.normalize("NFKC", told)  # without ligatures
    plan, stops, answers = told.split("\f")[:3]
    assert "Wait for guesses." in plan
    assert "1. The first stop" in stops
    assert "2. The second one" in stops
    assert "Wait for guesses." not in stops
    assert "The end." in stops
    assert answers.split() == ["Answers", "1.", "It", "is", "a."]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["print", "L"], "Name one lesson, and with -o a file (.pdf or .html)."),
        (["print", "L", "L", "-o", "x.pdf"], "Name one lesson"),
        (["print", "L", "-o", "x.png"], "x.png is not written as .png, only as .pdf"),
        (["print", "L", "-o", "no/such/x.pdf"], "in a folder that exists"),
        (["check", "L", "-o", "x.pdf"], "--output is for “visformer lesson print”"),
    ],
)
def test_what_cannot_be_printed_is_one_sentence(
    options: list[str], said: str, folder: Path, capsys: Said
) -> None:
    (folder / "q.lesson.md").write_text(PRINTED, encoding="utf-8")
    given = [str(folder / "q.lesson.md") if one == "L" else one for one in options]
    assert main(["lesson", *given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
