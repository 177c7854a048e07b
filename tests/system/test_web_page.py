"""One web page of a run: its numbers, words, keys and colours, and that it is alone."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visformer
from tests.browser import chromium, in_browser, needs_chromium
from tests.catalogue import OPEN, PSEUDO
from tests.general_traces import Shape, any_trace
from tests.pseudo import install
from tests.traces import fed, make_trace
from visformer import language
from visformer.errors import InputError
from visformer.pictures.attention.cell_words import cell_words
from visformer.pictures.candidates import candidate_table
from visformer.pictures.picture import codes, shade
from visformer.pictures.selection import DEFAULT_LOOK, AttentionCell, Selection
from visformer.pictures.web_page import web_page
from visformer.pictures.words.explanations import explanation
from visformer.pictures.words.scene import Scene
from visformer.trace_file.saved_session import SavedRun
from visformer.trace_file.stored_facts import RunSelection
from visformer.values.facts import KINDS
from visformer.values.step import Candidates
from visformer.values.trace import Trace
from visformer.words import probability, share

ODD = (
    *("</script><script>top.hacked=1</script>", "<!--<script>", "<b>x</b>", "&lt;"),
    *("a\u2028b", "\u202egnp", "\ud800", "\0", "{{facts}}", "${1}", "'\"`", "\\u003c"),
)
KEYS = (
    *("ArrowRight", "PageDown", "ArrowLeft", "End", "PageUp", "Home", "3", "1", "2"),
    *("a", "t", "m", "ctrl ArrowDown", "ctrl ArrowRight", "ctrl ArrowUp", "End"),
    *("shift ArrowUp", "shift ArrowLeft", "Escape"),
)
PRESSED = [  # step, kind, layer, head, form, and whether a cell is locked; from 1
    *([3, "cross", 1, 1, "map", False], [4, "cross", 1, 1, "map", False]),
    *([3, "cross", 1, 1, "map", False], [4, "cross", 1, 1, "map", False]),
    *([3, "cross", 1, 1, "map", False], [0, "cross", 1, 1, "map", False]),
    *([0, "cross", 1, 1, "map", False], [0, "encoder", 1, 1, "map", False]),
    *([0, "decoder", 1, 1, "map", False], [0, "decoder", 1, 1, "arcs", False]),
    *([0, "decoder", 1, 1, "text", False], [0, "decoder", 1, 1, "map", False]),
    *([0, "decoder", 2, 1, "map", False], [0, "decoder", 2, 2, "map", False]),
    *([0, "decoder", 1, 2, "map", False], [4, "decoder", 1, 2, "map", False]),
    *([4, "decoder", 1, 2, "map", True], [4, "decoder", 1, 2, "map", True]),
    [4, "decoder", 1, 2, "map", False],
]


def runs() -> dict[str, Trace]:
    """Return runs of all kinds of models, and with all that may be lacking."""
    found = {
        " ".join(kinds): any_trace(Shape(kinds=kinds))
        for n in (1, 2, 3)
        for kinds in combinations(KINDS, n)
    }
    plain, scores = make_trace(), Shape(masked_value=-1e9)
    nothing = {kind: np.zeros_like(mask) for kind, mask in plain.masks.items()}
    none: Any = Candidates(np.zeros(0), (), np.zeros(0))
    lost: Any = {"probability": np.nan, "rank": 0, "candidates": none}
    change = visformer.parse_change("head cross off @ L2H1; causal off @ L1")
    return found | {
        "prompt": any_trace(Shape(kinds=("decoder",)), target=6, prompt=2),
        "captured": any_trace(Shape(), captured=True),
        "no steps": any_trace(Shape(), steps=False),
        "nothing decoded": any_trace(Shape(), target=0),
        "cut": make_trace(target=6).until(4),
        "NaN": replace(plain, masks=nothing),
        "equal": replace(any_trace(scores), masks=nothing),
        "fed": fed(plain, {0: "forced", 1: "reference"}, wrong=[1]),
        "changed": replace(plain, intervention=change),
        "unknown": replace(plain, steps=[replace(one, **lost) for one in plain.steps]),
        "odd": replace(
            make_trace(source=len(ODD)), source=ODD, source_text="".join(ODD)
        ),
    }


def one_row(trace: Trace, kind: Any) -> tuple[int, int, int, int]:
    """Return a layer, a head, a query and a key that are not the first ones."""
    queries, keys = trace.tokens(kind)
    return 1, 1, len(queries) - 1, len(keys) // 2


LOOK = """
const out = {};
const text = (page, id) => page.document.getElementById(id).innerText;
for (const name in pages) {
  const page = pages[name], kinds = {};
  for (const kind of ["encoder", "decoder", "cross"].map(page.kindOf).filter(Boolean)) {
    const bytes = new Uint8Array(kind.weights.buffer);
    const one = kinds[kind.kind] = { bits: btoa(String.fromCharCode(...bytes)) };
    page.go({ step: 1e9, kind: kind.kind, layer: 1, head: 1, cell: null, form: "map" });
    one.said = text(page, "sentence");
    one.step = Number(page.document.getElementById("steps").value);
    const [query, key] = [kind.height - 1, Math.floor(kind.width / 2)];
    if (!kind.height || !kind.width) continue;
    page.go({ cell: { kind: kind.kind, by: "query", query, key } });
    one.cell = text(page, "cell");
    one.row = [...page.document.querySelectorAll("#row tbody tr")].map(
      line => [...line.cells].map(cell => cell.textContent));
    for (const form of ["arcs", "text"]) page.go({ form });
  }
  out[name] = {
    kinds, notes: text(page, "notes"), hacked: Boolean(window.hacked),
    scripts: page.document.scripts.length, title: page.document.title,
    chips: [...page.document.querySelectorAll(".chip")].map(chip => chip.textContent),
    next: [...page.document.querySelectorAll("#next tbody tr")].map(
      line => [...line.cells].map(cell => cell.textContent)),
    nextTitle: text(page, "next-title"),
  };
}
return out;
"""


@needs_chromium
def test_numbers_are_the_traces_and_words_the_windows(tmp_path: Path) -> None:
    traces = runs()
    pages = {name: web_page(trace) for name, trace in traces.items()}
    seen = in_browser(pages, LOOK, tmp_path)
    for name, trace in traces.items():
        for kind in trace.kinds:
            found = seen[name]["kinds"][kind]
            bits = np.ascontiguousarray(trace.attention(kind), "<f4").tobytes()
            assert base64.b64decode(found["bits"]) == bits, (name, kind)
            layer, head, query, key = one_row(trace, kind)
            at = Selection(kind=kind, layer=layer, head=head)
            scene = Scene(trace=trace, model=trace.model, selection=at)
            assert found["said"] == explanation(("attention",), scene), (name, kind)
            if "cell" not in found:
                continue
            cell = replace(at, cell=AttentionCell(kind, query, key))
            assert found["cell"] == cell_words(trace, cell, DEFAULT_LOOK), (name, kind)
            row = trace.attention(kind, layer, head)[query]
            masked = ~trace.mask(kind, layer)[query]
            signs = [" (masked)" * bool(one) for one in masked]
            said = [probability(w) + sign for w, sign in zip(row, signs, strict=True)]
            assert [weight for _, weight in found["row"]] == said
        table = candidate_table(trace) if trace.steps else None
        if table is not None:
            assert seen[name]["nextTitle"] == table.title
            rows = [(str(x.rank or "–"), x.token) for x in table.best()]
            assert [tuple(row[:2]) for row in seen[name]["next"]] == rows
            said = [probability(x.probability) for x in table.best()]
            assert [row[2] for row in seen[name]["next"]] == said
    odd = seen["odd"]
    assert not odd["hacked"]
    scripts = {name: one["scripts"] - len(one["kinds"]) for name, one in seen.items()}
    assert set(scripts.values()) == {3}
    spelt = ["a[U+2028]b", "[U+202E]gnp", "[U+D800]", "[U+0000]"]
    shown = odd["chips"][: len(ODD)]
    assert shown == [*ODD[:4], *spelt, *ODD[8:]]
    changes = "modified run: causal off @ L1; head cross off @ L2H1"
    assert changes in seen["changed"]["notes"]
    assert "fed" in seen["fed"]["notes"]
    assert "NaN" in {row[2] for row in seen["unknown"]["next"]}


USE = """
const page = pages.one, doc = page.document, out = { pressed: [], colours: {} };
for (const name of $KEYS) {
  const [how, key] = name.includes(" ") ? name.split(" ") : ["", name];
  const held = { ctrlKey: how === "ctrl", shiftKey: how === "shift" };
  const event = { key, bubbles: true, ...held };
  doc.body.dispatchEvent(new page.KeyboardEvent("keydown", event));
  const value = id => doc.getElementById(id).value;
  const [layer, head] = [Number(value("layer")) + 1, Number(value("head")) + 1];
  out.pressed.push([Number(value("steps")), value("kind"), layer, head,
    doc.querySelector("[aria-pressed=true]").value,
    doc.getElementById("cell").innerText.includes("reads")]);
}
const numbers = $NUMBERS;
out.numbers = numbers.map(x => [page.probability(x ?? NaN), page.share(x ?? NaN)]);
for (const theme of ["light", "dark"]) {
  doc.documentElement.dataset.theme = theme;
  page.readColours();
  const { canvas } = page.image(page.kindOf("decoder"), 1);
  const { width, height } = canvas, context = canvas.getContext("2d");
  out.colours[theme] = [...context.getImageData(0, 0, width, height).data];
}
page.go({ kind: "cross", step: 4, layer: 1, head: 0, form: "map" });
const canvas = doc.getElementById("picture"), box = canvas.getBoundingClientRect();
for (let y = 0; y < box.height; y++) for (let x = 0; x < box.width; x++) {
  const at = canvas.hit(x, y);
  if (!at || at.query !== 2 || at.key !== 3) continue;
  const place = { clientX: box.left + x, clientY: box.top + y };
  const event = { pointerType: "mouse", ...place };
  canvas.dispatchEvent(new page.PointerEvent("pointermove", event));
  y = x = 1e9;
}
await wait(100);
out.hovered = doc.getElementById("cell").innerText;
const named = [...doc.querySelectorAll("button, select, input, canvas[role=img]")];
const name = one => one.ariaLabel || one.labels?.[0]?.innerText || one.innerText;
out.unnamed = named.filter(one => !name(one)).map(one => one.outerHTML);
out.tables = [...doc.querySelectorAll("table")].map(
  one => one.tHead.rows.length > 0 && one.querySelectorAll("tbody th").length);
