"""A lesson on paper: a plan for the lecturer, and a hand-out with a picture a stop."""

import base64
import html
import re
from collections.abc import Sequence

from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QSize, Qt, QUrl
from PySide6.QtGui import (
    QFont,
    QImage,
    QPageLayout,
    QPageSize,
    QPdfWriter,
    QTextDocument,
)

from visformer.language import _, p_
from visformer.session.lesson import Lesson, LessonStop
from visformer.ui.bars.lesson_panel import markup
from visformer.ui.widgets.export import raster

MARGIN = 18.0  # millimetres around a page of A4
DOTS = 96  # per inch
WIDE, HIGH = 640, 340  # of a picture at most: two stops find room on a page
BODY = re.compile(r"<body[^>]*>(.*)</body>", re.DOTALL)
STYLE = """body { font-family: sans-serif; max-width: 45em; margin: auto; }
table { border-collapse: collapse; } td, th { text-align: left; vertical-align: top;
padding: 3px 6px; border: 1px solid #999; } img { max-width: 100%; }"""


def lesson_page(lesson: Lesson, pictures: Sequence[QImage]) -> str:
    """Return it as one web page; the pictures, one of each stop, are within."""
    sources = [
        f"data:image/png;base64,{base64.b64encode(raster(picture)).decode()}"
        for picture in pictures
    ]
    head = f'<meta charset="utf-8"><title>{html.escape(lesson.title)}</title>'
    tag = html.escape(lesson.language)
    return (
        f'<!doctype html><html lang="{tag}"><head>{head}<style>{STYLE}</style></head>'
        f"<body>{_body(lesson, pictures, sources)}</body></html>\n"
    )


def lesson_pdf(lesson: Lesson, pictures: Sequence[QImage]) -> bytes:
    """Return it as a PDF file of A4 pages."""
    document, buffer = QTextDocument(), QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setTitle(lesson.title)
    writer.setResolution(DOTS)
    writer.setPageSize(QPageSize(QPageSize.PageSizeId.A4))
    margins = QMarginsF(MARGIN, MARGIN, MARGIN, MARGIN)
    writer.setPageMargins(margins, QPageLayout.Unit.Millimeter)
    sources = [f"stop-{number}" for number, _picture in enumerate(pictures, 1)]
    for source, picture in zip(sources, pictures, strict=True):
        kind = QTextDocument.ResourceType.ImageResource
        document.addResource(kind, QUrl(source), picture)
    document.setDefaultStyleSheet("td, th { padding: 3px; }")
    document.setHtml(_body(lesson, pictures, sources))
    document.setPageSize(writer.pageLayout().paintRectPixels(DOTS).size().toSizeF())
    document.print_(writer)
    buffer.close()
    return bytes(buffer.data().data())


def _body(lesson: Lesson, pictures: Sequence[QImage], sources: Sequence[str]) -> str:
    """Return the plan, the stops and the answers."""
    numbers = range(1, len(sources) + 1)
    shown = map(_stop, numbers, lesson.stops, sources, (p.size() for p in pictures))
    parts = [f"<h1>{html.escape(lesson.title)}</h1>", _plan(lesson)]
    parts += shown
    after = [(at, stop.after) for at, stop in enumerate(lesson.stops, 1) if stop.after]
    if after:
        title = html.escape(_("Answers"))
        parts += [f'<h2 style="page-break-before: always">{title}</h2>']
        parts += [f"<p><b>{at}.</b></p>{_marked(text)}" for at, text in after]
    return "".join(parts)


def _plan(lesson: Lesson) -> str:
    """Return a table of the stops: in which plans, what is asked, and the notes."""
    minutes = sorted(lesson.plans)
    titles = ["", p_("lesson", "stop"), *(_("{n} min", n=n) for n in minutes)]
    titles += [_("question or task"), _("notes")]
    rows = [
        [
            str(at + 1),
            stop.title,
            *("•" if at in lesson.plans[n] else "" for n in minutes),
            " ".join(filter(None, (stop.ask, stop.do.words if stop.do else ""))),
            stop.notes,
        ]
        for at, stop in enumerate(lesson.stops)
    ]
    lines = [
        "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in row)
        for cell, row in (("th", titles), *(("td", row) for row in rows))
    ]
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table border="1" cellspacing="0">{table}</table>'


def _stop(number: int, stop: LessonStop, source: str, size: QSize) -> str:
    """Return a stop; every second one is at the top of a page."""
    fit = size.scaled(WIDE, HIGH, Qt.AspectRatioMode.KeepAspectRatio)
    sized = f'width="{fit.width()}" height="{fit.height()}"'
    picture = f'<p><img src="{source}" {sized}></p>'
    asked = f"<p><b>{html.escape(stop.ask)}</b></p><p>&nbsp;</p>" if stop.ask else ""
    task = f"<p>☐ {html.escape(stop.do.words)}</p>" if stop.do else ""
    title = html.escape(f"{number}. {stop.title}")
    first = ' style="page-break-before: always"' if number % 2 else ""
    return f"<h2{first}>{title}</h2>{picture}{_marked(stop.text)}{asked}{task}"


def _marked(text: str) -> str:
    found = BODY.search(markup(text, QFont()))
    return found[1] if found else ""
