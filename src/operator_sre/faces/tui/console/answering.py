"""A person's answer: yes once or for always, no with a reason, or to a change of a boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input

from operator_sre.faces.tui.console import telling
from operator_sre.faces.tui.console.asking import Question
from operator_sre.faces.tui.console.choice import Choice

if TYPE_CHECKING:
    from operator_protocols.domain.confirmation import Confirmation
    from operator_protocols.domain.permit import Approval
    from operator_sre.app.approvals import Answered, ApprovalView
    from operator_sre.app.wiring import App

__all__ = ["ApproveQuestion", "ConfirmQuestion", "RejectQuestion"]

WIDTH = 68
HOW: tuple[tuple[str, str], ...] = (
    ("", "once"),
    ("exact", "always exactly this"),
    ("flags", "always this command and flags"),
    ("path", "always below a path"),
)
SCOPES: tuple[tuple[str, str], ...] = (
    ("ticket", "for this ticket"),
    ("subject", "for this subject"),
    ("everywhere", "everywhere"),
)


class ApproveQuestion(Question):
    """Let it run, once; or also whatever is like it."""

    TITLE_TEXT = "Approve"
    YES = "Approve"
    DEFAULT_CSS = """
    ApproveQuestion Horizontal.choices { height: 4; }
    ApproveQuestion Choice { width: 1fr; }
    """

    def __init__(self, view: ApprovalView) -> None:
        super().__init__()
        self._view = view

    def words(self) -> Text:
        """The exact command, where, and what it may change."""
        one = self._view.approval
        pairs = (
            ("command", one.action.command),
            ("in", one.action.cwd),
            ("target", f"{one.action.target or '-'} of {one.subject or '-'}"),
            ("verdict", f"{one.level}, risk {one.risk}: {one.explanation}"),
            ("changes", self._view.outlook.may_change),
        )
        return telling.facts(pairs, WIDTH)

    def fields(self) -> ComposeResult:
        """How often, where, below which path, and why."""
        with Horizontal(classes="choices"):
            yield Choice(HOW, name="how")
            yield Choice(SCOPES, name="scope")
        yield Input(placeholder="always below this path, as /srv/app", id="path", max_length=1_000)
        yield self.reason_field("why (may be empty)")

    async def do(self) -> bool:
        """Say yes to exactly what was seen."""
        seen, reason = self._view.approval, self.reason
        likeness = self.query_one("#how", Choice).chosen
        scope = self.query_one("#scope", Choice).chosen
        path = self.query_one("#path", Input).value.strip()
        if likeness == "path" and not path:
            self.console_app.say("Type the path below which it is always allowed.", bad=True)
            self.query_one("#path", Input).focus()
            return False

        async def approve(app: App) -> Answered:
            from operator_sre.app import approvals

            always = approvals.Always(
                likeness, scope if likeness else "", path if likeness == "path" else ""
            )
            return await approvals.approve(
                app, seen.id, reason=reason, always=always, seen=seen.version
            )

        answered = await self.console_app.act(approve)
        if answered is not None:
            self.console_app.say(_answered(answered))
        return answered is not None


class RejectQuestion(Question):
    """Do not let it run; the reason is told to the mind. Or take the request back."""

    def __init__(self, view: ApprovalView, *, withdraws: bool = False) -> None:
        super().__init__()
        self._view = view
        self._withdraws = withdraws

    TITLE_TEXT = "Do not let it run"
    YES = "Do it"

    def words(self) -> Text:
        """What is refused, and what follows."""
        text = telling.facts([("command", self._view.approval.action.command)], WIDTH)
        text.append(
            "\n\nThe request is taken back, without an answer; it may be asked again.\n"
            if self._withdraws
            else "\n\nIt is rejected, and the mind is told why.\n"
        )
        return text

    def fields(self) -> ComposeResult:
        """Why."""
        yield self.reason_field()

    async def do(self) -> bool:
        """Say no."""
        seen, reason, withdraws = self._view.approval, self.reason, self._withdraws

        async def refuse(app: App) -> Approval:
            from operator_sre.app.approvals import reject, withdraw

            if withdraws:
                return await withdraw(app, seen.id, reason=reason)
            return await reject(app, seen.id, reason=reason, seen=seen.version)

        decided = await self.console_app.act(refuse)
        if decided is not None:
            self.console_app.say(f"{decided.state}: {decided.action.command[:80]}")
        return decided is not None


class ConfirmQuestion(Question):
    """Yes or no to one exact change that crosses a trust boundary."""

    TITLE_TEXT = "Confirm a change"

    def __init__(self, confirmation: Confirmation, *, yes: bool) -> None:
        super().__init__()
        self._asked = confirmation
        self._says_yes = yes

    def words(self) -> Text:
        """The exact change."""
        one = self._asked
        pairs = [("change", one.boundary.value), ("why", one.rationale), ("risk", one.risk.value)]
        pairs += [(str(name)[:10], str(value)[:400]) for name, value in one.change.items()]
        text = telling.facts(pairs, WIDTH)
        text.append(
            "\n\nIt is made at once.\n" if self._says_yes else "\n\nIt is declined for good.\n"
        )
        return text

    def fields(self) -> ComposeResult:
        """Why."""
        yield self.reason_field()

    async def do(self) -> bool:
        """Answer, to the change as it was seen."""
        one, reason, yes = self._asked, self.reason, self._says_yes

        async def answer(app: App) -> Confirmation:
            from operator_sre.app import confirmations

            if yes:
                return await confirmations.approve(app, one.id, reason=reason, digest=one.digest)
            return await confirmations.decline(app, one.id, reason=reason)

        decided = await self.console_app.act(answer)
        if decided is not None:
            self.console_app.say(f"The change is {decided.state}.")
        return decided is not None


def _answered(answered: Answered) -> str:
    one, waiting = answered.approval, answered.confirmation
    words = f"{one.state}: {one.action.command[:80]}"
    if one.state == "pending":
        missing = one.needed - len(one.approvers)
        return f"{words}. It needs {missing} more: somebody else has to approve it as well."
    if answered.rule is not None:
        return f"{words}. Rule {answered.rule.id} stands from now on."
    if waiting is not None:
        return f"{words}. Somebody else has to confirm the rule: {waiting.id}."
    return words
