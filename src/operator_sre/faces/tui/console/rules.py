"""Standing rules: actions that run without approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from operator_sre.faces.tui.console import display
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.question import Question
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from operator_protocols.domain.standing_rule import StandingRule

__all__ = ["RevokeQuestion", "RulesPage"]


class RulesPage(Page):
    """Active rules, with their author and use."""

    NAME = "approvals"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "revoke", "Revoke"),
        Binding("escape", "back", "Back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._rules: Sequence[StandingRule] = ()

    def body(self) -> ComposeResult:
        """The list, and the details of one."""
        yield Table(
            Column("rule", 12),
            Column("like", 6),
            Column("scope", 10),
            Column("uses", 5),
            Column("allows"),
            none="Loading…",
        )
        yield Panel()

    async def load(self) -> None:
        """Read the active rules."""
        from operator_sre.app.approvals import list_rules

        self._rules = await self.console_app.read(lambda app: list_rules(app, revoked=False))
        table = self.query_one(Table)
        table.border_title = "Standing rules"
        rows = []
        for rule in self._rules:
            cells = (rule.id, rule.likeness, rule.scope, str(rule.uses), _line(rule))
            rows.append(Row(rule.id, tuple(map(Cell, cells))))
        table.show(rows, none="No standing rules.")
        self._tell()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the rule under the cursor."""
        self._tell()

    def action_revoke(self) -> None:
        """Ask before revoking the rule."""
        if (rule := self._read_choice()) is not None:
            self.app.push_screen(RevokeQuestion(rule))

    def action_back(self) -> None:
        """Return to the approvals."""
        self.app.pop_screen()

    def _read_choice(self) -> StandingRule | None:
        key = self.query_one(Table).key
        return next((rule for rule in self._rules if rule.id == key), None)

    def _tell(self) -> None:
        panel, rule = self.query_one(Panel), self._read_choice()
        if rule is None:
            panel.show(Text(""))
            return
        where = {"ticket": f"ticket {rule.ticket}", "subject": f"subject {rule.subject}"}
        pairs = (
            ("command", _line(rule)),
            ("in", rule.cwd),
            ("below", rule.path),
            ("like", rule.likeness.value),
            ("scope", where.get(rule.scope, "everywhere")),
            ("target", rule.target or "-"),
            ("up to", f"risk {rule.risk}"),
            ("made by", f"{rule.made_by}, {rule.made_at:%Y-%m-%d %H:%M:%S} UTC"),
            ("why", rule.reason),
            ("used", f"{rule.uses} times"),
        )
        panel.show(display.facts(pairs, panel.text_width))


class RevokeQuestion(Question):
    """Revoke a standing rule."""

    TITLE_TEXT = "Revoke a rule"
    YES = "Revoke"

    def __init__(self, rule: StandingRule) -> None:
        super().__init__()
        self._rule = rule

    def words(self) -> Text:
        """Show the rule."""
        return display.facts([("allows", _line(self._rule)), ("rule", self._rule.id)], 68)

    def fields(self) -> ComposeResult:
        """Ask for a reason."""
        yield self.reason_field()

    async def do(self) -> bool:
        """Revoke the rule in the name of the signed-in user."""
        from operator_sre.app.approvals import revoke_rule

        name, reason = self._rule.id, self.reason
        done = await self.console_app.act(lambda app: revoke_rule(app, name, reason=reason))
        if done is not None:
            self.console_app.say(f"Rule {name} is revoked.")
        return done is not None


def _line(rule: StandingRule) -> str:
    line = " ".join(rule.argv)
    return line if rule.tool == "shell" else f"{rule.tool}({', '.join(rule.argv)})"
