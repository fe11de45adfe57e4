"""PostgreSQL: a primary and its streaming replicas."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.postgres.causes import CAUSES
from operator_sre.subjects.postgres.depot import PostgresDepot
from operator_sre.subjects.postgres.faults import FAULTS
from operator_sre.subjects.postgres.rig import rig
from operator_sre.subjects.postgres.subject import Postgres
from operator_sre.subjects.postgres.tools import postgres_tools
from operator_sre.subjects.postgres.truths import TRUTHS

__all__ = ["plugin"]

plugin = Plugin(
    name="postgres",
    sentence="PostgreSQL servers: a primary and its streaming replicas.",
    subject=Postgres,
    causes=CAUSES,
    rig=rig,
    faults=FAULTS,
    truths=TRUTHS,
    notes=(
        "Pids are those of sessions inside of a server (pg_stat_activity), never of the machine:"
        " end a session with terminate_backend and never with kill, because a server whose process"
        " is killed throws out everybody. A replica refuses writes, and takes its settings, roles"
        " and slots' progress from its primary; what is wrong at a replica often begins there."
        " Promote only when the primary is known to stay away: two primaries lose data. Dropping"
        " the slot of a replica that is only down for a while means to make it anew. No connection"
        " left is not the same as down: the server answers, and looking uses a reserved connection."
        " A file of settings with an error is not loaded at all, and a restart with it fails, so"
        " correct the file before anything else."
    ),
    tools=postgres_tools,
    depot=PostgresDepot,
)
