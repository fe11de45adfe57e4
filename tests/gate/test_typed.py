"""A typed tool is judged by its risk, by the policy's word on it, and by what it is to touch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from operator_protocols.domain.action import Action, Argument
from operator_protocols.domain.tool import Parameter, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Level, Mode, Risk, Verdict
from operator_sre.gate import Policy, Profile, judge
from operator_sre.gate.grammar.paths import one_of
from operator_sre.gate.judge import SCORES, judge_tool
from operator_sre.gate.policy import Decision
from tests.gate.policy.writing import book

PATH, SERVICE = Parameter("path", "a path"), Parameter("service", "a service")
READ = ToolSpec("read_file", "It reads.", (PATH,), Risk.LOW, changes=False)
WRITE = ToolSpec("write_file", "It writes.", (PATH,), Risk.HIGH, changes=True, reversible=True)
START = ToolSpec("host_service_start", "It starts.", (SERVICE,), Risk.MEDIUM, changes=True)
WAKE = ToolSpec("wake", "It wakes.", (), Risk.LOW, changes=True)
THEIRS = ToolSpec(
    "route", "It routes.", (PATH, SERVICE), Risk.LOW, changes=True, source=ToolSource.SUBJECT
)


def _policy(mode: Mode = Mode.EXECUTE, **sections: Any) -> Policy:
    return Policy(mode=mode, tools=(READ, WRITE, START, WAKE, THEIRS), book=book(**sections))


def _verdict(policy: Policy, tool: str, **arguments: Argument) -> Verdict:
    verdict = judge(Action(tool, arguments), policy)
    assert verdict == judge_tool(Action(tool, arguments), policy)
    assert verdict.level is max(rule.level for rule in verdict.rules)
    assert verdict.score == SCORES[verdict.risk]
    own, strictest = verdict.rules[0], max(verdict.rules, key=lambda rule: rule.level)
    why = "" if strictest.level is own.level else f"{strictest.justification} "
    assert verdict.explanation == f"{why}{own.justification}"
    return verdict


@pytest.mark.parametrize(
    ("tool", "arguments", "runs"),
    [
        ("read_file", {"path": "/srv/a"}, True),
        ("wake", {}, True),
        ("host_service_start", {"service": "nginx"}, False),
        ("write_file", {"path": "/srv/a"}, False),
    ],
)
def test_a_low_risk_runs_by_itself_and_others_are_asked_about(
    tool: str, arguments: dict[str, Argument], runs: bool
) -> None:
    policy = _policy(paths={"write": ["/srv/*"]})
    verdict = _verdict(policy, tool, **arguments)
    assert verdict.level is not Level.BLOCKED
    assert policy.runs_by_itself(verdict) is runs
    auto = _policy(paths={"write": ["/srv/*"]}, approval={risk.value: "auto" for risk in Risk})
    assert auto.runs_by_itself(_verdict(auto, tool, **arguments))


def test_the_strictest_of_tool_and_risk_wins() -> None:
    policy = _policy(tools={"wake": "require", "read_file": "require"})
    for tool in ("wake", "read_file"):
        verdict = _verdict(policy, tool, path="/srv/a")
        assert (verdict.level, policy.runs_by_itself(verdict)) == (Level.REVIEW, False)
    assert "requires approval" in _verdict(policy, "read_file", path="/srv/a").explanation
    denied = _policy(tools={"wake": "deny"}, approval={"low": "auto"})
    verdict = _verdict(denied, "wake")
    assert (verdict.level, verdict.risk) == (Level.BLOCKED, Risk.HIGH)
    assert "denies wake" in verdict.explanation
    assert (denied.word_on("wake"), denied.word_on("route")) == (Decision.DENY, None)


def test_a_verdict_names_what_a_tool_touches_and_whether_it_is_reversible() -> None:
    policy = _policy(paths={"write": ["/srv/*"]})
    write = judge(Action("write_file", {"path": "/srv/a"}, target="db1"), policy)
    assert (write.reads, write.writes, write.reversible) == ((), ("db1", "/srv/a"), True)
    read = judge(Action("read_file", {"path": "/srv/a"}, target="db1"), policy)
    assert (read.reads, read.writes, read.reversible) == (("/srv/a",), (), True)
    wake = judge(Action("wake", {}, target="db1"), policy)
    assert (wake.reads, wake.writes, wake.reversible) == ((), ("db1",), False)
    assert judge(Action("unheard_of", {}), policy).reversible is None


def test_a_tool_that_only_reads_and_runs_by_itself_is_of_low_risk() -> None:
    dump = ToolSpec("dump", "It dumps.", (), Risk.MEDIUM, changes=False)
    policy = replace(_policy(approval={"medium": "auto"}), tools=(dump,))
    verdict = judge(Action("dump", {}), policy)
    assert (verdict.level, verdict.risk) == (Level.SAFE, Risk.LOW)


def test_a_word_on_a_tool_counts_in_a_lab_too() -> None:
    lab = replace(_policy(), profile=Profile.LAB, boundary_tools=frozenset({"wake"}))
    lab = replace(lab, boundary_targets=frozenset({""}))
    assert lab.runs_by_itself(_verdict(lab, "wake"))
    strict = replace(lab, book=book(tools={"wake": "require"}))
    assert not strict.runs_by_itself(_verdict(strict, "wake"))


@pytest.mark.parametrize("word", ["require", "deny"])
def test_a_risk_that_is_not_auto_counts_for_what_only_looks(word: str) -> None:
    policy = _policy(approval={"low": word})
    verdict = _verdict(policy, "read_file", path="/srv/a")
    assert (verdict.level, policy.runs_by_itself(verdict)) == (Level.REVIEW, False)


@pytest.mark.parametrize(
    ("service", "level"),
    [
        ("nginx", Level.REVIEW),
        ("nginx.service", Level.REVIEW),
        ("ssh", Level.BLOCKED),
        ("sshd.service", Level.BLOCKED),
        ("unheard-of", Level.BLOCKED),
        ("nginx/../ssh", Level.BLOCKED),
        ("-H", Level.BLOCKED),
        ("", Level.BLOCKED),
        (None, Level.BLOCKED),
    ],
)
def test_a_service_is_one_that_the_policy_names(service: Argument, level: Level) -> None:
    verdict = _verdict(_policy(), "host_service_start", service=service)
    assert verdict.level is level
    if service == "ssh":
        assert "'services: deny'" in verdict.explanation


def test_what_is_denied_wins_over_what_is_allowed() -> None:
    policy = _policy(services={"allow": ["ssh", "shop"], "deny": []})
    assert _verdict(policy, "host_service_start", service="shop").level is Level.REVIEW
    assert _verdict(policy, "host_service_start", service="ssh").level is Level.BLOCKED
    other = _verdict(policy, "host_service_start", service="nginx")
    assert other.level is Level.BLOCKED
    assert "The policy allows: ssh, shop." in other.explanation


@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("/srv/shop/a.conf", Level.REVIEW),
        ("/srv/shop/deep/a.conf", Level.BLOCKED),
        ("/srv/all/very/deep", Level.REVIEW),
        ("/srv/all/../../etc/passwd", Level.BLOCKED),
        ("/srv/shop/./a.conf", Level.BLOCKED),
        ("/srv/shop//a.conf", Level.BLOCKED),
        ("srv/shop/a.conf", Level.BLOCKED),
        ("/etc/passwd", Level.BLOCKED),
        ("", Level.BLOCKED),
        (7, Level.BLOCKED),
    ],
)
def test_a_file_is_written_only_where_the_policy_says(path: Argument, level: Level) -> None:
    policy = _policy(paths={"write": ["/srv/shop/*.conf", "/srv/all/**"]})
    verdict = _verdict(policy, "write_file", path=path)
    assert verdict.level is level
    if level is Level.REVIEW:
        assert (verdict.writes, verdict.reversible) == ((path,), True)
    else:
        assert "'paths: write'" in verdict.explanation
    assert _verdict(_policy(), "write_file", path=path).level is Level.BLOCKED


def test_a_secret_is_never_read_without_a_person() -> None:
    policy = _policy()
    for path in ("/etc/shadow", "/srv/../etc/shadow", "/home/a/.ssh/id_rsa"):
        verdict = _verdict(policy, "read_file", path=path)
        assert (verdict.level, verdict.risk) == (Level.REVIEW, Risk.MEDIUM)
        assert verdict.sensitive == verdict.reads
        assert not policy.runs_by_itself(verdict)
    verdict = _verdict(policy, "read_file", path="/srv/a.log")
    assert (verdict.level, verdict.reads, verdict.sensitive) == (Level.SAFE, ("/srv/a.log",), ())


def test_the_words_of_a_subjects_tools_are_its_own() -> None:
    verdict = _verdict(_policy(), "route", path="/v1/users", service="anything")
    assert (verdict.level, verdict.reads) == (Level.REVIEW, ())


def test_without_patterns_nothing_fits() -> None:
    assert one_of(()).fullmatch("") is None
    assert one_of(["/a/*", "/b/**"]).fullmatch("/b/c/d")
    assert not _policy().writes("/a")
