"""How many mixed requests a second the API answers, and how late, while a ticket is being worked.

    .venv/bin/python benchmarks/api.py [--seconds 20] [--rate 300] [--entries 100000] [--quiet]

Promise: 300 mixed requests/s on two cores with a p99 under 100 ms. The load comes from `wrk`, which
has to be installed: first paced at the rate, then as fast as it goes. Meanwhile a demo breaks a
real system again and again on the same home, and an agent repairs it (not with --quiet).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.app.wiring import open_app
from operator_sre.config import load_config

OPERATOR = str(Path(sys.executable).with_name("operator"))
CONNECTIONS = 30
GROUP = 500
ANSWER_MS = 15
# Of a hundred requests: what people look at, what programs ask, and some that change something.
MIX = {
    "GET /v1/tickets?limit=20": 15,
    "GET /v1/tickets/1": 8,
    "GET /v1/runs?limit=20": 8,
    "GET /v1/approvals": 12,
    "GET /v1/audit?limit=50": 8,
    "GET /v1/audit/7": 8,
    "GET /v1/audit/search?q=restart&limit=10": 4,
    "GET /v1/history?limit=20": 8,
    "GET /v1/health": 5,
    "GET /v1/mode": 5,
    "GET /v1/kill-switch": 5,
    'POST /v1/methods/next-action {"schema_version":"1.0.0"}': 8,
    "POST /v1/tickets/1/moves COMMENT": 6,
}
LUA = """
local mix = { %(mix)s }
local count = 0
local tokens = { %(tokens)s }
request = function()
  count = count + 1
  local one = mix[math.random(#mix)]
  local headers = { ["Authorization"] = "Bearer " .. tokens[math.random(#tokens)] }
  local body = one[3]
  if body == "COMMENT" then
    headers["Idempotency-Key"] = tostring(math.random(1, 1e9)) .. "-" .. count
    body = '{"move":"comment","reason":"note ' .. math.random(1, 1e9) .. '"}'
  end
  if body ~= "" then headers["Content-Type"] = "application/json" end
  return wrk.format(one[1], one[2], headers, body)
end
delay = function() return %(delay)s end
"""


def script(folder: Path, tokens: list[str], *, rate: float) -> Path:
    """What wrk asks; with a rate, each connection waits so long between two requests."""
    rows = []
    for line, weight in MIX.items():
        method, path, *body = line.split(" ", 2)
        text = body[0] if body else ""
        rows += [f"{{ '{method}', '{path}', '{text}' }}"] * weight
    # A connection waits for its answer too, so that it pauses a little less than its share.
    pause_ms = CONNECTIONS / rate * 1000 - ANSWER_MS if rate else 0
    # Around the mean, so that the connections do not fall into step.
    delay = f"math.random({int(pause_ms * 0.5)}, {int(pause_ms * 1.5)})" if rate else "0"
    quoted = ", ".join(f"'{one}'" for one in tokens)
    file = folder / f"mix-{rate:g}.lua"
    file.write_text(LUA % {"mix": ", ".join(rows), "tokens": quoted, "delay": delay})
    return file


def fill(folder: Path, entries: int) -> None:
    """A ledger of so many entries."""

    async def write() -> None:
        for begin in range(0, entries, GROUP):
            drafts = (
                Draft(Kind.REASONING, {"reasoning": f"thought {number} about a restart"})
                for number in range(begin, begin + GROUP)
            )
            await asyncio.gather(*(app.store.journal.append(one) for one in drafts))

    config = load_config(flags={"home": str(folder)}, environ=os.environ, cwd=folder)
    with open_app(config) as app:
        asyncio.run(write())


@contextmanager
def worked(folder: Path) -> Iterator[list[int]]:
    """Somebody breaks and an agent repairs, again and again; how often so far."""
    over, done = threading.Event(), [0]

    def play() -> None:
        while not over.is_set():
            argv = [OPERATOR, "demo", "--fault", "node_kill", "--json", "--home", str(folder)]
            ended = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            done[0] += ended.returncode == 0

    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """The API of this home: where, and which process."""
    argv = [
        OPERATOR,
        "serve",
        "--port",
        "0",
        "--rate",
        "100000",
        "--json",
        "--log-level",
        "warning",
        "--home",
        str(folder),
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["listening"][0], process.pid
        finally:
            process.terminate()


def spent_s(process: int) -> float:
    """The time of a core that a process has had."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def load(url: str, process: int, file: Path, seconds: int) -> str:
    """What wrk says of it, as a row, and what each request cost."""
    before = spent_s(process)
    argv = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(file), url]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found = {name: _found(rf"^\s+{name}%\s+(\S+)", text) for name in ("50", "90", "99")}
    per_s = _found(r"Requests/sec:\s+(\S+)", text)
    wrong = _found(r"Non-2xx or 3xx responses: (\d+)", text) or "0"
    broken = "Socket errors" in text
    count = int(_found(r"^\s+(\d+) requests in", text) or 1)
    cost_ms = (spent_s(process) - before) / count * 1000
    cells = [per_s, *found.values(), f"{cost_ms:.2f} ms", wrong + (" and broken" if broken else "")]
    return "".join(f"{cell:>12}" for cell in cells)


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


def measure(folder: Path, seconds: int, rate: float) -> None:
    """Paced, then as fast as it goes."""
    tokens = []
    for number in range(5):
        argv = [OPERATOR, "tokens", "create", f"load {number}", "--role", "approver", "--json"]
        made = subprocess.run([*argv, "--home", str(folder)], stdout=subprocess.PIPE, check=True)
        tokens.append(json.loads(made.stdout)["secret"])
    head = "".join(f"{name:>12}" for name in ("per s", "p50", "p90", "p99", "core each", "refused"))
    with served(folder) as (url, process):
        sys.stdout.write(f"{'':24}{head}\n")
        for name, wanted in ((f"at {rate:g} a second", rate), ("as fast as it goes", 0.0)):
            row = load(url, process, script(folder, tokens, rate=wanted), seconds)
            sys.stdout.write(f"{name:24}{row}\n")
            sys.stdout.flush()
    sys.stdout.write(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=float, default=300.0)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--quiet", action="store_true", help="Nobody works on a ticket.")
    told = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is needed, such as by: apt-get install wrk")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The first ticket, which some requests are about.
        first = [OPERATOR, "demo", "--fault", "node_kill", "--json", "--home", name]
        subprocess.run(first, stdout=subprocess.DEVNULL, check=True)
        fill(folder, told.entries)
        if told.quiet:
            measure(folder, told.seconds, told.rate)
            return
        with worked(folder) as repaired:
            measure(folder, told.seconds, told.rate)
        sys.stdout.write(f"repaired meanwhile: {repaired[0]}\n")


if __name__ == "__main__":
    main()
