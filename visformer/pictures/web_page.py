"""One web page of a run: a single file that steps, offline, in any browser.

The page's script draws; what it says comes from here, so that it says it as the window
does, in the same language. A Content-Security-Policy forbids every request, and all
scripts but its own.
"""

import base64
import hashlib
import html
import json
import math
import re
import zlib
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

import visformer
from visformer.errors import InputError
from visformer.language import N_, _, tag
from visformer.paths import resource
from visformer.pictures.attention import arcs, cell_words, tinted
from visformer.pictures.attention.maps import Marks, layer_and_head
from visformer.pictures.attention.reading import (
    UNDECODED,
    matrix,
    reading,
    small_title,
    title_words,
)
from visformer.pictures.attention.strips import READ_BY, first_chip, source_line
from visformer.pictures.attention.token_groups import joined_tokens
from visformer.pictures.candidates import (
    BEST,
    CandidateTable,
    candidate_table,
    fill_table,
    others_words,
)
from visformer.pictures.colours import (
    DARK,
    DARKEST,
    FED,
    HUES,
    LIGHT,
    NAN_COLOUR,
    THEMES,
)
from visformer.pictures.picture import LOG_FLOOR, quoted
from visformer.pictures.selection import DEFAULT_LOOK, FORMS, SCALES, Look, Selection
from visformer.pictures.token_names import marks, name, names, row_word
from visformer.pictures.words.absent import (
    NO_ATTENTION,
    has_source,
    has_target,
    missing_kinds_words,
    weights_words,
    without_steps_words,
)
from visformer.pictures.words.choices import is_fed, short_choice
from visformer.pictures.words.explanations import (
    READS_NAN,
    STRONG,
    UNWRITTEN,
    alike_words,
    told_of_row,
)
from visformer.pictures.words.modified_run import export_words
from visformer.pictures.words.run_notices import source_notice
from visformer.pictures.words.scene import telling_head
from visformer.text import visible
from visformer.values.arrays import Floats
from visformer.values.facts import Kind, SentenceSide
from visformer.values.memo import Memo
from visformer.values.not_finite import nan_row_words, not_finite_words
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, NOUGHT, head_words

MOST_WEIGHTS = 1 << 25  # of a page: what a browser reads in a few seconds
# of base 85: what can be printed, but for signs that HTML and JSON would escape
DIGITS = bytes(sign for sign in range(33, 127) if chr(sign) not in "\"&'<>\\`")
MOST_TITLE = 60  # characters
ALIKE = 1e-6  # as ``scene.reads`` tells which weights are equal
WORDS = {  # what the script fills in, or writes as it is
    "reads": cell_words.READS,
    "captured": cell_words.AS_CAPTURED,
    "masked_value": cell_words.AS_MASKED,
    "nothing_nan": cell_words.NOTHING_NAN,
    "nothing_equal": cell_words.NOTHING_EQUAL,
    "read_by": READ_BY,
    "keys_read": tinted.KEYS_READ,
    "queries_read_by": tinted.QUERIES_READ_BY,
    "queries": tinted.QUERIES,
    "keys": tinted.KEYS,
    "drawn": arcs.DRAWN,
    "nan": READS_NAN,
    "unwritten": UNWRITTEN,
    "undecoded": UNDECODED,
    "point": N_("Point at a cell or a token for its weight; a click locks it."),
    "all_heads": N_("all heads · {kind}"),
    "heads_said": N_("all heads, one row per layer, one column per head"),
    "attention": N_("{kind} attention"),
    "step": N_("step {step} of {last}"),
    "step_prompt": N_("step {step} of {last}, prompt {prompt}"),
    "first": N_("Before the first step (Home)"),
    "back": N_("One step back (Left)"),
    "play": N_("Play (Space)"),
    "pause": N_("Pause (Space)"),
    "forward": N_("One step forward (Right)"),
    "last": N_("Last step (End)"),
    "any_step": N_("Go to any step"),
    "source": N_("source"),
    "prompt": N_("prompt"),
    "target": N_("target"),
    "kind": N_("kind of attention"),
    "layer": N_("layer"),
    "head": N_("head"),
    "form": N_("form of the picture"),
    "scale": N_("colour scale of the maps"),
    "theme": N_("light or dark"),
    "masked": N_("masked"),
    "row_max": N_("row max"),
    "rank": N_("rank"),
    "token": N_("token"),
    "probability": N_("probability"),
    "weight": N_("weight"),
    "keys_title": N_("Keyboard"),
    "keys_said": N_(
        "Left, Right, Page Up, Page Down: a step. Home, End: the first, the last. "
        "Space: play. 1, 2, 3: kind of attention. M, A, T: map, arcs, text. "
        "Ctrl+arrows: layer and head. Shift+arrows: move the locked cell. Esc: unlock."
    ),
    "old": N_(
        "This browser cannot unpack the numbers of this page: use one of 2023 or later."
    ),
    "attached": N_("The run itself, to be opened in Visformer ({size} MB)"),
    "made": N_("Made by Visformer {version}."),
}


