"""Always means what was approved and what is like it, and nothing that only looks like it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.observation import Value
from operator_protocols.domain.permit import Approval, ApprovalState, Binding, Permit
from operator_protocols.domain.standing_rule import Likeness, Scope, StandingRule
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.verdict import Level, Mode, Risk, Verdict
from operator_protocols.errors import UsageError
from operator_sre.gate import Standing, Terms
from operator_sre.gate.standing_rules import Parse, one_plain_command
from tests.contract.clock import NOON
from tests.contract.samples import approval, standing_rule
from tests.gate.office import ACTION, TICKET, Office, crash

EXACT, FLAGS, PATH = Likeness.EXACT, Likeness.FLAGS, Likeness.PATH


class _Rules:
    """Rules in a list, for what only reads them."""

    def __init__(self, *rules: StandingRule) -> None:
        self._rules = rules

    async def add(self, rule: StandingRule) -> StandingRule:
        return rule

    async def revoke(self, rule: str, *, by: object, reason: str) -> StandingRule:
        return self._rules[0]

    def get(self, rule: str) -> StandingRule | None:
        return self._rules[0]

    def find(self, *, revoked: bool = False) -> Sequence[StandingRule]:
        return self._rules


def _standing(*rules: StandingRule, parse: Parse = one_plain_command) -> Standing:
    return Standing(_Rules(*rules), resolve=os.path.realpath, parse=parse)


def _verdict(
    command: str,
    *,
    cwd: str = "/",
    target: str = "",
    level: Level = Level.REVIEW,
    risk: Risk = Risk.MEDIUM,
) -> Verdict:
    action = replace(Action.shell(command, target=target), cwd=cwd)
    return Verdict(action, level, risk, (), "", "")


def _approval(action: Action) -> Approval:
    return replace(approval(), action=action, binding=Binding(action.digest))


def _rule(
    command: str,
    likeness: Likeness,
    scope: Scope = Scope.EVERYWHERE,
    *,
    cwd: str = "/",
    path: str = "",
) -> StandingRule:
    action = replace(Action.shell(command), cwd=cwd)
    asked = _approval(action)
    return _standing().rule_of(asked, likeness, scope, name="r", by="ada", at=NOON, path=path)


def _allowed(rule: StandingRule, verdict: Verdict, ticket: Ticket = TICKET) -> bool:
    return _standing(rule).allowing(verdict, ticket.id, ticket.subject) is not None


# What a person approved for always, how, what runs after that without asking, and what does not.
LIKE = [
    ("mkdir zz", EXACT, ["mkdir zz", " mkdir  'zz' "], ["mkdir yy", "mkdir zz zz", "mkdir -p zz"]),
    ("mkdir zz", FLAGS, ["mkdir yy", "mkdir zz"], ["mkdir /etc", "mkdir ..", "mkdir -p", "rm zz"]),
    ("mkdir -p zz", FLAGS, ["mkdir -p yy"], ["mkdir zz", "mkdir -p -v zz", "mkdir -p zz yy"]),
    ("mkdir -m 700 zz", FLAGS, ["mkdir -m 700 yy"], ["mkdir -m 777 zz", "mkdir -m700 zz"]),
    (
        "rm -v -f zz",
        FLAGS,
        ["rm -f -v yy"],
        ["rm -f yy", "rm -rf yy", "rm -f -f yy", "rm -v -f -r"],
    ),
    ("chmod 600 zz", FLAGS, ["chmod 600 yy"], ["chmod 777 zz", "chmod zz 600"]),
    ("systemctl restart db", FLAGS, ["systemctl restart web"], ["systemctl stop db", "systemctl"]),
    ("rm /srv/a", FLAGS, ["rm /srv/a"], ["rm /srv/b", "rm zz", "rm /etc/passwd"]),
    ("touch zz", FLAGS, ["touch yy"], ["touch .hidden", "touch -- -r", "touch --reference=/etc"]),
]
# Each of these begins with a command that is allowed and holds it as a substring.
MORE = [
    "mkdir zz; touch X",
    "mkdir zz && touch X",
    "mkdir zz || touch X",
    "mkdir zz | touch X",
    "mkdir zz & touch X",
    "mkdir zz\ntouch X",
    "mkdir $(touch X)",
    "mkdir `touch X`",
    "mkdir zz > X",
    "mkdir zz < X",
    "mkdir z*",
    "mkdir {a,b}",
    "mkdir $X",
    "X=1 mkdir zz",
    'mkdir "zz"; touch X',
    "(mkdir zz)",
    "/tmp/mkdir zz",
    "sudo mkdir zz",
    "",
]


@pytest.mark.parametrize(("command", "likeness", "runs", "asks"), LIKE, ids=lambda one: str(one))
def test_what_is_like_it_runs_and_what_is_not_asks(
    command: str, likeness: Likeness, runs: list[str], asks: list[str]
) -> None:
    rule = _rule(command, likeness)
    assert [one for one in [*runs, *asks] if _allowed(rule, _verdict(one))] == runs


@pytest.mark.parametrize("likeness", [EXACT, FLAGS])
@pytest.mark.parametrize("line", MORE)
def test_always_allow_mkdir_allows_nothing_more(line: str, likeness: Likeness) -> None:
    assert not _allowed(_rule("mkdir zz", likeness), _verdict(line))


@pytest.mark.parametrize("parsed", [None, [], [["mkdir", "zz"], ["touch", "X"]], [[]]])
def test_a_parser_that_sees_anything_but_one_command_is_believed(
    parsed: Sequence[Sequence[str]] | None,
) -> None:
    rule = _rule("mkdir zz", EXACT)
    standing = _standing(rule, parse=lambda command: parsed)
    assert standing.allowing(_verdict("mkdir zz"), TICKET.id, TICKET.subject) is None


@pytest.mark.parametrize("likeness", [EXACT, FLAGS])
def test_a_rule_is_for_one_directory_and_one_target(likeness: Likeness) -> None:
    rule = _rule("mkdir zz", likeness)
    assert _allowed(rule, _verdict("mkdir zz"))
    assert not _allowed(rule, _verdict("mkdir zz", cwd="/etc"))
    assert not _allowed(rule, _verdict("mkdir zz", target="node-2"))


@pytest.mark.parametrize("level", [Level.SAFE, Level.BLOCKED])
def test_a_rule_is_only_for_what_a_person_would_be_asked(level: Level) -> None:
    assert not _allowed(_rule("mkdir zz", EXACT), _verdict("mkdir zz", level=level))


@pytest.mark.parametrize("more", [{"venv": "/srv/app/.venv"}, {"passes": ("PGPASSWORD",)}])
def test_the_same_words_in_another_environment_are_not_the_same(more: dict[str, Any]) -> None:
    standing = _standing(_rule("pip install x", EXACT))
    verdict = _verdict("pip install x")
    assert standing.allowing(verdict, None, "") is not None
    other = replace(verdict, action=replace(verdict.action, **more))
    assert standing.allowing(other, None, "") is None
    with pytest.raises(UsageError, match="environment of its own"):
        standing.rule_of(
            _approval(other.action), EXACT, Scope.EVERYWHERE, name="r", by="ada", at=NOON
        )


def test_a_rule_allows_no_more_risk_than_was_approved() -> None:
    rule = _rule("mkdir zz", EXACT)
    assert _allowed(rule, _verdict("mkdir zz", risk=Risk.LOW))
    assert not _allowed(rule, _verdict("mkdir zz", risk=Risk.HIGH))


@pytest.mark.parametrize(
    ("scope", "same_ticket", "same_subject", "elsewhere"),
    [
        (Scope.TICKET, True, False, False),
        (Scope.SUBJECT, True, True, False),
        (Scope.EVERYWHERE, True, True, True),
    ],
)
def test_a_rule_holds_where_it_was_made_for(
    scope: Scope, same_ticket: bool, same_subject: bool, elsewhere: bool
) -> None:
    rule, verdict = _rule("mkdir zz", EXACT, scope), _verdict("mkdir zz")
    assert _allowed(rule, verdict, TICKET) is same_ticket
    assert _allowed(rule, verdict, replace(TICKET, id=2)) is same_subject
    assert _allowed(rule, verdict, replace(TICKET, id=2, subject="bank")) is elsewhere


def test_a_revoked_rule_allows_nothing() -> None:
    assert not _allowed(replace(_rule("mkdir zz", EXACT), revoked_at=NOON), _verdict("mkdir zz"))


@pytest.fixture
def srv(tmp_path: Path) -> Path:
    """`srv` with a file, a link out of it and one within; `srv2` beside it."""
    tmp_path = tmp_path.resolve()
    for name in ("srv/app/logs", "srv2", "etc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "srv/out").symlink_to(tmp_path / "etc")
    (tmp_path / "srv/in").symlink_to(tmp_path / "srv/app")
    return tmp_path / "srv"


def test_below_a_path_means_below_it(srv: Path) -> None:
    rule = _rule(f"rm -f {srv}/app/a", PATH, path=str(srv))
    runs = [f"{srv}/app/b", f"{srv}/c", f"{srv}/app/logs/d", f"{srv}/in/e", f"{srv}//app/f"]
    asks = [
        *(f"{srv}2/a", f"{srv}", f"{srv}/", f"{srv}/.", "/etc/passwd", "/", "zz", "-r", "~"),
        *(f"{srv}/../etc/a", f"{srv}/app/../b", f"{srv}/out/a", f"{srv}/out", ".."),
    ]
    assert [one for one in [*runs, *asks] if _allowed(rule, _verdict(f"rm -f {one}"))] == runs
    inside = _verdict("rm -f logs", cwd=f"{srv}/app")
    assert _allowed(rule, inside)
    assert not _allowed(rule, _verdict("rm -f a", cwd=f"{srv}/out"))
    for line in ("rm -f", f"rm -rf {srv}/app/a", f"rm -f {srv}/app/a {srv}/app/b"):
        assert not _allowed(rule, _verdict(line))


def test_every_operand_has_to_lie_below(srv: Path) -> None:
    rule = _rule(f"cp {srv}/app/a {srv}/app/b", PATH, path=f"{srv}/app")
    assert _allowed(rule, _verdict(f"cp {srv}/app/c {srv}/app/d"))
    for line in (f"cp /etc/shadow {srv}/app/d", f"cp {srv}/app/c /etc/cron.d/x", f"cp {srv}/*"):
        assert not _allowed(rule, _verdict(line))


def test_what_is_not_a_file_stays_as_it_was(srv: Path) -> None:
    rule = _rule(f"chmod 600 {srv}/app/a", PATH, path=f"{srv}/app")
    assert _allowed(rule, _verdict(f"chmod 600 {srv}/app/b"))
    assert not _allowed(rule, _verdict(f"chmod 777 {srv}/app/b"))


def test_a_directory_that_became_a_link_is_not_the_one_that_was_meant(srv: Path) -> None:
    rule = _rule(f"rm {srv}/app/logs/a", PATH, path=f"{srv}/app/logs")
    assert _allowed(rule, _verdict(f"rm {srv}/app/logs/b"))
    (srv / "app/logs").rmdir()
    (srv / "app/logs").symlink_to("/")
    assert not _allowed(rule, _verdict(f"rm {srv}/app/logs/etc/passwd"))
    assert not _allowed(rule, _verdict("rm /etc/passwd"))


def test_a_directory_is_kept_as_it_was_found(srv: Path) -> None:
    assert _rule(f"rm {srv}/app/a", PATH, path=f"{srv}/in").path == f"{srv}/app"


NO_RULE = [
    ("mkdir zz; touch X", EXACT, "", "more than one plain command"),
    ("frobnicate zz", FLAGS, "", "Which words of 'frobnicate' may differ"),
    ("sudo rm zz", FLAGS, "", "Which words of 'sudo' may differ"),
    ("sh -c zz", PATH, "/srv/app", "Which words of 'sh' may differ"),
    ("systemctl restart db", PATH, "/srv/app", "works on no files"),
    ("rm /srv/a", PATH, "/", "everything below '/'"),
    ("rm /srv/a", PATH, "//", "everything below '/'"),
    ("rm /srv/a", PATH, "/etc", "everything below '/etc'"),
    ("rm /srv/a", PATH, "srv", "absolute path"),
    ("rm /srv/a", PATH, "/srv/../srv", "absolute path"),
    ("rm /srv/a", PATH, "", "absolute path"),
    ("rm /srv2/a", PATH, "/srv", "does not lie below '/srv'"),
    ("rm /srv", PATH, "/srv", "does not lie below '/srv'"),
]


@pytest.mark.parametrize(("command", "likeness", "path", "why"), NO_RULE)
def test_what_cannot_be_allowed_for_always_is_said(
    command: str, likeness: Likeness, path: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        _rule(command, likeness, path=path)
    assert refused.value.next_step


@pytest.mark.parametrize(
    ("asked", "scope", "why"),
    [
        (replace(_approval(ACTION), needed=2), Scope.EVERYWHERE, "two people each time"),
        (replace(_approval(ACTION), binding=Binding("sha256:x")), Scope.EVERYWHERE, "a secret"),
        (replace(_approval(ACTION), ticket=None), Scope.TICKET, "no ticket"),
        (replace(_approval(ACTION), subject=""), Scope.SUBJECT, "no subject"),
    ],
)
def test_some_requests_are_for_once_only(asked: Approval, scope: Scope, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        _standing().rule_of(asked, EXACT, scope, name="r", by="ada", at=NOON)


def test_a_tool_is_allowed_with_exactly_its_arguments() -> None:
    asked = _approval(ACTION)
    rule = _standing().rule_of(asked, EXACT, Scope.EVERYWHERE, name="r", by="ada", at=NOON)
    verdict = replace(_verdict("x"), action=ACTION)
    assert _allowed(rule, verdict)
    others: list[Mapping[str, Value]] = [{"target": "node-2"}, {}, {"target": 1}]
    others.append({"target": "node-1", "n": 1})
    for other in others:
        action = replace(ACTION, arguments=other)
        assert not _allowed(rule, replace(verdict, action=action))
    assert not _allowed(rule, replace(verdict, action=replace(ACTION, tool="destroy_node")))
    with pytest.raises(UsageError, match="is a tool"):
        _standing().rule_of(asked, FLAGS, Scope.EVERYWHERE, name="r", by="ada", at=NOON)


@pytest.mark.asyncio
async def test_the_gate_asks_nobody_for_what_a_rule_allows(office: Office) -> None:
    rule = await office.store.standing.add(replace(standing_rule(), target=""))
    permit = await office.ask(Action.shell("mkdir zz"))
    assert isinstance(permit, Permit)
    assert (permit.rule, permit.approval) == (rule.id, "")
    assert office.entries()[-1].payload["rule"] == rule.id
    kept = office.store.standing.get(rule.id)
    assert kept is not None
    assert kept.uses == 1
    assert office.store.approvals.find() == []
    await crash(await office.asking(Action.shell("mkdir zz; touch X")))


@pytest.mark.asyncio
async def test_a_rule_helps_nobody_to_more_than_the_mode_allows(office: Office) -> None:
    await office.store.standing.add(replace(standing_rule(), target=""))
    await office.store.standing.add(replace(standing_rule("r2"), argv=("rm", "-rf", "/")))
    office.policy = replace(office.policy, mode=Mode.OBSERVE)
    assert not isinstance(await office.ask(Action.shell("mkdir zz")), Permit)
    office.policy = replace(office.policy, mode=Mode.APPROVE)
    blocked = await office.ask(Action.shell("rm -rf /", target="node-1"))
    assert not isinstance(blocked, Permit)
    assert "Blocked" in blocked.stderr


@pytest.mark.asyncio
async def test_a_rule_is_not_the_second_person(office: Office) -> None:
    action = Action("destroy_node", {}, target="node-1")
    rule = replace(standing_rule(), tool="destroy_node", argv=(), risk=Risk.CRITICAL)
    await office.store.standing.add(rule)
    assert isinstance(await office.ask(action), Permit)
    office.terms = Terms(two_person=True)
    waiting = await office.asking(action)
    assert office.asked().state is ApprovalState.PENDING
    await crash(waiting)


def test_what_belongs_to_no_ticket_is_allowed_by_no_rule_of_a_ticket() -> None:
    def allowed(scope: Scope, subject: str) -> bool:
        standing = _standing(_rule("mkdir zz", EXACT, scope))
        return standing.allowing(_verdict("mkdir zz"), None, subject) is not None

    assert not allowed(Scope.TICKET, TICKET.subject)
    assert allowed(Scope.SUBJECT, TICKET.subject)
    assert not allowed(Scope.SUBJECT, "")
    assert not allowed(Scope.SUBJECT, "bank")
    assert allowed(Scope.EVERYWHERE, "")
