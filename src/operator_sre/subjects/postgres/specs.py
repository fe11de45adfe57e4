"""What a mind, the gate and people are told of the tools of PostgreSQL. Data."""

from __future__ import annotations

from operator_protocols.domain.tool import Parameter, ParameterType, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk

__all__ = [
    "CANCEL_QUERY",
    "CREATE_INDEX",
    "DISABLE_SETTING",
    "DROP_SLOT",
    "PROMOTE",
    "RELOAD",
    "RESUME_REPLAY",
    "ROTATE_LOG",
    "TERMINATE_BACKEND",
    "TERMINATE_IDLE",
    "VACUUM_TABLE",
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

_TABLE = Parameter("table", "its name with its schema, as schema.table", minimum=3, maximum=127)

DISABLE_SETTING = ToolSpec(
    name="disable_setting",
    sentence="Take a setting that makes no sense out of the files of a server, and load them.",
    parameters=(_TARGET, Parameter("name", "the name of the setting", minimum=1, maximum=63)),
    risk=Risk.MEDIUM,
    changes=True,
    source=ToolSource.SUBJECT,
    idempotent=True,
    expected="Its line is a comment, or is reset by ALTER SYSTEM; the rest of the files is loaded.",
    verify="A look shows no error in its files.",
    timeout_s=TIMEOUT_S,
    ends=("settings_wrong",),
)

CREATE_INDEX = ToolSpec(
    name="create_index",
    sentence="Create an index on a column of a large table, while everybody goes on.",
    parameters=(
        _TARGET,
        _TABLE,
        Parameter(
            "column",
            "the column; without it the only one that tells rows apart and has no index",
            required=False,
            default="",
            maximum=63,
        ),
    ),
    risk=Risk.HIGH,
    changes=True,
    source=ToolSource.SUBJECT,
    idempotent=True,
    expected="Questions for that column use the index; writes to the table cost a little more.",
    verify="A look shows that the table is not read row by row any more.",
    timeout_s=TIMEOUT_S,
    ends=("index_missing",),
)

VACUUM_TABLE = ToolSpec(
    name="vacuum_table",
    sentence="Let a table be vacuumed again where that was switched off, and vacuum it now.",
    parameters=(_TARGET, _TABLE),
    risk=Risk.MEDIUM,
    changes=True,
    source=ToolSource.SUBJECT,
    idempotent=True,
    expected="Dead rows are gone, and autovacuum goes on with it; its disk is busy meanwhile.",
    verify="A look shows few dead rows.",
    timeout_s=TIMEOUT_S,
    ends=("vacuum_behind",),
)

ROTATE_LOG = ToolSpec(
    name="rotate_log",
    sentence="Keep what a log holds in a compressed copy beside it, and begin it anew.",
    parameters=(_TARGET,),
    risk=Risk.MEDIUM,
    changes=True,
    source=ToolSource.SUBJECT,
    expected="The log is short, and nothing of it is lost but what came in that moment.",
    verify="A look shows a short log.",
    timeout_s=TIMEOUT_S,
    ends=("log_long",),
)
