"""Where one can go from every page."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PLACES", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """A page of the first level: its name, its address, and the key that leads to it after `g`.

    Pages whose address begins with `also` belong to it.
    """

    name: str
    path: str
    key: str
    also: str = ""


# In the order in which they are shown.
PLACES = (
    Place("Overview", "/", "o"),
    Place("Tickets", "/tickets", "t"),
    Place("Approvals", "/approvals", "a"),
    Place("Terminal", "/terminal", "r"),
    Place("History", "/history", "h"),
    Place("Audit", "/audit", "u"),
    Place("Policy", "/policy", "p", also="/confirmations/"),
    Place("Subjects", "/subjects", "s"),
    Place("Evals", "/evals", "e"),
    Place("Settings", "/settings", "n"),
)
