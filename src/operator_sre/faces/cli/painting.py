"""Lines of a story: coloured on a terminal, plain in a pipe; NO_COLOR is respected."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from operator_sre.faces.cli.output import is_quiet, print_lines

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["STYLES", "Painter"]

STYLES = {"good": "green", "bad": "bold red", "warn": "yellow", "strong": "bold", "plain": ""}
STEP_STYLE = "cyan"


class Painter:
    """Prints one line after the other."""

    def __init__(self) -> None:
        self.console: Console | None = None
        if sys.stdout.isatty() and not is_quiet():
            from rich.console import Console

            plain = bool(os.environ.get("NO_COLOR"))
            self.console = Console(highlight=False, color_system=None if plain else "auto")

    def line(self, place: str, step: str, text: str, style: str) -> None:
        """One line: when, which step of the journey speaks, and what it says."""
        if self.console is None:
            print_lines([f"{place}{step}{text}".rstrip()])
            return
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        if not step:
            # As it is, however long: a command that was broken in two could not be copied.
            self.console.print(Text(text, style=style), soft_wrap=True)
            return
        grid = Table.grid(padding=0)
        grid.add_column(width=len(place + step))
        grid.add_column(ratio=1, overflow="fold")
        grid.add_row(Text.assemble((place, "dim"), (step, STEP_STYLE)), Text(text, style=style))
        self.console.print(Padding(grid, 0, expand=False))
