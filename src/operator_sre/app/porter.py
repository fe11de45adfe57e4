"""The porter as a person starts it: where it stands, and whether an engine answers behind it."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.errors import OperatorError, UsageError
from operator_sre.executor.docker import Address, Engine, address_here
from operator_sre.executor.porter import Porter

__all__ = ["Behind", "Post", "keep", "look_behind", "post_of"]

LOOK_S = 0.5
PATH_BYTES_MAX = 107  # what the kernel takes as the address of a socket
_PROJECT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Post:
    """Where a porter stands: before this engine, at this socket, for this compose project."""

    project: str
    place: Path
    engine: Path


@dataclass(frozen=True, slots=True)
class Behind:
    """What was heard through a porter's socket: the engine's version, and how many containers."""

    place: str
    version: str
    containers: int


def post_of(project: str, place: Path, engine: Path | None = None) -> Post:
    """The post that was meant; UsageError where a porter cannot stand."""
    if _PROJECT.fullmatch(project) is None:
        raise UsageError(
            f"{project[:80]!r} is not the name of a compose project.",
            next_step="List compose projects with: docker compose ls",
        )
    if engine is None:
        address = address_here()
        if address.problem or not address.socket:
            problem = f"The porter requires a socket, and {str(address)!r} is not one."
            raise UsageError(
                address.problem or problem, next_step="Name the engine's socket with --engine."
            )
        engine = Path(address.socket)
    if engine.resolve() == place.resolve():
        raise UsageError(
            f"The porter cannot listen on the socket of its engine: {str(place)!r}.",
            next_step="Name another path with --socket.",
        )
    if len(str(place).encode()) > PATH_BYTES_MAX:
        raise UsageError(
            f"The path of a socket has at most {PATH_BYTES_MAX} bytes.",
            next_step="Name a shorter one with --socket.",
        )
    return Post(project, place, engine)


async def keep(post: Post, *, ready: Callable[[str], None]) -> None:
    """Listen until cancelled; `ready` gets the address."""
    if post.place.exists():
        # Free only if it is a socket on which no porter answers any more.
        is_taken = not post.place.is_socket()
        if not is_taken:
            with socket.socket(socket.AF_UNIX) as there:
                there.settimeout(LOOK_S)
                is_taken = there.connect_ex(str(post.place)) == 0
        if is_taken:
            raise OperatorError(
                f"{str(post.place)!r} is already in use.",
                next_step="Name another path with --socket.",
            )
    porter = Porter(str(post.engine), post.project)
    try:
        async with porter.serve(post.place):
            ready(f"unix://{post.place}")
            await asyncio.Event().wait()
    except OSError as error:
        raise OperatorError(
            f"Cannot listen on {str(post.place)!r}: {error.strerror or error}.",
            next_step="Name another path with --socket.",
        ) from error


async def look_behind(place: Path) -> Behind:
    """Ask the engine through a porter; EngineError where that does not work."""
    engine = Engine(Address(socket=str(place)))
    version = await engine.ask("GET", "/version")
    listed = await engine.ask("GET", "/containers/json", parameters={"all": "true"})
    for answer in (version, listed):
        if not answer.ok:
            raise OperatorError(
                f"The porter at {str(place)!r} does not answer: {answer.message}.",
                next_step="Check the log of the porter, and that its engine is running.",
            )
    number = version.read(dict[str, object]).get("Version")
    return Behind(str(place), str(number), len(listed.read(list[dict[str, object]])))
