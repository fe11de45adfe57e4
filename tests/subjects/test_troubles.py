"""Every invariant of the subjects states its trouble, so that no agent has to read its sentence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from operator_protocols.domain.observation import Observation, Seen, Trouble, Value
from operator_protocols.ports import Invariant
from operator_sre.subjects.etcd import invariants as etcd
from operator_sre.subjects.postgres import invariants as postgres
from operator_sre.subjects.ratelimiter import invariants as ratelimiter
from operator_sre.subjects.tikv import invariants as tikv
from operator_sre.subjects.tikv.options import Options
from tests.contract.clock import HeldClock

SUBJECTS: dict[str, Sequence[Invariant]] = {
    "etcd": etcd.invariants_of(etcd.options_from({})),
    "postgres": postgres.invariants_of(postgres.thresholds_of({})),
    "ratelimiter": ratelimiter.INVARIANTS,
    "tikv": tikv.invariants_of(Options()),
}
KINDS = ("member", "cluster", "server", "client", "node", "store", "replica", "sentinel", "pd")


@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_every_finding_states_its_trouble(name: str) -> None:
    seen = tuple(Seen(kind, {"kind": kind}) for kind in (*KINDS, "prometheus"))
    observation = Observation(name, HeldClock().now(), seen)
    findings = [found for row in SUBJECTS[name] for found in row.check(observation)]
    assert findings
    assert [found.invariant for found in findings if found.trouble is None] == []
    stated = [getattr(row, "trouble", Trouble.NOTHING) for row in SUBJECTS[name]]
    assert None not in stated


def test_a_store_that_refuses_writes_says_for_want_of_what() -> None:
    (invariant,) = [one for one in ratelimiter.INVARIANTS if one.name == "store_refuses_writes"]
    refusing: dict[str, Value] = {
        "kind": "store",
        "reachable": True,
        "role": "primary",
        "refuses_writes": True,
    }
    cases: tuple[tuple[dict[str, Value], Trouble], ...] = (
        ({"refuses_kind": "memory"}, Trouble.MEMORY),
        ({"refuses_kind": "disk", "disk_ok": False}, Trouble.NO_SPACE),
        ({"refuses_kind": "disk", "disk_ok": True}, Trouble.NOTHING),
        ({"refuses_kind": "paused"}, Trouble.NOTHING),
    )
    for more, trouble in cases:
        seen = Seen("store", {**refusing, **more})
        observation = Observation("limiter", HeldClock().now(), (seen,))
        assert [finding.trouble for finding in invariant.check(observation)] == [trouble]
