"""The operator under another name is the operator, where a look at the file is enough to know."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.verdict import Level
from operator_sre.app.system import is_own_program
from operator_sre.controls import MACHINE
from operator_sre.gate.reserved_commands import FOR_PEOPLE
from tests.app.home import opened

OPERATOR = Path(sys.executable).with_name("operator")
AGENT, ADA = Actor("planner", "agent", "planner"), Actor("ada", "user", "ada@host:1")


def test_a_link_and_a_copy_are_the_operator_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(OPERATOR)
    shutil.copy(OPERATOR, tmp_path / "copy")
    (tmp_path / "fly").write_text("#!/bin/sh\necho secrets\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"#!/bin/sh\n" + b"# operator_sre\n" * 10_000)
    assert is_own_program(str(OPERATOR), "/")
    for name, ours in {"link": True, "copy": True, "fly": False, "folder": False}.items():
        assert is_own_program(f"./{name}", str(tmp_path)) is ours, name
        assert is_own_program(f"{tmp_path}/{name}", "") is ours, name
    for name in ("large", "nosuch", "a\0b", "x" * 5000):
        assert not is_own_program(f"{tmp_path}/{name}", "/")
    assert not is_own_program("ls", "/")


def test_an_agent_decides_nothing_by_a_copy_of_the_operator(tmp_path: Path) -> None:
    shutil.copy(OPERATOR, tmp_path / "op")
    (tmp_path / "fly").write_text("#!/bin/sh\n")
    with opened(tmp_path, mode="execute") as app:
        gate = app.controls(MACHINE).gate
        for line in (
            f"{tmp_path}/op tokens create x",
            "./op mode set execute --yes",
            "env -u OPERATOR_TREE ./op approvals approve a-1",
            f"timeout 5 {tmp_path}/op --quiet secrets bind x",
            f"cd {tmp_path} && ./op tokens $VERB x",
            f"python3 {tmp_path}/op tokens create x",
        ):
            action = replace(Action.shell(line), cwd=str(tmp_path))
            verdict = gate.judge(action, AGENT)
            assert (verdict.level, FOR_PEOPLE in verdict.rules) == (Level.BLOCKED, True), line
            assert FOR_PEOPLE not in gate.judge(action, ADA).rules
        for line in ("./op tickets list", "./fly secrets set x", "./gone tokens create x"):
            action = replace(Action.shell(line), cwd=str(tmp_path))
            assert gate.judge(action, AGENT).level is Level.REVIEW, line
