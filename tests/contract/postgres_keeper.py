"""Keeps a PostgreSQL server: `python -m tests.contract.postgres_keeper BINARIES`.

It says the folder of the server when that answers, restarts it for each line it reads, and ends it
and removes everything when its input ends, which happens however its parent comes to its end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operator_sre.subjects.postgres.rig import copy_programs

NOBODY = 65534
MEMORY = "/dev/shm"
MEMORY_BYTES_MIN = 2 * 1024**3
# As durable as any server, and small.
SETTINGS = {
    "autovacuum": "off",
    "jit": "off",
    "listen_addresses": "",
    "log_min_messages": "panic",
    "max_connections": "60",
    "max_wal_senders": "0",
    "max_wal_size": "96MB",
    "shared_buffers": "16MB",
    "wal_level": "minimal",
}
# One role needs a password, so that tests can have a wrong one.
ACCESS = "local all locked scram-sha-256\nlocal all all trust\n"


def _reachable(binaries: Path, folder: Path, who: Mapping[str, Any]) -> Path:
    """The binaries where the server's user can reach them: a home may be closed to it."""
    probe = [str(binaries / "bin" / "postgres"), "--version"]
    try:
        subprocess.run(probe, check=True, capture_output=True, **who)
    except (OSError, subprocess.CalledProcessError):
        return copy_programs(binaries, folder / "programs")
    return binaries


def _make(binaries: Path, folder: Path, who: Mapping[str, Any]) -> None:
    subprocess.run(
        [
            *(str(binaries / "bin" / "initdb"), "-D", str(folder / "data"), "-U", "tester"),
            *("--auth=trust", "--no-sync", "--encoding=UTF8", "--no-locale", "--no-instructions"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        **who,
    )
    (folder / "data" / "pg_hba.conf").write_text(ACCESS)


def _control(binaries: Path, folder: Path, who: Mapping[str, Any], *words: str) -> None:
    """Start the server and wait until it answers, or end it at once: by the pid in its folder."""
    subprocess.run(
        [str(binaries / "bin" / "pg_ctl"), "-s", "-w", "-D", str(folder / "data"), *words],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        **who,
    )


def _keep(binaries: Path, folder: Path, who: Mapping[str, Any]) -> None:
    settings = " ".join(f"-c {name}='{value}'" for name, value in SETTINGS.items())
    start = ("start", "-l", str(folder / "log"), "-o", f"-k {folder} {settings}")
    _control(binaries, folder, who, *start)
    try:
        _say(folder)
        for _ in sys.stdin:
            _control(binaries, folder, who, "stop", "-m", "immediate")
            _control(binaries, folder, who, *start)
            _say(folder)
    finally:
        _control(binaries, folder, who, "stop", "-m", "immediate")


def _say(folder: Path) -> None:
    sys.stdout.write(f"{folder}\n")
    sys.stdout.flush()


def _room() -> str | None:
    """Memory, where there is enough: each of many tests makes a database, and each is synced."""
    try:
        roomy = shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN
    except OSError:
        return None
    return MEMORY if roomy and os.access(MEMORY, os.W_OK) else None


def _main(binaries: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="operator-postgres-", dir=_room()))
    who: dict[str, Any] = {"cwd": folder, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}}
    try:
        if os.geteuid() == 0:  # the server refuses root
            os.chown(folder, NOBODY, NOBODY)
            who |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        binaries = _reachable(binaries, folder, who)
        _make(binaries, folder, who)
        _keep(binaries, folder, who)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    _main(Path(sys.argv[1]))
