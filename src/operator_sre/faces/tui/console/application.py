"""The console application: its pages, its status, and its connection to the home."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.text import Text
from textual.app import App as TextualApp
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.ticket import TicketState
from operator_protocols.errors import OperatorError, StoreError
from operator_sre.clock import SystemClock
from operator_sre.faces.terminal_text import clean
from operator_sre.faces.tui.console.approvals import ApprovalsPage
from operator_sre.faces.tui.console.audit import AuditPage
from operator_sre.faces.tui.console.frame import PAGES, Page, Standing
from operator_sre.faces.tui.console.health import HealthPage
from operator_sre.faces.tui.console.history import HistoryPage
from operator_sre.faces.tui.console.link import CONNECTING, Growth, Link
from operator_sre.faces.tui.console.run import RunPage
from operator_sre.faces.tui.console.switch import SwitchQuestion
from operator_sre.faces.tui.console.ticket import TicketPage, TicketsPage

if TYPE_CHECKING:
    from textual.driver import Driver

    from operator_sre.app.wiring import App
    from operator_sre.config import Config
    from operator_sre.faces.tui.console.frame import Page

__all__ = ["Console", "Help"]

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


T = TypeVar("T")
LOOK_S = 0.25
SAID_S = 4.0
# The status is also read when the ledger is idle, because requests expire.
STAND_EVERY = 8
LIVE = tuple(state for state in TicketState if state.live)


class Console(TextualApp[int]):
    """Driven by keys. It calls the app and decides nothing itself."""

    TITLE = "operator"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Toast { max-width: 76; }
    Footer { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"page('{name}')", name.title(), show=False) for key, name in PAGES),
        Binding("K", "kill_switch", "Kill"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c,ctrl+q", "quit", "Quit", show=False, priority=True),
    ]
    MODES: ClassVar[dict[str, Callable[[], Page]]] = {  # type: ignore[assignment]
        "health": HealthPage,
        "tickets": TicketsPage,
        "approvals": ApprovalsPage,
        "history": HistoryPage,
        "run": RunPage,
        "audit": AuditPage,
    }
    DEFAULT_MODE = "health"

    def __init__(self, config: Config, driver_class: type[Driver] | None = None) -> None:
        super().__init__(driver_class)
        self.config = config
        self.link = Link(config)
        self.standing = Standing(_short(config.home), problem=CONNECTING)
        self.here = str(Path.cwd())
        # A command that another page hands to the run page, where a person reviews it first.
        self.wanted = ""
        self._clock = SystemClock()
        self._is_looking = False
        self._looks = 0
        if not os.environ.get("NO_COLOR"):
            self.theme = "textual-dark"

    def now(self) -> datetime:
        """The current time."""
        return self._clock.now()

    def on_mount(self) -> None:
        """Start following the ledger."""
        self.call_after_refresh(self._look)
        self.set_interval(LOOK_S, self._look)

    async def on_unmount(self) -> None:
        """Stop the console's own commands and close the store."""
        await self.link.close()

    async def read(self, call: Callable[[App], T]) -> T:
        """Read from the app in a thread, so that keys never wait."""
        return await self.link.read(call)

    async def act(self, call: Callable[[App], Awaitable[T]], *, done: str = "") -> T | None:
        """Act through the app; on an error, show it and return None."""
        try:
            found = await self.link.act(call)
        except OperatorError as error:
            self.say(str(error), bad=True)
            return None
        if done:
            self.say(done)
        self.grew(())
        return found

    def say(self, sentence: str, *, bad: bool = False) -> None:
        """Show a short notification."""
        self.notify(
            clean(sentence),
            severity="error" if bad else "information",
            markup=False,
            timeout=SAID_S * (2 if bad else 1),
        )

    def grew(self, entries: Sequence[Entry]) -> None:
        """Pass new entries to the open pages."""
        for screen in self.screen_stack:
            if isinstance(screen, Page):
                screen.grew(entries)

    def action_page(self, name: str) -> None:
        """Open a page."""
        if len(self.screen_stack) > 1 and not isinstance(self.screen, Page):
            return  # a question must be answered first
        if name == self.current_mode:
            while len(self.screen_stack) > 1:
                self.pop_screen()
        else:
            self.switch_mode(name)

    def action_help(self) -> None:
        """Show the keys of this page."""
        if isinstance(self.screen, Page):
            self.push_screen(Help(self.screen))

    def action_kill_switch(self) -> None:
        """Ask before the kill switch changes."""
        if isinstance(self.screen, Page):
            self.push_screen(SwitchQuestion(on=self.standing.switch_on))

    def open_ticket(self, number: int) -> None:
        """Open the page of one ticket."""
        self.push_screen(TicketPage(number))

    def _look(self) -> None:
        """Read the status and the new entries of the ledger, unless that is under way."""

        async def look() -> None:
            home = _short(self.config.home)
            try:
                growth = await self.link.look()
                self._looks += 1
                if growth.anew or growth.entries or self._looks % STAND_EVERY == 0:
                    if self.link.problem:
                        self._show(Standing(home, problem=self.link.problem))
                    else:
                        self._show(await self.read(lambda app: _standing(app, home)))
                elif self.link.problem != self.standing.problem:
                    self._show(Standing(home, problem=self.link.problem))
                if growth != Growth():
                    self.grew(growth.entries)
            except StoreError as error:
                self._show(Standing(home, problem=error.message.rstrip(".")))
            except OperatorError as error:  # invalid settings; a later try may succeed
                self._show(Standing(home, problem=str(error).rstrip(".")))
            finally:
                self._is_looking = False

        if not self._is_looking:
            self._is_looking = True
            self.run_worker(look(), group="looks")

    def _show(self, standing: Standing) -> None:
        self.standing = standing
        # No screen is open when a read finishes while the console closes.
        for screen in self.screen_stack[-1:]:
            if isinstance(screen, Page):
                screen.stand()


def _standing(app: App, home: str) -> Standing:
    from operator_sre.app import confirmations
    from operator_sre.app.approvals import list_approvals
    from operator_sre.app.restraints import switch_state

    approvals = len(list_approvals(app, pending_only=True))
    changes = len(confirmations.find(app, pending_only=True))
    return Standing(
        home=home,
        waiting=approvals + changes,
        switch_on=switch_state(app).on,
        live=len(app.store.tickets.find(states=LIVE)),
    )


def _short(home: Path) -> str:
    """The path, with ~ for the home directory."""
    try:
        return f"~/{home.relative_to(Path.home())}"
    except ValueError:
        return str(home)
