"""One world for all tests of a module; a real browser where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.engines.chromium import running_chromium
from tests.faces.web.world import Web, web_at

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["chromium", "web"]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A home in which everything has happened, with its console."""
    with web_at(tmp_path_factory.mktemp("web")) as web:
        yield web


@pytest.fixture(scope="module")
def chromium(pytestconfig: pytest.Config) -> Iterator[Browser]:
    """Debian's chromium, without a window."""
    with running_chromium(pytestconfig) as found:
        yield found
