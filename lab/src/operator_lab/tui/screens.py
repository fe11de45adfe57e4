"""What lies over the panels for a while: help, the report, and a question to the viewer."""

from __future__ import annotations

from typing import ClassVar

from rich.markdown import Markdown
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from operator_lab.tui.panels import ApprovalRequest
from operator_sre.faces.terminal_text import clean

__all__ = ["AskScreen", "HelpScreen", "ReportScreen"]

KEYS = (
    ("SPACE  ENTER  →", "continue"),
    ("b", "back one page"),
    ("a", "decide the approval request, with --mode approve"),
    ("r", "the incident report, once there is one"),
    ("?", "this help"),
    ("q  Ctrl-C", "quit; nothing is left behind"),
)
READING = (
    ("●  ✖  ○", "a node that is running, down, starting"),
    ("bars", "requests/s; red below half of the baseline"),
    ("SAFE  REVIEW  BLOCKED", "the gate's verdict on a command"),
)


class HelpScreen(ModalScreen[None]):
    """The keys, and how to read the panels."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,space,enter,q", "dismiss_help", "Close"),
    ]

    def compose(self) -> ComposeResult:
        """One box in the middle."""
        text = Text()
        for title, rows in (("Keys", KEYS), ("Panels", READING)):
            text.append(f"{title}\n", "bold cyan")
            for key, meaning in rows:
                text.append(f"  {key:22}", "bold")
                text.append(f"{meaning}\n")
        with Vertical(classes="box") as box:
            box.border_title = "help"
            box.border_subtitle = "ESC closes"
            yield Static(text)

    def action_dismiss_help(self) -> None:
        """Close it."""
        self.dismiss()


class ReportScreen(ModalScreen[None]):
    """The report, laid out; a terminal obeys nothing in it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,r,b", "dismiss_report", "Back"),
        Binding("q", "app.leave", "Quit"),
        Binding("question_mark", "app.help", "Help"),
    ]

    def __init__(self, report: str) -> None:
        super().__init__()
        self._report = report

    def compose(self) -> ComposeResult:
        """One box that can be scrolled."""
        text = "\n".join(map(clean, self._report.splitlines()))
        with VerticalScroll(classes="box tall") as box:
            box.border_title = "incident report"
            box.border_subtitle = "↑ ↓ scroll · ESC back to the panels · q quit"
            # Without links: their addresses come from the systems in the report.
            yield Static(Markdown(text, hyperlinks=False))

    def action_dismiss_report(self) -> None:
        """Back to the panels."""
        self.dismiss()


class AskScreen(ModalScreen[bool | None]):
    """The exact command that would run, and yes or no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a,y", "answer(True)", "Approve"),
        Binding("r,n", "answer(False)", "Reject"),
        Binding("escape", "later", "Later"),
        Binding("q", "app.leave", "Quit"),
    ]

    def __init__(self, request: ApprovalRequest) -> None:
        super().__init__()
        self.request = request

    def compose(self) -> ComposeResult:
        """What a person wants to know before they answer."""
        request = self.request
        text = Text("Approve this action?\n\n")
        text.append(f"  {clean(request.command)}\n\n", "bold yellow")
        rows = (
            ("target", request.target),
            ("dir", request.cwd),
            ("risk", request.risk),
            ("why", request.why),
            ("effect", request.expected),
        )
        for name, value in rows:
            if value:
                text.append(f"{name:8}", "dim")
                text.append(f"{clean(value)}\n")
        with VerticalScroll(classes="box") as box:
            box.border_title = "your approval"
            box.border_subtitle = "a approves · r rejects · ESC later"
            yield Static(text)

    def action_answer(self, yes: bool) -> None:
        """The viewer has decided."""
        self.dismiss(yes)

    def action_later(self) -> None:
        """Not now; the key `a` asks again."""
        self.dismiss(None)
