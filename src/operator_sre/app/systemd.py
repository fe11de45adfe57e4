"""systemd: the unit that starts the service, and the messages that the service sends it.

The protocol is one datagram for each message to the socket in NOTIFY_SOCKET (sd_notify(3)).
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.errors import UsageError

__all__ = ["UNIT", "Manager", "manager_of", "unit_text"]

UNIT = "operator.service"
WATCHDOG_S = 60
STATUS_CHARACTERS_MAX = 200
# What every manager can enforce. Commands are confined further by Operator itself, with namespaces
# of their own and a new /proc in them. ProtectKernelTunables, ProtectKernelLogs, ProtectProc and
# RestrictNamespaces would prevent exactly that, so they are left out.
_RESTRICTIONS = (
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "SystemCallArchitectures=native",
)
# What only the manager of the machine can enforce.
_ISOLATION = (
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "ProtectSystem=strict",
    "ProtectHome=read-only",
    "ProtectControlGroups=yes",
    "ProtectKernelModules=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "PrivateDevices=yes",
    "PrivateTmp=yes",
    "RemoveIPC=yes",
)
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
# A number could be that of root.
_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]*\$?")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Manager:
    """The service manager that started this process; without an address nothing is sent."""

    address: str = ""
    watchdog_s: float = 0.0

    def report(self, **fields: object) -> None:
        """Send one message, such as `READY=1`. A manager that is away does no harm."""
        if not self.address:
            return
        text = "\n".join(f"{name}={value}" for name, value in fields.items())
        # A name that begins with @ lies in the abstract namespace.
        place = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(text.encode(), place)
        except OSError as error:
            log.warning("cannot report to the service manager: %s", error)

    def ready(self, status: str) -> None:
        """All parts have started, or a reload has ended."""
        self.report(READY=1, STATUS=status[:STATUS_CHARACTERS_MAX])

    def reloading(self) -> None:
        """The settings are being read again."""
        self.report(RELOADING=1, MONOTONIC_USEC=time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)


def manager_of(environ: Mapping[str, str], *, pid: int) -> Manager:
    """The manager that the environment names; the watchdog counts only if it is meant for us."""
    usec, meant = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", str(pid))
    watched = usec.isascii() and usec.isdigit() and meant == str(pid)
    return Manager(environ.get("NOTIFY_SOCKET", ""), int(usec) / 1e6 if watched else 0.0)


def unit_text(
    *, program: Path, folder: Path, home: Path, user: str = "", writable: tuple[Path, ...] = ()
) -> str:
    """The unit that runs the service of a project in `folder` with its state in `home`.

    `user` is the account it runs as; a unit of a user's own manager names none. Commands of agents
    run inside of the same sandbox: `writable` are further directories that they may change.
    """
    if user and not _ACCOUNT.fullmatch(user):
        raise UsageError(
            f"{user[:40]!r} is not a valid name of an account.",
            next_step="Use a name such as operator-sre, not a number.",
        )
    paths = (program, folder, home, *writable)
    for path in paths:
        if not _PLAIN.fullmatch(str(path)):
            raise UsageError(
                f"A unit cannot name {str(path)!r}: only letters, digits and @%+=:,./- are safe.",
                next_step="Use directories without spaces.",
            )
    program_text, folder_text, *writable_text = (str(path).replace("%", "%%") for path in paths)
    account = [f"User={user}"] if user else []
    target = "multi-user.target" if user else "default.target"
    return "\n".join(
        [
            "# Written by `operator service install`. Put changes into a drop-in:",
            f"# systemctl {'' if user else '--user '}edit {UNIT}",
            "[Unit]",
            "Description=Operator, an AI SRE",
            *(["Wants=network-online.target", "After=network-online.target"] if user else []),
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            "Type=notify",
            "NotifyAccess=main",
            f"ExecStart={program_text} service run",
            "ExecReload=/bin/kill -HUP $MAINPID",
            f"WorkingDirectory={folder_text}",
            f"Environment=OPERATOR_HOME={writable_text[0]}",
            *account,
            "Restart=always",
            "RestartSec=5",
            f"WatchdogSec={WATCHDOG_S}",
            "TimeoutStartSec=120",
            "TimeoutStopSec=60",
            # How Operator ends after SIGTERM.
            "SuccessExitStatus=143",
            # A running command outlives a restart of Operator, which then finds it again.
            "KillMode=process",
            "UMask=0077",
            "LimitNOFILE=65536",
            "TasksMax=4096",
            "",
            *_RESTRICTIONS,
            *(_ISOLATION if user else ()),
            *([f"ReadWritePaths={' '.join(writable_text)}"] if user else []),
            "",
            "[Install]",
            f"WantedBy={target}",
            "",
        ]
    )
