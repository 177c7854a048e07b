"""``visformer lesson check``: what a lesson says, against the numbers of its runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import visformer
from tests.formats.folders import write_letters
from tests.traces import make_trace
from visformer.cli import main

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


def check(
    folder: Path, body: str, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, str, str]:
    path = folder / "a.lesson.md"
    path.write_text(body, encoding="utf-8")
    code = main(["lesson", "check", str(path), *options])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_what_holds_is_counted_and_what_does_not_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
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


def test_each_run_is_the_one_that_its_stop_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    folder: Path, capsys: pytest.CaptureFixture[str], body: str, words: str
) -> None:
    expects = "<!-- expect: sum cross L1H1 step 1 = 1 -->\n"
    code, told, err = check(folder, body + expects, capsys)
    assert (code, told) == (2, "")
    assert err.startswith(f"visformer: {words}")
    assert err.count("\n") == 1
