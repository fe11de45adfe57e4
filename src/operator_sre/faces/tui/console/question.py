"""Questions over a page: the text, the fields to answer with, and how to leave it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Click
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

if TYPE_CHECKING:
    from operator_sre.faces.tui.console.application import Console

__all__ = ["Choice", "Question"]

REASON_CHARS_MAX = 1_000


class Question(ModalScreen[None]):
    """A dialog that changes nothing before its button is pressed; Esc cancels."""

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
        Binding("escape", "leave", "Cancel"),
        Binding("ctrl+s", "do", "Confirm"),
        Binding("left", "app.focus_previous", "Back", show=False),
        Binding("right", "app.focus_next", "Next", show=False),
    ]

    @property
    def console_app(self) -> Console:
        """The application with its own type."""
        return cast("Console", self.app)

    def compose(self) -> ComposeResult:
        """Lay out a box in the middle."""
        with Vertical(id="box"):
            yield Static(self.words(), markup=False, id="words")
            yield from self.fields()
            with Horizontal(id="buttons"):
                yield Button(f"{self.YES} (Ctrl-S)", id="yes", variant="warning", compact=True)
                yield Button("Cancel (Esc)", id="no", compact=True)

    def on_mount(self) -> None:
        """Focus the first field."""
        self.query_one("#box").border_title = self.TITLE_TEXT
        first: Iterable[Widget] = self.query("Input, Choice")
        next(iter(first), self.query_one("#no")).focus()

    def words(self) -> Text:
        """The text of the question."""
        return Text("")

    def fields(self) -> ComposeResult:
        """The fields to fill in."""
        yield from ()

    async def do(self) -> bool:
        """Act on the answer; False when the question stays open."""
        return True

    def reason_field(self, placeholder: str = "reason") -> Input:
        """A field for a reason."""
        return Input(placeholder=placeholder, id="reason", max_length=REASON_CHARS_MAX)

    @property
    def reason(self) -> str:
        """The reason that was typed."""
        return self.query_one("#reason", Input).value.strip()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter moves to the next field and never confirms."""
        self.focus_next()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Confirm or cancel."""
        if event.button.id == "yes":
            self.action_do()
        else:
            self.action_leave()

    def action_leave(self) -> None:
        """Close without any change."""
        self.dismiss(None)

    def action_do(self) -> None:
        """Confirm once."""
        yes = self.query_one("#yes", Button)

        async def answer() -> None:
            if await self.do():
                self.dismiss(None)
            else:
                yes.disabled = False

        if not yes.disabled:
            yes.disabled = True
            self.run_worker(answer(), group="answer")


class Choice(Widget, can_focus=True):
    """A short list with exactly one option chosen; the mark needs no colour."""

    DEFAULT_CSS = """
    Choice { height: auto; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down,space", "move(1)", "Down", show=False),
        Binding("enter", "app.focus_next", "Next", show=False),
    ]

    def __init__(self, options: Sequence[tuple[str, str]], *, name: str) -> None:
        super().__init__(id=name)
        self._options = options
        self._at = 0

    @property
    def chosen(self) -> str:
        """The value of the marked option."""
        return self._options[self._at][0]

    def render(self) -> Text:
        """A mark and the words; highlighted while it has the focus."""
        text = Text(no_wrap=True, overflow="ellipsis")
        for at, (_, words) in enumerate(self._options):
            here = at == self._at
            style = "bold reverse" if here and self.has_focus else "bold" if here else ""
            text.append(f"{'(●)' if here else '( )'} {words}", style)
            text.append("\n" if at + 1 < len(self._options) else "")
        return text

    def action_move(self, by: int) -> None:
        """Move the mark, wrapping around."""
        self._at = (self._at + by) % len(self._options)
        self.refresh()

    def on_click(self, event: Click) -> None:
        """Mark the option that was clicked."""
        place = event.get_content_offset(self)
        if place is not None and place.y < len(self._options):
            self._at = place.y
            self.refresh()
