"""The unit under a real systemd: ready, reloaded, watched, confined, stopped.

The systemd is PID 1 of namespaces of its own, and this machine is read-only there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from operator_sre.app.systemd import UNIT, unit_text
from tests.e2e.waiting import eventually
from tests.e2e.warm import OPERATOR, ROOT
from tests.engines.systemd import Systemd, running_systemd

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(600)]
ACCOUNT = "daemon"
SAFE = "grep Seccomp_filters: /proc/self/status"
PROBE = """\
echo user "$(id -un)"
grep -e CapBnd -e Seccomp_filters /proc/self/status
for file in /etc/x /usr/x /srv/x /srv/shop/x; do
    (: > "$file") 2>/dev/null && echo wrote "$file" || echo refused "$file"
done
"""
SETTINGS = 'interval_s = 1\nhome = "{home}"\n[service]\nparts = ["monitor", "agent"]\n'
WATCHDOG = "WatchdogSec=60"
SHORT_WATCHDOG_S = 6
# The manager of an account, as a login starts it.
MANAGER = """\
[Unit]
DefaultDependencies=no
[Service]
Type=notify
User=daemon
Delegate=yes
RuntimeDirectory=user-daemon
RuntimeDirectoryMode=0700
Environment=XDG_RUNTIME_DIR=/run/user-daemon HOME=/srv/shop
Environment=SYSTEMD_UNIT_PATH=/srv/shop/units SYSTEMD_GENERATOR_PATH=/run/none
ExecStart=/lib/systemd/systemd --user --unit=basic.target
"""
TARGETS = ("basic.target", "shutdown.target", "default.target")


@dataclass
class Installed:
    """The service of a project, as systemd sees it."""

    systemd: Systemd
    project: Path
    home: Path
    folder: Path

    def shown(self, name: str) -> str:
        """A property of the unit."""
        return self.systemd.run("systemctl", "show", "--value", f"--property={name}", UNIT).strip()

    def systemctl(self, *words: str) -> None:
        """A verb that succeeds."""
        said = self.systemd.run("systemctl", *words, UNIT)
        assert said == "", (said, self.journal())

    def journal(self) -> str:
        """What it has logged."""
        return self.systemd.run("journalctl", "--output=cat", f"--unit={UNIT}")

    def operator(self, *words: str) -> str:
        """What the command prints to the account of the service."""
        account = ("setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups")
        place = ("env", "-C", str(self.project), f"HOME={self.home}")
        return self.systemd.run(*place, *account, str(OPERATOR), *words)


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installed]:
    """The unit of the machine for a project, not started yet."""
    if " " in str(ROOT):
        pytest.skip("a unit cannot name a directory with a space")
    project, home = Path("/srv/shop"), Path("/var/lib/operator-sre")
    folders = {str(place): tmp_path / place.name for place in (project, home)}
    for folder in folders.values():
        folder.mkdir()
        if os.geteuid() == 0:
            shutil.chown(folder, ACCOUNT, ACCOUNT)
    (folders[str(project)] / "operator.toml").write_text(SETTINGS.format(home=home))
    text = unit_text(program=OPERATOR, folder=project, home=home, user=ACCOUNT)
    assert WATCHDOG in text
    units = {
        UNIT: text.replace(WATCHDOG, f"WatchdogSec={SHORT_WATCHDOG_S}"),
        # The same sandbox, for one command.
        "once.service": re.sub(r"(?m)^(Restart|WatchdogSec).*\n", "", text)
        .replace("Type=notify", "Type=oneshot")
        .replace("service run", f"exec -- {SAFE}\nExecStart=/bin/sh /srv/shop/probe.sh"),
    }
    with running_systemd(tmp_path, units, shared=_shared(), writable=folders) as systemd:
        yield Installed(systemd, project, home, folders[str(project)])


def _shared() -> list[Path]:
    """Where the command and its Python are."""
    python = Path(sys.base_prefix)
    return [ROOT, *([] if python == Path("/usr") else [python])]


def test_it_is_ready_once_its_parts_run_and_reloads_without_a_restart(
    installed: Installed,
) -> None:
    installed.systemctl("start")
    assert installed.shown("ActiveState") == "active"
    assert installed.shown("StatusText") == "monitor running, agent running"
    pid = installed.shown("MainPID")
    status = json.loads(installed.operator("status", "--json"))["status"]
    assert {part["name"]: part["state"] for part in status["parts"]} == {
        "monitor": "running",
        "agent": "running",
    }
    file = installed.folder / "operator.toml"
    file.write_text(file.read_text().replace(', "agent"', ""))
    installed.systemctl("reload")
    eventually(lambda: installed.shown("StatusText") == "monitor running", "it has reloaded")
    assert installed.shown("MainPID") == pid
    assert "all parts start again" in installed.journal()
    file.write_text("nonsense = 1\n")
    installed.systemctl("reload")
    eventually(lambda: "previous settings stay in force" in installed.journal(), "it refuses")
    assert installed.shown("ActiveState") == "active"
    installed.systemctl("stop")
    assert (installed.shown("Result"), installed.shown("NRestarts")) == ("success", "0")


def test_a_stuck_process_is_killed_and_started_again(installed: Installed) -> None:
    installed.systemctl("start")
    pid = installed.shown("MainPID")
    installed.systemctl("kill", "--kill-who=main", "--signal=STOP")
    eventually(
        lambda: installed.shown("NRestarts") == "1" and installed.shown("ActiveState") == "active",
        "the watchdog has restarted it",
    )
    assert installed.shown("MainPID") != pid
    assert installed.operator("store", "check").startswith("The store is intact")


def test_commands_are_confined_within_the_sandbox_and_leave_the_machine_alone(
    installed: Installed,
) -> None:
    (installed.folder / "probe.sh").write_text(PROBE)
    said = installed.systemd.run("systemctl", "start", "once.service")
    journal = installed.systemd.run("journalctl", "--output=cat", "--unit=once.service")
    assert (said, "user daemon" in journal) == ("", True), journal
    confined, plain = map(int, re.findall(r"Seccomp_filters:\t(\d+)", journal))
    assert confined > plain, "a SAFE command is confined further"
    refused = {line.split()[1] for line in journal.splitlines() if line.startswith("refused ")}
    assert refused == {"/etc/x", "/usr/x", "/srv/x", "/srv/shop/x"}
    assert "0000000000000000" in journal, "no capability is left"


def test_the_unit_of_an_account_starts_and_stops_under_its_manager(tmp_path: Path) -> None:
    if " " in str(ROOT):
        pytest.skip("a unit cannot name a directory with a space")
    project = tmp_path / "shop"
    (project / "units").mkdir(parents=True)
    (project / "operator.toml").touch()
    text = unit_text(program=OPERATOR, folder=Path("/srv/shop"), home=Path("/srv/shop/home"))
    texts = {UNIT: text, **dict.fromkeys(TARGETS, "[Unit]\nDefaultDependencies=no\n")}
    for name, unit in texts.items():
        (project / "units" / name).write_text(unit)
    if os.geteuid() == 0:
        for path in (project, *project.rglob("*")):
            shutil.chown(path, ACCOUNT, ACCOUNT)
    units, writable = {"manager.service": MANAGER}, {"/srv/shop": project}
    with running_systemd(tmp_path, units, shared=_shared(), writable=writable) as systemd:
        account = ("setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups")
        own = ("env", "XDG_RUNTIME_DIR=/run/user-daemon", *account, "systemctl", "--user")
        assert systemd.run("systemctl", "start", "manager.service") == ""
        assert systemd.run(*own, "start", UNIT) == ""
        shown = systemd.run(*own, "show", "--value", "--property=StatusText", UNIT)
        assert shown.strip() == "monitor running, agent running"
        assert systemd.run(*own, "stop", UNIT) == ""
        shown = systemd.run(*own, "show", "--value", "--property=Result", UNIT)
        assert shown.strip() == "success"
