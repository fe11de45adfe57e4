"""How long it takes until a whole rig answers, for every plug-in that has one.

    .venv/bin/python benchmarks/rigs.py [--rounds 3] [SUBJECT ...]

Promises, on two cores: the limiter is up within 4 s, etcd and PostgreSQL within 5 s, with all
links, volumes and traffic. The median of the rounds counts.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from operator_lab.rig import Rig
from operator_protocols.domain.health import Health, worst
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Plugin, SubjectSettings
from operator_sre.app.secret_store import read_secret
from operator_sre.clock import SystemClock
from operator_sre.plugins import find_plugin, plugin_names

GOALS_S = {"ratelimiter": 4.0, "etcd": 5.0, "postgres": 5.0}
LOOK_S = 5.0
WELL_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds until it answers, until all invariants hold, for one look, and until it is gone."""

    up_s: float
    well_s: float
    look_s: float
    down_s: float


async def one_round(plugin: Plugin) -> Round:
    """A rig from nothing to nothing."""
    assert plugin.rig is not None
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        rig = await Rig.up(plugin.rig(), Path(folder) / "rig", owned=True)
        up_s = time.perf_counter() - begun
        try:
            look_s = await until_well(plugin, rig)
            well_s = time.perf_counter() - begun
        finally:
            ending = time.perf_counter()
            await rig.down()
    return Round(up_s, well_s, look_s, time.perf_counter() - ending)


async def until_well(plugin: Plugin, rig: Rig) -> float:
    """Look until everything holds; how long the last look took."""
    settings = SubjectSettings(
        plugin.name, rig.targets, SystemClock(), LOOK_S, {}, secret=read_secret, life=rig
    )
    subject = plugin.subject(settings)
    ends = time.perf_counter() + WELL_S_MAX
    while True:
        begun = time.perf_counter()
        seen = await subject.observe()
        took_s = time.perf_counter() - begun
        found = [one.health for each in subject.invariants for one in each.check(seen)]
        if worst(found) is Health.HEALTHY:
            return took_s
        if time.perf_counter() > ends:
            raise SystemExit(f"{plugin.name} is not well after {WELL_S_MAX:g} s.")
        await asyncio.sleep(0.1)


def told(plugin: Plugin, rounds: list[Round]) -> bool:
    """One row; whether the promise was kept."""
    up_s = statistics.median(one.up_s for one in rounds)
    rest = [
        statistics.median(getattr(one, name) for one in rounds)
        for name in ("well_s", "look_s", "down_s")
    ]
    goal_s = GOALS_S.get(plugin.name)
    kept = goal_s is None or up_s < goal_s
    verdict = "no goal" if goal_s is None else f"{'under' if kept else 'OVER'} {goal_s:g} s"
    columns = "".join(f"{value:>9.2f}" for value in (up_s, *rest))
    say(f"{plugin.name:<14}{columns}   {verdict}")
    return kept


def say(line: str) -> None:
    """To whoever runs it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Every plug-in with a rig, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subjects", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    plugins = [find_plugin(name) for name in options.subjects or plugin_names()]
    say(f"{'seconds':<14}{'up':>9}{'well':>9}{'one look':>9}{'down':>9}")
    kept = True
    for plugin in plugins:
        if plugin.rig is None:
            continue
        try:
            rounds = [asyncio.run(one_round(plugin)) for _ in range(options.rounds)]
        except OperatorError as problem:
            say(f"{plugin.name:<14}  {problem}")
            kept = False
            continue
        kept &= told(plugin, rounds)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
