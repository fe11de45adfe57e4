"""The kill switch: asked before it is turned, either way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Input

from operator_sre.faces.tui.console.asking import Question

if TYPE_CHECKING:
    from operator_protocols.domain.confirmation import Confirmation
    from operator_sre.app.restraints import Stopped
    from operator_sre.app.wiring import App

__all__ = ["SwitchQuestion"]

WORD = "stop"


class SwitchQuestion(Question):
    """Stop everything, or let it go on."""

    TITLE_TEXT = "Kill switch"
    YES = "Turn it"

    def __init__(self, *, on: bool) -> None:
        super().__init__()
        self._is_on = on

    def words(self) -> Text:
        """What follows from it."""
        text = Text()
        if self._is_on:
            text.append("The kill switch is ON: nothing is permitted.\n\n", "bold red")
            text.append("Turned off, agents may act again as their mode says. Permits from before")
            text.append(" stay void. This is written down in your name.\n")
        else:
            text.append("Stop everything?\n\n", "bold red")
            text.append("Every command that runs is ended, every request that waits is cancelled,")
            text.append(" and nothing is permitted until it is turned off again.\n\n")
            text.append(f"Type {WORD!r} in the first line, and why in the second.\n")
        return text

    def fields(self) -> ComposeResult:
        """A word that is not typed by accident, and why."""
        if not self._is_on:
            yield Input(placeholder=WORD, id="word", max_length=16)
        yield self.reason_field()

    async def do(self) -> bool:
        """Turn it."""
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
            self.console_app.say(_told(stopped))
        return stopped is not None

    async def _off(self) -> bool:
        reason = self.reason

        async def off(app: App) -> Confirmation | None:
            from operator_sre.app.confirmations import cross
            from operator_sre.app.restraints import switch_asked, switch_off

            asked = switch_asked(app, reason=reason)
            if asked is not None:
                return await cross(app, asked, sure=True)
            await switch_off(app, reason=reason)
            return None

        before = self.console_app.standing.switch_on
        confirmation = await self.console_app.act(off)
        if confirmation is not None and confirmation.state == "pending":
            say = f"Somebody else has to confirm it: {confirmation.id}. It is still on."
            self.console_app.say(say, bad=True)
        elif confirmation is not None and before:
            self.console_app.say("The kill switch is off.")
        return confirmation is not None


def _told(stopped: Stopped) -> str:
    ended, cancelled = len(stopped.processes), len(stopped.pending_proposals)
    partly = f" {len(stopped.partly_run)} may have partly run." if stopped.partly_run else ""
    return (
        f"The kill switch is on, after {stopped.took_s:.2f} s: {ended} processes ended,"
        f" {cancelled} requests cancelled.{partly}"
    )
