"""The command line: one file for each noun."""

from __future__ import annotations

from operator_sre.faces.cli.main import main

__all__ = ["main"]
