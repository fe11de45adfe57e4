"""How a tidy test ends: with every finding on a line of its own."""

from collections.abc import Iterable

import pytest

__all__ = ["expect_none"]


def expect_none(findings: Iterable[str]) -> None:
    """Fail with the findings, if there are any."""
    if lines := list(findings):
        pytest.fail("\n".join([f"{len(lines)} findings:", *lines]), pytrace=False)
