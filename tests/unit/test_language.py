"""The catalogue's door: templates, plural forms, another language."""

from __future__ import annotations

import gettext
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog

from tests.catalogue import compiled
from visformer import language
from visformer.commands.shared import complain
from visformer.language import N_, _, listed, ngettext, p_
from visformer.paths import resource

VARIABLES = language.VARIABLE, "LC_ALL", "LC_MESSAGES", "LANG"


class Backwards(gettext.NullTranslations):
    def gettext(self, message: str) -> str:
        return {"{a} before {b}": "{b} after {a}"}.get(message, message)


@pytest.fixture
def english() -> Iterator[None]:
    before = os.environ.get(language.VARIABLE, "")
    yield
    language.use(before)


def test_fields_stand_where_the_translation_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _("{a} before {b}", a=1, b=2) == "1 before 2"
    monkeypatch.setattr(language, "_catalogue", Backwards())
    assert _("{a} before {b}", a=1, b=2) == "2 after 1"


def test_braces_are_literal_where_there_are_no_fields() -> None:
    assert _("a set: {1, 2}") == "a set: {1, 2}"


def test_names_that_read_leftwards_leave_the_words_beside_them_in_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = _("rests on “{token}”: {weight}", token="قطة", weight=0.4)
    assert said == "rests on “\u2068قطة\u2069”: 0.4"
    assert _("{token}", token="猫") == "猫"
    complain(said)  # a terminal has no such marks
    assert capsys.readouterr().err == "visformer: rests on “قطة”: 0.4\n"


def test_an_amount_chooses_the_form() -> None:
    forms = "{n:,} cell in {place}", "{n:,} cells in {place}"
    assert ngettext(*forms, 1, place="row 3") == "1 cell in row 3"
    assert ngettext(*forms, 1200, place="row 3") == "1,200 cells in row 3"


def test_a_context_tells_two_meanings_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    chinese = Catalog(locale="zh")
    chinese.add("Keys", "键")
    chinese.add("Keys", "按键", context="keyboard")
    made = gettext.GNUTranslations(io.BytesIO(compiled(chinese)))
    monkeypatch.setattr(language, "_catalogue", made)
    assert (_("Keys"), p_("keyboard", "Keys")) == ("键", "按键")
    assert p_("a menu", "Keys") == "Keys"  # not another meaning's word


def test_parts_are_listed_as_the_language_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(["relu", "gelu"]) == "relu, gelu"
    french = Catalog(locale="fr")
    french.add(", ", " ; ", context="between the parts of a list")
    made = gettext.GNUTranslations(io.BytesIO(compiled(french)))
    monkeypatch.setattr(language, "_catalogue", made)
    assert listed(iter(["relu", "gelu"])) == "relu ; gelu"


def test_a_marked_sentence_is_itself() -> None:
    assert N_("{a} before {b}") == "{a} before {b}"


@pytest.mark.usefixtures("english")
@pytest.mark.parametrize("variable", [language.VARIABLE, "LC_ALL", "LANG"])
def test_a_strangers_folder_is_no_language(tmp_path: Path, variable: str) -> None:
    stranger = Catalog(locale="fr")
    stranger.add("Keys", "Touches")
    catalogue = tmp_path / "LC_MESSAGES" / "visformer.mo"
    catalogue.parent.mkdir()
    catalogue.write_bytes(compiled(stranger))
    ours = os.path.relpath(tmp_path, resource("languages"))
    said = "from visformer.language import _, tag; print(_('Keys'), tag())"
    for name in (str(tmp_path), ours, f"zh/../{ours}"):
        clean = {k: v for k, v in os.environ.items() if k not in VARIABLES}
        environment = {**clean, variable: name}
        command = [sys.executable, "-c", said]
        assert subprocess.check_output(command, env=environment) == b"Keys en\n"
    language.use(str(tmp_path))
    assert (_("Keys"), language.tag()) == ("Keys", "en")


@pytest.mark.usefixtures("english")
def test_a_language_without_catalogue_is_english_and_is_inherited() -> None:
    language.use("xx")
    assert _("{a} before {b}", a=1, b=2) == "1 before 2"
    assert os.environ[language.VARIABLE] == "xx"


@pytest.mark.skipif(sys.platform == "win32", reason="asks the system itself")
@pytest.mark.parametrize(
    ("variables", "tag"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh-CN"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_GB.UTF-8"}, "en"),
        ({"LANG": "en_GB.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "zh-CN"),
        ({"LC_ALL": "en_GB.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "zh_CN", language.VARIABLE: "en"}, "en"),
    ],
)
def test_a_program_starts_in_the_language_of_its_user(
    variables: dict[str, str], tag: str
) -> None:
    ours = {"LANG", "LC_ALL", "LC_MESSAGES", language.VARIABLE}
    others = {name: text for name, text in os.environ.items() if name not in ours}
    code = "from visformer import language; print(language.tag())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**others, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{tag}\n"
