"""Operator for a long time: what its processes hold, and services that share a store."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen

from tests.e2e.census import processes_of
from tests.e2e.warm import OPERATOR
from tests.processes.runners import end_runner

__all__ = ["Replica", "Sample", "Wire", "sample", "wired"]

END_S_MAX = 60.0
CHUNK_BYTES = 1 << 16
SETTINGS = """\
interval_s = 1
stable_s = 2
timeout_s = 20
mode = "execute"
changes_per_hour = 10000
[subjects.farm]
plugin = "declarative"
options = {{ file = "{file}" }}
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the processes of a home hold at one moment, and the processor time of those that live.

    Memory is what they wrote: how much of a library's pages counts as theirs depends on who else on
    this machine has loaded it.
    """

    memory_kb: int
    cpu_s: float
    descriptors: int
    processes: tuple[str, ...]
    files: tuple[str, ...]


class Replica:
    """One `operator service run` with a home and a temporary directory of its own."""

    def __init__(self, folder: Path, description: Path, **environ: str) -> None:
        self.folder = folder
        self.home = folder / "home"
        for each in (folder, folder / "tmp"):
            each.mkdir()
        (folder / "operator.toml").write_text(SETTINGS.format(file=description))
        own = {"OPERATOR_HOME": str(self.home), "TMPDIR": str(folder / "tmp")}
        self._environ = {**os.environ, **own, **environ}
        self._process: Popen[bytes] | None = None
        self._log = (folder / "log").open("ab")

    def start(self) -> None:
        """Start it, or start it again."""
        self._process = Popen(
            [str(OPERATOR), "service", "run"],
            cwd=self.folder,
            env=self._environ,
            stdin=DEVNULL,
            stdout=self._log,
            stderr=STDOUT,
        )

    def send(self, number: int) -> None:
        """Signal it."""
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal it, wait for its end, and return its exit code."""
        assert self._process is not None
        self.send(number)
        return self._process.wait(END_S_MAX)

    def close(self) -> None:
        """End it and its runner, whatever state they are in."""
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)
        end_runner(self.home)
        self._log.close()

    @property
    def said(self) -> str:
        """Its log lines."""
        return (self.folder / "log").read_text(errors="replace")


def sample(replica: Replica) -> Sample:
    """Count what its processes hold now; one that ends meanwhile holds nothing."""
    memory = descriptors = ticks = 0
    names = []
    for pid, words in processes_of(replica.folder).items():
        with suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            own = ("Pss_Anon:", "Pss_Shmem:")
            memory += sum(int(row.split()[1]) for row in rollup if row.startswith(own))
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(stat[11]) + int(stat[12])
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - no entry is read
            names.append(" ".join(words.split()[1:4]))
    place = replica.folder / "tmp"
    files = tuple(sorted(path.relative_to(place).as_posix() for path in place.rglob("*")))
    cpu_s = ticks / os.sysconf("SC_CLK_TCK")
    return Sample(memory, cpu_s, descriptors, tuple(sorted(names)), files)


@dataclass
class Wire:
    """A way to a Unix socket that can be cut: nothing passes, and nobody is told."""

    place: Path
    target: Path
    _whole: threading.Event = field(default_factory=threading.Event)
    _sockets: set[socket.socket] = field(default_factory=set)

    def cut(self) -> None:
        """From now on nothing passes."""
        self._whole.clear()

    def mend(self) -> None:
        """What was on its way is lost with its connections; new ones pass."""
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._whole.set()

    def serve(self, listener: socket.socket) -> None:
        """Pass connections on until the listener is closed."""
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        far = socket.socket(socket.AF_UNIX)
        self._sockets |= {near, far}
        try:
            self._whole.wait()
            far.connect(str(self.target))
            back = threading.Thread(target=self._pass, args=(far, near), daemon=True)
            back.start()
            self._pass(near, far)
            back.join()
        except OSError:
            pass
        finally:
            self._sockets -= {near, far}
            near.close()
            far.close()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                self._whole.wait()
                sink.sendall(chunk)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def wired(place: Path, target: Path) -> Iterator[Wire]:
    """A wire at a path of its own, whole at first."""
    wire = Wire(place, target)
    wire.mend()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        serving = threading.Thread(target=wire.serve, args=(listener,), daemon=True)
        serving.start()
        yield wire
        wire.mend()
        listener.shutdown(socket.SHUT_RDWR)
        serving.join()
        wire.mend()
