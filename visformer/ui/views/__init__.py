"""Views: each paints the picture of its name.

The tabs stand in the order of the data. Adding one is one entry in ``VIEWS``: its
name, its title, and its class.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from visformer.language import N_
from visformer.ui.guard import contain_overrides

if TYPE_CHECKING:
    from visformer.session.state import Session
    from visformer.ui.views.view import View


class LazyView:
    """A view whose module, of the view's name, is imported once it is built.

    The start imports the view on screen alone.
    """

    def __init__(self, name: str, title: str, kind: str) -> None:
        """``kind``: the name of its class."""
        self.name, self.title, self.class_name = name, title, kind

    def __call__(self, session: Session) -> View:
        """Build it."""
        return self.kind(session)

    @property
    def pages(self) -> tuple[type[View], ...]:
        """The classes of its pages; () for a view without pages."""
        return self.kind.pages

    @cached_property
    def kind(self) -> type[View]:
        """Its class."""
        module = import_module(f"{__name__}.{self.name}")
        contain_overrides()
        found: type[View] = getattr(module, self.class_name)
        return found


VIEWS: tuple[LazyView, ...] = (
    LazyView("architecture", N_("Architecture"), "ArchitectureView"),
    LazyView("positions", N_("Positions"), "PositionsView"),
    LazyView("attention", N_("Attention"), "AttentionView"),
    LazyView("computation", N_("Computation"), "ComputationView"),
    LazyView("masks", N_("Masks"), "MasksView"),
    LazyView("output", N_("Output"), "OutputView"),
)
