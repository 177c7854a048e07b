"""The files of the catalogue are those that ``python -m tests.catalogue`` makes."""

from __future__ import annotations

import gettext
import io
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog

from tests import catalogue
from tests.catalogue import (
    CLOSE,
    FIELD,
    OPEN,
    PSEUDO,
    SOURCE,
    compiled,
    disguised,
    forms_of,
    read,
    sentences,
    templates,
    translations,
)
from tests.existing import existing
from tests.pseudo import install
from visformer import language

AGAIN = "run: python -m tests.catalogue"
# context and forms of a template -> the forms of its translation
Texts = dict[tuple[str, tuple[str, ...]], tuple[str, ...]]


def texts(made: Catalog) -> Texts:
    return {
        (m.context or "", forms_of(m.id)): forms_of(m.string or "")
        for m in sentences(made)
    }


def spoken(mo: bytes) -> object:
    """Return what gettext reads of a ``.mo``."""
    return vars(gettext.GNUTranslations(io.BytesIO(mo)))["_catalog"]


def wrong_fields(made: Catalog) -> list[str]:
    """Return the translations that lack a field of their template, or have another."""
    found = []
    for (_context, template), translated in texts(made).items():
        fields = [{*FIELD.findall(form)} for form in template]
        every, always = set.union(*fields), set.intersection(*fields)
        found += [
            text
            for text in filter(None, translated)
            if not always <= {*FIELD.findall(text)} <= every
        ]
    return found


def test_the_templates_are_those_of_the_code() -> None:
    assert texts(read(SOURCE)).keys() == texts(templates()).keys(), AGAIN


@pytest.mark.parametrize("path", translations(), ids=lambda p: p.parent.parent.name)
def test_a_language_has_the_same_templates_and_fields(path: Path) -> None:
    translated = read(path)
    assert texts(translated).keys() == texts(templates()).keys(), AGAIN
    assert wrong_fields(translated) == []
    made = spoken(compiled(translated))
    assert spoken(path.with_suffix(".mo").read_bytes()) == made, AGAIN


def test_the_pseudo_language_is_longer_and_keeps_fields() -> None:
    said = disguised("{n:,} of {total} cells in %(prog)s, {{as it is}}")
    assert said.startswith(OPEN)
    assert said.endswith(CLOSE)
    assert said.format(n=1200, total=5).startswith("⟦1,200 óƒ 5 ćéĺĺš íñ %(prog)s, {áš")
    template = "a sentence of some length"
    assert len(disguised(template)) > 1.4 * len(template)


def test_a_translator_is_told_where_a_word_stands_and_what_it_means() -> None:
    made = templates()
    keys = existing(made.get("Keys", context="keyboard"))
    assert ("visformer/ui/window/keys_page.py", 0) in keys.locations
    size = existing(made.get("Size"))
    assert size.auto_comments == ["the heading of the keys for larger text"]


def test_a_wrong_field_is_found() -> None:
    french = Catalog(locale="fr")
    french.add("{a} of {b}", "{b} : {a}")
    french.add(("{n} row of {a}", "{n} rows of {a}"), ("une de {a}", "{n} de {a}"))
    assert wrong_fields(french) == ["une de {a}"]
    french.add("{a} in {b}", "{a} dans {c}")
    assert wrong_fields(french) == ["une de {a}", "{a} dans {c}"]


def test_a_language_is_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fr" / "LC_MESSAGES" / SOURCE.with_suffix(".po").name
    path.parent.mkdir(parents=True)
    started = Catalog(locale="fr")
    started.add("Masks", "Masques")
    started.add(("{n} head", "{n} heads"), ("{n} tête", "{n} têtes"))
    started.add("no sentence of ours", "aucune")
    path.write_bytes(catalogue.written(started))
    monkeypatch.setattr(catalogue, "LANGUAGES", tmp_path)
    monkeypatch.setattr(catalogue, "SOURCE", tmp_path / SOURCE.name)
    monkeypatch.setattr(language, "resource", lambda name: tmp_path)
    catalogue.main()
    assert texts(read(path)).keys() == texts(templates()).keys()
    before = language._catalogue
    try:
        language.use("fr")
        assert language._("Masks") == "Masques"
        assert language.ngettext("{n} head", "{n} heads", 0) == "0 tête"
        assert language.ngettext("{n} head", "{n} heads", 2) == "2 têtes"
        assert language._("Samples") == "Samples"  # not translated yet
    finally:
        language.use()
        language._catalogue = before


def test_a_language_is_spoken_from_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch)
    before = language._catalogue
    try:
        language.use(PSEUDO)
        assert language._("Masks") == disguised("Masks")
        assert language.ngettext("{n} head", "{n} heads", 3).startswith("⟦3 ")
    finally:
        language.use()
        language._catalogue = before
