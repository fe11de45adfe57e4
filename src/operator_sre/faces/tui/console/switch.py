"""The kill switch, with a confirmation before it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Input

from operator_sre.drawing import plural
from operator_sre.faces.tui.console.question import Question

if TYPE_CHECKING:
    from operator_protocols.domain.confirmation import Confirmation
    from operator_sre.app.wiring import App

__all__ = ["SwitchQuestion"]

WORD = "stop"


class SwitchQuestion(Question):
    """Turn the kill switch on or off."""

    TITLE_TEXT = "Kill switch"
    YES = "Confirm"

    def __init__(self, *, on: bool) -> None:
        super().__init__()
        self._is_on = on

    def words(self) -> Text:
        """Explain the effect."""
        text = Text()
        if self._is_on:
            text.append("The kill switch is ON: nothing is permitted.\n\n", "bold red")
            text.append("When it is off, agents act again within their mode. Earlier permits")
            text.append(" stay void. The audit log records this in your name.\n")
        else:
            text.append("Stop all actions?\n\n", "bold red")
            text.append("Operator stops every running command, cancels every pending request,")
            text.append(" and permits nothing until the switch is off again.\n\n")
            text.append(f"Type {WORD!r} in the first field and a reason in the second.\n")
        return text

    def fields(self) -> ComposeResult:
        """A word that is not typed by accident, and a reason."""
        if not self._is_on:
            yield Input(placeholder=WORD, id="word", max_length=16)
        yield self.reason_field()

    async def do(self) -> bool:
        """Change the switch."""
        return await (self._off() if self._is_on else self._on())

    async def _on(self) -> bool:
        from operator_sre.app.restraints import switch_on

        if self.query_one("#word", Input).value.strip().lower() != WORD:
            self.console_app.say(f"Nothing was stopped: type {WORD!r} first.", bad=True)
            self.query_one("#word", Input).focus()
            return False
        reason = self.reason
        stopped = await self.console_app.act(lambda app: switch_on(app, reason=reason))
        if stopped is not None:
            partly = len(stopped.partly_run)
            self.console_app.say(
                f"The kill switch is on, after {stopped.took_s:.2f} s:"
                f" {plural(len(stopped.processes), 'process', 'processes')} stopped,"
                f" {plural(len(stopped.pending_proposals), 'request')} cancelled."
                + (f" {partly} may have partly run." if partly else "")
            )
        return stopped is not None

    async def _off(self) -> bool:
        reason = self.reason

        async def off(app: App) -> Confirmation | None:
            from operator_sre.app.confirmations import cross
            from operator_sre.app.restraints import switch_asked, switch_off

            change = switch_asked(app, reason=reason)
            if change is not None:
                return await cross(app, change, sure=True)
            await switch_off(app, reason=reason)
            return None

        before = self.console_app.standing.switch_on
        confirmation = await self.console_app.act(off)
        if confirmation is not None and confirmation.state == "pending":
            say = f"Someone else must confirm this: {confirmation.id}. The kill switch is still on."
            self.console_app.say(say, bad=True)
        elif confirmation is not None and before:
            self.console_app.say("The kill switch is off.")
        return confirmation is not None
