"""How fast the gate judges, beside a list of regular expressions over the raw line.

    .venv/bin/python benchmarks/gate.py [FOLDER]

It judges the commands of tests/cases, or those of another folder with JSON lines (`command` in
each). The list of 137 patterns is what tools of this kind usually use. It parses nothing and proves
nothing; it is here only to compare speeds.

Goals: verdicts p50 60 µs, p99 300 µs; 64 kB of hostile text 5 ms.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from operator_protocols.domain.action import Action
from operator_sre.gate import Policy, judge, warm
from operator_sre.gate.grammar.tables import tables

CASES = Path(__file__).resolve().parents[1] / "tests" / "cases"
ROUNDS = 5
HOSTILE_BYTES = 64 * 1024
HOSTILE = ("a|", "<<a ", "$(", '"$(', "`", "{a,", "'", "a;", "a && ", "((", "é", "$x", "\\\n", "a*")


def patterns() -> list[re.Pattern[str]]:
    """137 patterns of the usual kind, made from the names of tools."""
    names = tables().names()[:137]
    return [re.compile(rf"^{re.escape(name)}\s.*(?!.*\.(?:ssh|aws)|.*password)") for name in names]


def commands_in(folder: Path) -> list[str]:
    """The commands to judge."""
    lines = [
        line for file in sorted(folder.glob("*.jsonl")) for line in file.open(encoding="utf-8")
    ]
    return [json.loads(line)["command"] for line in lines]


def time_each(check: Callable[[str], object], commands: Sequence[str]) -> list[float]:
    """The best time of several rounds for each command, in microseconds, sorted."""
    best = [float("inf")] * len(commands)
    for _ in range(ROUNDS):
        for index, command in enumerate(commands):
            started = time.perf_counter()
            check(command)
            best[index] = min(best[index], time.perf_counter() - started)
    return sorted(1e6 * seconds for seconds in best)


def write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def write_row(name: str, times: Sequence[float]) -> None:
    p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
    write(f"{name:<12}{len(times):>8}{p50:>10.1f}{p99:>10.1f}{times[-1]:>10.1f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=CASES)
    commands = commands_in(parser.parse_args().folder)
    policy, listed = Policy(), patterns()
    warm(policy)
    write(f"{'':<12}{'commands':>8}{'p50 µs':>10}{'p99 µs':>10}{'max µs':>10}")
    matches = time_each(lambda text: any(one.search(text) for one in listed), commands)
    write_row("regex list", matches)
    write_row("gate", time_each(lambda text: judge(Action.shell(text), policy), commands))
    write("\n64 kB of hostile text, ms:")
    for piece in HOSTILE:
        text = (piece * HOSTILE_BYTES)[:HOSTILE_BYTES]
        times = time_each(lambda text: judge(Action.shell(text), policy), [text])
        write(f"  {piece!r:<10}{times[0] / 1000:>8.2f}")


if __name__ == "__main__":
    main()
