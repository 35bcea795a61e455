"""A service with one project for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import Served, make_project, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service for a module, on which the account of the process acts."""
    with serving(make_project(tmp_path_factory.mktemp("work") / "shop")) as running:
        yield running
