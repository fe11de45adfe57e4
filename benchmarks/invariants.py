"""What it costs to check invariants: coded ones, and expressions of a description.

    .venv/bin/python benchmarks/invariants.py [--targets 1000]

Promises, on one core: 100,000 coded checks in a second, 50,000 declarative ones. A check is one
invariant at one target, from a whole observation to findings, as the monitor asks for it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.ports import Invariant, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.plugins import find_plugin

CODED_PER_S, DECLARATIVE_PER_S = 100_000, 50_000
ROUNDS = 5
DESCRIPTION = """\
name: bench
probes:
  page: {http: {expect: {status: 200}, read: {queue: queue, state: state}}}
  cache: {redis: {info: {clients: connected_clients}}}
invariants:
  one_value: {holds: page.ok}
  a_number: {holds: page.latency_ms < 500}
  three_values: {holds: "page.up && page.status == 200 && page.latency_ms < 500"}
  a_ratio: {holds: "page.queue / (cache.clients + 1) < 0.9 || page.queue < 10"}
  words: {holds: "page.state in ['ready', 'steady'] && !page.state.startsWith('x')"}
  maybe: {holds: "!has(page.error) || page.ok"}
"""
READINGS: dict[str, Value] = {
    "kind": "web",
    "page.up": True,
    "page.ok": True,
    "page.status": 200,
    "page.latency_ms": 12.5,
    "page.bytes": 4096,
    "page.endpoint": "127.0.0.1:8080",
    "page.queue": 3,
    "page.state": "ready",
    "cache.up": True,
    "cache.clients": 17,
}
NODE: dict[str, Value] = {
    "kind": "node",
    "reachable": True,
    "status": "up",
    "store_connected": True,
    "p99_check_ms": 3.5,
    "uptime_s": 100.0,
}


def invariants_of(plugin: str, options: dict[str, str]) -> Sequence[Invariant]:
    """What a plug-in checks."""
    targets: tuple[Target, ...] = ()
    settings = SubjectSettings("bench", lambda: targets, SystemClock(), 1.0, options)
    return find_plugin(plugin).subject(settings).invariants


def look(count: int, readings: dict[str, Value]) -> Observation:
    """One look at so many targets."""
    seen = tuple(Seen(f"target-{number}", dict(readings)) for number in range(count))
    return Observation("bench", datetime.now(UTC), seen)


def per_second(invariants: Sequence[Invariant], observation: Observation) -> float:
    """Findings in a second of the processor; the best of several rounds."""
    best = 0.0
    for _ in range(ROUNDS):
        begun = time.process_time()
        count = sum(len(list(one.check(observation))) for one in invariants)
        best = max(best, count / (time.process_time() - begun))
    return best


def table(title: str, invariants: Sequence[Invariant], observation: Observation) -> float:
    """Each of them, and all together."""
    for one in invariants:
        found = list(one.check(observation))
        healthy = sum(finding.health is Health.HEALTHY for finding in found)
        if found:
            say(f"{title:12} {one.name:20} {per_second([one], observation):>12,.0f}/s  {healthy}")
    whole = per_second(invariants, observation)
    say(f"{title:12} {'all together':20} {whole:>12,.0f}/s")
    return whole


def say(line: str) -> None:
    """One line of the table."""
    sys.stdout.write(f"{line}\n")


def main() -> None:
    """Measure both, and fail below the promise."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--targets", type=int, default=1000)
    count = options.parse_args().targets
    coded = table("coded", invariants_of("ratelimiter", {}), look(count, NODE))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.yaml"
        file.write_text(DESCRIPTION)
        declared = invariants_of("declarative", {"file": str(file)})
        declarative = table("declarative", declared, look(count, READINGS))
    say(f"goal: {CODED_PER_S:,}/s coded, {DECLARATIVE_PER_S:,}/s declarative")
    if coded < CODED_PER_S or declarative < DECLARATIVE_PER_S:
        sys.exit("slower than promised")


if __name__ == "__main__":
    main()
