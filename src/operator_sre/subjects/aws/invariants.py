"""The invariants of instances, volumes and groups. Pure."""

from __future__ import annotations

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Seen, Trouble
from operator_protocols.kit.invariant import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    number_of,
    unknown,
)
from operator_protocols.ports import Invariant
from operator_sre.subjects.aws.client import Options
from operator_sre.subjects.aws.state import GROUP, INSTANCE, VOLUME

__all__ = ["invariants_of"]

RUNNING = "running"
# It is on its way there; the grace of the invariant bounds how long that may take.
_PENDING = ("pending", "rebooting")


def invariants_of(options: Options) -> tuple[Invariant, ...]:
    """All of them, with the graces of these options."""
    return (
        PartInvariant(
            "target_exists",
            "Everything that is listed exists in the account and region.",
            Severity.CRITICAL,
            0.0,
            (INSTANCE, VOLUME, GROUP),
            _exists,
            trouble=Trouble.SILENCE,
        ),
        PartInvariant(
            "instance_running",
            "Every instance runs.",
            Severity.CRITICAL,
            0.0,
            (INSTANCE,),
            _runs,
            trouble=Trouble.SILENCE,
        ),
        PartInvariant(
            "status_checks_pass",
            "Both status checks of every running instance pass.",
            Severity.CRITICAL,
            options.grace_s,
            (INSTANCE,),
            _passes,
            trouble=Trouble.SILENCE,
        ),
        PartInvariant(
            "volume_ready",
            "Every volume is available or in use.",
            Severity.CRITICAL,
            0.0,
            (VOLUME,),
            _is_ready,
        ),
        PartInvariant(
            "group_at_capacity",
            "Every group has as many healthy instances in service as it wants.",
            Severity.WARNING,
            options.grace_s,
            (GROUP,),
            _at_capacity,
        ),
    )


def _exists(seen: Seen) -> Opinion | None:
    if seen.readings.get("exists") is True:
        return WELL
    place = f"{seen.readings.get('account')} {seen.readings.get('region')}"
    return broken(f"{seen.readings.get('id')} does not exist in {place}")


def _runs(seen: Seen) -> Opinion | None:
    state = seen.readings.get("state")
    if not seen.readings.get("exists"):
        return None
    if state == RUNNING or state in _PENDING:
        return WELL
    why = seen.readings.get("state_reason")
    return broken(f"its state is {state}" + (f" ({why})" if why else ""))


def _passes(seen: Seen) -> Opinion | None:
    if seen.readings.get("state") != RUNNING:
        return None
    checks = {name: seen.readings.get(f"{name}_status") for name in ("system", "instance")}
    bad = [f"{name} status check: {state}" for name, state in checks.items() if state == "impaired"]
    if bad:
        return broken(", ".join(bad))
    if set(checks.values()) <= {"ok", "initializing", "not-applicable"}:
        return WELL
    return unknown(", ".join(f"{name} status check: {state}" for name, state in checks.items()))


def _is_ready(seen: Seen) -> Opinion | None:
    if not seen.readings.get("exists"):
        return None
    state = seen.readings.get("state")
    if state in ("available", "in-use"):
        return WELL
    return broken(f"its state is {state}")


def _at_capacity(seen: Seen) -> Opinion | None:
    if not seen.readings.get("exists"):
        return None
    desired, serving = number_of(seen, "desired"), number_of(seen, "in_service")
    if desired is None or serving is None:
        return unknown("AWS did not say how many instances it has")
    if serving >= desired:
        return WELL
    suspended = seen.readings.get("suspended")
    more = f"; suspended: {suspended}" if suspended else ""
    return broken(f"{serving:g} of {desired:g} instances are in service{more}")
