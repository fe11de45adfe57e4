"""The frame of every page: the head with tabs and status, the body, and the keys at the foot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.events import Click
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Input, Static

from operator_protocols.domain.entry import Entry
from operator_protocols.errors import OperatorError, StoreError
from operator_sre.faces.terminal_text import clean

if TYPE_CHECKING:
    from operator_sre.faces.tui.console.application import Console

__all__ = ["PAGES", "Head", "Page", "Panel", "SearchPage", "Standing"]

# A page is read at most this often, however quickly the ledger grows.
RELOAD_S = 0.25
HOME_CHARS_MIN = 8
PAGES: tuple[tuple[str, str], ...] = (
    ("1", "health"),
    ("2", "tickets"),
    ("3", "approvals"),
    ("4", "history"),
    ("5", "run"),
    ("6", "audit"),
)


@dataclass(frozen=True, slots=True)
class Standing:
    """The status that every page shows in its head."""

    home: str
    problem: str = ""
    waiting: int = 0
    switch_on: bool = False
    live: int = 0


class Head(Widget):
    """Two lines: the tabs, and the status."""

    DEFAULT_CSS = """
    Head { dock: top; height: 2; background: $surface; }
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self._page = page
        self._standing = Standing("")

    def show(self, standing: Standing) -> None:
        """Show this status."""
        if standing != self._standing:
            self._standing = standing
            self.refresh()

    def render(self) -> Text:
        """Words carry the meaning; colour only repeats them."""
        text = Text(no_wrap=True, overflow="ellipsis")
        for name, start, words in self._tabs():
            text.append(" " * (start - len(text)))
            here = name == self._page
            text.append(f"[{words[1:-1]}]" if here else words, "bold reverse" if here else "")
        text.append("\n")
        now = self._standing
        if now.problem:
            text.append(f" ! reconnecting: {clean(now.problem)}", "bold yellow")
            return text
        text.append(" ● connected", "green")
        if now.switch_on:
            text.append("   ■ KILL SWITCH ON", "bold red")
        if now.waiting:
            text.append(f"   ▲ {now.waiting} pending approval", "bold yellow")
        text.append(f"   {now.live} open ticket{'' if now.live == 1 else 's'}")
        room = self.size.width - len(text.plain.split("\n")[1]) - 4
        home = clean(now.home)
        if room > HOME_CHARS_MIN:
            text.append(f"   {home if len(home) <= room else '…' + home[1 - room :]}", "dim")
        return text

    def on_click(self, event: Click) -> None:
        """Open the page whose tab was clicked."""
        if event.y == 0:
            for name, start, words in self._tabs():
                if start <= event.x < start + len(words):
                    cast("Console", self.app).action_page(name)

    def _tabs(self) -> Iterable[tuple[str, int, str]]:
        at = 1
        for key, name in PAGES:
            count = f" ({self._standing.waiting})" if name == "approvals" else ""
            words = f" {key} {name.title()}{count if self._standing.waiting else ''} "
            yield name, at, words
            at += len(words) + 1


class Panel(VerticalScroll, can_focus=True):
    """Text that scrolls; it is shown without interpreting markup."""

    DEFAULT_CSS = """
    Panel { height: 1fr; }
    Panel > Static { width: 1fr; height: auto; }
    """

    def compose(self) -> ComposeResult:
        """A single text."""
        yield Static(markup=False)

    def show(self, text: Text) -> None:
        """Replace the text."""
        self.query_one(Static).update(text)

    @property
    def text_width(self) -> int:
        """The width of a line in cells."""
        return max(20, self.size.width - 2)


class Page(Screen[None]):
    """One page of the console. It reloads when the ledger grows, and at least every EVERY_S."""

    DEFAULT_CSS = """
    Page { background: $background; }
    Page Input { height: 3; border: round $primary-darken-2; }
    Page Input:focus { border: round $accent; }
    Page Lines, Page Panel, Page Table {
        border: round $primary-darken-2; padding: 0 1; border-title-color: $text;
    }
    Page Lines:focus, Page Panel:focus, Page Table:focus { border: round $accent; }
    Page .hidden { display: none; }
    """
    AUTO_FOCUS = "Table"
    NAME: ClassVar[str] = ""
    # Ages and deadlines change without a new entry, so it also reloads when the ledger is idle.
    EVERY_S: ClassVar[float] = 5.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False),
        Binding("tab", "app.focus_next", "Next panel", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._is_stale = False
        self._is_loading = False
        self._read_at = 0.0

    @property
    def console_app(self) -> Console:
        """The application with its own type."""
        return cast("Console", self.app)

    def compose(self) -> ComposeResult:
        """Lay out head, body and foot."""
        yield Head(self.NAME)
        yield from self.body()
        yield Footer(show_command_palette=False, compact=True)

    def body(self) -> ComposeResult:
        """Lay out the part between head and foot."""
        yield from ()

    async def load(self) -> None:
        """Read the data of the page and show it."""

    def on_mount(self) -> None:
        """Load the page and start its clock."""
        self.set_interval(1.0, self._second)
        self.stand()
        self.reload()

    def on_screen_resume(self) -> None:
        """Catch up with changes since the page was left."""
        self.stand()
        self.reload()

    def stand(self) -> None:
        """Update the head."""
        if not self.display:
            return
        self.query_one(Head).show(self.console_app.standing)

    def grew(self, entries: Sequence[Entry]) -> None:
        """Reload after new entries; without entries the ledger itself was replaced."""
        self.reload()

    def tick(self, now: datetime) -> None:
        """Update what depends on the time alone, once a second."""

    def reload(self) -> None:
        """Reload soon; several calls cost no more than one."""
        self._is_stale = True
        if not self._is_loading and self.is_mounted:
            self._is_loading = True
            self.work(self._loads(), group="loads")

    def work(self, task: Awaitable[None], *, group: str, exclusive: bool = False) -> None:
        """Run a task in the background for as long as the page is open."""

        async def until_left() -> None:
            try:
                await task
            except NoMatches:
                if self.display:
                    raise
                # The page is closing: its panels are removed before it is.

        self.run_worker(until_left(), group=group, exclusive=exclusive)

    def action_back(self) -> None:
        """Leave a text field."""
        if isinstance(self.focused, Input):
            self.focus_next()

    async def _loads(self) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                self._read_at = asyncio.get_running_loop().time()
                try:
                    await self.load()
                except StoreError:
                    pass  # the head says so, and the page reloads when the store is back
                except OperatorError as error:
                    self.console_app.say(str(error), bad=True)
                await asyncio.sleep(RELOAD_S)
        finally:
            self._is_loading = False

    def _second(self) -> None:
        if not self.is_current:
            return
        self.tick(self.console_app.now())
        if asyncio.get_running_loop().time() - self._read_at >= self.EVERY_S:
            self.reload()


class SearchPage(Page):
    """A page with a search field above its table, which is hidden until it is needed."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while the text is typed."""
        self._text = event.value.strip()
        self.reload()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Focus the results."""
        self.query_one("Table").focus()

    def action_search(self) -> None:
        """Show the search field."""
        field = self.query_one(Input)
        field.remove_class("hidden")
        field.focus()

    def action_back(self) -> None:
        """Clear and hide the search field."""
        field = self.query_one(Input)
        field.value = ""
        field.add_class("hidden")
        self.query_one("Table").focus()
