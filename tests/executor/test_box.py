"""Where there is no Landlock, bubblewrap keeps a SAFE command from writing and connecting."""

from __future__ import annotations

import asyncio
import secrets
import socket
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.confinement import Ability, Confinement
from operator_protocols.ports import Job
from operator_sre.executor.box import TEMPORARY, box_words, why_no_box
from operator_sre.executor.hidden import Hidden
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports import local
from operator_sre.executor.transports.local import LocalShell
from operator_sre.processes.runner.wire import Bounds
from tests.processes.runners import end_runner

pytestmark = pytest.mark.skipif(bool(why_no_box()), reason=why_no_box() or "-")


def _run(folder: Path, command: str, confinement: Confinement | None = None) -> Result:
    hidden = Hidden((folder / "home", folder / "key"), tuple)
    shell = LocalShell(Programs(Spool(folder / "spool")), hidden=hidden)
    job = Job(secrets.token_hex(8), 20.0, confinement=confinement or Confinement())
    try:
        return asyncio.run(shell.run(Action.shell(command), job))
    finally:
        end_runner(folder / "runner")


@pytest.fixture(autouse=True)
def _no_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "why_not_confined", lambda: "no Landlock")


def test_a_boxed_command_reads_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text("word")
    (tmp_path / "key").write_text("word")
    (tmp_path / "plain").write_text("read\n")
    line = f"cd {tmp_path}; cat plain home/secret key; echo x > new; chmod 600 plain; echo $?"
    done = _run(tmp_path, f"{line}; echo t > $TMPDIR/t; cat $TMPDIR/t")
    assert done.stdout == "read\n1\nt\n"
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "plain").stat().st_mode & 0o777 != 0o600


def test_a_boxed_command_reaches_only_what_is_declared(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        assert _run(tmp_path, line).stdout == ""
        assert _run(tmp_path, line, Confinement(hosts=("localhost",))).stdout == "connected\n"


def test_what_asks_about_the_network_keeps_its_view_of_it() -> None:
    assert "--unshare-net" in box_words(Bounds(), "/")
    assert "--unshare-net" not in box_words(Bounds(abilities=(Ability.INTERFACES,)), "/")
    assert TEMPORARY.startswith("/dev")
