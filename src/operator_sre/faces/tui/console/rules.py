"""What runs without asking, because a person said always."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from operator_sre.faces.tui.console import telling
from operator_sre.faces.tui.console.asking import Question
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from operator_protocols.domain.standing import StandingRule

__all__ = ["RevokeQuestion", "RulesPage"]


class RulesPage(Page):
    """The rules that stand, each with who made it and how often it was used."""

    NAME = "approvals"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "revoke", "Revoke"),
        Binding("escape", "back", "Back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._rules: Sequence[StandingRule] = ()

    def body(self) -> ComposeResult:
        """The list, and more about one."""
        yield Table(
            Column("rule", 12),
            Column("like", 6),
            Column("scope", 10),
            Column("uses", 5),
            Column("allows"),
            none="Looking…",
        )
        yield Panel()

    async def load(self) -> None:
        """Those that stand."""
        from operator_sre.app.approvals import list_rules

        self._rules = await self.console_app.read(lambda app: list_rules(app, revoked=False))
        table = self.query_one(Table)
        table.border_title = "Allowed for always"
        table.show([_row(one) for one in self._rules], none="Nothing is allowed for always.")
        self._tell()

    def on_table_moved(self, event: Table.Moved) -> None:
        """More about another one."""
        self._tell()

    def action_revoke(self) -> None:
        """Ask again for what it allows."""
        if (rule := self._chosen()) is not None:
            self.app.push_screen(RevokeQuestion(rule))

    def action_back(self) -> None:
        """What waits."""
        self.app.pop_screen()

    def _chosen(self) -> StandingRule | None:
        key = self.query_one(Table).key
        return next((one for one in self._rules if one.id == key), None)

    def _tell(self) -> None:
        panel, rule = self.query_one(Panel), self._chosen()
        panel.show(Text("") if rule is None else telling.facts(_facts(rule), panel.text_width))


class RevokeQuestion(Question):
    """A rule allows nothing from then on."""

    TITLE_TEXT = "Revoke a rule"
    YES = "Revoke"

    def __init__(self, rule: StandingRule) -> None:
        super().__init__()
        self._rule = rule

    def words(self) -> Text:
        """Which one."""
        return telling.facts([("allows", _line(self._rule)), ("rule", self._rule.id)], 68)

    def fields(self) -> ComposeResult:
        """Why."""
        yield self.reason_field()

    async def do(self) -> bool:
        """Revoke it in the name of whoever is signed in."""
        from operator_sre.app.approvals import revoke_rule

        name, reason = self._rule.id, self.reason
        done = await self.console_app.act(lambda app: revoke_rule(app, name, reason=reason))
        if done is not None:
            self.console_app.say(f"Rule {name} is revoked.")
        return done is not None


def _line(rule: StandingRule) -> str:
    line = " ".join(rule.argv)
    return line if rule.tool == "shell" else f"{rule.tool}({', '.join(rule.argv)})"


def _row(rule: StandingRule) -> Row:
    cells = (rule.id, rule.likeness, rule.scope, str(rule.uses), _line(rule))
    return Row(rule.id, tuple(Cell(one) for one in cells))


def _facts(rule: StandingRule) -> Sequence[tuple[str, str]]:
    where = {"ticket": f"ticket {rule.ticket}", "subject": f"subject {rule.subject}"}
    return (
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
