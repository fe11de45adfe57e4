"""What waits for a person, all that one needs to know before answering, and what was allowed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from operator_sre.faces.tui.console import telling
from operator_sre.faces.tui.console.answering import (
    ApproveQuestion,
    ConfirmQuestion,
    RejectQuestion,
)
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.rules import RulesPage
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from operator_protocols.domain.confirmation import Confirmation
    from operator_sre.app.approvals import ApprovalView
    from operator_sre.app.wiring import App

__all__ = ["ApprovalsPage"]

WAITING_MAX = 200
_RISKS = {"high": "bold red", "medium": "yellow", "low": "green"}
# Below this the clock is shown louder.
SOON_S = 60.0


class ApprovalsPage(Page):
    """Requests about commands, and confirmations of changes that cross a boundary."""

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
        """The queue, and everything about one of them."""
        yield Table(
            Column("left", 7),
            Column("risk", 8),
            Column("ticket", 6, needs=70),
            Column("what"),
            none="Looking…",
        )
        yield Panel(id="request")

    async def load(self) -> None:
        """What can still be answered, oldest first."""

        def read(app: App) -> tuple[Sequence[ApprovalView], Sequence[Confirmation]]:
            from operator_sre.app import confirmations
            from operator_sre.app.approvals import list_approvals, show_approval

            asked = list_approvals(app, pending_only=True)[:WAITING_MAX]
            found = confirmations.find(app, pending_only=True)[:WAITING_MAX]
            return [show_approval(app, one.id) for one in asked], found

        self._approvals, self._confirmations = await self.console_app.read(read)
        self.query_one(Table).border_title = "Waiting for a person"
        self._list(self.console_app.now())
        self._tell()

    def tick(self, now: datetime) -> None:
        """Time runs out, second by second."""
        self._list(now)
        self._tell()

    def on_table_moved(self, event: Table.Moved) -> None:
        """More about another one."""
        self._tell()

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """On to all of what is asked."""
        self.query_one(Panel).focus()

    def action_approve(self) -> None:
        """Say yes, after one more look."""
        if (view := self._chosen()) is not None:
            self.app.push_screen(ApproveQuestion(view))
        elif (one := self._confirming()) is not None:
            self.app.push_screen(ConfirmQuestion(one, yes=True))

    def action_reject(self) -> None:
        """Say no, and why."""
        if (view := self._chosen()) is not None:
            self.app.push_screen(RejectQuestion(view))
        elif (one := self._confirming()) is not None:
            self.app.push_screen(ConfirmQuestion(one, yes=False))

    def action_withdraw(self) -> None:
        """Take a request back, without an answer."""
        if (view := self._chosen()) is not None:
            self.app.push_screen(RejectQuestion(view, withdraws=True))

    def action_ticket(self) -> None:
        """What it is about."""
        view, one = self._chosen(), self._confirming()
        number = view.approval.ticket if view else one.ticket if one else None
        if number is None:
            self.console_app.say("It belongs to no ticket.")
        else:
            self.console_app.open_ticket(number)

    def action_rules(self) -> None:
        """What was allowed for always."""
        self.app.push_screen(RulesPage())

    def _chosen(self) -> ApprovalView | None:
        key = self.query_one(Table).key
        return next((one for one in self._approvals if one.approval.id == key), None)

    def _confirming(self) -> Confirmation | None:
        key = self.query_one(Table).key
        return next((one for one in self._confirmations if one.id == key), None)

    def _list(self, now: datetime) -> None:
        rows = [_approval_row(one, now) for one in self._approvals if _lasts(one, now)]
        rows += [_confirmation_row(one, now) for one in self._confirmations if one.expires_at > now]
        self.query_one(Table).show(rows, none="Nothing waits for a person.")

    def _tell(self) -> None:
        panel, now = self.query_one(Panel), self.console_app.now()
        if (view := self._chosen()) is not None:
            panel.show(telling.facts(_approval_facts(view, now), panel.text_width))
        elif (one := self._confirming()) is not None:
            panel.show(telling.facts(_confirmation_facts(one, now), panel.text_width))
        else:
            panel.show(Text(""))


def _lasts(view: ApprovalView, now: datetime) -> bool:
    return view.approval.expires_at > now


def _left(until: datetime, now: datetime) -> Cell:
    soon = (until - now).total_seconds() < SOON_S
    return Cell(telling.left(until, now), "bold red" if soon else "")


def _risk(word: str) -> Cell:
    return Cell(word, _RISKS.get(word, ""))


def _approval_row(view: ApprovalView, now: datetime) -> Row:
    one = view.approval
    number = "-" if one.ticket is None else str(one.ticket)
    louder = "▲ " if one.escalated else ""
    what = f"{louder}{one.action.command}"
    return Row(one.id, (_left(one.expires_at, now), _risk(one.risk), Cell(number), Cell(what)))


def _confirmation_row(one: Confirmation, now: datetime) -> Row:
    number = "-" if one.ticket is None else str(one.ticket)
    what = f"confirm {one.boundary}: {one.rationale}"
    return Row(one.id, (_left(one.expires_at, now), _risk(one.risk), Cell(number), Cell(what)))


def _approval_facts(view: ApprovalView, now: datetime) -> Sequence[tuple[str, str]]:
    from operator_sre.app.outlook import facts_of

    one = view.approval
    number = "-" if one.ticket is None else one.ticket
    told = dict(facts_of(view.outlook, f"ticket {number}, run {one.run or '-'}"))
    first = ("command", "in", "inside", "target", "verdict", "changes", "undo")
    rest = [(name, text) for name, text in told.items() if name and name not in first]
    names = f" {', '.join(one.approvers)}" if one.approvers else ""
    return (
        *((name, told.get(name, "")) for name in first),
        ("time left", f"{telling.left(one.expires_at, now)}, until {one.expires_at:%H:%M:%S} UTC"),
        ("identity", view.outlook.identity),
        *rest,
        ("yes", f"{len(one.approvers)} of {one.needed}{names}"),
        ("escalated", "nobody answered in time" if one.escalated else ""),
        ("request", f"{one.id}, version {one.version}"),
    )


def _confirmation_facts(one: Confirmation, now: datetime) -> Sequence[tuple[str, str]]:
    return (
        ("change", one.boundary.value),
        ("why", one.rationale),
        ("risk", one.risk.value),
        *((str(name)[:10], str(value)) for name, value in one.change.items()),
        ("asked by", f"{one.requested_by.id} ({one.requested_by.type})"),
        ("reaches", ", ".join(one.destinations)),
        ("secrets", ", ".join(one.credentials)),
        ("time left", f"{telling.left(one.expires_at, now)}, until {one.expires_at:%H:%M:%S} UTC"),
        ("request", one.id),
    )
