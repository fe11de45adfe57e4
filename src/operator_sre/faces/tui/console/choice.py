"""One of several, marked so that no colour is needed to see which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.widget import Widget

__all__ = ["Choice"]


class Choice(Widget, can_focus=True):
    """A short list, of which exactly one is chosen."""

    DEFAULT_CSS = """
    Choice { height: auto; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down,space", "move(1)", "Down", show=False),
        Binding("enter", "app.focus_next", "On", show=False),
    ]

    def __init__(self, options: Sequence[tuple[str, str]], *, name: str) -> None:
        super().__init__(id=name)
        self._options = options
        self._at = 0

    @property
    def chosen(self) -> str:
        """The first word of the one that is marked."""
        return self._options[self._at][0]

    def render(self) -> Text:
        """A mark, and words; brighter while keys go here."""
        text = Text(no_wrap=True, overflow="ellipsis")
        for at, (_, words) in enumerate(self._options):
            here = at == self._at
            style = "bold reverse" if here and self.has_focus else "bold" if here else ""
            text.append(f"{'(●)' if here else '( )'} {words}", style)
            text.append("\n" if at + 1 < len(self._options) else "")
        return text

    def action_move(self, by: int) -> None:
        """The one below or above, round and round."""
        self._at = (self._at + by) % len(self._options)
        self.refresh()

    def on_click(self, event: Click) -> None:
        """The one that is clicked on."""
        place = event.get_content_offset(self)
        if place is not None and place.y < len(self._options):
            self._at = place.y
            self.refresh()
