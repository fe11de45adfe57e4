"""What commands load: nobody waits for what the answer does not need."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Draft, Kind
from operator_sre import gate
from operator_sre.app import answers
from operator_sre.codec import to_json
from operator_sre.gate import Policy, judge
from tests.app.home import opened
from tests.every import every

RUN = "run-denied"
# Each takes milliseconds, and no question of these is answered by it.
NEVER = (
    *("email", "httpx2", "importlib.metadata", "multiprocessing", "pydantic", "pydantic_core"),
    *("prometheus_client", "rich", "textual", "urllib.request", "cel_expr_python", "psycopg"),
    *("operator_protocols.domain.run", "operator_protocols.ports", "operator_sre.executor"),
    *("operator_sre.gate.permits", "operator_lab", "operator_sre.models"),
    *("operator_sre.monitor", "operator_sre.pipeline", "operator_sre.processes"),
)
# What only some of them need: a loop to write, keys to sign, a policy to read, secrets to find.
LOOP, KEYS, YAML, SCAN = "asyncio", "cryptography", "yaml", "re2"
STORE, GATE = "sqlite3", "operator_sre.gate"
SOMETIMES = {LOOP, KEYS, YAML, SCAN, STORE, GATE}

_LOADED = """
import json, sys
from operator_sre.faces.cli import main
try:
    main(json.loads(sys.argv[1]))
except SystemExit as end:
    print()
    print(json.dumps([end.code, sorted(sys.modules)]))
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A line, its exit code, and what it may load of what only some need."""

    words: tuple[str, ...]
    code: int = 0
    may: tuple[str, ...] = ()


LINES = (
    Line(("--help",)),
    Line(("gate", "check", "true"), may=(GATE, YAML)),
    Line(("tickets", "list"), may=(STORE,)),
    Line(("validate", "."), may=(STORE, GATE, YAML, SCAN)),
    Line(("summarize", RUN), may=(STORE,)),
    Line(("timeline", RUN), may=(STORE,)),
    Line(("explain-failure", RUN), may=(STORE, GATE, YAML)),
    Line(("explain-denial", RUN), may=(STORE, GATE, YAML)),
    Line(("next-action", RUN), may=(STORE,)),
    Line(
        ("recommend-patch", "allow host api.example.com"), 4, (STORE, GATE, YAML, SCAN, LOOP, KEYS)
    ),
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a run that was denied."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "policy.yaml").write_text("version: 1\n")
    verdict = judge(Action.shell("rm -rf /"), Policy())
    refused = to_json(Result(Outcome.REFUSED, stderr="Blocked: it never runs."))
    told = {"action": to_json(verdict.action), "level": "blocked", "risk": "high", "permit": ""}
    end = {"state": "failed", "summary": "Forbidden.", "category": "policy_denied"}
    with opened(folder) as app:

        async def write() -> None:
            for kind, payload in (
                (Kind.RUN_STARTED, {"model": "reasoner", "worker": "w"}),
                (Kind.VERDICT, to_json(verdict)),
                (Kind.REFUSED, {**told, "result": refused}),
                (Kind.RUN_FINISHED, end),
            ):
                await app.store.journal.append(Draft(kind, payload, 1, RUN))

        asyncio.run(write())
    return folder


@every("line", LINES)
def test_a_command_loads_only_what_its_answer_needs(line: Line, project: Path) -> None:
    given = json.dumps([*line.words, "--home", str(project / "home")])
    command = [sys.executable, "-c", _LOADED, given]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    code, loaded = json.loads(done.stdout.splitlines()[-1])
    assert code == line.code, done.stdout
    assert "operator_sre.faces.cli.main" in loaded
    kept_out = {*NEVER, *SOMETIMES} - set(line.may)
    assert sorted(kept_out & set(loaded)) == []
    # What is allowed and not needed any more is to be forbidden.
    assert sorted(set(line.may) - set(loaded)) == []


def test_what_is_loaded_on_demand_is_there_and_nothing_else() -> None:
    for package in (answers, gate):
        assert all(hasattr(package, name) for name in package.__all__)
        with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
            package.nosuch  # noqa: B018
