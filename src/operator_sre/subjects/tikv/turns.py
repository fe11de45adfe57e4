"""Which questions PD's leader is asked in one look, of more than may be asked at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from operator_sre.subjects.tikv.client import Reading
from operator_sre.subjects.tikv.screening import CHECKS, Screen
from operator_sre.subjects.tikv.state import EVICT_LEADER

__all__ = ["PROMETHEUS_UP", "Question", "Turns", "wanted"]

PROMETHEUS_UP = "prometheus"


@dataclass(frozen=True, slots=True)
class Question:
    """One request. It may wait `every` times as long as those that cannot wait."""

    name: str
    path: str
    reading: Reading = "json"
    every: int = 1


OPERATORS = Question("operators", "operators")
COUNT = Question("count", "regions/count", "head")
MEMBERS = Question("members", "members", every=3)
SCHEDULERS = Question("schedulers", "schedulers")
PAUSED = Question("paused", "schedulers?status=paused", every=2)
EVICTING = Question("evicting", f"scheduler-config/{EVICT_LEADER}/list")
UP = Question(PROMETHEUS_UP, "", every=2)
CHECKED = {kind: Question(kind, f"regions/check/{kind}", "head", 2) for kind in CHECKS}
HOT = {
    kind: Question(f"hot-{kind}", f"hotspot/regions/{kind}", every=2) for kind in ("write", "read")
}


def wanted(screen: Screen, schedulers: Sequence[str], *, prometheus: bool) -> list[Question]:
    """What is worth asking, the most urgent first.

    Where PD's metrics say that there is nothing, nobody needs to be asked for a list of it.
    """
    found = [EVICTING] if any(one.startswith(EVICT_LEADER) for one in schedulers) else []
    unwell = [CHECKED[kind] for kind in CHECKS if screen.regions.get(kind, 1)]
    # Who has begun to lead a moment ago shows no numbers yet, and may lack copies.
    found += [OPERATORS, COUNT, *unwell] if screen.told else [*unwell, OPERATORS, COUNT]
    if not screen.schedulers:
        found += [SCHEDULERS, PAUSED]
    found += [HOT[kind] for kind in HOT if not screen.told or screen.hot.get(kind, 0)]
    found += [UP] if prometheus else []
    return [*found, MEMBERS]


@dataclass(slots=True)
class Turns:
    """Whose turn it is: who has waited longest, measured by how long it may wait."""

    _look: int = 0
    _asked: dict[str, int] = field(default_factory=dict)

    def take(self, questions: Sequence[Question], slots: int) -> list[Question]:
        """The next questions, no more than there are slots; they count as asked."""
        self._look += 1
        never = float("inf")

        def waited(question: Question) -> float:
            last = self._asked.get(question.name)
            return never if last is None else (self._look - last) / question.every

        chosen = sorted(questions, key=waited, reverse=True)[: max(0, slots)]
        for question in chosen:
            self._asked[question.name] = self._look
        return chosen
