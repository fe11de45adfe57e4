"""In the boundary of a rig an agent has a free shell, which the kernel confines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.target import Process
from operator_protocols.domain.verdict import Level, Mode
from operator_sre.gate import Policy, Profile, judge

NODE = Process(4242, 1.5)
LOGS = ("/var/rigs/shop/log",)
BOUNDARY = Confinement(
    reads=LOGS, hosts=("127.0.0.1:7001",), inside="shop", processes=(NODE,), shown=LOGS
)
RIG = Policy(
    mode=Mode.EXECUTE,
    profile=Profile.LAB,
    boundary_targets=frozenset({"node-1"}),
    boundary=BOUNDARY,
)
FREE = (
    "kill -CONT 4242",
    "kill -9 4242; sleep 1; ss -ltn",
    "touch /srv/x",
    "python3 -c 'import os; os.kill(4242, 18)'",
    "redis-cli -p 7001 CONFIG SET maxmemory 0",
    "curl -X PUT http://127.0.0.1:7001/limits/a -d 5",
    "x=$(mktemp); awk '{print}' /etc/hosts > $x; sort $x | uniq -c",
    'cat <(echo a) && eval "$SOMETHING"',
    "docker stop shop",
)
BLOCKED = (
    "rm -rf /",
    "operator approvals approve a1",
    ":(){ :|:& };:",
    "sudo systemctl restart nginx",
)


@pytest.mark.parametrize("line", FREE)
def test_in_a_boundary_what_is_not_blocked_runs_confined(line: str) -> None:
    verdict = judge(Action.shell(line, target="node-1"), RIG)
    assert verdict.level is not Level.BLOCKED
    assert RIG.runs_by_itself(verdict)
    if verdict.level is Level.REVIEW:
        assert verdict.confinement == BOUNDARY
    # The same line elsewhere waits for a person, unless it only reads.
    standard = replace(RIG, profile=Profile.STANDARD, boundary=None)
    assert standard.runs_by_itself(judge(verdict.action, standard)) is (verdict.level is Level.SAFE)


def test_in_a_boundary_only_what_is_blocked_is_refused() -> None:
    for line in BLOCKED:
        verdict = judge(Action.shell(line), RIG)
        assert verdict.level is Level.BLOCKED, line
        assert not RIG.runs_by_itself(verdict)


def test_the_boundary_holds_agents_that_execute_in_a_rig_and_nobody_else() -> None:
    action = Action.shell("kill -CONT 4242", target="node-1")
    for other in (
        replace(RIG, mode=Mode.APPROVE),
        replace(RIG, mode=Mode.OBSERVE),
        replace(RIG, boundary=None),
        replace(RIG, profile=Profile.STANDARD),
    ):
        verdict = judge(action, other)
        assert not other.runs_by_itself(verdict), other
        assert verdict.confinement is None or not verdict.confinement.inside
    for changed in (
        replace(action, target="elsewhere"),
        replace(action, passes=("TOKEN",)),
        replace(action, venv="/srv/app/.venv"),
    ):
        assert not RIG.runs_by_itself(judge(changed, RIG)), changed
    by_person = judge(action, RIG, person=True)
    assert not RIG.runs_by_itself(by_person)


def test_beside_a_free_shell_a_line_that_only_reads_sees_the_logs_of_the_rig() -> None:
    """A password that it showed would open the servers of the rig to the next line."""
    action = Action.shell("base64 /var/rigs/shop/primary/server.conf", target="node-1")
    verdict = judge(action, RIG)
    assert verdict.level is Level.SAFE
    assert verdict.confinement is not None
    assert (verdict.confinement.shown, verdict.confinement.inside) == (LOGS, "")
    others = (replace(RIG, mode=Mode.APPROVE), replace(RIG, profile=Profile.STANDARD))
    for held in (judge(action, RIG, person=True), *(judge(action, other) for other in others)):
        assert held.confinement is not None
        assert held.confinement.shown is None


def test_without_the_kernel_a_person_is_asked() -> None:
    verdict = judge(Action.shell("kill -CONT 4242", target="node-1"), RIG)
    assert not RIG.runs_by_itself(replace(verdict, confinement=None, unenforced="no Landlock"))


def test_which_processes_a_rig_has_now_is_no_matter_of_policy() -> None:
    restarted = replace(RIG, boundary=replace(BOUNDARY, processes=(Process(4243, 2.5),)))
    assert restarted != RIG
    assert restarted.digest == RIG.digest
    assert replace(RIG, boundary=None).digest != RIG.digest
