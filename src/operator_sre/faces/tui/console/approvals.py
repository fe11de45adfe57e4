"""Pending approvals and confirmations, and the questions that decide them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input

from operator_sre.faces.tui.console import display
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.question import Choice, Question
from operator_sre.faces.tui.console.rules import RulesPage
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from operator_protocols.domain.confirmation import Confirmation
    from operator_protocols.domain.permit import Approval
    from operator_sre.app.approvals import Answered, ApprovalView
    from operator_sre.app.wiring import App

__all__ = ["ApprovalsPage", "ApproveQuestion", "ConfirmQuestion", "RejectQuestion"]

WAITING_MAX = 200
_RISKS = {"high": "bold red", "medium": "yellow", "low": "green"}
# Less time than this is shown in red.
SOON_S = 60.0
WIDTH = 68
HOW: tuple[tuple[str, str], ...] = (
    ("", "approve once"),
    ("exact", "always: exactly this command"),
    ("flags", "always: this command with these flags"),
    ("path", "always: files below a path"),
)
SCOPES: tuple[tuple[str, str], ...] = (
    ("ticket", "for this ticket"),
    ("subject", "for this subject"),
    ("everywhere", "everywhere"),
)


class ApprovalsPage(Page):
    """Pending approvals of commands, and confirmations of changes that cross a trust boundary."""

    NAME = "approvals"
    DEFAULT_CSS = """
    ApprovalsPage Table { height: 2fr; min-height: 5; }
    ApprovalsPage Panel { height: 5fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "approve", "Approve"),
        Binding("r", "reject", "Reject"),
        Binding("w", "withdraw", "Withdraw"),
        Binding("t", "ticket", "Ticket"),
        Binding("l", "rules", "Rules"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._approvals: Sequence[ApprovalView] = ()
        self._confirmations: Sequence[Confirmation] = ()

    def body(self) -> ComposeResult:
        """The queue, and the details of one request."""
        yield Table(
            Column("left", 7),
            Column("risk", 8),
            Column("ticket", 6, needs=70),
            Column("action"),
            none="Loading…",
        )
        yield Panel(id="request")

    async def load(self) -> None:
        """Read the requests that can still be decided, oldest first."""

        def read(app: App) -> tuple[Sequence[ApprovalView], Sequence[Confirmation]]:
            from operator_sre.app import confirmations
            from operator_sre.app.approvals import list_approvals, show_approval

            approvals = list_approvals(app, pending_only=True)[:WAITING_MAX]
            found = confirmations.find(app, pending_only=True)[:WAITING_MAX]
            return [show_approval(app, approval.id) for approval in approvals], found

        self._approvals, self._confirmations = await self.console_app.read(read)
        self.query_one(Table).border_title = "Pending approval"
        self._list(self.console_app.now())
        self._tell()

    def tick(self, now: datetime) -> None:
        """Count the remaining time down."""
        self._list(now)
        self._tell()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the request under the cursor."""
        self._tell()

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """Focus the details."""
        self.query_one(Panel).focus()

    def action_approve(self) -> None:
        """Ask before approving."""
        if (view := self._read_choice()) is not None:
            self.app.push_screen(ApproveQuestion(view))
        elif (change := self._read_change()) is not None:
            self.app.push_screen(ConfirmQuestion(change, yes=True))

    def action_reject(self) -> None:
        """Ask before rejecting."""
        if (view := self._read_choice()) is not None:
            self.app.push_screen(RejectQuestion(view))
        elif (change := self._read_change()) is not None:
            self.app.push_screen(ConfirmQuestion(change, yes=False))

    def action_withdraw(self) -> None:
        """Ask before withdrawing a request."""
        if (view := self._read_choice()) is not None:
            self.app.push_screen(RejectQuestion(view, withdraws=True))

    def action_ticket(self) -> None:
        """Open the ticket of the request."""
        view, change = self._read_choice(), self._read_change()
        number = view.approval.ticket if view else change.ticket if change else None
        if number is None:
            self.console_app.say("This request has no ticket.")
        else:
            self.console_app.open_ticket(number)

    def action_rules(self) -> None:
        """Open the standing rules."""
        self.app.push_screen(RulesPage())

    def _read_choice(self) -> ApprovalView | None:
        key = self.query_one(Table).key
        return next((view for view in self._approvals if view.approval.id == key), None)

    def _read_change(self) -> Confirmation | None:
        key = self.query_one(Table).key
        return next((change for change in self._confirmations if change.id == key), None)

    def _list(self, now: datetime) -> None:
        requests: list[tuple[Approval | Confirmation, str]] = []
        for view in self._approvals:
            mark = "▲ " if view.approval.escalated else ""
            requests.append((view.approval, f"{mark}{view.approval.action.command}"))
        for change in self._confirmations:
            requests.append((change, f"confirm {change.boundary}: {change.rationale}"))
        rows = []
        for request, words in requests:
            if request.expires_at > now:
                soon = (request.expires_at - now).total_seconds() < SOON_S
                cells = (
                    Cell(display.time_left(request.expires_at, now), "bold red" if soon else ""),
                    Cell(request.risk, _RISKS.get(request.risk, "")),
                    Cell("-" if request.ticket is None else str(request.ticket)),
                    Cell(words),
                )
                rows.append(Row(request.id, cells))
        self.query_one(Table).show(rows, none="No pending approvals.")

    def _tell(self) -> None:
        panel, now = self.query_one(Panel), self.console_app.now()
        pairs: Sequence[tuple[str, str]] = ()
        if (view := self._read_choice()) is not None:
            from operator_sre.app.outlook import facts_of

            # What a person needs to decide comes first, then the rest.
            request = view.approval
            number = "-" if request.ticket is None else request.ticket
            known = dict(facts_of(view.outlook, f"ticket {number}, run {request.run or '-'}"))
            first = ("command", "directory", "venv", "target", "verdict", "changes", "undo")
            rest = [(name, text) for name, text in known.items() if name and name not in first]
            names = f": {', '.join(request.approvers)}" if request.approvers else ""
            time_left = display.time_left(request.expires_at, now)
            pairs = (
                *((name, known.get(name, "")) for name in first),
                ("time left", f"{time_left}, until {request.expires_at:%H:%M:%S} UTC"),
                ("identity", view.outlook.identity),
                *rest,
                ("approved", f"{len(request.approvers)} of {request.needed} approvals{names}"),
                ("escalated", "no decision in time" if request.escalated else ""),
                ("request", f"{request.id}, version {request.version}"),
            )
        elif (change := self._read_change()) is not None:
            time_left = display.time_left(change.expires_at, now)
            pairs = (
                ("change", change.boundary.value),
                ("why", change.rationale),
                ("risk", change.risk.value),
                *((str(name)[:10], str(value)) for name, value in change.change.items()),
                ("requester", f"{change.requested_by.id} ({change.requested_by.type})"),
                ("reaches", ", ".join(change.destinations)),
                ("secrets", ", ".join(change.credentials)),
                ("time left", f"{time_left}, until {change.expires_at:%H:%M:%S} UTC"),
                ("request", change.id),
            )
        panel.show(display.facts(pairs, panel.text_width))


class ApproveQuestion(Question):
    """Approve an action once, or similar actions too."""

    TITLE_TEXT = "Approve this action?"
    YES = "Approve"
    DEFAULT_CSS = """
    ApproveQuestion Horizontal.choices { height: 4; }
    ApproveQuestion Choice { width: 1fr; }
    """

    def __init__(self, view: ApprovalView) -> None:
        super().__init__()
        self._view = view

    def words(self) -> Text:
        """Show the exact command, where it runs, and what it may change."""
        request = self._view.approval
        pairs = (
            ("command", request.action.command),
            ("in", request.action.cwd),
            ("target", f"{request.action.target or '-'} of {request.subject or '-'}"),
            ("verdict", f"{request.level}, risk {request.risk}: {request.explanation}"),
            ("changes", self._view.outlook.may_change),
        )
        return display.facts(pairs, WIDTH)

    def fields(self) -> ComposeResult:
        """Once or always, the scope, the path, and the reason."""
        with Horizontal(classes="choices"):
            yield Choice(HOW, name="how")
            yield Choice(SCOPES, name="scope")
        yield Input(
            placeholder="path for `always: files below a path`, such as /srv/app",
            id="path",
            max_length=1_000,
        )
        yield self.reason_field("reason (optional)")

    async def do(self) -> bool:
        """Approve the request at the version that was shown."""
        seen, reason = self._view.approval, self.reason
        likeness = self.query_one("#how", Choice).chosen
        scope = self.query_one("#scope", Choice).chosen
        path = self.query_one("#path", Input).value.strip()
        if likeness == "path" and not path:
            self.console_app.say("Type the path to allow.", bad=True)
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
        if answered is None:
            return False
        request = answered.approval
        words = f"{request.state}: {request.action.command[:80]}"
        if request.state == "pending":
            missing = request.needed - len(request.approvers)
            words += f". It needs {missing} more approval by someone else."
        elif answered.rule is not None:
            words += f". Standing rule {answered.rule.id} is active."
        elif answered.confirmation is not None:
            words += f". Someone else must confirm the rule: {answered.confirmation.id}."
        self.console_app.say(words)
        return True


class RejectQuestion(Question):
    """Reject an action, or withdraw the request."""

    def __init__(self, view: ApprovalView, *, withdraws: bool = False) -> None:
        super().__init__()
        self._view = view
        self._withdraws = withdraws

    TITLE_TEXT = "Reject or withdraw"
    YES = "Confirm"

    def words(self) -> Text:
        """Show the command and the effect."""
        text = display.facts([("command", self._view.approval.action.command)], WIDTH)
        text.append(
            "\n\nThe request is withdrawn without a decision. It can be requested again.\n"
            if self._withdraws
            else "\n\nThe action is rejected. The agent sees the reason.\n"
        )
        return text

    def fields(self) -> ComposeResult:
        """Ask for a reason."""
        yield self.reason_field()

    async def do(self) -> bool:
        """Reject or withdraw."""
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
    """Approve or decline one exact change that crosses a trust boundary."""

    TITLE_TEXT = "Confirm a change"

    def __init__(self, confirmation: Confirmation, *, yes: bool) -> None:
        super().__init__()
        self._asked = confirmation
        self._says_yes = yes

    def words(self) -> Text:
        """Show the exact change."""
        change = self._asked
        pairs = [("change", change.boundary.value), ("why", change.rationale)]
        pairs.append(("risk", change.risk.value))
        pairs += [(str(name)[:10], str(value)[:400]) for name, value in change.change.items()]
        text = display.facts(pairs, WIDTH)
        text.append(
            "\n\nOperator applies the change at once.\n"
            if self._says_yes
            else "\n\nThe change is declined and cannot be approved later.\n"
        )
        return text

    def fields(self) -> ComposeResult:
        """Ask for a reason."""
        yield self.reason_field()

    async def do(self) -> bool:
        """Decide on the change that was shown."""
        change, reason, yes = self._asked, self.reason, self._says_yes

        async def answer(app: App) -> Confirmation:
            from operator_sre.app import confirmations

            if yes:
                return await confirmations.approve(
                    app, change.id, reason=reason, digest=change.digest
                )
            return await confirmations.decline(app, change.id, reason=reason)

        decided = await self.console_app.act(answer)
        if decided is not None:
            self.console_app.say(f"The change is {decided.state}.")
        return decided is not None