def web_page(
    trace: Trace,
    selection: Selection | None = None,
    look: Look = DEFAULT_LOOK,
    step: int | None = None,
    *,
    attached: bytes | None = None,
) -> str:
    """Return the page of a Trace, as HTML.

    It opens on a selection and a step, by default where the run says most, or where its
    address says: ``#step=3&kind=cross&layer=2&head=1&form=arcs``. ``attached`` is the
    file of the run, which the page then offers. Raises InputError for a Trace without
    attention or with more than ``MOST_WEIGHTS``.
    """
    if not trace.kinds:
        raise InputError(NO_ATTENTION)
    # what is derived here is not the window's, whose thread derives, too
    trace = replace(trace.whole, memo=Memo()).until(len(trace))
    count = sum(map(partial(_count, trace), trace.kinds))
    if count > MOST_WEIGHTS:
        raise InputError(
            "A web page holds {most:,} weights, but this run has {count:,}: save it as "
            "a .vis file, or cut it with until().",
            most=MOST_WEIGHTS,
            count=count,
        )
    weights = {kind: trace.attention(kind) for kind in trace.kinds}
    facts = _facts(trace, weights, attached)
    facts["start"] = _start(trace, selection, look, step)
    return _html(facts, weights, attached or b"")


def _start(
    trace: Trace, selection: Selection | None, look: Look, step: int | None
) -> dict[str, Any]:
    """Return what the page opens on."""
    telling = telling_head(trace)
    selection = selection or _at(*telling[:3])
    kind = selection.kind if selection.kind in trace.kinds else telling.kind
    layer, head = layer_and_head(trace, selection, kind)
    return {
        "kind": kind,
        "layer": layer,
        "head": head,
        "form": look.form,
        "scale": selection.scale,
        "step": telling.step if step is None else step,
    }


def _html(facts: dict[str, Any], weights: dict[Kind, Floats], attached: bytes) -> str:
    style, script = f"{_palette_css()}\n{_resource('page.css')}", _resource("page.js")
    parts = {
        "policy": f"default-src 'none'; script-src {_hash(script)}; "
        f"style-src {_hash(style)}; base-uri 'none'; form-action 'none'",
        "language": tag(),
        "version": visformer.__version__,
        "title": html.escape(f"{facts['title']} - Visformer"),
        "style": style,
        "script": script,
        "without": html.escape(_("This page needs JavaScript: switch it on.")),
        "facts": _json(facts),
        "weights": "\n".join(
            f'<script type="text/plain" id="weights-{kind}">{_packed(each)}</script>'
            for kind, each in weights.items()
        ),
        "attached": base64.b64encode(attached).decode(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], _resource("page.html"))


def _count(trace: Trace, kind: Kind) -> int:
    queries, keys = trace.tokens(kind)
    return trace.layers(kind) * trace.heads(kind) * len(queries) * len(keys)


def _resource(file: str) -> str:
    return (resource("page") / file).read_text("utf-8").strip()


