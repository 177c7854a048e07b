"""A run as the last line of a notebook's cell, and a head drawn by matplotlib."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visformer
from tests.browser import chromium, needs_chromium
from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace
from visformer.errors import InputError
from visformer.pictures.web_page import web_page

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "resources" / "guide" / "notebook.ipynb"
RUN = """
import sys, nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
book = nbformat.read(sys.argv[1], 4)
NotebookClient(book, timeout=100).execute(cwd=".")
nbformat.write(book, "run.ipynb")
again = nbformat.read("run.ipynb", 4)
exporter = HTMLExporter(template_name="basic", exclude_input=True)
page, _ = exporter.from_notebook_node(again)
open("run-saved.html", "w", encoding="utf-8").write(page)
"""
needs_jupyter = pytest.mark.skipif(
    not all(map(find_spec, ("nbclient", "nbconvert", "ipykernel", "matplotlib"))),
    reason="needs Jupyter and matplotlib",
)


def test_what_has_a_run_shows_its_page_in_a_frame() -> None:
    trace, decoding = make_trace(), visformer.Decoding(tiny_checkpoint(), "abc")
    decoding.step(2)
    shown = trace._repr_mimebundle_(include=None, exclude=None)
    found = re.fullmatch(
        r'<iframe ([^>]*) srcdoc="([^"]*)"></iframe>', shown["text/html"]
    )
    assert found is not None
    assert html.unescape(found[2]) == web_page(trace)
    assert 'sandbox="allow-scripts allow-downloads"' in found[1]  # nothing of its own
    assert shown["text/plain"] == repr(trace)
    png = base64.b64decode(shown["image/png"])  # for what shows no frames
    assert png.startswith(b"\x89PNG")
    other = decoding._repr_mimebundle_()
    assert html.unescape(other["text/html"]).endswith(
        web_page(decoding.trace) + '"></iframe>'
    )
    assert other["text/plain"].startswith("<Decoding at step 2")


def test_what_cannot_be_shown_is_said() -> None:
    large, bare = make_trace(90, 90, 6, 8, d_model=32), make_trace()
    bare = replace(bare, model=replace(bare.model, attention={}))
    assert "too much for a notebook" in large._repr_mimebundle_()["text/html"]
    said = bare._repr_mimebundle_()
    assert said["text/html"].startswith("<p>This trace contains no attention")
    assert said["text/plain"] == repr(bare)


def test_plot_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match="pip install matplotlib"):
        make_trace().plot("cross", layer=1, head=1)
    with pytest.raises(InputError, match="layer"):
        make_trace().plot("cross", layer=7, head=1)


def test_plot_draws_the_weights() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    trace = make_trace()
    figure, both = pyplot.subplots(1, 2)
    ax = trace.plot("decoder", layer=-1, head=0, ax=both[1])
    assert ax is both[1]
    assert not both[0].images
    assert len(figure.axes) == 2  # the colour bar is of a figure of its own
    drawn: Any = ax.images[0].get_array()
    assert np.array_equal(np.asarray(drawn), trace.attention("decoder", 1, 0))
    assert ax.get_title() == "decoder self · layer 2, head 1"
    assert [one.get_text() for one in ax.get_yticklabels()] == ["<s>", "t0", "t1", "t2"]
    assert len(ax.patches) == (~trace.mask("decoder", 1)).sum()
    own = trace.plot("cross", layer=0, head=1)
    assert len(own.figure.axes) == 2
    own.figure.canvas.draw()
    pyplot.close("all")


@pytest.mark.slow
@needs_jupyter
@needs_chromium
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs pdftotext")
def test_the_guides_notebook_runs_and_shows_its_runs_when_saved(tmp_path: Path) -> None:
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    own = {"PYTHONPATH": path, "IPYTHONDIR": str(tmp_path)}
    command = [sys.executable, "-c", RUN, str(GUIDE)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **own}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    saved = json.loads((tmp_path / "run.ipynb").read_text("utf-8"))
    outputs = [one for cell in saved["cells"] for one in cell.get("outputs", ())]
    shown = [one["data"] for one in outputs if "text/html" in one.get("data", {})]
    assert len(shown) == 3
    assert any("image/png" in one.get("data", {}) for one in outputs)
    paper = tmp_path / "saved.pdf"
    page = tmp_path / "run-saved.html"
    chromium(f"--print-to-pdf={paper}", page.as_uri())
    read = ["pdftotext", "-layout", str(paper), "-"]
    text = subprocess.run(read, capture_output=True, text=True, check=True).stdout
    assert "this head looks at “it” most (0.9549)" in text
    assert "modified run: head cross off @ L2H1" in text
    assert (tmp_path / "run.html").stat().st_size > 1_000_000
