"""Whoever needs an engine or a browser is marked, so that `make test` takes as long everywhere."""

from __future__ import annotations

import os

import pytest

__all__ = ["demand_mark"]


def demand_mark(config: pytest.Config) -> None:
    """Fail the test that runs now unless it is left to `make test-system` or to long runs."""
    session = config.pluginmanager.get_plugin("session")
    assert isinstance(session, pytest.Session)
    name = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0]
    (running,) = (item for item in session.items if item.nodeid == name)
    if not any(running.iter_markers("system")) and not any(running.iter_markers("slow")):
        pytest.fail("it needs a Docker engine or a browser: mark it `system`", pytrace=False)
