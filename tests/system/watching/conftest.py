"""Every certificate that a test of this folder asks for is held to what it claims."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.watching.claims_found import Heard, certificates_heard
from tests.system.watching.claims_watched import false_of


@pytest.fixture(autouse=True)
def certificates() -> Iterator[list[Heard]]:
    """What the certificates of a test have said so far."""
    with certificates_heard() as heard:
        yield heard
    false = false_of(heard)
    assert not false, "\n".join(false)
