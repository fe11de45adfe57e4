"""How quick the console is: its first paint, its keys under a flood of output, and its memory.

    .venv/bin/python benchmarks/tui.py [--seconds 300] [--starts 5]

Promises: the first paint under 1 s after the command was typed, Python's own start included; 60 key
presses a second without lag (99 of 100 answered within 50 ms) while 5,000 lines of output a second
arrive; no slope in its memory over five minutes of that.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import pty
import select
import struct
import sys
import tempfile
import termios
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from operator_sre.config import Config, load_config
from operator_sre.faces.tui.console.application import Console
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table
from operator_sre.faces.tui.lines import Lines

OPERATOR = Path(sys.executable).with_name("operator")
KEYS_PER_S, LINES_PER_S = 60, 5_000
PAINT_S_GOAL, KEY_S_GOAL, SLOPE_MB_GOAL = 1.0, 0.05, 8.0
BATCHES_PER_S = 50
SAMPLE_S = 1.0
ROWS = 500
START_S_MAX = 60.0


@dataclass(slots=True)
class Flooded:
    """What was measured while output poured in."""

    keys: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    lines: int = 0
    spent_s: float = 0.0
    core_s: float = 0.0


def first_paint(home: Path) -> tuple[float, float]:
    """Seconds from the command to its first words on a terminal, and of a core, for that."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    begun = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in range(3):
            os.dup2(slave, number)
        words = [str(OPERATOR), "--home", str(home), "tui"]
        os.environ["TERM"] = "xterm-256color"
        os.execv(words[0], words)  # noqa: S606
    shown = b""
    while b"Health" not in shown and time.perf_counter() - begun < START_S_MAX:
        if select.select([master], [], [], 0.01)[0]:
            shown += os.read(master, 65_536)
    took_s, core_s = time.perf_counter() - begun, core_seconds(pid)
    os.write(master, b"\x03")
    with contextlib.suppress(OSError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if select.select([master], [], [], 0.05)[0]:
                os.read(master, 65_536)
    os.close(master)
    os.close(slave)
    return took_s, core_s


def core_seconds(pid: int) -> float:
    """What a process has had of a core so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def flooded(config: Config, seconds: float) -> Flooded:
    """Keys at a steady pace on a page of the real console, while lines pour into its panel."""
    found, console = Flooded(), Console(config)
    async with console.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        await pilot.pause(1.0)
        page = console.screen
        table, panel = page.query_one(Table), page.query_one(Lines)
        keyed = Table(Column("row"), none="")
        await page.mount(keyed, after=table)
        keyed.show([Row(str(at), (Cell(f"row {at}"),)) for at in range(ROWS)])
        keyed.focus()
        await pilot.pause(0.5)
        over = threading.Event()
        pouring = threading.Thread(target=pour, args=(panel, found, over))
        pouring.start()
        try:
            await press(pilot.app, keyed, found, seconds)
        finally:
            over.set()
            await asyncio.to_thread(pouring.join)
    return found


def pour(panel: Lines, found: Flooded, over: threading.Event) -> None:
    """Lines as a command says them: many at once, again and again."""
    size, due = LINES_PER_S // BATCHES_PER_S, time.perf_counter()
    while not over.is_set():
        panel.feed("".join(f"{found.lines + at} a line of output\x1b[0m\n" for at in range(size)))
        found.lines += size
        due += 1 / BATCHES_PER_S
        time.sleep(max(0.0, due - time.perf_counter()))


async def press(app: object, table: Table, found: Flooded, seconds: float) -> None:
    """Press keys by the clock, and wait for what each does; late ones count from when due."""
    from textual.events import Key

    assert isinstance(app, Console)
    begun = due = time.perf_counter()
    sampled, core_s = 0.0, time.process_time()
    while (now := time.perf_counter()) - begun < seconds:
        if now - sampled >= SAMPLE_S:
            sampled = now
            found.memory_mb.append(memory_mb())
        await asyncio.sleep(max(0.0, due - now))
        before = table.key
        pressed = Key("down", None)
        pressed.set_sender(app)
        app.post_message(pressed)
        while table.key == before:  # noqa: ASYNC110
            await asyncio.sleep(0.0005)
        found.keys.append(time.perf_counter() - due)
        due += 1 / KEYS_PER_S
        if table.key == str(ROWS - 1):
            table.action_move(-ROWS)
    found.spent_s = time.perf_counter() - begun
    found.core_s = time.process_time() - core_s


def memory_mb() -> float:
    """What this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def slope_mb(samples: list[float]) -> float:
    """By how much memory grew over all of it, as a straight line says; its start is left out."""
    rest = samples[len(samples) // 4 :]
    if len(rest) < 2:
        return 0.0
    middle = (len(rest) - 1) / 2
    mean = sum(rest) / len(rest)
    over = sum((at - middle) * (one - mean) for at, one in enumerate(rest))
    return over / sum((at - middle) ** 2 for at in range(len(rest))) * len(rest)


def quantile(values: list[float], at: float) -> float:
    """The value that so many of them are below."""
    return sorted(values)[min(len(values) - 1, int(len(values) * at))]


def say(what: str, found: str, goal: str) -> None:
    """One row of the table."""
    sys.stdout.write(f"{what:44} {found:>28}  {goal}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="of the flood")
    parser.add_argument("--starts", type=int, default=5)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        say("what", "measured", "goal")
        starts = [first_paint(home) for _ in range(told.starts)]
        took = [one[0] for one in starts]
        half, core = quantile(took, 0.5), quantile([one[1] for one in starts], 0.5)
        say("first paint, half", f"{half:.2f} s ({core:.2f} s of a core)", f"{PAINT_S_GOAL} s")
        config = load_config(flags={"home": str(home)}, environ={}, cwd=Path(folder))
        found = asyncio.run(flooded(config, told.seconds))
    say("lines of output", f"{found.lines / found.spent_s:,.0f} a second", f"{LINES_PER_S:,}")
    say("keys", f"{len(found.keys) / found.spent_s:.1f} a second", f"{KEYS_PER_S}")
    for name, at in (("half", 0.5), ("99 of 100", 0.99)):
        goal = f"{KEY_S_GOAL * 1000:.0f} ms" if at > 0.5 else ""
        say(f"a key is answered, {name}", f"{quantile(found.keys, at) * 1000:.1f} ms", goal)
    say("of a core for both", f"{found.core_s / found.spent_s:.0%}", "")
    first, last = found.memory_mb[0], found.memory_mb[-1]
    grown = f"{slope_mb(found.memory_mb):+.1f} MB ({first:.0f} to {last:.0f})"
    say(f"memory over {found.spent_s:.0f} s", grown, f"under {SLOPE_MB_GOAL:.0f} MB")


if __name__ == "__main__":
    main()