out.live = doc.getElementById("sentence").ariaLive;
page.location.hash = "#step=3&kind=decoder&layer=2&head=1&form=text";
await wait(100);
out.address = ["step", "title"].map(id => doc.getElementById(id).innerText);
return out;
"""


@needs_chromium
def test_keys_the_mouse_colours_and_numbers_are_the_windows(tmp_path: Path) -> None:
    from PySide6.QtWidgets import QApplication

    from visformer.ui.look import theme
    from visformer.ui.widgets.colour_bar import colour_table

    QApplication.instance() or QApplication([])
    trace = make_trace(seed=3)
    page = web_page(trace, Selection(kind="cross", layer=0, head=0), step=2)
    random = np.random.default_rng(0)
    values = [0.0, 1.0, 0.03125, 0.09375, 2**-14, 1e-4, 0.995, 0.005, 0.625, np.nan]
    values += [*random.random(300), *(10 ** random.uniform(-44, 0, 300))]
    numbers = [float(np.float32(value)) for value in values]
    known = [x if x == x else None for x in numbers]
    script = USE.replace("$KEYS", json.dumps(KEYS)).replace(
        "$NUMBERS", json.dumps(known)
    )
    seen = in_browser({"one": page}, script, tmp_path)
    assert seen["pressed"] == PRESSED
    assert seen["numbers"] == [[probability(x), share(x)] for x in numbers]
    weights = trace.attention("decoder", 0, 1)
    shown = codes(shade(weights, "fixed")[0], ~trace.mask("decoder", 0))
    for name, pixels in seen["colours"].items():
        table = colour_table(theme.palette(theme.THEMES[name]))
        away = np.array(pixels).reshape(*shown.shape, 4) - table[shown]
        assert np.abs(away).max() <= 1  # of halves
    cell = Selection(kind="cross", layer=1, head=0, cell=AttentionCell("cross", 2, 3))
    assert seen["hovered"] == cell_words(trace, cell, DEFAULT_LOOK)
    assert seen["unnamed"] == []
    assert all(seen["tables"])
    assert seen["live"] == "polite"
    assert seen["address"] == ["step 3 of 4", "decoder self · layer 2, head 1"]


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """Listen on this computer; yields the port and what was asked for there."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):  # opened in advance
                    connection.settimeout(0.2)
                    asked.append(connection.recv(200).split(b" HTTP")[0])
                    connection.sendall(b"HTTP/1.0 204 No Content\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], asked
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@needs_chromium
def test_no_request_leaves_and_no_other_script_runs(
    listener: tuple[int, list[bytes]], tmp_path: Path
) -> None:
    port, asked = listener
    page = web_page(make_trace())
    opened, found = re.subn(r'<meta http-equiv="Content-Security[^>]*>', "", page)
    assert found == 1
    script = f"""
    const told = {{}};
    for (const [name, page] of Object.entries(pages)) {{
      const doc = page.document, to = `http://127.0.0.1:{port}/${{name}}/`;
      const add = (tag, more) => doc.body.append(
        Object.assign(doc.createElement(tag), more));
      told[name] = [];
      doc.addEventListener("securitypolicyviolation",
        event => told[name].push(event.effectiveDirective));
      page.fetch(to + "fetch").catch(() => 0);
      new page.Image().src = to + "image";
      page.navigator.sendBeacon(to + "beacon");
      add("script", {{ src: to + "script" }});
      add("script", {{ textContent: "document.documentElement.dataset.ran = 1" }});
      add("link", {{ rel: "stylesheet", href: to + "style" }});
      add("iframe", {{ src: to + "frame" }});
      add("p", {{ onclick: null, style: `background: url(${{to}}background)` }});
      try {{ new page.WebSocket(to.replace("http", "ws") + "socket"); }} catch {{}}
      await wait(300);
      told[name].push("ran" in doc.documentElement.dataset);
    }}
    return told;
    """
    told = in_browser({"sealed": page, "opened": opened}, script, tmp_path)
    ways = [
        "fetch",
        "image",
        "beacon",
        "script",
        "style",
        "frame",
        "background",
        "socket",
    ]
    got = {line.decode().split("/")[-1] for line in asked if b"/opened/" in line}
    assert got == set(ways)  # the check can fail
    assert [line for line in asked if b"/sealed/" in line] == []
    *blocked, ran = told["sealed"]
    wanted = {"connect-src", "img-src", "script-src-elem", "style-src-elem"}
    assert wanted <= set(blocked)
    assert not ran
    assert told["opened"][-1]


@needs_chromium
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs pdftotext")
def test_paper_has_the_numbers(tmp_path: Path) -> None:
    path, paper, trace = tmp_path / "run.html", tmp_path / "run.pdf", make_trace(seed=3)
    visformer.to_html(trace, path)
    chromium(
        f"--print-to-pdf={paper}", f"{path.as_uri()}#step=3&kind=decoder&layer=2&head=1"
    )
    command = ["pdftotext", str(paper), "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    row = trace.attention("decoder", 1, 0)[2]
    assert all(probability(float(weight)) in text for weight in row)


# ---- without a browser ------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "heads", "most"), [(4, 8, 2_000_000), (12, 16, 10_000_000)]
)
def test_pages_are_small(layers: int, heads: int, most: int) -> None:
    trace = make_trace(64, 64, layers, heads, d_model=4 * heads)
    assert len(web_page(trace).encode()) <= most


def test_the_file_goes_along(tmp_path: Path) -> None:
    trace = make_trace()
    page = visformer.to_html(trace, attach=True)
    found = re.search(r'id="file">([^<]+)<', page)
    assert found is not None
    (tmp_path / "run.vis").write_bytes(base64.b64decode(found[1]))
    read = visformer.open_trace(tmp_path / "run.vis")
    assert np.array_equal(read.attention("cross"), trace.attention("cross"))
    assert 'id="file"><' in visformer.to_html(trace)


def facts(page: str) -> Any:
    found = re.search(r'id="facts">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])


def test_a_session_opens_where_it_was_looked_at(tmp_path: Path) -> None:
    look = RunSelection(kind="decoder", layer=1, head=1, step=2)
    run = SavedRun(trace=make_trace(), selection=look)
    visformer.save_session(tmp_path / "a.vis", [run])
    start = facts(visformer.to_html(tmp_path / "a.vis"))["start"]
    assert (start["kind"], start["layer"], start["head"], start["step"]) == (
        *("decoder", 1, 1),
        2,
    )


def test_all_words_are_of_the_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = fed(make_trace(), {1: "reference"})
    install(tmp_path, monkeypatch)
    language.use(PSEUDO)
    try:
        page = web_page(trace)
    finally:
        language.use("")
    known = facts(page)
    said = [*known["words"].values(), *known["scales"].values(), *known["notes"]]
    said += [kind[key] for kind in known["kinds"] for key in ("name", "axes")][::2]
    assert [text for text in said if not text.startswith(OPEN)] == []
    assert '<html lang="en-XA">' in page


def test_what_is_no_page_is_refused_and_an_old_one_stays(tmp_path: Path) -> None:
    path, trace = tmp_path / "run.html", make_trace()
    visformer.to_html(trace, path)
    old = path.read_bytes()
    bare = replace(trace, model=replace(trace.model, attention={}))
    with pytest.raises(InputError, match="contains no attention"):
        visformer.to_html(bare, path)
    large = make_trace(3000, 3, 2, 2)
    with pytest.raises(InputError, match="holds 33,554,432 weights"):
        visformer.to_html(large, path)
    with pytest.raises(InputError, match="only as \\.html"):
        visformer.to_html(trace, tmp_path / "run.pdf")
    with pytest.raises(InputError, match="cannot be written"):
        visformer.to_html(trace, tmp_path / "missing" / "run.html")
    with pytest.raises(TypeError, match="must be a Trace"):
        visformer.to_html(3)  # type: ignore[call-overload]
    assert path.read_bytes() == old
    assert [*tmp_path.iterdir()] == [path]
