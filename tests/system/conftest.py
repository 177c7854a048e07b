"""What tests of whole parts of the system need."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def patience() -> None:
    """Let searches that are limited in time find, on a busy machine, what there is."""
    from visformer.formats import fitting, switches

    fitting._SECONDS = switches._SECONDS = 60.0
