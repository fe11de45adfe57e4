"""Paths that mean something else to a command than to others, and what the kernel says of them."""

from __future__ import annotations

import ctypes
import os
import re

from operator_sre.processes.confinement.calls import NUMBERS, machine_index

__all__ = [
    "AT_FDCWD",
    "CHECKED_WHEN_READ",
    "DEVICES",
    "LEADS_AWAY",
    "OF_PROCESS",
    "OWN_PIPES",
    "STANDARD",
    "TERMINAL",
    "read_state",
    "resolve_path",
]

AT_FDCWD = -100
# Opening them for writing reaches nothing but the command's own pipes.
OWN_PIPES = re.compile(
    r"/dev/(?:(?P<standard>stdin|stdout|stderr)|fd/(?P<number>\d+))"
    r"|/proc/(?P<process>self|thread-self|\d+)/fd/(?P<of_process>\d+)"
)
STANDARD = {"stdin": 0, "stdout": 1, "stderr": 2}
TERMINAL = "/dev/tty"
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", TERMINAL)
# A link of /proc to an open file or a folder of a process, which may lie on a dead file system.
LEADS_AWAY = re.compile(r".*/(?:fd|ns|map_files)/[^/]+|.*/(?:exe|cwd|root)")
# What the kernel shows about a process beside its state: which files, which program, where. And
# which processes there are.
OF_PROCESS = re.compile(
    r"/proc|/proc/\d+(?:/task/\d+)?/(?:fd|fdinfo|ns|map_files)(?:/[^/]+)?"
    r"|/proc/\d+(?:/task/\d+)?/(?:maps|smaps|smaps_rollup|numa_maps|exe|cwd|root|io|wchan|stack"
    r"|stat)"
)
# The kernel asks who reads them, not who opened them, so that the command gets a copy.
CHECKED_WHEN_READ = ("/io", "/wchan", "/stack", "/stat")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def resolve_path(path: str) -> str:
    """Where a path really leads; nothing where there is no folder for it."""
    if not os.path.isdir(os.path.dirname(path)):
        return ""
    return os.path.realpath(path)


def read_state(path: str, call: str, flags: int, mask: int) -> bytes:
    """What the kernel says about a path, as a call puts it into memory."""
    buffer = ctypes.create_string_buffer(256 if call == "statx" else 144)
    words: tuple[int, ...] = (ctypes.addressof(buffer), flags, 0)
    if call == "statx":
        words = (flags, mask, ctypes.addressof(buffer))
    number = NUMBERS[call][machine_index() or 0] or 0
    made = [ctypes.c_long(AT_FDCWD), ctypes.c_char_p(os.fsencode(path))]
    if _libc.syscall(ctypes.c_long(number), *made, *map(ctypes.c_long, words)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return buffer.raw
