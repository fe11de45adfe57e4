"""2 FILE: one ticket for each incident, opened once, worked on by one, ended with a reason."""

from __future__ import annotations

from operator_sre.tickets.desk import INCIDENTS_MAX, Desk, find_unrelated, incidents_of, needs_of

__all__ = ["INCIDENTS_MAX", "Desk", "find_unrelated", "incidents_of", "needs_of"]
