"""A script in a box that reaches nothing and leaves nothing is a check."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.verdict import Level, Mode
from operator_protocols.ports import Job
from operator_sre.agent.progress import read_only_tools
from operator_sre.executor.tools.script import CheckScript, ExecuteScript
from operator_sre.gate import Policy, judge
from operator_sre.gate.policy.load import book_of
from tests.app.home import SUBJECTS, opened

NAME = CheckScript.spec.name
SCRIPT = Action(NAME, {"language": "bash", "text": "true"})


def test_a_script_that_reads_needs_no_diagnosis(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS, mode="observe") as app:
        controls = app.controls("shop")
        verdict = controls.gate.judge(SCRIPT)
        assert verdict.level is Level.SAFE
        assert controls.gate.policy().runs_by_itself(verdict)
        specs = controls.registry.specs
        assert NAME in read_only_tools(specs)
        assert ExecuteScript.spec.name not in read_only_tools(specs)


def test_a_policy_can_require_approval_or_deny_it() -> None:
    for word, level in (("require", Level.REVIEW), ("deny", Level.BLOCKED)):
        book = book_of(f"version: 1\ntools: {{check_script: {word}}}\n", "policy.yaml")
        policy = Policy(mode=Mode.EXECUTE, tools=(CheckScript.spec,), book=book)
        verdict = judge(SCRIPT, policy)
        assert verdict.level is level
        assert not policy.runs_by_itself(verdict)


async def _run(folder: Path, text: str) -> Result:
    # A policy that lists hosts for scripts: a check does not reach them.
    policy = folder / "policy.yaml"
    policy.write_text("version: 1\negress: {scripts: ['127.0.0.1:1']}\n")
    with opened(folder, SUBJECTS, policy=str(policy)) as app:
        tool = app.controls("shop").registry.get(NAME)
        assert tool is not None
        arguments = {"language": "bash", "text": text}
        return await tool.call(arguments, Job(secrets.token_hex(8), 60.0))


@pytest.mark.asyncio
async def test_it_computes_reaches_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "made"
    text = f"echo $((6 * 7)); echo x > {mark}; (exec 3<>/dev/tcp/127.0.0.1/1) && echo reached"
    result = await _run(tmp_path, f"{text}; env | grep -i proxy; echo end")
    assert result.stdout.split() == ["42", "end"], result
    assert not mark.exists()
