"""What programs are told about commands."""

from __future__ import annotations

import io
from pathlib import Path

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level, Risk, Rule, Verdict
from operator_sre.app.gate import answer_of, check_command, check_lines
from operator_sre.config import load_config


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


def test_what_would_make_it_safe_is_told(tmp_path: Path) -> None:
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    verdict = check_command(config, "find . -delete", cwd="/srv/app")
    assert (verdict.level, verdict.safer) == (Level.REVIEW, "Without -delete this only reads.")
