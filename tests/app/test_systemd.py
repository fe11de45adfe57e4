"""The unit is one that systemd accepts, and the messages are those that it understands."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from operator_protocols.errors import UsageError
from operator_sre.app.systemd import UNIT, Manager, manager_of, unit_text

HOME = Path("/var/lib/operator-sre")


def test_messages_reach_the_socket_that_the_environment_names(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.bind(address)
        ours.settimeout(10)
        environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "6000000", "WATCHDOG_PID": "7"}
        manager = manager_of(environ, pid=7)
        assert manager.watchdog_s == 6.0
        assert manager_of(environ, pid=8).watchdog_s == 0.0, "it is meant for another process"
        manager.ready("all parts run")
        assert ours.recv(4096) == b"READY=1\nSTATUS=all parts run"
        manager.reloading()
        first, _, second = ours.recv(4096).decode().partition("\n")
        assert first == "RELOADING=1"
        assert second.removeprefix("MONOTONIC_USEC=").isdigit()


def test_a_manager_that_is_away_or_absent_does_no_harm(tmp_path: Path) -> None:
    Manager().ready("nobody listens")
    Manager(str(tmp_path / "absent")).ready("nobody listens")
    assert manager_of({"WATCHDOG_USEC": "soon"}, pid=1) == Manager()


def test_the_unit_of_the_machine_writes_nothing_but_the_home_and_what_is_named() -> None:
    text = unit_text(
        program=Path("/opt/operator/bin/operator"),
        folder=Path("/srv/shop"),
        home=HOME,
        user="operator-sre",
        writable=(Path("/srv/100%"),),
    )
    lines = text.splitlines()
    assert "User=operator-sre" in lines
    assert "ProtectSystem=strict" in lines
    assert "CapabilityBoundingSet=" in lines
    assert f"ReadWritePaths={HOME} /srv/100%%" in lines
    assert {"Type=notify", "WatchdogSec=60", "NoNewPrivileges=yes"} <= set(lines)
    own = unit_text(program=Path("/bin/operator"), folder=HOME, home=HOME).splitlines()
    assert not [line for line in own if line.startswith(("User=", "Protect", "ReadWrite"))]
    assert "WantedBy=default.target" in own


@pytest.mark.parametrize("name", ["/srv/my shop", "/srv/a\nb", "/srv/$x"])
def test_a_path_that_a_unit_cannot_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name"):
        unit_text(program=Path("/bin/operator"), folder=Path(name), home=HOME)


@pytest.mark.parametrize("user", ["0", "%u", "ada\nExecStartPre=/bin/false", "a b"])
def test_an_account_that_is_no_name_is_refused(user: str) -> None:
    with pytest.raises(UsageError, match="not a valid name of an account"):
        unit_text(program=Path("/bin/operator"), folder=HOME, home=HOME, user=user)


@pytest.mark.system
@pytest.mark.parametrize("user", ["", "daemon"])
def test_systemd_accepts_the_unit(tmp_path: Path, user: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNIT
    unit.write_text(
        unit_text(program=Path(sys.executable), folder=tmp_path, home=tmp_path, user=user)
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
