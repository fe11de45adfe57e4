"""A host over ssh: a worker with a pid file, the result of a nightly job, a log, a small disk."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.executor.transports.sshd import Sshd, serving_ssh

__all__ = ["Box", "box_in"]

# It reads its settings when it starts, and says so when they are not there.
WORKER = """\
cd '{folder}' || exit 1
[ -r settings ] || {{ echo "ERROR cannot read settings" >> worker.log; exit 1; }}
setsid nohup sh -c 'echo $$ > worker.pid; trap "rm -f worker.pid; exit 0" TERM;
while :; do date +%s > beat; sleep 0.5; done' > /dev/null 2>&1 < /dev/null &
sleep 0.3
"""


@dataclass(frozen=True, slots=True)
class Box:
    """Where it is, and how Operator reaches it."""

    folder: Path
    sshd: Sshd

    @property
    def address(self) -> str:
        return self.sshd.address

    @property
    def worker(self) -> int:
        return int((self.folder / "worker.pid").read_text())

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    def start_worker(self) -> None:
        subprocess.run(["sh", str(self.folder / "worker.sh")], check=True, timeout=20)

    def write_home(self, home: Path) -> None:
        """The files by which a user reaches the host: its key, and their own."""
        folder = home / ".ssh"
        folder.mkdir(parents=True, mode=0o700)
        (folder / "known_hosts").write_text(self.sshd.known_hosts.read_text())
        (folder / "id_ed25519").write_text(self.sshd.key.read_text())
        (folder / "id_ed25519").chmod(0o600)


@contextlib.contextmanager
def box_in(folder: Path) -> Iterator[Box]:
    """A host with everything in order; nothing of it stays."""
    disk = folder / "disk"
    disk.mkdir(parents=True)
    # Mounted before the server starts, which has a view of the file system of its own.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], check=True)
    try:
        with serving_ssh(folder / "ssh") as sshd:
            box = Box(folder, sshd)
            (folder / "worker.sh").write_text(WORKER.format(folder=folder))
            (folder / "settings").write_text("speed = 2\n")
            (folder / "result").write_text("42\n")
            (folder / "app.log").write_text("INFO all is well\n")
            box.start_worker()
            try:
                yield box
            finally:
                with contextlib.suppress(OSError, ValueError):
                    os.kill(box.worker, signal.SIGKILL)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=False)
