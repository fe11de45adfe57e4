"""PostgreSQL: a primary and its streaming replicas."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.postgres.faults import FAULTS
from operator_sre.subjects.postgres.rig import PostgresDepot, rig
from operator_sre.subjects.postgres.subject import Postgres
from operator_sre.subjects.postgres.tools import KNOWLEDGE, postgres_tools

__all__ = ["plugin"]

plugin = Plugin(
    name="postgres",
    sentence="PostgreSQL servers: a primary and its streaming replicas.",
    subject=Postgres,
    causes=KNOWLEDGE.causes,
    rig=rig,
    faults=FAULTS,
    truths=KNOWLEDGE.truths,
    notes=KNOWLEDGE.notes,
    tools=postgres_tools,
    requires=KNOWLEDGE.requires,
    depot=PostgresDepot,
)
