"""Tools that act on a server through its own functions: never on a process of the machine."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Job, SubjectSettings, Tool
from operator_sre.subjects.postgres import specs
from operator_sre.subjects.postgres.calls import FILE_ERRORS, Call, RefusedCall
from operator_sre.subjects.postgres.login import login_of
from operator_sre.subjects.postgres.session import Refusal, RefusedError, Session, driver, opened
from operator_sre.subjects.postgres.tools_inside import (
    create_index,
    disable_setting,
    rotate_log,
    vacuum_table,
)

__all__ = ["postgres_tools"]

ACT_S_MAX = 45.0
ENDED_MS_MAX = 5_000
PROMOTED_S_MAX = 30
SESSIONS_MAX = 500
WRONG = 2  # the exit code of a call that makes no sense, as programs have it
WHY_CHARACTERS_MAX = 200

_SESSION = """
SELECT jsonb_build_object('application', application_name, 'state', state)
FROM pg_stat_activity
WHERE pid = %s AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
# The server itself looks once more whether it is a client's session, in the statement that ends it.
_END = """
SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity
WHERE pid = %s AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_CANCEL = """
SELECT pg_cancel_backend(pid) FROM pg_stat_activity
WHERE pid = %s AND backend_type = 'client backend' AND state = 'active'
"""
_END_IDLE = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, %s)) FROM (
    SELECT pid FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state = 'idle'
        AND application_name = %s AND state_change < clock_timestamp() - %s * interval '1 second'
    ORDER BY state_change LIMIT %s) idle
"""
_SLOT = "SELECT jsonb_build_object('active', active) FROM pg_replication_slots WHERE slot_name = %s"
_USED_SLOT = "SELECT current_setting('primary_slot_name')"
_RECEIVES = "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'"


Act = Callable[[Call, Session], Awaitable[tuple[str, dict[str, Value]]]]


@dataclass(frozen=True, slots=True)
class _ServerTool:
    """One verb of a server as a Tool."""

    spec: ToolSpec
    act: Act
    settings: SubjectSettings

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Do it at the named target. A failure is a Result."""
        begun = time.monotonic()
        result = await self._result(arguments, job)
        return replace(result, duration_s=round(time.monotonic() - begun, 4))

    async def _result(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        wrong = _wrong(self.spec, arguments)
        if wrong:
            return _failed(f"{self.spec.name}: {wrong}", FailureCategory.SYNTAX, exit_code=WRONG)
        servers = {one.name: one for one in self.settings.targets() if one.kind == "server"}
        target = servers.get(str(arguments["target"]))
        if target is None:
            known = ", ".join(servers) or "none"
            why = f"{self.spec.name} is for servers, and those are {known}."
            return _failed(why, FailureCategory.NOT_FOUND)
        given = {one.name: one.default for one in self.spec.parameters if not one.required}
        timeout_s = min(job.timeout_s, ACT_S_MAX)
        call = Call(self.settings, target, {**given, **arguments}, timeout_s)
        try:
            login = login_of(self.settings, target, acting=True)
            async with opened(target, login, timeout_s=timeout_s, read_only=False) as session:
                said, data = await self.act(call, session)
        except RefusedCall as refused:
            return _failed(str(refused), refused.category)
        except RefusedError as refused:
            why = f"{target.name} cannot be asked: {refused.sentence}."
            return _failed(why, FailureCategory.NETWORK)
        except TimeoutError:
            return _failed(f"{target.name} did not answer in time.", FailureCategory.TIMEOUT)
        except OperatorError as problem:
            return _failed(str(problem), FailureCategory.RUNTIME)
        except driver().Error as error:
            return _failed(_sentence(error), _category(error))
        return Result(Outcome.RAN, exit_code=0, stdout=said, data=data)


def postgres_tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All tools of one subject."""
    acts: tuple[tuple[ToolSpec, Act], ...] = (
        (specs.TERMINATE_BACKEND, _terminate),
        (specs.CANCEL_QUERY, _cancel),
        (specs.TERMINATE_IDLE, _terminate_idle),
        (specs.DROP_SLOT, _drop_slot),
        (specs.RELOAD, _reload),
        (specs.RESUME_REPLAY, _resume_replay),
        (specs.PROMOTE, _promote),
        (specs.DISABLE_SETTING, disable_setting),
        (specs.CREATE_INDEX, create_index),
        (specs.VACUUM_TABLE, vacuum_table),
        (specs.ROTATE_LOG, rotate_log),
    )
    return tuple(_ServerTool(spec, act, settings) for spec, act in acts)


async def _terminate(call: Call, session: Session) -> tuple[str, dict[str, Value]]:
    found = await _client_session(call, session)
    ended = await session.ask(_END, (ENDED_MS_MAX, call.pid()))
    if not ended:
        raise RefusedCall(f"The session {call.pid()} was told to end, and has not ended yet.")
    application = found.get("application") or "a client"
    said = f"The session {call.pid()} of {application} on {call.target.name} is ended."
    return said, {"pid": call.pid(), "application": str(application)}


async def _cancel(call: Call, session: Session) -> tuple[str, dict[str, Value]]:
    found = await _client_session(call, session)
    if found.get("state") != "active":
        raise RefusedCall(f"The session {call.pid()} runs nothing: it is {found.get('state')}.")
    if not await session.ask(_CANCEL, (call.pid(),)):
        raise RefusedCall(f"The session {call.pid()} runs nothing any more.")
    return f"What the session {call.pid()} runs is cancelled.", {"pid": call.pid()}


