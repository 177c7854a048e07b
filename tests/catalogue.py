"""The catalogue of sentences, made from the code: ``python -m tests.catalogue``.

The templates are read with ``ast``: Babel's own reader misses calls within others.

Writes ``visformer.pot``, every template of the package. The languages keep their
translations, get new templates and lose those that are gone. Each ``.mo`` is compiled
from its ``.po``. A place in the code is a file without a line, which would change with
every line above it. No file contains dates or a version of Babel. ``en_XA`` is a
language for tests, made when they ask for it: English with accents, longer, in
brackets.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from visformer import language

PACKAGE = Path(language.__file__).parent
LANGUAGES = PACKAGE.parent / "resources" / "languages"
SOURCE = LANGUAGES / f"{language.DOMAIN}.pot"
PSEUDO = "en_XA"
ERRORS = ("VisformerError", "InputError", "CheckpointError")  # they translate as ``_``
# function -> how many texts it takes: templates, or a context and a template
TAKEN = {"_": 1, "N_": 1, "p_": 2, "ngettext": 2, **dict.fromkeys(ERRORS, 1)}
COMMENT = "# i18n: "  # on the line before a call: a translator is told this
OPEN, CLOSE = "⟦", "⟧"  # around every translation of the pseudo-language
LONGER = 0.4  # of a template's letters
PLAIN = "abcdefghijklnoprstuwyzABCDEFGHIJKLNOPRSTUWYZ"
ACCENTED = "áƀćđéƒĝĥíĵķĺñóþŕšťúŵýžÁƁĆĐÉƑĜĤÍĴĶĹÑÓÞŔŠŤÚŴÝŽ"
ACCENTS = str.maketrans(PLAIN, ACCENTED)
FIELD = re.compile(r"(\{\{|\}\}|\{[^{}]*\}|%(?:\(\w+\))?[sr])")  # the last: argparse's


class _Sentences(Catalog):
    """A catalogue whose header says only what gettext needs."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        return [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Transfer-Encoding", "8bit"),
            ("Plural-Forms", self.plural_forms),
        ]

    @mime_headers.setter
    def mime_headers(self, headers: list[tuple[str, str]]) -> None:
        """Take nothing over: all of it follows from the language."""


def templates() -> Catalog:
    """Return every template of the package."""
    found = _Sentences(locale="en", header_comment="", fuzzy=False)
    for one in in_the_code():
        found.add(
            one.forms if len(one.forms) > 1 else one.forms[0],
            locations=[(one.place, 0)],
            auto_comments=[one.comment] if one.comment else [],
            context=one.context,
        )
    return found


class Template(NamedTuple):
    """A template as it stands in the code."""

    forms: tuple[str, ...]
    context: str | None
    place: str  # the file, from the root of the repository
    comment: str  # for translators; "" for none


@cache
def in_the_code() -> tuple[Template, ...]:
    """Return every template, in the order of files and lines."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        code = path.read_text("utf-8")
        place, lines = path.relative_to(PACKAGE.parent).as_posix(), code.splitlines()
        for call in ast.walk(ast.parse(code)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                count = TAKEN.get(call.func.id, 0)
                texts = tuple(map(_literal, call.args[:count]))
                if texts and all(texts):
                    context = texts[0] if call.func.id == "p_" else None
                    forms = texts[1:] if context else texts
                    comment = lines[call.lineno - 2].partition(COMMENT)[2]
                    found.append(Template(forms, context, place, comment))
    return tuple(found)


def _literal(node: ast.expr) -> str:
    """Return a text that stands in the code; "" for what is computed."""
    text = node.value if isinstance(node, ast.Constant) else ""
    return text if isinstance(text, str) else ""


def pseudo() -> Catalog:
    """Return every template in the pseudo-language."""
    result = _Sentences(locale="en", header_comment="", fuzzy=False)
    for message in sentences(templates()):
        forms = forms_of(message.id)
        said = tuple(map(disguised, forms))
        text = said if len(forms) > 1 else said[0]
        result.add(message.id, text, context=message.context)
    return result


def disguised(template: str) -> str:
    """Return a template with accents, longer, in brackets; its fields are untouched."""
    parts = FIELD.split(template)
    letters = sum(len(part) for part in parts[::2])
    parts[::2] = [part.translate(ACCENTS) for part in parts[::2]]
    padding = "~" * max(1, round(LONGER * letters))
    longer = " ".join(padding[at : at + 6] for at in range(0, len(padding), 6))
    return f"{OPEN}{''.join(parts)} {longer}{CLOSE}"


def sentences(catalogue: Catalog) -> Iterator[Message]:
    """Yield what is translated: all but the header."""
    return (message for message in catalogue if message.id)


def forms_of(text: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Return one form, or one and many."""
    return (text,) if isinstance(text, str) else tuple(text)


def translations() -> list[Path]:
    """Return the ``.po`` of every language that there is."""
    return sorted(LANGUAGES.glob(f"*/LC_MESSAGES/{language.DOMAIN}.po"))


def read(path: Path) -> Catalog:
    """Read a ``.po`` or the ``.pot``."""
    name = None if path == SOURCE else path.parent.parent.name
    locale = name or "en"
    text = io.BytesIO(path.read_bytes())
    made = _Sentences(locale=locale, header_comment="", fuzzy=False)
    for message in sentences(read_po(text, locale=locale)):
        made.add(
            message.id,
            message.string,
            user_comments=message.user_comments,
            context=message.context,
        )
    return made


def written(catalogue: Catalog) -> bytes:
    """Return a catalogue as a ``.po``."""
    out = io.BytesIO()
    write_po(
        out, catalogue, sort_output=True, ignore_obsolete=True, include_lineno=False
    )
    return out.getvalue()


def compiled(catalogue: Catalog) -> bytes:
    """Return a catalogue as a ``.mo``."""
    out = io.BytesIO()
    write_mo(out, catalogue)
    return out.getvalue()


def main() -> None:
    """Write all files of the catalogue anew."""
    every = templates()
    SOURCE.write_bytes(written(every))
    for path in translations():
        catalogue = read(path)
        catalogue.update(every, no_fuzzy_matching=True)
        path.write_bytes(written(catalogue))
        path.with_suffix(".mo").write_bytes(compiled(catalogue))


if __name__ == "__main__":
    main()
