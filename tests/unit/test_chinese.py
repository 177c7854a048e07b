"""The Chinese translation: whole, set as Chinese is, in the room that it has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple
from unicodedata import east_asian_width

import pytest

from tests import catalogue
from tests.catalogue import FIELD, LANGUAGES, forms_of, read
from visformer import language
from visformer.cli import main
from visformer.language import DOMAIN, VARIABLE, _, clauses, sentences, tag

PATH = LANGUAGES / "zh" / "LC_MESSAGES" / f"{DOMAIN}.po"
HOW = (
    f"write msgstr in {PATH.relative_to(LANGUAGES.parent.parent)}, then run: "
    "python -m tests.catalogue"
)
HAN = "\u4e00-\u9fff"
AS_IT_IS = re.compile(r"`[^`]*`|“[^”]*”|\[[^]]*\]|\(&\w\)")  # code, tokens, mnemonics
# in translations without a Chinese character: names, functions, keys and formulas
NAMES = {
    *("Visformer", "LayerNorm", "RMSNorm", "Dropout", "dropout", "MatMul", "Module"),
    *("MultiHead", "Concat", "head", "Softmax", "softmax", "logit", "logits", "token"),
    *("torch", "nn", "log", "nat", "top", "rollout", "NaN", "id"),
    *("Enter", "Delete"),
}
WIDER = 1.4  # than English, where the window gives a text one line
SHORT = 40  # letters of such a text
LEAST = 10  # letters that always have room


class Pair(NamedTuple):
    """A template, its forms joined, and its translation."""

    template: str
    translated: str


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return [
        Pair(" | ".join(forms_of(message.id)), forms_of(message.string or "")[0])
        for message in catalogue.sentences(read(PATH))
    ]


@pytest.fixture
def chinese() -> Iterator[None]:
    language.use("zh")
    yield
    language.use()


def test_every_template_is_translated(pairs: list[Pair]) -> None:
    assert [one.template for one in pairs if not one.translated.strip()] == [], HOW


def test_nothing_is_left_in_english(pairs: list[Pair]) -> None:
    left = []
    for one in pairs:
        plain = AS_IT_IS.sub(" ", FIELD.sub(" ", one.translated))
        words = re.findall("[A-Za-z]{2,}", plain)
        said = re.search(f"[{HAN}]", plain) or NAMES.issuperset(words)
        if not said or re.search(r"(\b[a-z]{2,} ){3}[a-z]{2,}\b", plain):
            left.append(one)
    assert not left, left


def test_punctuation_is_that_of_chinese(pairs: list[Pair]) -> None:
    faults = (
        f"[{HAN}][,;:?!()]|[,;?!()][{HAN}]",  # half as wide as they should be
        rf"[{HAN}]\.(\s|$)",
        r"[，。：；？！（）、] | [，。：；？！（）、]",  # no blank beside them
        f"[{HAN}][A-Za-z0-9{{]|[A-Za-z0-9}}][{HAN}]",  # without a blank in between
        f'[{HAN}] [{HAN}]|"',
    )
    found = []
    for one in pairs:
        text = re.sub(r"\(&\w\)|`[^`]*`", "", one.translated)
        found += [(one, text) for fault in faults if re.search(fault, text)]
    assert not found, found


def test_short_texts_have_room(pairs: list[Pair]) -> None:
    wide = []
    for one in pairs:
        if len(one.template) <= SHORT and "|" not in one.template:
            before, now = (
                width(FIELD.sub("0000", text).replace("&", ""))
                for text in (one.template, one.translated)
            )
            if now > max(WIDER * before, LEAST):
                wide.append((one, round(now / before, 2)))
    assert not wide, wide


def width(text: str) -> int:
    """Return how many letters of a font are as wide: a Chinese character is as two."""
    return sum(1 + (east_asian_width(sign) in ("W", "F")) for sign in text)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *[(name, "掩码") for name in ("zh", "zh_CN.UTF-8", "zh-Hans", "zh_SG@pinyin")],
        *[(name, "Masks") for name in ("zh_TW.UTF-8", "zh-Hant", "C.UTF-8", "en_GB")],
    ],
)
def test_names_of_locales_are_understood(chinese: None, name: str, said: str) -> None:
    language.use(name)
    assert _("Masks") == said
    assert tag() == ("zh-CN" if said == "掩码" else "en")


@pytest.mark.skipif(sys.platform == "win32", reason="has no such variables")
@pytest.mark.parametrize(
    ("chosen", "said"),
    [({}, "掩码"), ({VARIABLE: "en"}, "Masks"), ({"LC_ALL": "C"}, "Masks")],
)
def test_the_language_is_the_systems_unless_another_is_asked_for(
    chosen: dict[str, str], said: str
) -> None:
    own = {
        key: os.environ[key] for key in os.environ if key not in (VARIABLE, "LC_ALL")
    }
    environment = {**own, "LANG": "zh_CN.UTF-8", "PYTHONIOENCODING": "utf-8", **chosen}
    code = "from visformer.language import _; print(_('Masks'))"
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert told.stdout.decode().strip() == said


@pytest.mark.parametrize(
    ("given", "said"), [([], "程序的语言"), (["render"], "层，从 1 开始")]
)
def test_any_command_is_given_a_language(
    chinese: None, capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    language.use("en")
    with pytest.raises(SystemExit):
        main(["--language", "zh", *given, "--help"])
    assert said in capsys.readouterr().out


def test_no_blank_is_between_chinese_characters(chinese: None) -> None:
    assert _("Try {keywords}.", keywords="colour") == "请试 colour。"
    assert _("Try {keywords}.", keywords="颜色") == "请试颜色。"
    assert _("Try {keywords}.", keywords="“it”") == "请试“it”。"
    assert _("{kind} · {layer}", kind="交叉", layer="层") == "交叉 · 层"
    assert sentences(["一。", "", "二。"]) == "一。二。"
    assert clauses(["一", "", "二"]) == "一；二"
