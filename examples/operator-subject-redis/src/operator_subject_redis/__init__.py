"""Redis and Valkey servers, with or without replicas."""

from __future__ import annotations

from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Plugin
from operator_subject_redis.rig import FAULTS, rig
from operator_subject_redis.subject import Redis
from operator_subject_redis.tools import redis_tools

__all__ = ["plugin"]

CLIENTS_PAUSED = Cause(
    name="clients_paused",
    sentence="somebody told it to let its clients wait",
    prior=0.2,
    kinds=("server",),
    breaks=("accepts_writes",),
    shows={"clients_paused": True},
    remedies=(
        Remedy(
            tool="unpause_clients",
            sentence="let its clients go on",
            trade_off="whoever paused them may not be done yet",
            risk=Risk.LOW,
            reversible=True,
        ),
    ),
)

plugin = Plugin(
    name="redis",
    sentence="Redis and Valkey servers, with or without replicas.",
    subject=Redis,
    causes=(CLIENTS_PAUSED,),
    rig=rig,
    faults=FAULTS,
    tools=redis_tools,
    notes=(
        "A server that evicts keys is not broken, one that refuses writes is. Restarting a server"
        " without persistence loses all its keys: prefer anything else."
    ),
)
