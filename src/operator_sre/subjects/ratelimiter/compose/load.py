"""Traffic for the limiter of this stack: `python load.py --rate-per-s N NODE ...`, and no packages.

Every second it says how much went well. What a node does, however bad, does not end it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import http.client
import itertools
import json
import signal
import sys
import threading
import time

__all__ = ["main"]

ANSWER_S_MAX = 2.0
THREADS = 32
BURST_EACH_S, BURST_TIMES, RAMP_S = 10, 10, 60
TOLD_EACH_S = 10.0


def _wait_s(shape: str, rate_per_s: float, since_s: float) -> float:
    """How long until the next request, by the shape of the load."""
    if shape == "burst":
        is_burst = int(since_s) % BURST_EACH_S == 0
        total = BURST_TIMES + BURST_EACH_S - 1
        share = BURST_EACH_S / total
        return 1.0 / (rate_per_s * share * (BURST_TIMES if is_burst else 1))
    if shape == "ramp":
        return 1.0 / max(1.0, rate_per_s * min(1.0, since_s / RAMP_S))
    return 1.0 / rate_per_s


def _check(node: str, number: int) -> str:
    body = json.dumps({"key": f"tenant-{number % 100}"})
    asking = http.client.HTTPConnection(node, timeout=ANSWER_S_MAX)
    try:
        asking.request("POST", "/check", body, {"Content-Type": "application/json"})
        status = asking.getresponse().status
    except (OSError, http.client.HTTPException):
        return "failed"
    finally:
        asking.close()
    return {200: "allowed", 429: "limited"}.get(status, "failed")


def main() -> None:
    """Send until ended."""
    parser = argparse.ArgumentParser(description="Steady traffic.")
    parser.add_argument("--rate-per-s", type=float, default=30.0)
    parser.add_argument("--shape", choices=["steady", "burst", "ramp"], default="steady")
    parser.add_argument("nodes", nargs="+", help="each as HOST:PORT")
    options = parser.parse_args()
    over = threading.Event()
    for end in (signal.SIGTERM, signal.SIGINT):
        signal.signal(end, lambda number, frame: over.set())
    counts: dict[str, int] = {}
    lock = threading.Lock()

    def send(node: str, number: int) -> None:
        outcome = _check(node, number)
        with lock:
            counts[outcome] = counts.get(outcome, 0) + 1

    started = last = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        for number, node in enumerate(itertools.cycle(options.nodes)):
            pool.submit(send, node, number)
            if time.monotonic() - last >= TOLD_EACH_S:
                last = time.monotonic()
                with lock:
                    sys.stdout.write(json.dumps(counts) + "\n")
                    sys.stdout.flush()
            if over.wait(_wait_s(options.shape, options.rate_per_s, time.monotonic() - started)):
                return


if __name__ == "__main__":
    main()