def _hash(code: str) -> str:
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _json(facts: dict[str, Any]) -> str:
    """Write JSON that cannot end the element that it stands in."""
    text = json.dumps(facts, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _deflated(data: bytes) -> str:
    # most bytes are as random as digits are: looking for repetitions but runs of one
    # byte takes up to 70 times as long, and finds none
    deflate = zlib.compressobj(strategy=zlib.Z_RLE)
    packed = deflate.compress(data) + deflate.flush()
    return _base85(len(packed).to_bytes(4, "big") + packed)


def _base85(data: bytes) -> str:
    """Write four bytes as five characters, where base64 needs five and a third."""
    words = np.frombuffer(data + bytes(-len(data) % 4), ">u4").astype(np.int64)
    digits = words[:, None] // 85 ** np.arange(4, -1, -1) % 85
    letters: bytes = np.frombuffer(DIGITS, np.uint8)[digits].tobytes()
    return letters.decode("ascii")


def _packed(weights: Floats) -> str:
    """Pack float32, little-endian: the first bytes of all, then the second, ...

    So the exponents stand together, which are alike, and zeros vanish.
    """
    data = np.ascontiguousarray(weights, "<f4").view(np.uint8).reshape(-1, 4)
    return _deflated(data.T.tobytes())


def _palette_css() -> str:
    """Return the colours of both themes as variables of the style."""
    light, dark = (
        "".join(f"--{key}:{value};" for key, value in _palette(name, at).items())
        for at, name in enumerate(("light", "dark"))
    )
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light])"
        f"{{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}"
    )


def _palette(name: str, at: int) -> dict[str, str]:
    roles: dict[str, str] = {role: both[at] for role, both in HUES.items()}
    own = {key.replace("_", "-"): value for key, value in asdict(THEMES[name]).items()}
    ramp = " ".join((LIGHT, DARK)[at])
    return {**own, **roles, "fed": FED[at], "nan": NAN_COLOUR, "ramp": ramp}


# ---- what the script reads --------------------------------------------------------


def _facts(
    trace: Trace, weights: dict[Kind, Floats], attached: bytes | None
) -> dict[str, Any]:
    text = visible(source_line(trace) or trace.model.name)
    notes = (
        export_words(trace),
        trace.missing,
        trace.certificate.sentence if trace.certificate is not None else "",
        not_finite_words(trace),
        source_notice(trace),
        missing_kinds_words(trace.model),
    )
    return {
        "title": text if len(text) <= MOST_TITLE else f"{text[: MOST_TITLE - 1]}…",
        "model": visible(trace.model.name),
        "words": _words(attached),
        "forms": {form: (_(words), _(STRONG[form])) for form, words in FORMS.items()},
        "scales": {scale: _(words) for scale, words in SCALES.items()},
        "numbers": {"floor": LOG_FLOOR, "darkest": DARKEST, "nought": NOUGHT},
        "mass": DEFAULT_LOOK.mass,
        "notes": [*filter(None, notes)],
        "strips": _strips(trace),
        "first": trace.prompt,
        "last": len(trace) if has_target(trace) else 0,
        "steps": _steps(trace),
        "without": without_steps_words(trace),
        "fills": {at: _table(fill_table(trace, at)) for at in trace.fills},
        "kinds": [_kind(trace, kind, each) for kind, each in weights.items()],
    }


def _words(attached: bytes | None) -> dict[str, str]:
    size = f"{len(attached or b'') / 1e6:.1f}"
    known = {"attached": {"size": size}, "made": {"version": visformer.__version__}}
    return {key: _(words, **known.get(key, {})) for key, words in WORDS.items()}


def _strips(trace: Trace) -> list[dict[str, Any]]:
    """Return the lines of tokens; the target's ends with what the last step chose."""
    strips = []
    if has_source(trace):
        strips.append(_strip(trace, "source", _("source"), slice(None)))
    elif first_chip(trace):
        strips.append(_strip(trace, "target", _("prompt"), slice(first_chip(trace))))
    if has_target(trace):
        rest = slice(first_chip(trace), None)
        strips.append(_strip(trace, "target", _("target"), rest))
    return strips


def _strip(trace: Trace, side: SentenceSide, title: str, part: slice) -> dict[str, Any]:
    labels = names(trace, side)
    if side == "target" and trace.steps:
        labels = (*labels, name(trace.steps[-1].token, marks(trace, side)))
    joins = joined_tokens(trace, side)
    return {
        "title": title,
        "side": side,
        "first": part.start or 0,
        "tokens": labels[part],
        "raw": [label.raw for label in labels[part]],
        "joins": [at in joins for at in range(len(labels))][part],
    }


