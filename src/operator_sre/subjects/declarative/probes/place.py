"""Where a probe looks: the target, what it may use there, and how long it may take."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ObservationError

if TYPE_CHECKING:
    from operator_protocols.ports import SubjectSettings

__all__ = [
    "Address",
    "Blind",
    "Counted",
    "Links",
    "Place",
    "Probe",
    "Readings",
    "addresses_of",
    "authority",
    "checked",
    "down",
    "first_answer",
    "sentence_of",
]

T = TypeVar("T")
Address = tuple[str, int]
Readings = dict[str, Value]
ERROR_CHARACTERS_MAX = 160
APART_S_MIN = 0.2
_OUR_LIMITS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
_SILENT = "it does not answer in time"


class Blind(Exception):
    """It could not be looked at at all, so that nothing follows from it."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a counter showed, when, and how fast it was then."""

    at: float
    value: float
    rate: float | None


class Links:
    """What is shared by the looks at one subject: whom to trust, and what was counted before."""

    def __init__(self) -> None:
        self._contexts: dict[tuple[object, ...], ssl.SSLContext] = {}
        self.counted: dict[tuple[str, ...], Counted] = {}

    def trust(self, access: Access) -> ssl.SSLContext:
        """Whom to trust when speaking TLS, made anew when one of its files has changed."""
        files = (access.ca_file, access.certificate_file, access.key_file)
        try:
            stamps = tuple(Path(file).stat().st_mtime_ns if file else 0 for file in files)
            key = (*files, *stamps)
            if key not in self._contexts:
                context = ssl.create_default_context(cafile=access.ca_file or None)
                if access.certificate_file:
                    context.load_cert_chain(access.certificate_file, access.key_file or None)
                self._contexts[key] = context
        except (OSError, ssl.SSLError) as error:
            raise Blind(f"its certificates cannot be read: {error}") from error
        return self._contexts[key]


@dataclass(frozen=True, slots=True)
class Place:
    """One target, looked at once."""

    target: Target
    settings: SubjectSettings
    timeout_s: float
    links: Links = field(default_factory=Links)
    probe: str = ""

    @property
    def access(self) -> Access:
        """How it wants to be spoken to."""
        return self.target.access or Access()

    def secret(self, path: str) -> str:
        """What lies in a file; Blind where it cannot be read."""
        try:
            return self.settings.secret(path)
        except ObservationError as error:
            raise Blind(str(error)) from error

    def forget_others(self, names: Iterable[str]) -> None:
        """Remember no counters of this probe but these."""
        kept = set(names)
        mine = (self.target.name, self.probe)
        for key in [key for key in self.links.counted if key[:2] == mine and key[2] not in kept]:
            del self.links.counted[key]

    def rate(self, field_name: str, value: float) -> float | None:
        """How much a counter grew in a second since the last look; None at the first.

        One that was set back has begun anew, and nobody knows how far it had come before. Of two
        looks at almost the same time the second says what the first said.
        """
        key = (self.target.name, self.probe, field_name)
        now = self.settings.clock.monotonic()
        before = self.links.counted.get(key)
        if before is not None and now - before.at < APART_S_MIN:
            return before.rate
        rate = None
        if before is not None and value >= before.value:
            rate = (value - before.value) / (now - before.at)
        self.links.counted[key] = Counted(now, value, rate)
        return rate


class Probe(Protocol):
    """One kind of question with everything that is asked."""

    @property
    def fields(self) -> frozenset[str] | None:
        """The values that it can give; None where only the answer tells."""
        ...

    async def look(self, place: Place) -> Readings:
        """Ask once; Blind when it could not be asked. What the target does raises nothing."""
        ...


def addresses_of(target: Target, port: int | None = None) -> list[Address]:
    """Where a target answers, the first one first. A port of the probe's own counts everywhere."""
    found: list[Address] = []
    first = port or target.port
    if first is not None:
        found.append((target.host, first))
    for endpoint in target.endpoints:
        host, _, number = endpoint.rpartition(":")
        found.append((host.strip("[]"), port or int(number)))
    if not found:
        raise Blind("it has no port to ask at")
    return found


def authority(address: Address) -> str:
    """An address as a URL has it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def first_answer(
    addresses: list[Address], timeout_s: float, ask: Callable[[Address], Awaitable[T]]
) -> tuple[T | None, str, Address]:
    """What the first address that answers says; else why the first one does not.

    Each may take its share of the time that is left, so that the last is asked in time.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    problem = ""
    for place, address in enumerate(addresses):
        share_s = max(0.0, deadline - loop.time()) / (len(addresses) - place)
        try:
            async with asyncio.timeout(share_s):
                return await ask(address), "", address
        except (OSError, EOFError, ssl.SSLError) as error:
            if _is_ours(error):
                raise Blind(f"this machine cannot ask it: {sentence_of(error)}") from error
            problem = problem or f"{address[0]}:{address[1]}: {sentence_of(error)}"
    return None, problem, addresses[0]


def _is_ours(error: BaseException) -> bool:
    """True when this machine has nothing left to ask with; that says nothing of the target."""
    below: BaseException | None = error
    for _ in range(8):
        if below is None:
            return False
        if isinstance(below, OSError) and below.errno in _OUR_LIMITS:
            return True
        below = below.__cause__ or below.__context__
    return False


def sentence_of(error: BaseException) -> str:
    """Why there was no answer, in a few words."""
    match error:
        case TimeoutError():
            return _SILENT
        case ConnectionRefusedError():
            return "connection refused"
        case ConnectionResetError() | BrokenPipeError() | EOFError():
            return "it closed the connection"
        case socket.gaierror():
            return "its name is not known"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"[:ERROR_CHARACTERS_MAX]
        case ssl.SSLError():
            return "it does not speak TLS as expected"
    told = getattr(error, "strerror", None)
    return (told.lower() if told else str(error) or "connection lost")[:ERROR_CHARACTERS_MAX]


def down(error: str, **more: Value) -> Readings:
    """What is known of something that does not answer."""
    return {"up": False, "ok": False, "error": error[:ERROR_CHARACTERS_MAX], **more}


def checked(readings: Mapping[str, Value], why: str) -> Readings:
    """What is known of something that answered, as it should when there is no `why`."""
    told: Readings = {"up": True, "ok": not why}
    return {**told, **readings, **({"error": why[:ERROR_CHARACTERS_MAX]} if why else {})}
