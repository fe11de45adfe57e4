"""All keys of a page, and what the signs mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from operator_sre.faces.tui.console.frame import PAGES

if TYPE_CHECKING:
    from operator_sre.faces.tui.console.frame import Page

__all__ = ["Help"]

_NAMES = {"question_mark": "?", "slash": "/", "escape": "Esc", "enter": "Enter", "tab": "Tab"}
_EVERYWHERE = (
    ("1 … 6", "the pages: " + ", ".join(name for _, name in PAGES)),
    ("Tab", "the next panel; Shift-Tab the one before"),
    ("↑ ↓ PgUp PgDn", "move; Home and End go to the first and the last"),
    ("← →", "in a panel of output: more of what is cut"),
    ("Enter", "open what the cursor is on"),
    ("Esc", "back; out of a line of text, out of a question"),
    ("K", "kill switch: stop everything, or let it go on"),
    ("?", "this help"),
    ("q  Ctrl-C", "quit; in a line of text only Ctrl-C does"),
)
_SIGNS = (
    ("●", "healthy"),
    ("?", "unknown: nobody can say, which is not healthy"),
    ("✗", "broken, failed, or blocked"),
    ("►", "runs now"),
    ("▲", "waits for a person"),
    ("■", "the kill switch is on"),
)


class Help(ModalScreen[None]):
    """Read, and left by any of its keys."""

    DEFAULT_CSS = """
    Help { align: center middle; }
    Help VerticalScroll {
        width: 72; max-width: 96%; height: auto; max-height: 96%;
        border: round $accent; background: $surface; padding: 0 2;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter,space", "leave", "Close"),
    ]

    def __init__(self, page: Page) -> None:
        super().__init__()
        self._page = page

    def compose(self) -> ComposeResult:
        """One text."""
        with VerticalScroll() as box:
            box.border_title = "Help"
            box.border_subtitle = "Esc closes it"
            yield Static(self._text(), markup=False)

    def action_leave(self) -> None:
        """Back to the page."""
        self.dismiss(None)

    def _text(self) -> Text:
        text = Text()
        _section(text, f"On this page ({self._page.NAME})", self._own())
        _section(text, "Everywhere", _EVERYWHERE)
        _section(text, "Signs", _SIGNS)
        return text

    def _own(self) -> list[tuple[str, str]]:
        found = []
        for one in type(self._page).BINDINGS:
            if isinstance(one, Binding):
                keys = [_NAMES.get(key, key) for key in one.key.split(",")]
                found.append((" ".join(keys).replace("ctrl+", "Ctrl-"), one.description))
        return found


def _section(
    text: Text, title: str, rows: tuple[tuple[str, str], ...] | list[tuple[str, str]]
) -> None:
    text.append(f"{title}\n", "bold")
    for keys, words in rows:
        text.append(f"  {keys:14}", "cyan")
        text.append(f" {words}\n")
    text.append("\n")
