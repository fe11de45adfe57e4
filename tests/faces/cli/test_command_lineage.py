"""A command of an agent decides nothing, whatever it does to hide whose command it is."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from operator_sre.app.secrets import set_secret
from operator_sre.gate.reserved_commands import _VERBS
from operator_sre.processes.runner.client import RunnerClient
from operator_sre.processes.runner.wire import Done, Order
from tests.app.home import SUBJECTS, opened
from tests.faces.cli.tree import run_here
from tests.processes.runners import end_runner
from tests.processes.waiting import eventually

REFUSAL = "Agents propose, and people decide"
OPERATOR = f"{shlex.quote(sys.executable)} -m operator_sre --home home approvals approve a-1"
# Each loses the mark, and most of them their parent, their session or their name as well.
ESCAPES = {
    "unset": f"unset OPERATOR_TREE; {OPERATOR}",
    "env -u": f"env -u OPERATOR_TREE {OPERATOR}",
    "env -i": f"env -i PATH=/usr/bin:/bin HOME=/nonexistent {OPERATOR}",
    "nested": f"exec env -i bash -c {shlex.quote(f'bash -c {shlex.quote(OPERATOR)}')}",
    "exec -a": f"unset OPERATOR_TREE; exec -a -bash bash -c {shlex.quote(f'{OPERATOR}; exit $?')}",
    "nohup": f"nohup env -i {OPERATOR} </dev/null",
    "setsid": f"exec env -i setsid -w {OPERATOR}",
    "double fork": f"env -i sh -c {shlex.quote(f'({OPERATOR} >out 2>&1; echo $? >code) & exit')}",
    "daemon": (
        f"env -i setsid sh -c {shlex.quote(f'(sleep 0.1; {OPERATOR} >out 2>&1; echo $? >code) &')}"
    ),
    "loop of a cron": (
        "env -i setsid -f sh -c "
        + shlex.quote(f"while sleep 0.1; do {OPERATOR} >out 2>&1; echo $? >code; break; done")
    ),
    "namespace": f"exec env -i unshare -Urpf --mount-proc {OPERATOR}",
}
# These ask people when a command of an agent says them, also with --yes.
PROPOSED = {
    ("policy", "change"): ["allow host api.example.com port 443", "--yes"],
    ("secrets", "bind"): ["s-1", "--to", "model:claude", "--yes"],
    ("secrets", "lease"): [*("s-1", "--command", "id", "--as", "X", "--for", "1m", "--yes")],
}
# There is no session of an agent in this home; its reset asks people, too.
UNKNOWN = {("session", "reset")}
REFUSED = {(noun, verb) for noun, verbs in _VERBS.items() for verb in verbs}
REFUSED -= PROPOSED.keys() | UNKNOWN
ARGUMENTS: dict[str, dict[str, list[str]]] = {
    "approvals": {"revoke": ["r-1"]},
    "config": {"trust": ["operator.toml"]},
    "limits": {"reset": ["machine", "--reason", "x", "--yes"]},
    "kill-switch": {"on": [], "off": []},
    "mode": {"set": ["observe", "--subject", "shop"], "reset": []},
    "secrets": {
        "unbind": ["s-1", "--to", "model:x"],
        "remove": ["s-1", "--yes"],
    },
    "store": {"restore": ["saved.db"]},
    "tokens": {"create": ["mine"], "revoke": ["t-1"]},
}


async def _run(folder: Path, script: str) -> tuple[Done, str]:
    client = RunnerClient(folder / "home" / "runner")
    said = bytearray()
    order = Order(
        id=secrets.token_hex(8),
        argv=(b"/bin/bash", b"-c", script.encode()),
        env=(f"PATH={os.environ['PATH']}".encode(),),
        cwd=os.fsencode(folder),
        timeout_s=60.0,
        grace_s=0.3,
        ends_left=False,
    )
    done = await client.run(order, watch=lambda stream, data: said.extend(data))
    code = folder / "code"
    await eventually(lambda: done.exit_code or (code.exists() and code.read_text()))
    return done, said.decode()


@pytest.mark.usefixtures("real_runner")
def test_no_command_gets_away_from_its_runner(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-Urpf", "--mount-proc", "true"], check=False).returncode:
        ESCAPES.pop("namespace", None)  # the kernel lets nobody do it either
    try:
        for name, script in ESCAPES.items():
            done, said = asyncio.run(_run(tmp_path, script))
            code = done.exit_code
            if (tmp_path / "code").exists():
                code = int((tmp_path / "code").read_text())
                said = (tmp_path / "out").read_text()
                (tmp_path / "code").unlink()
            assert (code, REFUSAL in said) == (3, True), f"{name}: {code} {said}"
            assert len(said.strip().splitlines()) == 1, said
    finally:
        end_runner(tmp_path / "home" / "runner")
        shutil.rmtree(tmp_path / "home", ignore_errors=True)


def test_a_person_is_not_taken_for_a_command(tmp_path: Path) -> None:
    words = shlex.split(OPERATOR)
    told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "There is no approval 'a-1'" in told.stderr
    assert REFUSAL not in told.stderr


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a secret, in the eyes of a command that an agent runs."""
    with opened(tmp_path, SUBJECTS) as app:
        asyncio.run(set_secret(app, "s-1", "correct horse battery"))
    monkeypatch.setattr("operator_sre.app.persons.is_started_by_runner", lambda: True)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"correct horse battery")))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.mark.parametrize(("noun", "verb"), sorted(REFUSED))
def test_every_verb_that_decides_is_refused_to_a_command(
    noun: str, verb: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ARGUMENTS.get(noun, {}).get(verb, ["a-1"])
    done = run_here(capsys, ["--home", str(home), noun, verb, *given])
    assert (done.code, REFUSAL in done.err) == (3, True), (done.out, done.err)


@pytest.mark.parametrize(("noun", "verb"), sorted(PROPOSED))
def test_what_a_command_asks_for_is_left_to_people(
    noun: str, verb: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_here(capsys, ["--home", str(home), noun, verb, *PROPOSED[noun, verb]])
    assert (done.code, "operator confirmations approve" in done.out) == (4, True), done
