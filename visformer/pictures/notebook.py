"""A run in a notebook: its web page in a frame, and a head drawn by matplotlib."""

import base64
import contextlib
import html
from typing import Any

import numpy as np

import visformer
from visformer.errors import InputError, VisformerError
from visformer.pictures.attention.reading import matrix, reading
from visformer.pictures.colours import HUES, LIGHT, NAN_COLOUR, THEMES
from visformer.pictures.selection import DEFAULT_LOOK, Selection
from visformer.pictures.web_page import web_page
from visformer.pictures.words.scene import telling_head
from visformer.values.facts import Kind
from visformer.values.trace import Trace

MOST = 2_500_000  # characters: Jupyter's server leaves larger outputs out
HIGH = 860  # pixels of the frame


def shown(trace: Trace) -> dict[str, str]:
    """Return what a notebook shows of a Trace, by type: HTML, a PNG and plain text.

    The page stands in a frame of its own, which can read nothing of the notebook. In
    place of a page that is too large, or of a run without attention, there is a
    sentence. The PNG is for what shows no frames, as GitHub does.
    """
    try:
        page = web_page(trace)
        if len(page) > MOST:
            raise InputError(
                "This page has {size} MB, too much for a notebook: write it with "
                "visformer.to_html(trace, “run.html”), or show trace.until(n).",
                size=f"{len(page) / 1e6:.1f}",
            )
    except InputError as error:
        said = f"<p>{html.escape(str(error))}</p>"
    else:
        said = (
            f'<iframe sandbox="allow-scripts allow-downloads" width="100%" '
            f'height="{HIGH}" style="border: 0" srcdoc="{html.escape(page)}"></iframe>'
        )
    return {"text/html": said, **_picture(trace), "text/plain": repr(trace)}


def _picture(trace: Trace) -> dict[str, str]:
    """Return a PNG of the head that says most; nothing where none can be drawn."""
    if not trace.kinds:
        return {}
    kind, layer, head, _step = telling_head(trace)
    seen = visformer.RunSelection(kind=kind, layer=layer, head=head)
    with contextlib.suppress(VisformerError):
        run = visformer.SavedRun(trace=trace, selection=seen)
        png = visformer.render(run, figure=True)
        return {"image/png": base64.b64encode(png).decode()}
    return {}


def plotted(trace: Trace, kind: Kind, layer: int, head: int, ax: Any) -> Any:
    """Draw a head's weights into matplotlib's Axes, or into a new figure's."""
    trace.attention(kind, layer, head)  # refuses what is not there
    layer, head = layer % trace.layers(kind), head % trace.heads(kind)
    at = Selection(kind=kind, layer=layer, head=head)
    found = reading(trace, at, DEFAULT_LOOK, kind)
    assert found is not None
    try:
        from matplotlib import pyplot
        from matplotlib.colors import LinearSegmentedColormap
    except ImportError as error:
        raise InputError(
            "plot draws with matplotlib: install it with “pip install matplotlib”."
        ) from error
    picture, own = matrix(found, at), ax is None
    if own:
        high = 1.5 + 0.25 * len(picture.rows)
        size = 2.5 + 0.25 * len(picture.columns), high
        _figure, ax = pyplot.subplots(figsize=size, layout="constrained")
    hues = LinearSegmentedColormap.from_list("visformer", LIGHT)
    ramp = hues.with_extremes(bad=NAN_COLOUR)
    image = ax.imshow(picture.values, cmap=ramp, vmin=0, vmax=1, aspect="equal")
    hidden = False if picture.masked is None else picture.masked
    for row, column in np.argwhere(hidden & (picture.values == 0)).tolist():
        box = (column - 0.5, row - 0.5), 1, 1
        raised, line = THEMES["light"].raised, THEMES["light"].faint
        look = {"facecolor": raised, "edgecolor": line, "linewidth": 0}
        ax.add_patch(pyplot.Rectangle(*box, hatch="////", **look))
    ax.set_title(picture.title)
    ax.set_xlabel(picture.column_axis, color=HUES["key"][0])
    ax.set_ylabel(picture.row_axis, color=HUES["query"][0])
    ax.set_xticks(range(len(picture.columns)), picture.columns, rotation=90)
    ax.set_yticks(range(len(picture.rows)), picture.rows)
    if own:
        ax.figure.colorbar(image, ax=ax, shrink=0.6)
    return ax
