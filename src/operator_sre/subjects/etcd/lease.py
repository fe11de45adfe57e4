"""The clock of leases: one lease, granted, left alone, and looked at until it has run out."""

from __future__ import annotations

from dataclasses import dataclass

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.ports import Clock
from operator_sre.subjects.etcd.client import Answer, Etcd, number

__all__ = ["LeaseClock"]

# While one leader follows another, a lease has all the time that a number can hold.
HANDED_OVER_S_MIN = 10 * 365 * 86_400
SETTLE_S = 2.0  # a lease that has run out is looked for and removed twice a second


@dataclass(frozen=True, slots=True)
class _Lease:
    id: int
    ttl_s: int
    granted: float
    term: int


class LeaseClock:
    """Grants a lease that holds no key, and compares what is left of it with our own clock.

    A new one follows when the last has run out, so there is never more than one of it. A new
    leader begins to count anew, which is how etcd is meant to work: its term starts a new lease.
    """

    def __init__(self, ttl_s: int, clock: Clock) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._lease: _Lease | None = None

    async def look(self, etcd: Etcd, target: Target) -> dict[str, Value]:
        """What is left, and how far that is from what should be; nothing for a lease just granted.

        A lease that is gone too early is told until it should have been.
        """
        lease = self._lease
        if lease is None:
            return await self._grant(etcd, target)
        said = await etcd.ask(target, "lease/timetolive", {"ID": str(lease.id)})
        if not said.ok:
            return {"lease_problem": said.error}
        if _term(said) != lease.term:
            return await self._grant(etcd, target)
        expected_s = lease.ttl_s - (self._clock.monotonic() - lease.granted)
        left_s = number(said.body, "TTL")
        if (left_s < 0 and expected_s < SETTLE_S) or left_s > HANDED_OVER_S_MIN:
            return await self._grant(etcd, target)
        error_s = max(0, left_s) - expected_s
        return {"lease_left_s": max(0, left_s), "lease_error_s": round(error_s, 1)}

    async def _grant(self, etcd: Etcd, target: Target) -> dict[str, Value]:
        self._lease = None
        said = await etcd.ask(target, "lease/grant", {"TTL": str(self._ttl_s)})
        id_, ttl_s = number(said.body, "ID"), number(said.body, "TTL")
        if not said.ok or not id_:
            return {"lease_problem": said.error or "it gave no lease"}
        self._lease = _Lease(id_, ttl_s, self._clock.monotonic(), _term(said))
        return {"lease_left_s": ttl_s, "lease_error_s": 0.0}


def _term(said: Answer) -> int:
    header = said.body.get("header")
    return number(header, "raft_term") if isinstance(header, dict) else 0
