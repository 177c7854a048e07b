"""Views: each paints the picture of its name.

The tabs stand in the order of the data. Adding one is one entry in ``VIEWS``: its
name, its title, and its class; and its name and pages in ``looked.PAGES``, which is
read without Qt.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from visformer.language import N_
from visformer.program.guard import contain_overrides

if TYPE_CHECKING:
    from visformer.session.state import Session
    from visformer.ui.views.view import View


class LazyView:
    """A view whose module, of the view's name, is imported once it is built.

    The start imports the view on screen alone.
    """

    def __init__(
        self, name: str, title: str, kind: str, purpose: str, *needs: str
    ) -> None:
        """``kind``: its class by name; ``purpose``: what it shows, in a sentence.

        ``needs``: modules that it imports, each of which takes long with its own.
        """
        self.name, self.title, self.class_name = name, title, kind
        self.purpose, self.needs = purpose, needs

    def __call__(self, session: Session) -> View:
        """Build it."""
        return self.kind(session)

    @property
    def pages(self) -> tuple[type[View], ...]:
        """The classes of its pages; () for a view without pages."""
        return self.kind.pages

    def imports(self) -> Iterator[object]:
        """Import what it needs, in pieces, before it is built."""
        yield from map(import_module, self.needs)
        yield self.kind
        yield from self.kind.imports()

    @cached_property
    def kind(self) -> type[View]:
        """Its class."""
        module = import_module(f"{__name__}.{self.name}.{self.name}")
        contain_overrides()
        found: type[View] = getattr(module, self.class_name)
        return found


VIEWS: tuple[LazyView, ...] = (
    LazyView(
        "architecture",
        N_("Architecture"),
        "ArchitectureView",
        N_("The model as a diagram, with its shapes and numbers of parameters."),
        "visformer.pictures.diagram.stacks",
        "visformer.pictures.diagram.zoom",
        "visformer.pictures.diagram.architecture",
    ),
    LazyView(
        "positions",
        N_("Positions"),
        "PositionsView",
        N_("How the model is told where in the sentence each token stands."),
        "visformer.ui.views.positions.position_input",
    ),
    LazyView(
        "attention",
        N_("Attention"),
        "AttentionView",
        N_("Which tokens each token reads, and how much of each, head by head."),
    ),
    LazyView(
        "computation",
        N_("Computation"),
        "ComputationView",
        N_("How one layer computes its numbers, stage by stage."),
        "visformer.pictures.computation.attention_stages",
        "visformer.pictures.computation.stages",
    ),
    LazyView(
        "masks",
        N_("Masks"),
        "MasksView",
        N_("Which tokens may read which, and what happens if that is changed."),
    ),
    LazyView(
        "output",
        N_("Output"),
        "OutputView",
        N_("How the decoder's output becomes the next token."),
    ),
    LazyView(
        "runs",
        N_("Runs"),
        "RunsView",
        N_("What was run so far, what was changed, and how two runs differ."),
    ),
    LazyView(
        "diagnosis",
        N_("Diagnosis"),
        "DiagnosisView",
        N_("What is unusual or wrong with the model, and where to look for it."),
    ),
)
