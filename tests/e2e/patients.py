"""Web servers by the hundred in one process, each well until its file says that it is jammed.

python -m tests.e2e.patients FOLDER COUNT ADDRESS   prints their ports, and serves until it is ended

GET /cure frees a server, for who cannot reach its file.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Patients", "main", "running_patients"]

ROOT = Path(__file__).resolve().parents[2]
SUBJECT = "farm"
END_S_MAX = 30.0
_CURE = """\
# Frees one server, and writes down that it did.
cd "$(dirname "$0")" || exit 1
echo "$1" >> cures.log
rm "jams/$1"
"""
_DESCRIPTION = """\
name: farm
targets:
{targets}
probes:
  page:
    http: {{path: /, expect: {{status: 200}}, read: {{jammed: jammed}}}}
invariants:
  page_is_free:
    holds: page.ok && page.jammed < 1
    severity: critical
    says: the page is jammed
    causes: [jam]
causes:
  jam:
    says: a jam stops the page
    shows: page.jammed >= 1
    remedies: [cure]
levers:
  cure:
    says: Remove the jam
    command: {command}
    risk: low
    idempotent: false
"""


@dataclass(frozen=True, slots=True)
class Patients:
    """The servers, seen from the test."""

    folder: Path
    names: tuple[str, ...]

    def jam(self, name: str) -> None:
        """Break one of them."""
        (self.folder / "jams" / name).touch()

    def jammed(self) -> list[str]:
        """The parts that are broken now."""
        return sorted(path.name for path in (self.folder / "jams").iterdir())

    def cures(self) -> Counter[str]:
        """How often the lever has run for each of them."""
        log = self.folder / "cures.log"
        return Counter(log.read_text().split()) if log.exists() else Counter()


@contextmanager
def running_patients(
    folder: Path,
    count: int,
    *,
    address: str = "127.0.0.1",
    within: Sequence[str] = (),
    command: str = '[sh, cure.sh, "{target}"]',
) -> Iterator[Patients]:
    """So many servers, with their description and its lever in the folder.

    `within` are words in front of the command of the servers, which enter another network.
    """
    (folder / "jams").mkdir()
    (folder / "cure.sh").write_text(_CURE)
    server = subprocess.Popen(
        [
            *within,
            *(sys.executable, "-m", "tests.e2e.patients"),
            *(str(folder), str(count), address),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        ports: dict[str, int] = json.loads(server.stdout.readline())
        lines = [
            f"  {name}: {{kind: page, host: {address}, port: {port}}}"
            for name, port in ports.items()
        ]
        description = _DESCRIPTION.format(targets="\n".join(lines), command=command)
        (folder / "farm.yaml").write_text(description)
        yield Patients(folder, tuple(ports))
    finally:
        server.terminate()
        server.wait(END_S_MAX)
        if server.stdout is not None:
            server.stdout.close()


async def _serve(folder: Path, count: int, address: str) -> None:
    ports = {}
    for number in range(count):
        name = f"page-{number:03d}"

        async def answer(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str = name
        ) -> None:
            try:
                while head := await reader.readuntil(b"\r\n\r\n"):
                    if head.startswith(b"GET /cure "):
                        with (folder / "cures.log").open("a") as log:
                            log.write(f"{name}\n")
                        (folder / "jams" / name).unlink(missing_ok=True)
                    body = b'{"jammed": %d}' % (folder / "jams" / name).exists()
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body))
                    writer.write(body)
                    await writer.drain()
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(answer, address, 0)
        ports[name] = server.sockets[0].getsockname()[1]
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main(words: list[str]) -> None:
    """Serve until ended."""
    folder, count, address = words
    asyncio.run(_serve(Path(folder), int(count), address))


if __name__ == "__main__":
    main(sys.argv[1:])
