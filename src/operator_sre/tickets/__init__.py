"""2 FILE: one ticket for each incident, opened once, worked on by one, ended with a reason."""

from __future__ import annotations

from operator_sre.tickets.desk import Desk
from operator_sre.tickets.incidents import INCIDENTS_MAX, incidents_of, needs_of

__all__ = ["INCIDENTS_MAX", "Desk", "incidents_of", "needs_of"]
