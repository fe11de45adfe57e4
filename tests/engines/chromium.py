"""A real browser for the tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.engines.marks import demand_mark

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["running_chromium"]


@contextmanager
def running_chromium(config: pytest.Config) -> Iterator[Browser]:
    """Debian's chromium, without a window; skips where there is none."""
    demand_mark(config)
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
