"""A cloud for the tests of a file; each test has its own things in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.subjects.aws.cloud import Cloud, serving

__all__ = ["cloud", "cloud_url"]


@pytest.fixture(scope="module")
def cloud_url() -> Iterator[str]:
    """A server that is up; it ends with the tests of a file."""
    with pytest.MonkeyPatch.context() as patch, serving(patch) as url:
        yield url


@pytest.fixture
def cloud(cloud_url: str, tmp_path: Path) -> Cloud:
    """Nothing is in it that this test has not put there."""
    return Cloud(cloud_url, tmp_path)
