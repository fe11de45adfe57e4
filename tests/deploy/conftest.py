"""The image of the service, built once for all tests that run it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.built import build_image, save_image, take_in
from tests.engines.base import base_or_why
from tests.engines.dockerd import private_engine


@pytest.fixture(scope="session")
def archive(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The image of the service, as an archive. The tests that use it are one group."""
    base, why = base_or_why()
    if base is None:
        pytest.skip(why)
    place = tmp_path_factory.mktemp("image") / "operator.tar"
    builder = private_engine(pytestconfig, outward=True)
    try:
        take_in(builder, base.tar)
        build_image(builder, "operator")
        save_image(builder, "operator", place)
    finally:
        builder.end()
    yield place
    place.unlink()
