"""What may stand in the body of a request: read into a known shape, and written anew from it.

The engine reads the names of fields in any case and takes the last of those that are named twice.
So nothing is handed on but what was understood here, and a field that is not known is refused.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

__all__ = ["beginning_of", "nothing", "program_of"]

WORDS_MAX = 4096
T = TypeVar("T")


class _Program(msgspec.Struct, rename="pascal", forbid_unknown_fields=True, omit_defaults=True):
    cmd: list[str]
    attach_stdin: bool = False
    attach_stdout: bool = False
    attach_stderr: bool = False
    console_size: tuple[int, int] | None = None
    detach: bool = False
    detach_keys: str = ""
    env: list[str] | None = None
    privileged: bool = False
    tty: bool = False
    user: str = ""
    working_dir: str = ""


class _Beginning(msgspec.Struct, rename="pascal", forbid_unknown_fields=True, omit_defaults=True):
    detach: bool = False
    tty: bool = False
    console_size: tuple[int, int] | None = None


def nothing(body: bytes) -> bytes | str:
    """No body at all."""
    return "This request has no body." if body else b""


def program_of(body: bytes) -> bytes | str:
    """A program to run in a container: never privileged."""
    told = _read(body, _Program)
    if told is None:
        return "Only a program, its user, its folder, its variables and its streams may be named."
    if told.privileged:
        return "A privileged program is not run here."
    if not told.cmd or len(told.cmd) + len(told.env or ()) > WORDS_MAX:
        return f"A program has between 1 and {WORDS_MAX} words and variables."
    return msgspec.json.encode(told)


def beginning_of(body: bytes) -> bytes | str:
    """How a program is begun."""
    told = _read(body or b"{}", _Beginning)
    if told is None:
        return "Only Detach, Tty and ConsoleSize may be said when a program is begun."
    return msgspec.json.encode(told)


def _read(body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
