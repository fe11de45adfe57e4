"""The keys of a page, and the meaning of the symbols."""

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
    ("Tab", "next panel; Shift-Tab: previous panel"),
    ("↑ ↓ PgUp PgDn", "move; Home and End: first and last"),
    ("← →", "scroll long output lines sideways"),
    ("Enter", "open the selected row"),
    ("Esc", "back; leave a text field or a question"),
    ("K", "kill switch: stop all actions, or resume"),
    ("?", "this help"),
    ("q  Ctrl-C", "quit; in a text field only Ctrl-C quits"),
)
_SIGNS = (
    ("●", "healthy"),
    ("?", "unknown: could not be checked; not healthy"),
    ("✗", "broken, failed, or blocked"),
    ("►", "running"),
    ("▲", "pending approval"),
    ("■", "the kill switch is on"),
)


class Help(ModalScreen[None]):
    """A screen that any of its keys closes."""

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
        """Lay out the text."""
        keys = []
        for binding in type(self._page).BINDINGS:
            if isinstance(binding, Binding):
                names = " ".join(_NAMES.get(key, key) for key in binding.key.split(","))
                keys.append((names.replace("ctrl+", "Ctrl-"), binding.description))
        sections = {
            f"On this page ({self._page.NAME})": keys,
            "Everywhere": _EVERYWHERE,
            "Symbols": _SIGNS,
        }
        text = Text()
        for title, rows in sections.items():
            text.append(f"{title}\n", "bold")
            for key, words in rows:
                text.append(f"  {key:14}", "cyan")
                text.append(f" {words}\n")
            text.append("\n")
        with VerticalScroll() as box:
            box.border_title = "Help"
            box.border_subtitle = "Esc closes"
            yield Static(text, markup=False)

    def action_leave(self) -> None:
        """Return to the page."""
        self.dismiss(None)
