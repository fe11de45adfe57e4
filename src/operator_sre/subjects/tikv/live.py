"""The cluster as it is at the moment of a deed, and what stands in its way. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.target import Target
from operator_sre.subjects.tikv.state import (
    EVICT_LEADER,
    UNHEARD,
    Operator,
    Store,
    evicting_from,
    operators_from,
    schedulers_from,
    stores_from,
)
from operator_sre.subjects.tikv.stores import names_of

__all__ = ["DEFAULTS", "GRANT_LEADER", "UP", "Live", "live_from"]

# What every PD runs from its first day on, and no cluster should be without for long.
DEFAULTS = ("balance-hot-region-scheduler", "balance-leader-scheduler", "balance-region-scheduler")
UP = "Up"
GRANT_LEADER = "grant-leader-scheduler"


@dataclass(frozen=True, slots=True)
class Live:
    """Stores by the names of their targets, and all that PD does with regions just now.

    `evicting` are the ids of the stores from which leaders are driven away, `granting` of those
    that get all leaders of what they hold.
    """

    stores: Mapping[str, Store]
    operators: tuple[Operator, ...] = ()
    schedulers: tuple[str, ...] = ()
    paused: frozenset[str] = frozenset()
    evicting: frozenset[int] = frozenset()
    granting: frozenset[int] = frozenset()

    def find(self, named: str) -> Store | None:
        """A store by the name of its target, or by its id in digits."""
        found = self.stores.get(named)
        if found is None and named.isdecimal():
            return next((one for one in self.stores.values() if str(one.id) == named), None)
        return found

    def name_of(self, id_: int) -> str:
        """The name of a store's target; its id where PD does not know it."""
        names = (name for name, store in self.stores.items() if store.id == id_)
        return next(names, f"store {id_}")

    def operator_on(self, region: int) -> Operator | None:
        """What PD has a region do."""
        return next((one for one in self.operators if one.region == region), None)

    def troubled(self, *, but: int) -> str:
        """The first other store that is not there for the regions of this one, and why; or ""."""
        for name, store in self.stores.items():
            if store.id == but:
                continue
            if store.state == UNHEARD:
                return f"the leader of PD has not heard of {name}"
            if store.state != UP:
                return f"{name} is {store.state}"
            if store.id in self.evicting:
                return f"{name} is being drained"
        return ""

    def heirs(self, *, but: int) -> int:
        """How many other stores could lead its regions."""
        return sum(
            store.id != but and store.state == UP and store.leads and store.id not in self.evicting
            for store in self.stores.values()
        )


def live_from(
    targets: Sequence[Target],
    *,
    stores: object,
    operators: object,
    schedulers: object,
    paused: object = None,
    evicting: object = None,
    granting: object = None,
) -> Live | None:
    """What answers of PD say together; None where one of them is not how PD speaks."""
    found = stores_from(stores)
    running, names = operators_from(operators), schedulers_from(schedulers)
    if found is None or running is None or names is None:
        return None
    names_by_id = names_of(found, targets)
    named = {
        names_by_id.get(store.id, f"store-{store.id}"): store
        for store in found
        if store.state != "Tombstone"
    }
    return Live(
        named,
        running,
        names,
        frozenset(schedulers_from(paused) or ()),
        _stores_of(EVICT_LEADER, names, evicting),
        _stores_of(GRANT_LEADER, names, granting),
    )


def _stores_of(kind: str, names: Sequence[str], config: object) -> frozenset[int]:
    """The stores that a kind of scheduler names: in its settings, or each in a name of its own.

    Older PDs have one scheduler for each store, and the id at the end of its name.
    """
    ends = (one.removeprefix(f"{kind}-") for one in names if one.startswith(f"{kind}-"))
    return (evicting_from(config) or frozenset()) | {int(end) for end in ends if end.isdecimal()}
