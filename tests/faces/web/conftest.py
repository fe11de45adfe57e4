"""One world for all tests of a module; a real browser where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

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
def chromium() -> Iterator[Browser]:
    """Debian's chromium, without a window."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium: apt install chromium")
    driving = pytest.importorskip(
        "playwright.sync_api", reason="there is no playwright: install the development dependencies"
    )
    with driving.sync_playwright() as driver:
        # Inside of a container its own sandbox cannot be made; it loads nothing but our pages.
        words = ["--no-sandbox", "--disable-dev-shm-usage"]
        with driver.chromium.launch(executable_path=program, args=words) as found:
            yield found