async def _terminate_idle(call: Call, session: Session) -> tuple[str, dict[str, Value]]:
    application = call.text("application")
    idle_s = call.arguments["idle_s"]
    values = (ENDED_MS_MAX, application, idle_s, SESSIONS_MAX)
    ended = await session.ask(_END_IDLE, values)
    if not ended:
        why = f"No session of {application!r} has been idle for {idle_s} s."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    return f"{ended} idle sessions of {application} are ended.", {"ended": int(ended)}


async def _client_session(call: Call, session: Session) -> Mapping[str, object]:
    found = await session.ask(_SESSION, (call.pid(),))
    if not isinstance(found, Mapping):
        raise RefusedCall(
            f"{call.pid()} is not a session of a client on {call.target.name}; nothing was done.",
            FailureCategory.NOT_FOUND,
        )
    return found


async def _drop_slot(call: Call, session: Session) -> tuple[str, dict[str, Value]]:
    name = call.text("name")
    found = await session.ask(_SLOT, (name,))
    if not isinstance(found, Mapping):
        why = f"{call.target.name} has no slot {name!r}."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    if found.get("active"):
        raise RefusedCall(f"The slot {name!r} is in use, and is not dropped.")
    for other in call.others():
        if await _needs(call, other, name):
            raise RefusedCall(f"The slot {name!r} belongs to {other.name}, and is not dropped.")
    await session.ask("SELECT pg_drop_replication_slot(%s)", (name,))
    return f"The slot {name} of {call.target.name} is dropped.", {"slot": name}


async def _needs(call: Call, other: Target, slot: str) -> bool:
    """Whether another server receives by this slot; by its name where it cannot be asked."""
    try:
        return await call.ask_other(other, _USED_SLOT) == slot
    except (RefusedError, driver().Error):
        return other.name.replace("-", "_") == slot


async def _reload(call: Call, session: Session) -> tuple[str, dict[str, Value]]:
    errors = await session.ask(FILE_ERRORS)
    if errors:
        raise RefusedCall(
            f"The files of {call.target.name} have errors, and are not loaded: "
            f"{str(errors)[:WHY_CHARACTERS_MAX]}."
        )
    if not await session.ask("SELECT pg_reload_conf()"):
        raise RefusedCall(f"{call.target.name} could not be told to read its files.")
    return f"{call.target.name} reads its files again.", {}


async def _resume_replay(call: Call, session: Session) -> tuple[str, dict[str, Value]]:
    if not await session.ask("SELECT pg_is_in_recovery()"):
        raise RefusedCall(f"{call.target.name} is not a replica.")
    if not await session.ask("SELECT pg_is_wal_replay_paused()"):
        raise RefusedCall(f"Replay of {call.target.name} is not paused.")
    await session.do("SELECT pg_wal_replay_resume()")
    return f"{call.target.name} replays again.", {}


async def _promote(call: Call, session: Session) -> tuple[str, dict[str, Value]]:
    name = call.target.name
    if not await session.ask("SELECT pg_is_in_recovery()"):
        raise RefusedCall(f"{name} is a primary already.")
    if await session.ask(_RECEIVES):
        raise RefusedCall(f"{name} still receives from a primary, so that there is one.")
    for other in call.others():
        await _must_not_be_primary(call, other)
    if not await session.ask("SELECT pg_promote(true, %s)", (PROMOTED_S_MAX,)):
        raise RefusedCall(f"{name} is not a primary after {PROMOTED_S_MAX} s.")
    return f"{name} is the primary now.", {"role": "primary"}


async def _must_not_be_primary(call: Call, other: Target) -> None:
    try:
        in_recovery = await call.ask_other(other, "SELECT pg_is_in_recovery()")
    except RefusedError as refused:
        if refused.kind is Refusal.GONE:
            return
        raise RefusedCall(
            f"{other.name} answers without saying what it is ({refused.sentence}), so that it may"
            " be the primary."
        ) from None
    if not in_recovery:
        raise RefusedCall(f"{other.name} is the primary and answers.")


def _wrong(spec: ToolSpec, arguments: Mapping[str, Argument]) -> str:
    """The first thing that is wrong with the arguments of a call, or ""."""
    for name in arguments:
        if spec.parameter(name) is None:
            takes = ", ".join(one.name for one in spec.parameters)
            return f"{name[:60]!r} is not a parameter; it takes {takes}."
    for one in spec.parameters:
        value = arguments.get(one.name)
        if value is None:
            if one.required:
                return f"{one.name!r} is missing: {one.sentence}."
        elif not _fits(one, value):
            return f"{one.name!r} does not fit: {one.sentence}."
    return ""


def _fits(parameter: Parameter, value: Argument) -> bool:
    if parameter.type is ParameterType.STRING:
        size: float = len(value) if isinstance(value, str) else -1
    else:
        kinds = int if parameter.type is ParameterType.INTEGER else int | float
        if isinstance(value, bool) or not isinstance(value, kinds):
            return False
        size = float(value)
    low = parameter.minimum if parameter.minimum is not None else 0
    return low <= size and (parameter.maximum is None or size <= parameter.maximum)


def _failed(why: str, category: FailureCategory, *, exit_code: int = 1) -> Result:
    return Result(Outcome.RAN, exit_code=exit_code, stderr=why, category=category)


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:WHY_CHARACTERS_MAX] or "The connection was lost."


def _category(error: Exception) -> FailureCategory:
    errors = driver().errors
    if isinstance(error, errors.InsufficientPrivilege):
        return FailureCategory.PERMISSION
    if isinstance(error, errors.QueryCanceled):
        return FailureCategory.TIMEOUT
    return FailureCategory.RUNTIME