def _steps(trace: Trace) -> list[dict[str, Any]]:
    """Return what each row predicts; none where that was not kept."""
    return [
        {
            "choice": short_choice(trace, row),
            "fed": is_fed(step),
            **_table(candidate_table(trace.until(row + 1), choosable=False)),
        }
        for row, step in enumerate(trace.steps)
    ]


def _table(table: CandidateTable) -> dict[str, Any]:
    rows = table.best()
    return {
        "title": table.title,
        "summary": table.summary,
        "others": others_words(table, len(table.rows[:BEST])),
        "rows": [
            (row.rank, row.token, _finite(row.probability), row.chosen) for row in rows
        ],
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _kind(trace: Trace, kind: Kind, weights: Floats) -> dict[str, Any]:
    """Return all of a kind but its weights, float32 [L, H, Q, K]."""
    layers, heads, queries, _keys = weights.shape
    places = [(layer, head) for layer in range(layers) for head in range(heads)]
    found = reading(trace, _at(kind, 0, 0), DEFAULT_LOOK, kind)
    assert found is not None
    shown = matrix(found, _at(kind, 0, 0))
    both = tinted.tinted(trace, shown, shown, Marks(), "query")
    told = [
        [told_of_row(trace, kind, layer, row) for row in range(queries)]
        for layer in range(layers)
    ]
    tells = list(dict.fromkeys(chain.from_iterable(told)))
    masks, allowed = _masks(trace, kind, places)
    titles = [_at(kind, *at) for at in places]
    return {
        "kind": kind,
        "name": _(KIND_NAMES[kind]),
        "shape": weights.shape,
        "rows": shown.rows,
        "columns": shown.columns,
        "queries": [row_word(trace, kind, row) for row in range(queries)],
        "quoted": [
            [quoted(one) for one in side] for side in (shown.rows, shown.columns)
        ],
        "axes": (shown.row_axis, shown.column_axis),
        "border": shown.border,
        "spaced": [[one.spaced for one in side] for side in (both.queries, both.keys)],
        "titles": [title_words(trace, at, DEFAULT_LOOK, kind) for at in titles],
        "small": [small_title(kind, *at) for at in places],
        "heads_named": [head_words(*at) for at in places],
        "tells": [_(one) for one in tells],
        "told": [[tells.index(one) for one in row] for row in told],
        "alike": _alike(weights),
        "done": [weights_words(trace, kind, range(at, at + 1)) for at in range(layers)],
        "captured": [trace.is_captured(kind, layer) for layer in range(layers)],
        "lost": _lost(trace, kind, weights),
        "masks": masks,
        "allowed": allowed,
    }


def _at(kind: Kind, layer: int, head: int) -> Selection:
    return Selection(kind=kind, layer=layer, head=head)


def _alike(weights: Floats) -> dict[int, str]:
    """Say for each number of keys that a row reads most and alike how it is said."""
    counts: set[int] = set()
    for layer in weights if weights.size else ():
        most = layer.max(-1, keepdims=True).astype(np.float64)
        counts.update((np.abs(layer - most) <= ALIKE * most).sum(-1).ravel().tolist())
    fields = {key: f"{{{key}}}" for key in ("query", "key", "weight")}
    return {n: alike_words(n, **fields) for n in sorted(counts) if n > 1}


def _lost(trace: Trace, kind: Kind, weights: Floats) -> dict[str, str]:
    """Say of each row of NaN, by layer, head and query, why it is one."""
    return {
        ",".join(map(str, at)): nan_row_words(trace, kind, *at)
        for at in np.argwhere(np.isnan(weights).any(-1)).tolist()
        if not trace.is_captured(kind, at[0])
    }


def _masks(
    trace: Trace, kind: Kind, places: Iterable[tuple[int, int]]
) -> tuple[list[int], str]:
    """Return the number of each head's mask, and all masks [N, Q, K] as bits."""
    known: dict[bytes, int] = {}
    numbers = []
    for layer, head in places:
        bits = np.ascontiguousarray(trace.mask(kind, layer, head)).tobytes()
        numbers.append(known.setdefault(bits, len(known)))
    every = np.frombuffer(b"".join(known), np.bool_)
    return numbers, _deflated(np.packbits(every, bitorder="little").tobytes())
