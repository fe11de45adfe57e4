"""How soon Operator does something useful when the endpoint of its model is dead, in whole trials.

    .venv/bin/python benchmarks/dead_endpoint.py [--times 3]

Promise: the first useful action within 30 s of the ticket. A fault is injected into a real rig. The
endpoint refuses connections, accepts them and stays silent, or stops before the first word.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from operator_evals.app.campaigns import Wanted, campaign_of, run_campaign
from operator_evals.app.views import load_campaign
from operator_evals.facts import TrialFacts
from operator_lab.cli.demo import this_program
from operator_sre.config import load_config

__all__ = ["CASES", "endpoint", "measure", "useful_s"]

CASES = ("refuses", "silent", "stops")
SUBJECT, FAULT = "etcd", "node_kill"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODEL = """
[models.dead]
provider = "openai-compatible"
model = "dead"
base_url = "http://127.0.0.1:{port}/v1"
prices = {{ input = 0.0, output = 0.0 }}
"""


@contextlib.contextmanager
def endpoint(case: str) -> Iterator[int]:
    """The port of an endpoint that is dead in this way."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        if case == "refuses":  # the port is taken, and nothing listens on it
            yield port
            return
        listener.listen()
        kept: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])
                    if case == "stops":
                        kept[-1].sendall(HEAD)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield port
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in kept:
                each.close()


def useful_s(facts: TrialFacts) -> float | None:
    """Seconds from the ticket to the first action that ran; None without one."""
    opened_s = facts.moments.ticket_created
    ran = [command.at_s for command in facts.commands if command.ran]
    return None if opened_s is None or not ran else round(min(ran) - opened_s, 1)


def measure(case: str, times: int, home: Path) -> list[TrialFacts]:
    """Whole trials with an endpoint that is dead in this way."""
    with endpoint(case) as port:
        (home / "operator.toml").write_text(MODEL.format(port=port), encoding="utf-8")
        config = load_config(flags={"home": str(home)}, environ={}, cwd=home)
        (home / "dead.toml").write_text('mind = "model"\nmodel = "dead"\n', encoding="utf-8")
        wanted = Wanted(SUBJECT, FAULT, times, (str(home / "dead.toml"),), name=case)
        campaign = campaign_of(wanted)
        asyncio.run(run_campaign(config, campaign, command=this_program(), tell=lambda _: None))
    return [trial.facts for trial in load_campaign(home / "eval.db", case)[1]]


def main() -> None:
    """Print the times for each kind of dead endpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=3)
    times = parser.parse_args().times
    sys.stdout.write(f"{'endpoint':10}{'trials':>8}{'median s':>10}{'worst s':>10}  end\n")
    for case in CASES:
        with tempfile.TemporaryDirectory() as home:
            trials = measure(case, times, Path(home))
        found = [each for each in map(useful_s, trials) if each is not None]
        ends = ", ".join(ticket.state for trial in trials for ticket in trial.tickets)
        median, worst = (statistics.median(found), max(found)) if found else (0.0, 0.0)
        row = f"{case:10}{len(found):>3} of {times:<2}{median:10.1f}{worst:10.1f}  {ends}\n"
        sys.stdout.write(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
