"""Programs that do what a SAFE command must not: write, connect, read secrets, reach others, stay.

Each is made from an attempt of `hostile.yaml` and one of the ways in which a program can come to
make it: at once, in a thread, in a child, in a child of a child whose parent is gone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Hostile", "bombs", "hostile_programs"]

_HEAD = """
import ctypes, fcntl, json, mmap, os, resource, signal, socket, struct, sys, threading, time
W = json.loads(os.environ["WORLD"])
C = ctypes.CDLL(None, use_errno=True)
def call(*words):
    return C.syscall(*[ctypes.c_long(one) if isinstance(one, int) else one for one in words])
F = W["file"]
D = W["folder"]
B = F.encode()
"""
_VEHICLES = {
    "direct": "{body}",
    "thread": "def go():\n{once}\nt = threading.Thread(target=go)\nt.start()\nt.join()",
    "fork": (
        "p = os.fork()\nif not p:\n    try:\n{twice}\n    finally: os._exit(0)\nos.waitpid(p, 0)"
    ),
    "orphan": (
        "if not os.fork():\n    if os.fork(): os._exit(0)\n    os.close(0)\n    try:\n{twice}\n"
        "    finally: os._exit(0)\nos.wait()\ntime.sleep(0.1)"
    ),
}


@dataclass(frozen=True, slots=True)
class Hostile:
    """One program: what it goes for, a name, and its words."""

    aim: str
    name: str
    argv: tuple[str, ...]


def hostile_programs(python: str) -> Iterator[Hostile]:
    """Every attempt in every way that there is."""
    for aim, attempts in _table()["python"].items():
        for name, body in attempts.items():
            for vehicle in _VEHICLES:
                yield Hostile(aim, f"{name}-{vehicle}", _python(body, vehicle, python))
    for aim, lines in _table()["shell"].items():
        for name, line in lines.items():
            yield Hostile(aim, f"{name}-shell", ("/bin/bash", "-c", line))


def bombs(python: str) -> Iterator[Hostile]:
    """What takes all it can get: processes, threads, memory, files, time."""
    for name, body in _table()["bombs"]["python"].items():
        yield Hostile("bomb", f"{name}-direct", _python(body, "direct", python))
    for name, line in _table()["bombs"]["shell"].items():
        yield Hostile("bomb", f"{name}-shell", ("/bin/bash", "-c", line))


def _python(body: str, vehicle: str, python: str) -> tuple[str, ...]:
    once, twice = textwrap.indent(body, "    "), textwrap.indent(body, "        ")
    made = _VEHICLES[vehicle].format(body=body, once=once, twice=twice)
    return (python, "-I", "-S", "-c", _HEAD + made)


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return table
