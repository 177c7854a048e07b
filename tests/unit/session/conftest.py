"""The Session of these tests."""

from __future__ import annotations

import pytest

from tests.unit.session.sessions import Engine
from visformer.session import side_requests
from visformer.session.state import Session


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def session(engine: Engine) -> Session:
    return Session(engine=engine, needed=side_requests.needed)
