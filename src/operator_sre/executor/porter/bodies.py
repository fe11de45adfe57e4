"""What may stand in the body of a request: parsed into a known shape, and serialized again.

The engine ignores the case of field names and takes the last of duplicate fields.
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
    program = _read(body, _Program)
    if program is None:
        return "Only the program, its user, working directory, variables and streams may be set."
    if program.privileged:
        return "Privileged programs are refused."
    if not program.cmd or len(program.cmd) + len(program.env or ()) > WORDS_MAX:
        return f"A program must have between 1 and {WORDS_MAX} arguments and variables."
    return msgspec.json.encode(program)


def beginning_of(body: bytes) -> bytes | str:
    """The body that starts a program."""
    program = _read(body or b"{}", _Beginning)
    if program is None:
        return "Only Detach, Tty and ConsoleSize may be set when a program is started."
    return msgspec.json.encode(program)


def _read(body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
