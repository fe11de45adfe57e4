"""Where each thing is: at addresses that are served, or further down in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlencode

from operator_sre.evals.facts import TrialFacts

__all__ = ["OneFile", "Places", "Served"]


class Places(Protocol):
    """Answers with what stands in a link, "" where there is nothing to go to."""

    def campaigns(self) -> str:
        """All campaigns."""
        ...

    def campaign(self, name: str) -> str:
        """One campaign."""
        ...

    def trial(self, campaign: str, key: str) -> str:
        """One trial."""
        ...

    def ledger(self, facts: TrialFacts) -> str:
        """The ledger of a trial."""
        ...


@dataclass(frozen=True, slots=True)
class Served:
    """Each has an address. Names stand behind the question mark, where any letter may stand.

    `below` is where they begin, for whoever shows other things as well.
    """

    below: str = ""

    def campaigns(self) -> str:
        """The first page."""
        return self.below or "/"

    def campaign(self, name: str) -> str:
        """Its page."""
        return f"{self.below}/campaign?{_query(name=name)}"

    def trial(self, campaign: str, key: str) -> str:
        """Its page."""
        return f"{self.below}/trial?{_query(campaign=campaign, key=key)}"

    def ledger(self, facts: TrialFacts) -> str:
        """A file to keep, where the trial has one."""
        if not facts.ledger:
            return ""
        return f"{self.below}/ledger?{_query(campaign=facts.campaign, key=facts.key)}"


def _query(**names: str) -> str:
    # What a database gives may hold halves of letters, which no address can.
    return urlencode(names, errors="replace")


@dataclass(frozen=True, slots=True)
class OneFile:
    """Everything is a part of one file; trials are numbered, so that no name becomes a place."""

    numbers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Sequence[str]) -> OneFile:
        """For a file that holds these trials."""
        return cls({key: number for number, key in enumerate(keys, start=1)})

    def campaigns(self) -> str:
        """There is but one."""
        return ""

    def campaign(self, name: str) -> str:
        """The upper part of the file."""
        return "#campaign"

    def trial(self, campaign: str, key: str) -> str:
        """Its part, where the file has it."""
        number = self.numbers.get(key)
        return f"#trial-{number}" if number else ""

    def ledger(self, facts: TrialFacts) -> str:
        """Ledgers lie elsewhere."""
        return ""
