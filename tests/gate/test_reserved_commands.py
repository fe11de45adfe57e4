"""What decides over the operator is for people: an agent never gets it run, however it is put."""

from __future__ import annotations

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.verdict import Level, Mode, Risk, Verdict
from operator_sre.gate import PERSON, Policy, judge
from operator_sre.gate.grammar.findings import COMMANDS_MAX, Finding
from operator_sre.gate.reserved_commands import FOR_PEOPLE, decides
from operator_sre.shell.line import parse
from operator_sre.shell.words import Simple, literal
from tests.every import every
from tests.gate.office import Office
from tests.gate.policy.writing import book
from tests.measuring import GROWTH_MAX, growth

POLICY = Policy(mode=Mode.EXECUTE)
ADA, PLANNER = Actor("ada", PERSON, "ada@host:1"), Actor("planner", "agent", "planner")
DECISIONS = [
    "confirmations approve c-1",
    "confirmations decline c-1 --reason no",
    "approvals approve a-1 --always",
    "approvals reject a-1",
    "approvals revoke r-1",
    "approvals withdraw a-1",
    "tokens create x --role admin",
    "tokens revoke x",
    "mode set execute --yes",
    "mode reset",
    "secrets set x",
    "secrets bind x --subject shop",
    "secrets lease x",
    "secrets remove x",
    "kill-switch off",
    "kill-switch on",
    "policy change 'allow host *'",
    "config trust /srv/app/operator.toml",
    "store restore saved.db --force",
    "session reset planner",
    "limits reset shop",
    "hub approve h-1",
    "tokens whatever-comes-later x",
]
WAYS = [
    "operator {}",
    "/usr/local/bin/operator {}",
    "./.venv/bin/operator {}",
    "env -u OPERATOR_TREE operator {}",
    "env -i PATH=/usr/bin operator {}",
    "python -m operator_sre.faces.cli {}",
    "python3 -moperator_sre.faces.cli {}",
    "operator --home /tmp/x --quiet {}",
    "cd /tmp && nohup operator {} &",
    "true | timeout 5 nice operator {}",
    'echo "$(operator {})"',
    "sudo -u app operator {}",
    "ssh web1 operator {}",
]
DISGUISED = [
    "sh -c 'operator tokens create x'",
    'bash -lc "env -u A operator --quiet mode --json set execute"',
    "ssh web1 'cd /srv && operator mode set execute'",
    "docker exec app operator mode set execute",
    "oper''ator tokens create x",
    "operat?r tokens create x",
    "$(which operator) tokens create x",
    "x=operator; $x tokens create y",
    "operator tokens $V x",
    "operator $V create x",
    "env -u MARK operator tokens $V",
    "python -m operator_sre.faces.cli tokens $V",
    "python -m operator_sre tokens create x",
    "operator tokens --json create list",
    "echo approve c-1 | xargs operator confirmations",
    "echo tokens create x | xargs operator",
    "xargs -I NOUN operator NOUN create x",
    "xargs -I{} operator {} create x",
    "echo approvals | xargs --replace=% operator % approve 7",
    "find . -maxdepth 0 -exec operator tokens create x ';'",
    "f() { operator tokens create x; }; f",
    "`operator tokens create x`",
    "sh <<EOF\noperator tokens create x\nEOF",
    "python -c 'from operator_sre.faces.cli import main; main()'",
    """python3 -c 'import os; os.execvp("operator", ["operator", "tokens", "create", "x"])'""",
    "operator exec 'operator tokens create x'",
    "operator exec -- operator tokens create x",
    "pipx run operator-sre tokens create x",
    "uvx --from operator-sre operator tokens create x",
    "operator --mode execute up",
    "operator up --mode=execute",
    "OPERATOR_MODE=execute operator up",
    "env OPERATOR_MODE=execute operator up",
    "true; " * COMMANDS_MAX + "operator tokens create x",
]
# What only looks, what is for agents too, and what only has the same words in it.
OTHERS = [
    "operator tickets list",
    "operator tickets comment t-1 'A person may run: operator mode set execute'",
    "operator approvals list --limit 5",
    "operator --json approvals show a-1",
    "operator approvals rules",
    "operator confirmations show c-1",
    "operator tokens list",
    "operator tokens --help",
    "operator mode show",
    "operator secrets test x",
    "operator secrets list",
    "operator tickets comment 3 approvals approve",
    "echo 3 | xargs operator tickets show",
    "echo 3 | parallel operator tickets show",
    "operator kill-switch status",
    "operator policy explain 'rm x'",
    "operator session show planner",
    "operator limits show",
    "operator hub request 'ls'",
    "operator --mode observe up",
    "operator exec -- nginx --mode fast",
    "env -u X operator tickets list",
    "python -m operator_sre.faces.cli tickets list",
    "kubectl delete -n operator secrets x",
    "kubectl delete -n operator secrets $X",
    "cp operator secrets x",
    "echo 'operator tokens create x' > note",
    "git commit -m 'operator mode set execute'",
    "systemctl restart operator",
    "grep -rn operator tokens",
]


