"""Every sentence about a run, heard together with the run that it speaks of.

``said(run)`` lets the doors of pictures/ speak about one run at several steps, layers,
heads and cells. Claims are in ``claims_*.py``: for a template a predicate over the
arrays of the Trace.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.existing import existing
from tests.unit.pictures.swept_runs import RUNS, SweptRun
from visformer import language
from visformer.analysis.run_comparison import compare_runs
from visformer.engine.messages import Opened
from visformer.pictures import (
    beam_tree,
    cache,
    candidates,
    comparison,
    mask_lab,
    masks,
    output,
    position_lab,
    positions,
)
from visformer.pictures.attention import maps, ranking
from visformer.pictures.attention.arcs import arc_words
from visformer.pictures.attention.cell_words import cell_words
from visformer.pictures.attention.finder import find_words, head_finder
from visformer.pictures.attention.gist import gist_of
from visformer.pictures.attention.mosaic import mosaic
from visformer.pictures.attention.reading import attention_map, reading
from visformer.pictures.attention.strips import source_strip, target_strip
from visformer.pictures.attention.tinted import tinted
from visformer.pictures.computation import stages
from visformer.pictures.computation.stages import picture, stage_names, stage_of
from visformer.pictures.computation.subject import subject
from visformer.pictures.diagram.architecture import architecture
from visformer.pictures.diagram.blocks import title as block_title
from visformer.pictures.selection import (
    SCALES,
    SUMMARIES,
    AttentionCell,
    Look,
    Selection,
)
from visformer.pictures.words import (
    about,
    absent,
    choices,
    leak_words,
    modified_run,
    run_notices,
)
from visformer.pictures.words.explanations import EXPLAINED, explanation
from visformer.pictures.words.scene import Scene
from visformer.pictures.words.terms import TERMS, term_words
from visformer.text import visible
from visformer.values.measured import ATTRIBUTIONS
from visformer.values.not_finite import not_finite_words
from visformer.values.trace import Trace


def reads_as(token: str) -> str:
    """Return a token of the swept runs as a sentence has it."""
    return visible(token.removeprefix("▁") or "␣")


def listed_as(token: str) -> str:
    """Return a token of a list without what tells it from one as alike."""
    return token[1:] if token[0] in "‑␣" and len(token) > 1 else token


@dataclass(frozen=True, eq=False)
class Said:
    """One sentence, or a part of one, and what it speaks of."""

    template: str
    fields: dict[str, Any]
    text: str
    door: str  # who said it
    run: SweptRun
    trace: Trace  # up to the current step
    scene: Scene

    @property
    def read(self) -> Trace:
        """What sentences about a row speak of: the pass, if rows read what is cut."""
        at, cut, whole = self.scene.selection, self.trace, self.trace.whole
        if self.door not in OF_ROWS or at.kind != "decoder" or whole is cut:
            return cut
        cut_off = whole.attention(at.kind, at.layer)[:, : len(cut), len(cut) :]
        return whole if (np.nan_to_num(cut_off) > 0).any() else cut

    def __str__(self) -> str:
        at, cell = self.scene.selection, self.scene.selection.cell
        where = f"{self.run.name}, step {len(self.trace)}, {at.kind} {at.layer}"
        return f"[{where} {at.head} {cell} {self.door}] {self.text}"


Predicate = Callable[[Said], bool]
Claims = dict[str, Predicate]  # by template: whether it is true of what it speaks of


class _Heard(str):
    """A template that tells what it was filled with."""

    __slots__ = ("tell",)
    tell: Callable[[str, dict[str, Any], str], None]

    def format(self, *args: object, **fields: object) -> str:
        text = str.format(self, *args, **fields)
        self.tell(str(self), fields, text)
        return text


class _Listening:
    """A catalogue of English that tells which templates are taken from it."""

    def __init__(self, tell: Callable[[str, dict[str, Any], str], None]) -> None:
        self._tell = tell

    def gettext(self, message: str) -> str:
        if "{" not in message:
            self._tell(message, {}, message)
            return message
        heard = _Heard(message)
        heard.tell = self._tell
        return heard

    def pgettext(self, context: str, message: str) -> str:
        return self.gettext(message)

    def ngettext(self, one: str, many: str, n: int) -> str:
        return self.gettext(one if n == 1 else many)


@contextmanager
def listening(tell: Callable[[str, dict[str, Any], str], None]) -> Iterator[None]:
    """Let every template that is used meanwhile be told, with its fields."""
    before = language._catalogue
    language._catalogue = _Listening(tell)  # type: ignore[assignment]
    try:
        yield
    finally:
        language._catalogue = before


def said(run: SweptRun, wanted: Container[str]) -> Iterator[Said]:
    """Yield what the doors say of a run with the ``wanted`` templates, each once."""
    heard: dict[tuple[str, str], dict[str, Any]] = {}

    def hear(template: str, fields: dict[str, Any], text: str) -> None:
        if template in wanted:
            heard.setdefault((template, text), fields)

    spoken: set[tuple[Any, ...]] = set()
    with listening(hear):
        for scene in scenes(run):
            trace, at = existing(scene.trace), scene.selection
            for door, speak in DOORS.items():
                # what does not look at all of the selection speaks once
                looks = {"run": (), "layer": (at.kind, at.layer)}
                seen: tuple[Any, ...] = looks.get(OF.get(door, ""), (at,))
                if door in ("attention", "explanations"):
                    seen = *seen, scene.look
                subject = door, id(trace), seen
                if subject in spoken or not (run.fine or is_spoken(run, trace, door)):
                    continue
                spoken.add(subject)
                speak(run, trace, scene)
                for (template, text), fields in [*heard.items()]:
                    yield Said(template, fields, text, door, run, trace, scene)
                heard.clear()


def is_spoken(run: SweptRun, trace: Trace, door: str) -> bool:
    """Whether a door speaks of a step of a run: those that take long, of a few."""
    if door not in FEW.get(run.name, DOORS):
        return False
    if len(run.trace) > 100:
        return OF.get(door) == "run"
    cut = run.trace.intervention.reaches_back and len(trace) > 1
    return cut or len(trace) in (0, len(run.trace)) or door in QUICK


def scenes(run: SweptRun) -> Iterator[Scene]:
    """Yield what may be on screen: steps, kinds, layers, heads and cells."""
    whole, length, fine = run.trace, len(run.trace), run.fine
    looks = LOOKS if run.measured is None else MEASURED
    steps = range(length + 1) if fine else {0, 1, (length + 1) // 2, length}
    for step in sorted(steps):
        trace = whole.until(step)
        lens = run.lens(trace)
        shown = step == length or run.measured is not None
        cells = None if fine else 2 * shown
        for at, selection in enumerate(_selections(trace, cells)):
            # one head's own weights, and those of a look, of each in turn
            selection = replace(selection, attributions=run.measured)
            turns = looks[at % len(looks)]
            for look in (turns,) if fine else dict.fromkeys((Look(), turns)):
                if look.raw or fine or shown:
                    yield Scene(
                        trace=trace,
                        model=trace.model,
                        selection=selection,
                        look=look,
                        stage=stage_names()[at % len(stage_names())],
                        lens=lens,
                        limit=run.limit,
                        strategy=run.strategy,
                        smoothing=run.smoothing,
                        search=run.search,
                    )


def _selections(trace: Trace, few: int | None) -> Iterator[Selection]:
    """Yield kinds, layers and heads, with ``few`` cells of each.

    None: every other cell of every other head: the others at later steps, in turn.
    """
    for kind in trace.kinds:
        queries, keys = (len(tokens) for tokens in trace.tokens(kind))
        for layer in range(trace.layers(kind)):
            heads = range(trace.heads(kind))
            first = heads[layer % 2 :][:1] or heads[:1]
            turns = heads[(layer + len(trace)) % 2 :: 2] or heads
            for head in turns if few is None else first:
                selection = Selection(kind=kind, layer=layer, head=head)
                yield selection
                cells = [(q, k) for q in range(queries) for k in range(keys)]
                if few is None:
                    cells = cells[(len(trace) // 2) % 2 :: 2] or cells
                else:
                    apart = max(3, len(cells) // max(1, few) - 1)
                    cells = cells[::-1][layer::apart][:few]
                for q, k in cells:
                    yield replace(selection, cell=AttentionCell(kind, q, k))


LOOKS = (
    *(Look(), Look(form="arcs"), Look(form="text"), Look(words=True)),
    *(Look(summary=one) for one in SUMMARIES if one not in ATTRIBUTIONS),
    Look(hide=frozenset({"special", "pad"}), renormalise=True),
    Look(hide=frozenset({"special"}), form="text", by="key"),
)
MEASURED = tuple(Look(summary=one) for one in ATTRIBUTIONS)
ORDERS: tuple[Any, ...] = ("entropy", "maximum", "alignment", "cell")
OUTSIDE = ("source_tokens", "target_tokens", "prediction")  # blocks of the diagram
BLOCKS = (
    *("source_positions", "source_embedding", "decoder.norm", "output", "softmax"),
    "target_embedding",
)


def some(
    names: Sequence[Any], run: SweptRun, scene: Scene, part: int = 3
) -> Sequence[Any]:
    """Return a third of what a scene may show, and all of it of a few runs."""
    turn = stage_names().index(scene.stage) + len(scene.trace or ())
    return names if run.fine or run.name in FEW else names[turn % part :: part]


def _explain(run: SweptRun, trace: Trace, scene: Scene) -> None:
    for place in some([*EXPLAINED], run, scene):
        explanation(place, scene)
    for stage in some(stage_names(), run, scene) if scene.look.raw else ():
        explanation(("computation",), replace(scene, stage=stage))


def _terms(run: SweptRun, trace: Trace, scene: Scene) -> None:
    looks = [*LOOKS, *MEASURED, *(Look(order=order) for order in ORDERS)]
    for term in TERMS:
        for look in looks if term in ("summary", "order") else [scene.look]:
            term_words(term, replace(scene, look=look))


def _attention(run: SweptRun, trace: Trace, scene: Scene) -> None:
    selection, look, kind = scene.selection, scene.look, scene.selection.kind
    shown = existing(reading(trace, selection, look, kind))
    matrix = attention_map(trace, selection, look, kind)
    cell_words(trace, selection, look)
    gist_of(shown)
    if selection.cell is not None:
        find_words(trace, selection.cell)
        head_finder(trace, selection, selection.cell)
    source_strip(trace, selection, look)
    target_strip(trace, selection, look, trace.whole)
    maps.axes(trace, kind)
    maps.labels(trace, kind)
    if matrix is not None:
        arc_words(look, matrix)
        marks = maps.marks(selection.cell, kind)
        if (matrix.values.size and not marks.rows) or look.raw:
            tinted(trace, shown, matrix, marks, look.by)


def _overview(run: SweptRun, trace: Trace, scene: Scene) -> None:
    kind = scene.selection.kind
    for order in ORDERS:
        list(ranking.ranking_parts(trace, kind, order))
    shape = tuple(map(len, trace.tokens(kind)))
    for scale in SCALES:
        at = replace(scene.selection, scale=scale)
        attention_map(trace, at, scene.look, kind)
    mosaic(trace, scene.selection, kind, extent=(shape[0], shape[1]))
    mosaic(trace, scene.selection, kind, extent=(shape[0], shape[1]), thumbnail=(2, 2))
    if trace.tokens(kind)[0]:
        maps.all_numbers(trace, kind)


def _masks(run: SweptRun, trace: Trace, scene: Scene) -> None:
    kind, layer, head = scene.selection.kind, scene.selection.layer, 0
    for part in masks.parts_of(trace):
        masks.note(trace, kind, part, layer, head)
        masks.solid_words(trace, kind, part, layer)
        leak_words.mask_and_leaks(trace, kind, part, layer)
    if (cell := scene.selection.cell) is not None:
        masks.cell_words(trace, kind, layer, cell.query, cell.key)
    masks.false_words(trace)
    masks.row_name(trace, 0)
    for side in ("source", "target"):
        if getattr(trace, side):
            masks.batch_table((trace,), side).summary  # noqa: B018
    leak_words.leak_words(trace)
    leak_words.empty_row_words(trace, head)
    leak_words.run_words(trace)


def _labs(run: SweptRun, trace: Trace, scene: Scene) -> None:
    selection, runs = scene.selection, comparison.compare(run.baseline, trace)
    mask_lab.row_words(trace, selection)
    mask_lab.row_numbers(trace, runs, selection)
    mask_lab.paint_picture(trace, selection, None)
    comparison.difference_picture(runs, selection)
    comparison.difference_words(runs)
    comparison.candidate_numbers(runs)
    comparison.compared_pictures(trace, run.baseline, selection)
    known = run.trace.intervention, trace, run.baseline
    modified_run.modified_words(*known, len(trace))


def _beside(run: SweptRun, trace: Trace, scene: Scene) -> None:
    if run.beside is not None:
        compared = compare_runs(run.beside, trace, names=("one", "other"))
        comparison.comparison_words(compared)
    modified_run.report_words(run.effect(len(trace)), trace)


def _shuffled(run: SweptRun, trace: Trace, scene: Scene) -> None:
    comparison.text_words(trace, run.baseline)
    position_lab.result_words(trace, run.baseline)
    if len(trace) == len(run.trace):
        for order, baseline, shuffled in run.shuffles:
            position_lab.shuffle_words(baseline, shuffled, order)


def _output(run: SweptRun, trace: Trace, scene: Scene) -> None:
    output.output_picture(trace)
    for row in range(len(trace)):
        output.output_words(trace, row)
    output.flow_words(trace)
    output.softmax_words(trace, scene.lens)
    cache.kept_words(trace)
    cache.costs(trace)
    table = candidates.candidate_table(trace)
    candidates.kept_words(table)
    candidates.others_words(table, 3)
    for bar in candidates.token_bars(trace):
        bar.words  # noqa: B018
    candidates.headline(trace)
    for row in range(len(trace) if trace.steps else 0):
        choices.told_token(trace, row)
        choices.marked_token(trace, row)
    absent.no_lens_words(trace)
    absent.no_output_words(trace)
    absent.missing_kinds_words(trace.model)
    absent.facts_words(trace.model)
    not_finite_words(trace)
    masked = [None, *trace.fills][-1]
    if not absent.has_target(trace):
        candidates.fill_table(trace, masked)
        candidates.fill_table(trace, None)


def _search(run: SweptRun, trace: Trace, scene: Scene) -> None:
    if run.search is not None:
        beam_tree.score_words(run.search)
        tree = beam_tree.beam_tree(run.search, trace)
        for column in tree.columns:
            for node in column:
                beam_tree.node_words(tree, node)


def _lens(run: SweptRun, trace: Trace, scene: Scene) -> None:
    output.how_words(trace.model)
    output.step_lens(trace, scene.lens)
    output.all_lens(trace, scene.lens, "best")
    output.all_lens(trace, scene.lens, "chosen")
    output.rank_words(trace, scene.lens)
    for layer in range(trace.layers("decoder") + 1 if len(trace) else 0):
        output.lens_cell_words(trace, scene.lens, len(trace) - 1, layer)


def _diagram(run: SweptRun, trace: Trace, scene: Scene) -> None:
    at, known = scene.selection, trace.model.known is not None
    stack = "encoder" if at.kind == "encoder" else "decoder"
    attention = (
        f"{stack}.{at.layer}.{'cross' if at.kind == 'cross' else 'self'}_attention"
    )
    inside = [f"{attention}.mask"]
    if known:
        layer = f"{stack}.{at.layer}"
        inside += [layer, f"{attention}.add", f"{layer}.feed_forward"]
        inside += [f"{attention}_norm", *BLOCKS]
    blocks = some(("", *OUTSIDE, *inside), run, scene, 5)
    for block in (attention, OUTSIDE[1], *blocks):
        if block:
            block_title(block)
            architecture(trace, trace.model, at, chosen=block)
        else:
            architecture(trace, None, at, closed=frozenset({"encoder", "decoder"}))


def _computation(run: SweptRun, trace: Trace, scene: Scene) -> None:
    looked_at = subject(
        trace, scene.selection, parameters=run.parameters, positions=run.table
    )
    if looked_at is None:
        stages.no_cell_words(trace)
        return
    at = scene.selection
    for page in stages.PAGES:
        stages.titles_on(page, trace, at.kind, at.layer)
        stages.heading(looked_at, page)
    for name in some(stage_names(), run, scene):
        made = picture(stage_of(name), looked_at)
        for one in () if isinstance(made, str) else made.maps:
            one.make()


def _positions(run: SweptRun, trace: Trace, scene: Scene) -> None:
    table = run.table
    if table is None or not positions.has_table(table, trace.model):
        positions.nothing_words(trace.model)
        return
    waves = positions.waves_of(table)
    positions.table_words(table, waves=waves, model=trace.model)
    positions.curves(table, (0, 9), 0, 7, waves=waves)
    positions.heat_picture(table, 0, 7)
    for likeness in positions.LIKENESSES:
        compared = positions.similarity_picture(table, 0, 7, likeness=likeness)
        positions.pair_words(compared, likeness, 0, 1)
    positions.cell_words(table, trace, 1, 2)
    change = trace.intervention.positions
    position_lab.table_pictures(trace, table, change)
    for side in absent.sides_of(trace):
        pictures = position_lab.input_pictures(trace, table, side)
        position_lab.position_numbers(pictures, trace, side, 0)
        position_lab.id_words(trace, side)


def _run(run: SweptRun, trace: Trace, scene: Scene) -> None:
    run_notices.source_notice(trace)
    run_notices.kept_pass_notice(trace)
    run_notices.end_notice(trace, len(run.trace))
    modified_run.score_words(trace)
    modified_run.export_words(trace)
    about.watched_text(trace)
    if trace.certificate is not None:
        str(trace.certificate)
    if run.checkpoint is not None and run.table is not None:
        opened = Opened(
            number=1,
            path="",
            model=trace.model,
            positions=run.table,
            devices=(),
            findings=run.checkpoint.findings,
            numbers=0 if trace.source_text else trace.model.config.source_vocabulary,
        )
        about.about_text(opened)
        about.opened_words(opened)
        about.source_hint(opened)


DOORS: dict[str, Callable[[SweptRun, Trace, Scene], None]] = {
    "explanations": _explain,
    "terms": _terms,
    "attention": _attention,
    "overview": _overview,
    "masks": _masks,
    "labs": _labs,
    "beside": _beside,
    "shuffled": _shuffled,
    "output": _output,
    "search": _search,
    "lens": _lens,
    "diagram": _diagram,
    "computation": _computation,
    "positions": _positions,
    "run": _run,
}
OF = {  # what doors look at that look at less than the cell
    **dict.fromkeys(("output", "lens", "positions", "run", "shuffled"), "run"),
    "beside": "run",
    "search": "run",
    **dict.fromkeys(("terms", "diagram", "overview"), "layer"),
}
FEW = {  # runs that were made for a few sentences, and the doors that say them
    name: doors.split()
    for doors, names in {
        "beside": [name for name in RUNS if name.startswith("beside")],
        "attention explanations": ["measured", "measured, causal off"],
        "search": ["beams that stop early", "beams that stop by scores"],
        "search output": ["one beam, under rules"],
        "output": [
            "few words",
            "steps taken away",
            "one token filled",
            "tokens filled",
        ],
        "output run": ["drawn under rules"],
        "lens output": ["read out without streams"],
        "run diagram": ["several sentences", "another script", "cut"],
        "run": ["unknown signs"],
        "diagram": ["tied"],
        "computation": ["norm without shift", "few units"],
        "computation diagram": ["RMS norm after", "shared by three"],
        "positions diagram explanations": ["positions by hand", "not scaled"],
        "shuffled": ["positions none, the same text"],
        "labs": ["text that ends"],
        "beside labs": ["factor of 1"],
        "diagram output": ["decoder of one token without steps"],
    }.items()
    for name in names
}
OF_ROWS = {"explanations", "labs", "computation"}
# the others speak of every step in turn
QUICK = {*DOORS} - {"beside", "diagram", "computation", "overview"}
