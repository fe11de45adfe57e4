"""Homes for the commands, as those of the core have them."""

from __future__ import annotations

from tests.faces.cli.conftest import home, lived, warm

__all__ = ["home", "lived", "warm"]
