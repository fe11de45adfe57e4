"""What the stores show of themselves in one look, compared with the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from operator_protocols.domain.observation import Value
from operator_sre.subjects.tikv.client import Answer
from operator_sre.subjects.tikv.metrics import Pace, StoreMetrics, store_metrics_from
from operator_sre.subjects.tikv.state import Store
from operator_sre.subjects.tikv.stores import cut_apart

__all__ = ["Showing"]

STRANGER = "what answers there shows no metrics of a store"


class Showing:
    """Keeps what every store showed last, because most of it are sums since it was started."""

    def __init__(self) -> None:
        self._pace = Pace()

    def readings(
        self, stores: Mapping[str, Store], shown: Mapping[str, Answer], at_s: float
    ) -> dict[str, dict[str, Value]]:
        """By the name of the target: that it answers, what it did, and whom it does not reach."""
        told = {name: _metrics(answer) for name, answer in shown.items() if name in stores}
        missed = self._missed(stores, told)
        names = {store.id: name for name, store in stores.items()}
        cut = cut_apart({id_: ids for id_, ids in missed.items() if ids})
        found: dict[str, dict[str, Value]] = {}
        for name, metrics in told.items():
            if metrics is None:
                self._pace.forget(name)
                found[name] = {"reachable": False, "error": shown[name].error or STRANGER}
                continue
            readings: dict[str, Value] = {"reachable": True, "error": ""}
            id_ = stores[name].id
            if id_ in missed:
                readings["unreachable_peers"] = _told(names, missed[id_])
                readings["cut_from"] = _told(names, cut.get(id_, ()))
                readings["cut_from_peers"] = id_ in cut
            found[name] = readings | self._pace.readings(name, metrics, at_s)
        return found

    def _missed(
        self, stores: Mapping[str, Store], told: Mapping[str, StoreMetrics | None]
    ) -> dict[int, frozenset[int]]:
        """Who could not send to whom since the last look, of those that are there."""
        there = {
            stores[name].id
            for name, metrics in told.items()
            if metrics is not None and stores[name].state == "Up"
        }
        found: dict[int, frozenset[int]] = {}
        for name, metrics in told.items():
            missed = None if metrics is None else self._pace.unreached(name, metrics)
            if missed is not None:
                found[stores[name].id] = missed & there
        return found


def _metrics(answer: Answer) -> StoreMetrics | None:
    metrics = store_metrics_from(answer.content) if answer.ok else None
    return None if metrics is None or metrics.strange else metrics


def _told(names: Mapping[int, str], ids: Iterable[int]) -> str:
    return ", ".join(sorted(names[id_] for id_ in ids if id_ in names))
