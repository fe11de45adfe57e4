"""A table that fits its panel: long cells are cut, and the row under the cursor is marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from operator_sre.faces.terminal_text import clean

__all__ = ["Cell", "Column", "Row", "Table"]

MARK, NO_MARK = "▸ ", "  "
_GAP = "  "
_CUT = "…"
WHEEL_ROWS = 3
CELL_CHARS_MAX = 400


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and a width; 0 takes the remaining space. `needs` is the panel width to show it."""

    name: str
    width: int = 0
    needs: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and its style; the words alone carry the meaning."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """The key of a row, and its cells."""

    key: str
    cells: tuple[Cell, ...]


class Table(Widget, can_focus=True):
    """Rows with a cursor, for keys and mouse."""

    DEFAULT_CSS = """
    Table { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
        Binding("enter", "choose", "Open"),
    ]

    class Moved(Message):
        """The cursor is on another row, or that row has changed."""

        def __init__(self, table: Table, key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> Table:
            """The table of the cursor."""
            return self.table

    class Chosen(Moved):
        """A row was opened."""

    def __init__(
        self,
        *columns: Column,
        none: str,
        id: str | None = None,  # as every widget calls it
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._columns = columns
        self._none = none
        self._rows: tuple[Row, ...] = ()
        self._at = 0
        self._top = 0

    @property
    def key(self) -> str:
        """The key of the row under the cursor; empty without rows."""
        return self._rows[self._at].key if self._rows else ""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows."""
        return self._rows

    def show(self, rows: Sequence[Row], *, none: str = "") -> None:
        """Replace the rows; the cursor stays on its key."""
        before, self._none = self.key, none or self._none
        if tuple(rows) == self._rows and before:
            return
        self._rows = tuple(rows)
        places = {row.key: at for at, row in enumerate(rows)}
        self._at = places.get(before, min(self._at, max(0, len(rows) - 1)))
        self._keep_in_view()
        self.refresh()
        self.post_message(self.Moved(self, self.key))

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        wanted = min(max(0, self._at + by), max(0, len(self._rows) - 1))
        if wanted != self._at:
            self._at = wanted
            self._keep_in_view()
            self.refresh()
            self.post_message(self.Moved(self, self.key))

    def action_page(self, by: int) -> None:
        """Move by the height of the panel."""
        self.action_move(by * max(1, self._height - 1))

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if self._rows:
            self.post_message(self.Chosen(self, self.key))

    def on_click(self, event: Click) -> None:
        """Move the cursor; a click on the cursor opens the row."""
        place = event.get_content_offset(self)
        if place is None or place.y < 1 or not place.y <= len(self._rows) - self._top:
            return
        at = place.y - 1 + self._top
        if at == self._at:
            self.action_choose()
        else:
            self.action_move(at - self._at)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Move by the mouse wheel."""
        event.stop()
        self.action_move(-WHEEL_ROWS)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Move by the mouse wheel."""
        event.stop()
        self.action_move(WHEEL_ROWS)

    def on_resize(self, event: Resize) -> None:
        """Keep the cursor in view."""
        self._keep_in_view()

    def render_line(self, y: int) -> Strip:
        """Draw the headings, then one row per line."""
        style, width = self.rich_style, self.size.width
        if not self._rows:
            words = Segment(f"{NO_MARK}{self._none}" if y == 1 else "", style + Style(dim=True))
            return Strip([words]).crop(0, width).adjust_cell_length(width, style)
        kept = [(at, column) for at, column in enumerate(self._columns) if column.needs <= width]
        fixed = sum(column.width + len(_GAP) for _, column in kept if column.width)
        rest = max(8, width - len(MARK) - fixed)
        shown = [(at, column.name, column.width or rest) for at, column in kept]
        if y == 0:
            heads = [(name.upper(), size, style + Style(dim=True)) for _, name, size in shown]
            return _line(NO_MARK, heads, width, style)
        at = y - 1 + self._top
        if at >= len(self._rows):
            return Strip.blank(width, style)
        here = at == self._at
        if here:
            style += Style(bold=True, reverse=self.has_focus)
        cells = self._rows[at].cells
        parts = []
        for place, _, size in shown:
            text, name = cells[place].text, cells[place].style
            # A colour under the reversed cursor would become a background.
            looks = style if here or not name else style + Style.parse(name)
            parts.append((clean(text[:CELL_CHARS_MAX]).expandtabs(1), size, looks))
        return _line(MARK if here else NO_MARK, parts, width, style)

    @property
    def _height(self) -> int:
        return max(1, self.size.height - 1)

    def _keep_in_view(self) -> None:
        self._top = max(0, min(self._top, self._at, max(0, len(self._rows) - self._height)))
        if self._at >= self._top + self._height:
            self._top = self._at - self._height + 1


def _line(mark: str, parts: Sequence[tuple[str, int, Style]], width: int, style: Style) -> Strip:
    segments = [Segment(mark, style)]
    for text, size, looks in parts:
        whole = cell_len(text) <= size
        cut = text if whole else set_cell_size(text, max(0, size - 1)) + _CUT
        segments.append(Segment(set_cell_size(cut, size), looks))
        segments.append(Segment(_GAP, style))
    return Strip(segments).crop(0, width).adjust_cell_length(width, style)
