"""A real systemd as PID 1 of namespaces of its own, with nothing of this machine to change.

Its root is a tmpfs with a read-only /usr, its units are those of the test alone (no tmpfiles, no
sysctl, no generators), /proc/sys and /sys are read-only, and it may not set the clock, load modules
or configure the network. It ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.waiting import eventually

__all__ = ["Systemd", "running_systemd"]

PROGRAM = Path("/lib/systemd/systemd")
JOURNALD = "/lib/systemd/systemd-journald"
TARGET = "tests.target"
_AS_PID_1 = """
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$1"
cp -r "$2" "$1/units"
cd "$1"
mkdir usr etc proc sys dev run tmp var old
for name in bin sbin lib lib64; do
    if [ -L "/$name" ]; then cp -P "/$name" .; elif [ -d "/$name" ]; then
        mkdir "$name"; mount --bind "/$name" "$name"; mount -o remount,bind,ro "$name"
    fi
done
mount --bind /usr usr
mount -o remount,bind,ro usr
# What is shared stays read-only; each place has no space, its source may.
while read -r place source; do
    mkdir -p ".$place"
    mount --bind "$source" ".$place"
    mount -o remount,bind,ro ".$place"
done < "$5"
while read -r place source; do
    mkdir -p ".$place"
    mount --bind "$source" ".$place"
done < "$6"
cp /etc/passwd /etc/group /etc/ld.so.cache etc
echo 7d1f4e5a0c3b4b6e9a8f2c1d3e4f5a6b > etc/machine-id
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
# A mount of its own, or systemd mounts the devices of this machine.
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/shm
ln -s pts/ptmx dev/ptmx
for name in null zero full random urandom tty; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
mount -t tmpfs -o mode=755 tmpfs run
mv units run/units
pivot_root . old
cd /
umount -l /old
rmdir /old
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=tests SYSTEMD_UNIT_PATH=/run/units \\
    SYSTEMD_GENERATOR_PATH=/run/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/run/none \\
    setpriv --bounding-set -sys_time,-sys_boot,-sys_module,-net_admin,-mknod,-sys_rawio \\
    "$3" --system --unit="$4" --log-target=console --show-status=no
"""
_EMPTY = "[Unit]\nDefaultDependencies=no\n"
_UNITS = {
    TARGET: "[Unit]\nDefaultDependencies=no\nRequires=systemd-journald.service\n"
    "After=systemd-journald.service\n",
    # What a unit depends on by itself.
    **dict.fromkeys(("sysinit.target", "basic.target", "shutdown.target"), _EMPTY),
    "systemd-journald.socket": "[Unit]\nDefaultDependencies=no\n[Socket]\n"
    "ListenStream=/run/systemd/journal/stdout\nListenDatagram=/run/systemd/journal/socket\n",
    "systemd-journald.service": "[Unit]\nDefaultDependencies=no\n"
    "Requires=systemd-journald.socket\nAfter=systemd-journald.socket\n"
    f"[Service]\nType=notify\nExecStart={JOURNALD}\nStandardOutput=null\n",
}


class Systemd:
    """One that runs, and how a command gets to it."""

    def __init__(self, outer: int) -> None:
        self._outer = outer

    @property
    def pid(self) -> int | None:
        """That of its PID 1 as this machine sees it."""
        path = Path(f"/proc/{self._outer}/task/{self._outer}/children")
        words = path.read_text().split() if path.exists() else []
        return int(words[0]) if words else None

    def inside(self, *argv: str) -> tuple[str, ...]:
        """The command line that runs this one there."""
        return ("nsenter", "--target", str(self.pid), "--mount", "--pid", "--cgroup", "--", *argv)

    def run(self, *argv: str) -> str:
        """What a command prints there, or its error."""
        words = self.inside(*argv)
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr


@contextlib.contextmanager
def running_systemd(
    folder: Path,
    units: Mapping[str, str],
    *,
    shared: Sequence[Path] = (),
    writable: Mapping[str, Path] | None = None,
) -> Iterator[Systemd]:
    """With these unit files; nothing of them is started. Skips where none can run.

    Directories that are `shared` are read-only there at their own paths, `writable` ones are at the
    place that is their key.
    """
    if os.geteuid() != 0 or not PROGRAM.exists() or shutil.which("setpriv") is None:
        pytest.skip("systemd as PID 1 needs root, Debian's systemd and setpriv")
    place = folder / "units"
    place.mkdir()
    (folder / "root").mkdir()
    for name, text in {**_UNITS, **units}.items():
        (place / name).write_text(text)
    lists = {
        folder / "shared": {str(path): path for path in shared},
        folder / "writable": writable or {},
    }
    for file, places in lists.items():
        file.write_text("".join(f"{place} {source}\n" for place, source in places.items()))
    with _own_cgroup() as group, (folder / "systemd.log").open("wb") as log:
        enter = f'echo $$ > "{group}/cgroup.procs" && exec "$@"' if group else 'exec "$@"'
        flags = ("--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup")
        words = ("sh", str(folder / "root"), str(place), str(PROGRAM), TARGET, *map(str, lists))
        server = subprocess.Popen(
            ["sh", "-c", enter, "sh", "unshare", *flags, "sh", "-c", _AS_PID_1, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            made = Systemd(server.pid)

            def is_up() -> bool | None:
                shown = (folder / "systemd.log").read_text(errors="replace")
                assert server.poll() is None, shown[-3000:]
                return (made.run("systemctl", "is-active", TARGET).strip() == "active") or None

            eventually(is_up, "systemd has started", within_s=60)
            yield made
        finally:
            server.kill()
            server.wait(30)


@contextlib.contextmanager
def _own_cgroup() -> Iterator[Path | None]:
    """A group of the second hierarchy, which is all that the systemd sees; None without one."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    top = next((Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)
    if top is None:
        pytest.skip("systemd needs the second hierarchy of cgroups")
    group = top / f"operator-tests-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        for each in (*sorted(group.rglob("*/"), reverse=True), group):
            eventually(partial(_remove, each), "its group is empty")


def _remove(group: Path) -> bool | None:
    """Whether the group is gone; it has processes until its systemd has ended."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists() or None
