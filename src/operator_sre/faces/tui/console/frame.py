"""What every page has: a head with all pages and how things stand, and its keys at the foot."""

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
from operator_sre.faces.cleaning import clean

if TYPE_CHECKING:
    from operator_sre.faces.tui.console.application import Console

__all__ = ["PAGES", "Head", "Page", "Panel", "Standing"]

# How often a page is read anew at most, however quickly the ledger grows.
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
    """How things stand, as every page shows it."""

    home: str
    problem: str = ""
    waiting: int = 0
    switch_on: bool = False
    live: int = 0


class Head(Widget):
    """Two lines: the pages, of which one is open, and how things stand."""

    DEFAULT_CSS = """
    Head { dock: top; height: 2; background: $surface; }
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self._page = page
        self._standing = Standing("")

    def show(self, standing: Standing) -> None:
        """Show how things stand now."""
        if standing != self._standing:
            self._standing = standing
            self.refresh()

    def render(self) -> Text:
        """Words for everything; colour only repeats them."""
        text = Text(no_wrap=True, overflow="ellipsis")
        for name, start, words in self._tabs():
            text.append(" " * (start - len(text)))
            here = name == self._page
            text.append(f"[{words[1:-1]}]" if here else words, "bold reverse" if here else "")
        text.append("\n")
        now = self._standing
        if now.problem:
            text.append(f" ! trying again: {clean(now.problem)}", "bold yellow")
            return text
        text.append(" ● connected", "green")
        if now.switch_on:
            text.append("   ■ KILL SWITCH ON", "bold red")
        if now.waiting:
            text.append(f"   ▲ {now.waiting} waiting for a person", "bold yellow")
        text.append(f"   {now.live} live ticket{'' if now.live == 1 else 's'}")
        room = self.size.width - len(text.plain.split("\n")[1]) - 4
        home = clean(now.home)
        if room > HOME_CHARS_MIN:
            text.append(f"   {home if len(home) <= room else '…' + home[1 - room :]}", "dim")
        return text

    def on_click(self, event: Click) -> None:
        """A page is opened by its name as well."""
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
    """Text that can be scrolled; from wherever it comes, it is shown as it is."""

    DEFAULT_CSS = """
    Panel { height: 1fr; }
    Panel > Static { width: 1fr; height: auto; }
    """

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static(markup=False)

    def show(self, text: Text) -> None:
        """Show this text instead."""
        self.query_one(Static).update(text)

    @property
    def text_width(self) -> int:
        """How many cells a line has."""
        return max(20, self.size.width - 2)


class Page(Screen[None]):
    """One page of the console. It is read again when the ledger has grown, and now and then."""

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
    # How often it is read even when the ledger is silent; what it shows may be about time.
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
        """The application, as what it is."""
        return cast("Console", self.app)

    def compose(self) -> ComposeResult:
        """Head, body and foot."""
        yield Head(self.NAME)
        yield from self.body()
        yield Footer(show_command_palette=False, compact=True)

    def body(self) -> ComposeResult:
        """What is between head and foot."""
        yield from ()

    async def load(self) -> None:
        """Read what is shown, and show it."""

    def on_mount(self) -> None:
        """Show what there is."""
        self.set_interval(1.0, self._second)
        self.stand()
        self.reload()

    def on_screen_resume(self) -> None:
        """What was missed meanwhile."""
        self.stand()
        self.reload()

    def stand(self) -> None:
        """Show how things stand."""
        if not self.display:
            return
        self.query_one(Head).show(self.console_app.standing)

    def grew(self, entries: Sequence[Entry]) -> None:
        """The ledger has more, or is another one when there are none."""
        self.reload()

    def tick(self, now: datetime) -> None:
        """A second has passed, and nothing else."""

    def reload(self) -> None:
        """Read again, soon; asking often costs no more than asking once."""
        self._is_stale = True
        if not self._is_loading and self.is_mounted:
            self._is_loading = True
            self.work(self._loads(), group="loads")

    def work(self, task: Awaitable[None], *, group: str, exclusive: bool = False) -> None:
        """Do it beside the keys, and no longer than the page is there."""
        self.run_worker(self._until_left(task), group=group, exclusive=exclusive)

    async def _until_left(self, task: Awaitable[None]) -> None:
        try:
            await task
        except NoMatches:
            if self.display:
                raise
            # The page is being left, and its panels go before it does.

    def action_back(self) -> None:
        """Leave a line of text for what it is about."""
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
                    pass  # the head says so, and it is read again when the store is back
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
