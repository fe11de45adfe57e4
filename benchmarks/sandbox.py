"""How long a box takes to start, beside the bare start of the same program.

    .venv/bin/python benchmarks/sandbox.py [--times 100]

Each round runs the same script bare (an asyncio subprocess with pipes) and boxed (bubblewrap, with
everything that is limited), in turns. What Python itself needs to start is in both of its rows.

Promise: a box starts in under 15 ms at p50, which is the difference for `true` in bash.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from operator_protocols.ports import Job
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.sandbox import Language, Limits, Script
from operator_sre.executor.sandbox.bubblewrap import Bubblewrap

SCRIPTS = {
    "bash": (Script(Language.BASH, "true\n"), ("/bin/bash", "-c", "true")),
    "python": (Script(Language.PYTHON, "pass\n"), ("/usr/bin/python3", "-I", "-B", "-c", "pass")),
}


async def bare_ms(argv: tuple[str, ...]) -> float:
    """The same program without a box."""
    started = time.perf_counter()
    child = await asyncio.create_subprocess_exec(*argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    await child.communicate()
    return 1000 * (time.perf_counter() - started)


async def boxed_ms(box: Bubblewrap, script: Script) -> float:
    """The script in a box, from the call to the result, with nothing left behind."""
    started = time.perf_counter()
    result = await box.run(script, Limits(), Job(secrets.token_hex(32)))
    if not result.ok:
        raise SystemExit(result.stderr)
    return 1000 * (time.perf_counter() - started)


async def measure(times: int) -> None:
    """Print the table."""
    say(f"{'':<10}{'bare p50':>10}{'p99':>8}{'boxed p50':>12}{'p99':>8}{'added p50':>12}  ms")
    with tempfile.TemporaryDirectory() as folder:
        box = Bubblewrap(Programs(Spool(Path(folder) / "spool")))
        for name, (script, argv) in SCRIPTS.items():
            await boxed_ms(box, script)
            pairs = [(await bare_ms(argv), await boxed_ms(box, script)) for _ in range(times)]
            bare, boxed = (sorted(column) for column in zip(*pairs, strict=True))
            added = sorted(b - a for a, b in pairs)
            half, last = times // 2, int(times * 0.99)
            say(
                f"{name:<10}{bare[half]:>10.1f}{bare[last]:>8.1f}{boxed[half]:>12.1f}"
                f"{boxed[last]:>8.1f}{added[half]:>12.1f}"
            )


def say(line: str) -> None:
    """One line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100)
    asyncio.run(measure(parser.parse_args().times))


if __name__ == "__main__":
    main()
