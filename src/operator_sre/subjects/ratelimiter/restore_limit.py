"""Runs in a sandbox: asks every node for the limit of a key, and sets the limit of the manager.

Its inputs are files, never part of its text: `key`, `limit`, and the addresses of `nodes`. It needs
nothing but Python, because a sandbox contains nothing of Operator.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

__all__ = ["main"]

ANSWER_S_MAX = 5.0
ANSWER_BYTES_MAX = 65536


def main(folder: str) -> int:
    """Inspect, repair, and inspect again; 1 where a node keeps another limit or does not answer."""
    inputs = Path(folder)
    key, limit = (inputs / "key").read_text(), int((inputs / "limit").read_text())
    nodes = (inputs / "nodes").read_text().split()
    before = {node: _ask(node, "GET", key) for node in nodes}
    _tell(before, f"found, where a manager had set {limit} for {key!r}")
    wrong = [node for node, found in before.items() if isinstance(found, int) and found != limit]
    if not wrong:
        _say("nothing was changed: every node that answers has this limit")
        return int(not any(found == limit for found in before.values()))
    # All nodes read it from one store, so that one of them repairs it for all.
    _ask(wrong[0], "PUT", key, {"limit": limit})
    after = {node: _ask(node, "GET", key) for node in nodes}
    _tell(after, f"found after it was set through {wrong[0]}")
    if any(found != limit for found in after.values()):
        _say("not repaired: a node has another limit or does not answer")
        return 1
    _say(f"the limit of {key!r} is {limit} at {len(after)} nodes, it was {before[wrong[0]]}")
    return 0


def _ask(node: str, method: str, key: str, body: dict[str, int] | None = None) -> int | str:
    """The limit that a node tells, or why it tells none."""
    data = json.dumps(body).encode() if body else None
    url = f"http://{node}/limits/{quote(key, safe='')}"
    request = Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urlopen(request, timeout=ANSWER_S_MAX) as answer:  # noqa: S310 - of this scheme only
            return int(json.loads(answer.read(ANSWER_BYTES_MAX))["limit"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"no answer to {method}: {error}"


def _tell(found: dict[str, int | str], when: str) -> None:
    _say(f"{when}:", *(f"  {node}: {limit}" for node, limit in found.items()))


def _say(*lines: str) -> None:
    print(*lines, sep="\n")  # noqa: T201 - what it prints is its answer


if __name__ == "__main__":
    sys.exit(main("/inputs"))
