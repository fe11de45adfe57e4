"""Where a probe runs: the target, its credentials there, and its time limit."""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ObservationError
from operator_protocols.kit.access import Address, addresses_of, sentence_of, trust_for
from operator_sre.subjects.declarative.values import Readings

if TYPE_CHECKING:
    from operator_protocols.ports import SubjectSettings

__all__ = [
    "Address",
    "Blind",
    "Counted",
    "Links",
    "Place",
    "Probe",
    "down",
    "first_answer",
    "is_accepting",
    "observe_first",
    "places_of",
    "up",
]

T = TypeVar("T")
ERROR_CHARACTERS_MAX = 160
APART_S_MIN = 0.2
ACCEPT_S = 1.0
CAUSES_MAX = 8
_OUR_LIMITS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)


class Blind(Exception):
    """The probe could not observe at all, so nothing follows from it.

    `ours` means that the reason lies with Operator, so no target is blamed.
    """

    def __init__(self, why: str, *, ours: bool = False) -> None:
        super().__init__(why)
        self.ours = ours


@dataclass(frozen=True, slots=True)
class Counted:
    """What a counter showed, when, and how fast it was then."""

    at: float
    value: float
    rate: float | None


class Links:
    """What is shared by the checks of one subject: what was counted before."""

    def __init__(self) -> None:
        self.counted: dict[tuple[str, ...], Counted] = {}


@dataclass(frozen=True, slots=True)
class Place:
    """One target, checked once."""

    target: Target
    settings: SubjectSettings
    timeout_s: float
    links: Links = field(default_factory=Links)
    probe: str = ""

    @property
    def access(self) -> Access:
        """Its TLS settings and credentials."""
        return self.target.access or Access()

    @property
    def trust(self) -> ssl.SSLContext | None:
        """The TLS context; None without TLS."""
        try:
            return trust_for(self.access) if self.access.tls else None
        except OSError as error:
            raise Blind(f"the certificates cannot be read: {error}", ours=True) from error

    def secret(self, path: str) -> str:
        """The contents of a file; Blind where it cannot be read."""
        try:
            return self.settings.secret(path)
        except ObservationError as error:
            raise Blind(str(error)) from error

    def forget_others(self, names: Iterable[str]) -> None:
        """Forget all counters of this probe except these."""
        kept = set(names)
        mine = (self.target.name, self.probe)
        for key in [key for key in self.links.counted if key[:2] == mine and key[2] not in kept]:
            del self.links.counted[key]

    def rate(self, field_name: str, value: float) -> float | None:
        """How much a counter grew in a second since the last check; None at the first.

        A counter that fell was reset, and its growth before that is unknown. Of two checks at
        almost the same time the second repeats the first.
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

    async def observe(self, place: Place) -> Readings:
        """Ask once; Blind when it could not be asked. What the target does raises nothing."""
        ...


def places_of(
    target: Target, port: int | None = None, *, usual: int | None = None
) -> list[Address]:
    """Where a target answers; Blind where it has no port. A port of the probe counts everywhere.

    `usual` is the port of a target without one.
    """
    has_port = target.port or target.endpoints
    found = addresses_of(target, port or (None if has_port else usual))
    if not found:
        raise Blind("the target has no port")
    return found


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
            # What this machine has nothing left to ask with says nothing of the target.
            cause: BaseException | None = error
            for _ in range(CAUSES_MAX):
                if isinstance(cause, OSError) and cause.errno in _OUR_LIMITS:
                    why = f"this machine has nothing left to check it with: {sentence_of(error)}"
                    raise Blind(why, ours=True) from error
                cause = (cause.__cause__ or cause.__context__) if cause is not None else None
            problem = problem or f"{address[0]}:{address[1]}: {sentence_of(error)}"
    return None, problem, addresses[0]


async def is_accepting(address: Address) -> bool:
    """Whether a server accepts a connection at an address."""
    try:
        async with asyncio.timeout(ACCEPT_S):
            _, writer = await asyncio.open_connection(*address)
    except OSError:
        return False
    writer.close()
    return True


async def observe_first(
    place: Place, addresses: list[Address], ask: Callable[[Address], Awaitable[Readings]]
) -> Readings:
    """The answer of the first address that answers, that address, and how long it took."""
    started = time.perf_counter()
    readings, problem, (host, port) = await first_answer(addresses, place.timeout_s, ask)
    if readings is None:
        return down(problem)
    took_ms = round((time.perf_counter() - started) * 1000, 3)
    return up({**readings, "latency_ms": took_ms, "endpoint": f"{host}:{port}"}, "")


def down(error: str, **more: Value) -> Readings:
    """What is known of something that does not answer."""
    return {"up": False, "ok": False, "error": error[:ERROR_CHARACTERS_MAX], **more}


def up(readings: Mapping[str, Value], why: str) -> Readings:
    """What is known of something that answered, as it should when there is no `why`."""
    error = {"error": why[:ERROR_CHARACTERS_MAX]} if why else {}
    return {"up": True, "ok": not why, **readings, **error}
