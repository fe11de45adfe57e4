"""What a mind should know of a rate limiter before it touches one."""

from __future__ import annotations

__all__ = ["NOTES"]

NOTES = """\
Nodes hold no state of their own: all counts live in the store, so restarting a node loses nothing
but its tally of the last window. A node whose store is gone stays up and says so; by on_store_loss
it lets requests pass (fail_open) or refuses them (fail_closed).

Names of targets are names of processes, not roles. The readings `role` and `in_use` say which store
is the primary now. Sentinels fail over by themselves when the primary does not answer for some
seconds, and nodes follow within a second or two; the old primary stays broken until somebody starts
it again, and becomes a replica then. Two primaries for some seconds after that are normal.

Limits and blocks of keys live in the store and hold for all nodes; default limit, window and key
prefix are configured at each node and have to be the same. A node with another key prefix counts
where nobody else looks: its requests pass on top of the limit (ghost_allowing).

counter_drift compares what nodes say they allowed with what the store holds; requests that nobody
made are removed by reset_counter. over_limit right after a limit was lowered ends by itself within
one window. A wrong password, and a cut or slow network, cannot be mended from inside: escalate.
"""
