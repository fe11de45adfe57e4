"""What a person does with a ticket: hold it, let it go, say something, end it, begin again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Input

from operator_protocols.domain.ticket import MoveKind
from operator_sre.faces.tui.console.asking import Question
from operator_sre.faces.tui.console.choice import Choice

if TYPE_CHECKING:
    from operator_protocols.domain.ticket import Ticket
    from operator_sre.app.wiring import App

__all__ = ["MOVES", "MoveQuestion"]

RESOLVE = "resolve"
MOVES: tuple[tuple[str, str], ...] = (
    (MoveKind.COMMENT, "comment: add a sentence to its story"),
    (MoveKind.HOLD, "hold: keep agents off it"),
    (MoveKind.SNOOZE, "snooze: it comes back by itself"),
    (MoveKind.UNHOLD, "let go: agents may work on it again"),
    (MoveKind.ASSIGN, "assign: say whose it is"),
    (MoveKind.ESCALATE, "escalate: give it to people"),
    (RESOLVE, "resolve: look ourselves, and end it with a proof"),
    (MoveKind.CLOSE, "close: end it without a proof"),
    (MoveKind.REOPEN, "reopen: have it worked on again"),
)


class MoveQuestion(Question):
    """One of the moves, with what it needs."""

    TITLE_TEXT = "Move the ticket"
    YES = "Do it"

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def words(self) -> Text:
        """Which ticket."""
        return Text(f"What becomes of ticket {self._number}? ↑ ↓ choose.")

    def fields(self) -> ComposeResult:
        """What to do, why, and for how long or for whom."""
        yield Choice(MOVES, name="move")
        yield self.reason_field("what there is to say, or why")
        hint = "snooze or hold: 90s, 30m, 2h, 1d; assign: a name"
        yield Input(placeholder=hint, id="more", max_length=100)

    async def do(self) -> bool:
        """Do it in the name of whoever is signed in."""
        kind, number, reason = self.query_one(Choice).chosen, self._number, self.reason
        more = self.query_one("#more", Input).value.strip()

        async def move(app: App) -> Ticket:
            from operator_sre.app.tickets import move_ticket, resolve_ticket

            if kind == RESOLVE:
                return await resolve_ticket(app, number, reason=reason)
            pauses = kind in {MoveKind.HOLD, MoveKind.SNOOZE}
            return await move_ticket(
                app,
                number,
                MoveKind(kind),
                reason=reason,
                for_=more if pauses else "",
                assignee=more if kind == MoveKind.ASSIGN else "",
            )

        done = await self.console_app.act(move)
        if done is not None:
            self.console_app.say(f"Ticket {done.id} is {done.state}.")
        return done is not None
