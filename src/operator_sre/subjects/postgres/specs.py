"""What a mind, the gate and people are told of the tools of PostgreSQL. Data."""

from __future__ import annotations

from operator_protocols.domain.tool import Parameter, ParameterType, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk

__all__ = [
    "CANCEL_QUERY",
    "DROP_SLOT",
    "PROMOTE",
    "RELOAD",
    "RESUME_REPLAY",
    "TERMINATE_BACKEND",
    "TERMINATE_IDLE",
]

TIMEOUT_S = 60.0
PID_MAX = 2**31 - 1
_TARGET = Parameter("target", "the name of the server", infers="target")
_PID = Parameter(
    "pid",
    "the pid of the session, as the server itself names it",
    ParameterType.INTEGER,
    minimum=1,
    maximum=PID_MAX,
)

TERMINATE_BACKEND = ToolSpec(
    name="terminate_backend",
    sentence="End one session of a client on a server; what it has not committed is taken back.",
    parameters=(_TARGET, _PID),
    risk=Risk.MEDIUM,
    changes=True,
    source=ToolSource.SUBJECT,
    expected="The session is gone, with its locks and its transaction.",
    verify="A look shows no such session, and nobody waits for it.",
    timeout_s=TIMEOUT_S,
    ends=("lock_held", "transaction_forgotten", "replay_blocked"),
)

CANCEL_QUERY = ToolSpec(
    name="cancel_query",
    sentence="Cancel the statement that one session of a client runs; the session stays.",
    parameters=(_TARGET, _PID),
    risk=Risk.LOW,
    changes=True,
    source=ToolSource.SUBJECT,
    expected="The statement ends with an error, and its transaction is taken back.",
    verify="A look shows no transaction as old as that.",
    timeout_s=TIMEOUT_S,
    ends=("transaction_long",),
)

TERMINATE_IDLE = ToolSpec(
    name="terminate_idle",
    sentence="End the sessions of one application that do nothing and are in no transaction.",
    parameters=(
        _TARGET,
        Parameter("application", "the name under which it connects", minimum=1, maximum=63),
        Parameter(
            "idle_s",
            "for how many seconds a session has done nothing",
            ParameterType.NUMBER,
            required=False,
            default=2,
            minimum=1,
            maximum=86400,
        ),
    ),
    risk=Risk.MEDIUM,
    changes=True,
    source=ToolSource.SUBJECT,
    expected="Connections are free again; a pool of the application opens what it needs.",
    verify="A look shows fewer connections.",
    timeout_s=TIMEOUT_S,
    ends=("connections_hoarded",),
)

DROP_SLOT = ToolSpec(
    name="drop_slot",
    sentence="Drop a replication slot that nobody uses, so that its WAL can be removed.",
    parameters=(_TARGET, Parameter("name", "the name of the slot", minimum=1, maximum=63)),
    risk=Risk.HIGH,
    changes=True,
    source=ToolSource.SUBJECT,
    expected="WAL that only this slot kept is removed; whoever comes back for it starts anew.",
    verify="A look shows no slot of that name.",
    timeout_s=TIMEOUT_S,
    ends=("slot_forgotten",),
)

RELOAD = ToolSpec(
    name="reload",
    sentence="Let a server read its files of settings again, if there is no error in them.",
    parameters=(_TARGET,),
    risk=Risk.MEDIUM,
    changes=True,
    source=ToolSource.SUBJECT,
    idempotent=True,
    expected="What the files say is what runs, without what needs a restart.",
    verify="A look shows that the files and what runs are the same.",
    timeout_s=TIMEOUT_S,
    ends=("settings_edited",),
)

RESUME_REPLAY = ToolSpec(
    name="resume_replay",
    sentence="Let a replica go on with the replay that somebody paused.",
    parameters=(_TARGET,),
    risk=Risk.LOW,
    changes=True,
    source=ToolSource.SUBJECT,
    idempotent=True,
    expected="The replica replays what it has received.",
    verify="A look shows that it is not behind.",
    timeout_s=TIMEOUT_S,
    ends=("replay_paused",),
)

PROMOTE = ToolSpec(
    name="promote",
    sentence="Make a replica the primary, only while no other server is one.",
    parameters=(_TARGET,),
    risk=Risk.HIGH,
    changes=True,
    source=ToolSource.SUBJECT,
    expected="It can be written to; the old primary must not come back as one.",
    verify="A look shows just one primary.",
    timeout_s=TIMEOUT_S,
    ends=("primary_lost",),
)
