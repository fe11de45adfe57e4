"""Another process's memory and descriptors, for the guard that answers its calls."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "comes_from",
    "copied_descriptor",
    "is_program_of_system",
    "open_process",
    "process_of_thread",
    "read_memory",
    "read_path",
    "take_descriptor",
    "umask_of",
    "write_memory",
]

PIDFD_OPEN, PIDFD_GETFD = 434, 438
PAGE = os.sysconf("SC_PAGE_SIZE")
PATH_BYTES_MAX = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.process_vm_readv.restype = ctypes.c_ssize_t
_libc.process_vm_writev.restype = ctypes.c_ssize_t


class _Part(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def _call(number: int, *arguments: int) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def open_process(pid: int) -> int:
    """A descriptor of a process, which means no other one later."""
    return _call(PIDFD_OPEN, pid, 0)


def take_descriptor(pidfd: int, number: int) -> int:
    """Our own copy of a descriptor that a process has."""
    return _call(PIDFD_GETFD, pidfd, number, 0)


@contextmanager
def copied_descriptor(pid: int, number: int) -> Iterator[int]:
    """Our own copy of a descriptor that a process has, for a while."""
    pidfd = open_process(pid)
    try:
        copy = take_descriptor(pidfd, number & 0xFFFFFFFF)
    finally:
        os.close(pidfd)
    try:
        yield copy
    finally:
        os.close(copy)


def process_of_thread(thread: int) -> int:
    """The process that a thread belongs to."""
    with open(f"/proc/{thread}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Tgid:"):
                return int(line[5:])
    raise ProcessLookupError(thread)


def is_program_of_system(program: str, names: Collection[str], own: Iterable[str]) -> bool:
    """Whether the file of a program is one of these, and others cannot have written it.

    What lies in a folder of the command's `own` may be a copy of any program.
    """
    if any(program.startswith(f"{folder}/") for folder in own):
        return False
    state = os.stat(program)
    is_foreign = state.st_uid not in (0, os.geteuid()) or bool(state.st_mode & stat.S_IWOTH)
    return not is_foreign and os.path.basename(program) in names


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Bytes of another process; OSError when they cannot all be read."""
    buffer = ctypes.create_string_buffer(size)
    _transfer(_libc.process_vm_readv, pid, buffer, address, size)
    return buffer.raw


def write_memory(pid: int, address: int, data: bytes) -> None:
    """Put bytes into another process; OSError when that cannot be done."""
    buffer = ctypes.create_string_buffer(data, len(data))
    _transfer(_libc.process_vm_writev, pid, buffer, address, len(data))


def _transfer(
    function: Callable[..., int],
    pid: int,
    buffer: ctypes.Array[ctypes.c_char],
    address: int,
    size: int,
) -> None:
    ours, theirs = _Part(ctypes.addressof(buffer), size), _Part(address, size)
    parts = ctypes.c_ulong(1)
    ends = (ctypes.byref(ours), parts, ctypes.byref(theirs), parts)
    if function(pid, *ends, ctypes.c_ulong(0)) != size:
        raise OSError(ctypes.get_errno(), "cannot reach the memory of a process")


def read_path(pid: int, address: int) -> bytes:
    """A path in another process, up to its end; OSError when there is none."""
    found = bytearray()
    while len(found) < PATH_BYTES_MAX:
        here = address + len(found)
        part = read_memory(pid, here, min(PAGE - here % PAGE, 256))
        path, end, _ = part.partition(b"\0")
        found += path
        if end:
            return bytes(found)
    raise OSError("no end of a path")


def umask_of(thread: int) -> int:
    """The bits that a thread takes away from the mode of what it creates."""
    text = Path(f"/proc/{thread}/status").read_text(errors="replace")
    found = re.search(r"^Umask:\s*([0-7]+)", text, re.MULTILINE)
    return int(found[1], 8) if found else 0o022


def comes_from(pid: int, root: int) -> bool:
    """Whether a process came out of another one, as far as its parents and session tell."""
    for _ in range(64):
        if pid == root:
            return True
        try:
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError as error:
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH)) from error
        fields = text.rpartition(")")[2].split()
        if int(fields[3]) == root:  # its session
            return True
        pid = int(fields[1])
        if pid <= 1:
            return False
    return False
