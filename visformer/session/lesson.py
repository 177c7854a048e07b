"""A lesson: one Markdown file, ``NAME.lesson.md``, whose stops set the window.

resources/lesson-format.md describes it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from visformer import paths
from visformer.errors import InputError, VisformerError
from visformer.files import exists, read_regular, real_path, short
from visformer.session.expectation import Expectation
from visformer.session.looked import PAGES, Looked
from visformer.session.recipe import Recipe, WantedRun
from visformer.text import visible
from visformer.values.intervention import parse
from visformer.values.step import Strategy, read_strategy

VERSION = 1
MOST_BYTES = 1 << 18
MOST_STOPS, MOST_EXPECTED = 200, 50  # of a lesson, of a stop
MOST_TEXT, MOST_COMMENT, MOST_TITLE = 5000, 2000, 200  # characters
DEEPEST = 12  # blanks before an item of a list
TEXTS = (
    *("view", "page", "stage", "kind", "form", "summary", "hide", "order", "text"),
    *("checkpoint", "trace", "reference", "strategy", "change"),
)
NUMBERS, FLAGS = ("layer", "head", "steps"), ("words", "large")
KNOWN = (*TEXTS, *NUMBERS, *FLAGS)
OTHER_NAMES = {"step": "steps", "figure": "large"}
STAY = ("text", "checkpoint", "trace", "kind", *NUMBERS)  # in spite of a new view
HEAD = ("visformer-lesson", "title", "language", "checkpoint", "trace", "sentence")
COMMENTS = ("view", "change", "expect", "ask", "do", "notes")
LOOKED = tuple(one.name for one in fields(Looked))
Said = dict[str, str]  # by name, as it is written; flags are "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A run, and what of it is looked at."""

    path: str  # of a checkpoint, or of a trace
    recorded: bool  # it is a trace
    run: WantedRun
    looked: Looked
    large: bool = False

    @property
    def recipe(self) -> Recipe:
        """It as a session keeps what was worked on."""
        return Recipe(
            wanted=self.run, path=self.path, digest=None, recorded=self.recorded
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonTask:
    """What the user is to do: words, and the setting or the step that is reached."""

    words: str
    said: Said = field(default_factory=dict)  # what of the setting is another one
    setting: Setting | None = None  # after it; None: ``steps`` away
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonStop:
    """One stop; its texts are Markdown."""

    title: str
    line: int
    setting: Setting
    text: str = ""
    expects: tuple[Expectation, ...] = ()
    ask: str = ""
    after: str = ""  # the text after the question
    do: LessonTask | None = None
    notes: str = ""

    @property
    def answer(self) -> Expectation | None:
        """The darkest key of the step that is shown, where a question is about it."""
        if not self.ask:
            return None
        mine = (one for one in self.expects if one.text.startswith("darkest"))
        return next(
            (e for e in mine if e.step in (None, self.setting.looked.steps)), None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A lesson that was read."""

    path: str
    written: str  # as its file has it
    title: str
    language: str
    stops: tuple[LessonStop, ...]
    plans: Mapping[int, tuple[int, ...]]  # minutes -> stops, from 0
    newer: bool  # of a version that this program does not know all of


class LessonPiece(NamedTuple):
    """A part of the text, and the line on which it begins."""

    line: int
    sort: str  # "title", "prose" or the name of a comment
    text: str


def read_lesson(path: Path) -> Lesson:
    """Read a lesson; InputError names the file and the line of what is wrong."""
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "{file} is not UTF-8: save it as UTF-8.", file=short(path.name)
        ) from error
    except VisformerError as error:
        raise InputError(str(error)) from error
    return parsed(text, path)


def parsed(text: str, path: Path) -> Lesson:
    """Read the text of a lesson that lies at ``path``."""
    return _LessonReader(path).read(text)


def planned(text: str, stops: int) -> list[int]:
    """Return the stops, from 0, that “1-6, 8” names; none where it cannot be read."""
    walked: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,3})(?:-(\d{1,3}))?\s*", part)
        first, last = (int(end or ends[1]) for end in ends.groups()) if ends else (0, 0)
        if not 1 <= first <= last <= stops:
            return []
        walked += range(first - 1, last)
    return walked


class _LessonReader:
    """Reads one file; ``_line`` is where it is, for what is wrong there."""

    def __init__(self, path: Path) -> None:
        self._path, self._line, self._newer = path, 1, False
        self._now: Said = {"view": "attention"}

    def read(self, text: str) -> Lesson:
        try:
            return replace(self._lesson(text.splitlines()), written=text)
        except VisformerError as error:
            raise InputError(
                "{file}, line {line}: {fault}",
                file=short(self._path.name),
                line=self._line,
                fault=str(error),
            ) from error

    def _lesson(self, lines: list[str]) -> Lesson:
        for self._line, line in enumerate(lines, 1):
            if visible(line.replace("\t", " ")) != line.replace("\t", " "):
                raise InputError("A character here is invisible: remove it.")
        head, first = self._head(lines)
        pieces = [*self._pieces(lines, first)]
        stops: list[LessonStop] = []
        for at, piece in enumerate(pieces):
            self._line = piece.line
            if piece.sort == "title":
                ends = (n for n, p in enumerate(pieces) if p.sort == "title" and n > at)
                stops.append(self._stop(piece, pieces[at + 1 : next(ends, None)]))
            elif not stops and not re.fullmatch(r"(# .*)?", piece.text):
                raise InputError("The first stop begins with “## ” and its title.")
            if len(stops) > MOST_STOPS:
                raise InputError("A lesson has at most {n} stops.", n=MOST_STOPS)
        if not stops:
            raise InputError("There is no stop: begin one with “## ” and its title.")
        return Lesson(
            path=str(self._path),
            written="",
            title=head["title"],
            language=head.get("language", "en"),
            stops=tuple(stops),
            plans=self._plans(head, len(stops)),
            newer=self._newer,
        )

    # ---- head --------------------------------------------------------------------

    def _head(self, lines: list[str]) -> tuple[Said, int]:
        """Return the head, and the index of the line after it."""
        found: Said = {}
        self._line = 1
        if not lines or lines[0].strip() != "---":
            raise InputError("A lesson begins with “---” and “visformer-lesson: 1”.")
        for at, line in enumerate(lines[1:], 1):
            self._line = at + 1
            if line.strip() == "---":
                break
            name, colon, value = (part.strip() for part in line.partition(":"))
            if line.strip() and not colon:
                raise InputError("This line must be “NAME: VALUE”, or “---”.")
            if name in found:
                raise InputError("“{name}” is there twice.", name=short(name))
            found |= {name: _unquoted(value)} if colon else {}
        else:
            raise InputError("The head has no end: close it with “---”.")
        self._take(found)
        return found, at + 1

    def _take(self, head: Said) -> None:
        """Check the head, and begin with what it says."""
        version = head.get("visformer-lesson", "")
        if not re.fullmatch(r"[1-9]\d{0,5}", version):
            raise InputError("A lesson begins with “---” and “visformer-lesson: 1”.")
        self._newer = int(version) > VERSION
        for name in head:
            if not (name in HEAD or name.startswith("plan-") or self._newer):
                raise _unknown(name, (*HEAD, "plan-45"))
        if not 0 < len(head.get("title", "")) <= MOST_TITLE:
            raise InputError(
                "A lesson needs a title of 1 to {n} characters.", n=MOST_TITLE
            )
        names = {"sentence": "text", "checkpoint": "checkpoint", "trace": "trace"}
        self._now |= {to: head[name] for name, to in names.items() if name in head}
        self._setting(self._now)

    def _plans(self, head: Said, stops: int) -> dict[int, tuple[int, ...]]:
        """Read “plan-45: 1-6, 8”."""
        plans = {}
        for self._line, (name, text) in enumerate(head.items(), 2):
            if not name.startswith("plan-"):
                continue
            if not (walked := planned(text, stops)):
                raise InputError(
                    "“{plan}” must name stops from 1 to {n}, such as “1-3, 5”.",
                    plan=short(name),
                    n=stops,
                )
            if not re.fullmatch(r"plan-[1-9]\d{0,2}", name):
                raise _unknown(name, ("plan-45",))
            plans[int(name.removeprefix("plan-"))] = tuple(walked)
        return plans

    # ---- pieces ------------------------------------------------------------------

    def _pieces(self, lines: list[str], first: int) -> Iterator[LessonPiece]:
        """Cut the text into titles, comments and lines of prose."""
        fenced, comment = False, ""
        for at, line in enumerate(lines[first:], first + 1):
            self._line = at - comment.count("\n")
            if fenced or not (comment or line.lstrip().startswith("<!--")):
                fence = line.lstrip().startswith("```")
                yield (
                    LessonPiece(at, "prose", line)
                    if fenced or fence
                    else _prose(at, line)
                )
                fenced ^= fence
                continue
            comment += line.strip()
            inside, end, left = comment.removeprefix("<!--").partition("-->")
            if left:
                raise InputError("A comment stands on lines of its own.")
            if end:
                yield from self._comment(self._line, inside)
            comment = "" if end else f"{comment}\n"
        if comment or fenced:
            raise InputError("A comment or a block of code here has no end.")

    def _comment(self, line: int, text: str) -> Iterator[LessonPiece]:
        name, _colon, value = (part.strip() for part in text.partition(":"))
        if name not in COMMENTS:
            if self._newer:
                return
            raise _unknown(name, COMMENTS)
        if not 0 < len(value) <= MOST_COMMENT:
            raise InputError(
                "“{name}” needs 1 to {n:,} characters.", name=name, n=MOST_COMMENT
            )
        yield LessonPiece(line, name, value)

    # ---- stops -------------------------------------------------------------------

    def _stop(self, title: LessonPiece, pieces: list[LessonPiece]) -> LessonStop:
        """Make a stop of its pieces; what it says of the state is what follows."""
        said = {name: [p for p in pieces if p.sort == name] for name in COMMENTS}
        for name in ("view", "change", "ask", "do"):
            if len(said[name]) > 1:
                self._line = said[name][1].line
                raise InputError("A stop has one “{name}” at most.", name=name)
        if len(said["expect"]) > MOST_EXPECTED:
            raise InputError("A stop expects at most {n} things.", n=MOST_EXPECTED)
        setting = self._turned(said["view"] + said["change"])
        asked = pieces.index(said["ask"][0]) if said["ask"] else len(pieces)
        before, after = (
            "\n".join(p.text for p in part if p.sort == "prose").strip()
            for part in (pieces[:asked], pieces[asked:])
        )
        if len(before) + len(after) > MOST_TEXT:
            self._line = title.line
            raise InputError("A stop has at most {n:,} characters.", n=MOST_TEXT)
        return LessonStop(
            title=title.text,
            line=title.line,
            setting=setting,
            text=before,
            after=after,
            expects=tuple(self._expects(said["expect"])),
            ask=" ".join(p.text for p in said["ask"]),
            do=next(self._tasks(said["do"]), None),
            notes="\n\n".join(p.text for p in said["notes"]),
        )

    def _turned(self, pieces: list[LessonPiece]) -> Setting:
        """Turn to what a stop says, and return it."""
        setting = self._setting(self._now)
        for piece in pieces:
            self._line = piece.line
            try:
                if piece.sort == "view":
                    now = _after(self._now, self._items(piece.text))
                else:
                    now = {**self._now, "change": piece.text}
                setting, self._now = self._setting(now), now
            except VisformerError:
                if not self._newer:
                    raise
        return setting

    def _expects(self, pieces: list[LessonPiece]) -> Iterator[Expectation]:
        for piece in pieces:
            self._line = piece.line
            try:
                yield Expectation.read(piece.text, piece.line)
            except InputError:
                if not self._newer:
                    raise

    def _tasks(self, pieces: list[LessonPiece]) -> Iterator[LessonTask]:
        for piece in pieces:
            self._line = piece.line
            parts = piece.text.partition("->")
            words, arrow, reached = (part.strip() for part in parts)
            pressed = re.fullmatch(
                r"[Pp]ress (Right|Left)(?: once| (\d{1,3}) times)?", reached or words
            )
            if pressed:
                count = int(pressed[2] or 1)
                steps = count if pressed[1] == "Right" else -count
                yield LessonTask(words=words[:1].upper() + words[1:], steps=steps)
            elif arrow and words:
                said = self._items(reached)
                now = dict(self._now)
                if "view" in said:
                    now.pop("page", None)  # of another view
                setting = self._setting(now | said)
                yield LessonTask(words=words, said=said, setting=setting)
            elif not self._newer:
                raise InputError(
                    "A task is “press Right once”, or words and what is reached: “Take "
                    "the mask away -> change causal off”."
                )

    def _items(self, text: str) -> Said:
        """Read “attention; kind cross; step 8; large”."""
        said: Said = {}
        for item in re.findall(r'(?:"[^"]*"|[^;"]|")+', text):
            name, _blank, value = item.strip().partition(" ")
            name, value = OTHER_NAMES.get(name, name), _unquoted(value.strip())
            if not value and (name in PAGES or not (said or name in KNOWN)):
                name, value = "view", name
            if name == "head" and (
                both := re.fullmatch(r"L(\d{1,4})H(\d{1,4})", value)
            ):
                said["layer"], value = both[1], both[2]
            if name not in KNOWN:
                if self._newer:
                    continue
                raise _unknown(name, KNOWN)
            if name in said and name != "change":
                raise InputError("“{name}” is there twice.", name=name)
            if name in FLAGS and not value:
                value = "on"
            elif (
                not value
                or name in FLAGS
                or (name in NUMBERS and not re.fullmatch(r"\d{1,6}", value))
            ):
                raise InputError(
                    "“{name}” cannot be “{value}”.", name=name, value=short(value)
                )
            both_changes = name == "change" and name in said
            said[name] = f"{said[name]}; {value}" if both_changes else value
        return said

    def _setting(self, said: Said) -> Setting:
        """Return what is said, checked; InputError for what cannot be."""
        given: dict[str, Any] = {n: said[n] for n in LOOKED if n in said}
        given |= {name: int(said[name]) for name in NUMBERS if name in said}
        looked = Looked(**given | {"words": "words" in said})
        looked.check()
        run, trace = self._run(said), said.get("trace", "")
        name = trace or said.get("checkpoint", "")
        path = self._inside(name) if name else paths.checkpoint()
        return Setting(
            path=str(path),
            recorded=bool(trace),
            run=run,
            looked=looked,
            large="large" in said,
        )

    def _run(self, said: Said) -> WantedRun:
        if "trace" in said:
            others = {"text", "checkpoint", "reference", "strategy", "change"}
            if refused := sorted(others & said.keys()):
                raise InputError(
                    "A recorded run is shown as it is: leave “{name}” out, or name a "
                    "checkpoint.",
                    name=refused[0],
                )
            return WantedRun()
        if not said.get("text", "").strip():
            raise InputError("The model needs a sentence: “sentence: …” in the head.")
        written = said.get("change", "none")
        changes = parse([] if written == "none" else [written])
        if any(hasattr(change, "run") for change in changes):
            raise InputError("A change in a lesson takes nothing from another run.")
        way = read_strategy(said["strategy"]) if "strategy" in said else Strategy()
        return WantedRun(
            sentence=said["text"],
            reference=said.get("reference", ""),
            strategy=way,
            change=changes.to_json() if changes else None,
        )

    def _inside(self, name: str) -> Path:
        """Return a path beside the lesson, or the bundled checkpoint of this name."""
        folder = self._path.parent.resolve()
        found = paths.model(name, folder)
        if found != folder / name:
            return found
        found = real_path(found)
        if "\\" in name or not found.is_relative_to(folder) or found == folder:
            raise InputError(
                "“{name}” is outside the lesson's folder: copy it there.",
                name=short(name),
            )
        if not exists(found):
            raise InputError(
                "“{name}” is neither a bundled model nor beside the lesson.",
                name=short(name),
            )
        return found


def _after(now: Said, said: Said) -> Said:
    """Return what is said after a view: of the state before it, what stays."""
    gone: set[str] = set()
    if {"kind", "layer", "head"} & said.keys():
        gone |= {"layer", "head"} - said.keys()
    if {"checkpoint", "trace"} & said.keys():
        gone |= {"checkpoint", "trace", "kind", *NUMBERS}
    if {"checkpoint", "text"} & said.keys():
        gone |= {"trace", "steps"}
    if "trace" in said:
        gone |= {"text"}
    stays = {n: value for n, value in now.items() if n in STAY and n not in gone}
    return {"view": "attention"} | stays | said


def _prose(line: int, text: str) -> LessonPiece:
    """Return a title or a line of prose; InputError for what is not shown."""
    title = re.fullmatch(r"## +(.+)", text)
    if title and len(title[1]) <= MOST_TITLE:
        return LessonPiece(line, "title", title[1].strip())
    bare = re.sub(r"(`+)[^`]+\1", "", text)  # without what is written as code
    refused = re.search(r"<[A-Za-z/!?]|\]\s*[(\[:]|^\s*[>|]", bare)
    if "`" in bare or "\\`" in text:  # else Markdown may see code elsewhere
        raise InputError("Code stands between two “`” of one line.")
    if len(text) - len(text.lstrip()) > DEEPEST:
        raise InputError("This line begins with at most {n} blanks.", n=DEEPEST)
    if refused:
        raise InputError(
            "A lesson has no HTML, images, links, quotes or tables: write “{text}” as "
            "code, or leave it out.",
            text=short(bare.strip(), 24),
        )
    return LessonPiece(line, "prose", text)


def _unquoted(text: str) -> str:
    whole = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1] if whole else text


def _unknown(name: str, known: tuple[str, ...]) -> InputError:
    return InputError(
        "“{name}” is not known here: use {known}.",
        name=short(name, 24),
        known=", ".join(known),
    )
