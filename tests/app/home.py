"""An operator home for a test of the use cases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from operator_sre.app.wiring import App, open_app
from operator_sre.config import load_config

__all__ = ["SUBJECTS", "opened"]

SUBJECTS = """
[subjects.shop]
plugin = "ratelimiter"
[[subjects.shop.targets]]
name = "node-1"
kind = "node"
port = 1
log = "/srv/shop/node-1.log"
"""


@contextmanager
def opened(folder: Path, toml: str = "", **flags: str) -> Iterator[App]:
    """The app on a home in this folder, with these settings."""
    (folder / "operator.toml").write_text(toml)
    given = {"home": str(folder / "home"), **flags}
    with open_app(load_config(flags=given, environ={}, cwd=folder)) as app:
        yield app
