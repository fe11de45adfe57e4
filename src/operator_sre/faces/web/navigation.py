"""Where one can go from every page."""

from __future__ import annotations

from operator_sre.app.extras import has_evals
from operator_sre.operations import all_operations
from operator_sre.operations.operation import Place

__all__ = ["PLACES"]

# In the order in which they are shown; those of operations stand behind the history.
PLACES = (
    Place("Overview", "/", "o"),
    Place("Tickets", "/tickets", "t"),
    Place("Approvals", "/approvals", "a"),
    Place("Terminal", "/terminal", "r"),
    Place("History", "/history", "h"),
    *(operation.place for operation in all_operations() if operation.place),
    Place("Audit", "/audit", "u"),
    Place("Policy", "/policy", "p", also="/confirmations/"),
    Place("Subjects", "/subjects", "s"),
    *([Place("Evals", "/evals", "e")] if has_evals() else []),
    Place("Settings", "/settings", "n"),
)
