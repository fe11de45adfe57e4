"""Questions over a page: what is asked, what can be said to it, and how to leave it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

if TYPE_CHECKING:
    from operator_sre.faces.tui.console.application import Console

__all__ = ["Question"]

REASON_CHARS_MAX = 1_000


class Question(ModalScreen[None]):
    """Nothing is done before its button is pressed; Esc leaves everything as it is."""

    DEFAULT_CSS = """
    Question { align: center middle; }
    Question #box {
        width: 76; max-width: 96%; height: auto; max-height: 96%;
        border: round $accent; background: $surface; padding: 0 1; overflow-y: auto;
    }
    Question Static { height: auto; }
    Question Input { height: 3; border: round $primary-darken-2; }
    Question Input:focus { border: round $accent; }
    Question #buttons { height: 1; margin: 1 0 0 0; align-horizontal: right; }
    Question Button { height: 1; border: none; min-width: 12; margin: 0 0 0 2; }
    Question Button:focus { text-style: bold reverse; }
    """
    TITLE_TEXT: ClassVar[str] = ""
    YES: ClassVar[str] = "Yes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave it"),
        Binding("ctrl+s", "do", "Do it"),
        Binding("left", "app.focus_previous", "Back", show=False),
        Binding("right", "app.focus_next", "On", show=False),
    ]

    @property
    def console_app(self) -> Console:
        """The application, as what it is."""
        return cast("Console", self.app)

    def compose(self) -> ComposeResult:
        """A box in the middle."""
        with Vertical(id="box"):
            yield Static(self.words(), markup=False, id="words")
            yield from self.fields()
            with Horizontal(id="buttons"):
                yield Button(f"{self.YES} (Ctrl-S)", id="yes", variant="warning", compact=True)
                yield Button("Leave it (Esc)", id="no", compact=True)

    def on_mount(self) -> None:
        """The first thing that can be said."""
        self.query_one("#box").border_title = self.TITLE_TEXT
        first: Iterable[Widget] = self.query("Input, Choice")
        next(iter(first), self.query_one("#no")).focus()

    def words(self) -> Text:
        """What is asked."""
        return Text("")

    def fields(self) -> ComposeResult:
        """What can be said to it."""
        yield from ()

    async def do(self) -> bool:
        """Do it; False when the question stays open."""
        return True

    def reason_field(self, placeholder: str = "why, in your words") -> Input:
        """A line for a reason."""
        return Input(placeholder=placeholder, id="reason", max_length=REASON_CHARS_MAX)

    @property
    def reason(self) -> str:
        """What was typed as a reason."""
        return self.query_one("#reason", Input).value.strip()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes on to the next field, and never does anything by itself."""
        self.focus_next()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """One of the two."""
        if event.button.id == "yes":
            self.action_do()
        else:
            self.action_leave()

    def action_leave(self) -> None:
        """Everything stays as it is."""
        self.dismiss(None)

    def action_do(self) -> None:
        """Do it, once."""
        yes = self.query_one("#yes", Button)
        if not yes.disabled:
            yes.disabled = True
            self.run_worker(self._done(), group="answer")

    async def _done(self) -> None:
        if await self.do():
            self.dismiss(None)
        else:
            self.query_one("#yes", Button).disabled = False
