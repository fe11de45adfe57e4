"""What programs are told about commands."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from operator_protocols.domain.action import MARK, Action
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.verdict import Level, Risk, Rule, Verdict
from operator_sre.app.persons import acting_as, by_an_agent, myself
from operator_sre.app.policy import answer_of, check_command, check_lines
from operator_sre.config import load_config
from operator_sre.gate.authority import LocalPermissions, Role


def test_a_verdict_is_told_with_all_that_it_would_touch() -> None:
    rule = Rule("x", Level.REVIEW, "Because.")
    verdict = Verdict(Action.shell("a"), Level.REVIEW, Risk.HIGH, (rule,), "Because.", "sha256:0")
    answer = answer_of(verdict)
    assert answer["rules"] == (rule,)
    assert (answer["command"], answer["level"], answer["risk_level"]) == ("a", "review", "high")


def test_lines_are_answered_as_they_come(tmp_path: Path) -> None:
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    answers = check_lines(config, io.BytesIO(b'"ls"\n{"command": 1}\n"rm x"'))
    assert next(answers)["level"] is Level.SAFE
    assert next(answers)["line"] == 2
    assert next(answers)["level"] is Level.REVIEW
    assert list(answers) == []


def test_it_is_judged_for_whoever_asks_unless_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    away = "curl -s http://far.example.com/"

    def levels(*, person: bool | None = None) -> list[Level]:
        lines = io.BytesIO(f'"{away}"'.encode())
        (answer,) = check_lines(config, lines, person=person)
        return [check_command(config, away, person=person).level, answer["level"]]

    monkeypatch.delenv(MARK, raising=False)
    assert (by_an_agent(), myself().type) == (False, "user")
    assert levels() == levels(person=True) == [Level.SAFE] * 2
    assert levels(person=False) == [Level.REVIEW] * 2
    monkeypatch.setenv(MARK, "1")
    assert (by_an_agent(), myself().type) == (True, "agent")
    assert levels() == [Level.REVIEW] * 2
    assert levels(person=True) == [Level.SAFE] * 2
    with acting_as("ada"):
        assert (by_an_agent(), myself().type) == (False, "user")


def test_an_agent_may_no_more_than_whoever_lets_it_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever puts the mark into their own environment gains nothing by it."""
    monkeypatch.setenv(MARK, "1")
    change = Verdict(Action.shell("rm x"), Level.REVIEW, Risk.LOW, (), "Because.", "sha256:0")
    me = myself()
    viewer, admin = LocalPermissions({"root": Role.ADMIN, me.id: Role.VIEWER}), LocalPermissions()
    assert "viewer" in viewer.may_request(me, change)
    assert admin.may_request(me, change) == ""
    assert viewer.may_request(Actor("probe", "agent", "probe"), change) == ""


def test_what_would_make_it_safe_is_told(tmp_path: Path) -> None:
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    verdict = check_command(config, "find . -delete", cwd="/srv/app")
    assert (verdict.level, verdict.safer) == (Level.REVIEW, "Without -delete this only reads.")