def _of(command: str, *, person: bool = False, policy: Policy = POLICY) -> Verdict:
    return judge(Action.shell(command), policy, person=person)


def _is_for_people(verdict: Verdict) -> bool:
    return FOR_PEOPLE in verdict.rules


@every("decision", DECISIONS)
def test_an_agent_never_decides(decision: str) -> None:
    for way in WAYS:
        if "whatever" in decision and "ssh" not in way and "operator {}" not in way:
            continue
        verdict = _of(way.format(decision.replace("'", "") if '"' in way else decision))
        assert verdict.level is Level.BLOCKED, way
        assert verdict.risk is Risk.CRITICAL
        assert _is_for_people(verdict)
        assert not POLICY.runs_by_itself(verdict)


@every("command", DISGUISED)
def test_a_decision_in_disguise_is_one(command: str) -> None:
    verdict = _of(command)
    assert _is_for_people(verdict), verdict.explanation
    assert verdict.level is Level.BLOCKED


@every("command", [*(f"operator {one}" for one in DECISIONS), *DISGUISED])
def test_for_a_person_it_is_as_any_other_command(command: str) -> None:
    assert not _is_for_people(_of(command, person=True))


@every("command", OTHERS)
def test_what_decides_nothing_stays_as_it_is(command: str) -> None:
    verdict = _of(command)
    assert not _is_for_people(verdict)
    assert verdict.level is _of(command, person=True).level


def test_no_rule_of_a_policy_gives_it_to_an_agent() -> None:
    rule = {
        "id": "ours",
        "why": "We want it.",
        "command": "operator",
        "operand": ".*",
        "options": ["--yes"],
        "match": ["operator mode set execute --yes"],
    }
    policy = Policy(mode=Mode.EXECUTE, book=book(safe=[rule]))
    command = "operator mode set execute --yes"
    assert _of(command, person=True, policy=policy).level is Level.SAFE
    assert _of(command, policy=policy).level is Level.BLOCKED


def test_what_is_known_to_only_read_is_not_looked_at() -> None:
    simple = Simple(tuple(map(literal, ["operator", "tokens", "create", "x"])))
    script = parse("cat x")
    assert not decides("cat x", script, [Finding(simple, "")])
    assert decides("cat x", script, [Finding(simple, "It is not known.")])


def test_no_text_takes_longer_than_it_is_long() -> None:
    for hostile in (
        "operator -a b ",
        "operator ",
        "operator -",
        "-a ",
        "operator tokens -a ",
        "[ ",
    ):

        def read(size: int, hostile: str = hostile) -> None:
            decides(f"operator {hostile * size}"[:size], parse("`x`"), [])

        assert growth(read, 4096) <= GROWTH_MAX, hostile


@pytest.mark.asyncio
@pytest.mark.parametrize("requester", [PLANNER, None])
async def test_a_verdict_for_a_person_decides_for_no_agent(
    office: Office, requester: Actor | None
) -> None:
    office.policy = Policy(mode=Mode.EXECUTE)
    gate = office.gate()
    verdict = gate.judge(Action.shell("operator tokens create x"), ADA)
    assert verdict.level is Level.REVIEW
    refused = await gate.permit(verdict, None, requester)
    assert not isinstance(refused, Permit)
    assert FOR_PEOPLE.justification in refused.stderr
