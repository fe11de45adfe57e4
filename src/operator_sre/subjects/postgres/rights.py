"""The rights that the checks and the tools need, each as the statement that grants it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["MONITOR", "missing_right", "quote_role", "right_for_tool"]

MONITOR = "GRANT pg_monitor TO {role}"
_FILES = (
    "GRANT SELECT ON pg_file_settings, pg_hba_file_rules TO {role}; "
    "GRANT EXECUTE ON FUNCTION pg_show_all_file_settings(), pg_hba_file_rules() TO {role}"
)
_RELOAD = f"{_FILES}; GRANT EXECUTE ON FUNCTION pg_reload_conf() TO {{role}}"
# Section of an observation -> the grant. Every role may ask for the others.
_SECTIONS: Mapping[str, str] = {"files": _FILES}
# Tool -> the grant. What needs the owner of a table is checked by the tool itself.
_TOOLS: Mapping[str, str] = {
    "cancel_query": "GRANT pg_signal_backend TO {role}",
    "disable_setting": _RELOAD,
    "drop_slot": "ALTER ROLE {role} REPLICATION",
    "promote": "GRANT EXECUTE ON FUNCTION pg_promote(boolean, integer) TO {role}",
    "reload": _RELOAD,
    "resume_replay": "GRANT EXECUTE ON FUNCTION pg_wal_replay_resume() TO {role}",
    "terminate_backend": "GRANT pg_signal_backend TO {role}",
    "terminate_idle": "GRANT pg_signal_backend TO {role}",
}


def missing_right(section: str, role: str) -> str:
    """Why a section of an observation was refused, and the grant that allows it."""
    grant = _SECTIONS.get(section, MONITOR).format(role=quote_role(role))
    return f"the role {role!r} may not read this. As a superuser: {grant}"


def right_for_tool(tool: str, role: str) -> str:
    """The grant that a tool needs, as a next step; "" for a tool that needs none."""
    grant = _TOOLS.get(tool, "").format(role=quote_role(role))
    return f"Grant the missing right as a superuser: {grant}" if grant else ""


def quote_role(role: str) -> str:
    """A role as it is written in a statement."""
    if role.isascii() and role.isidentifier() and role == role.lower():
        return role
    escaped = role.replace('"', '""')
    return f'"{escaped}"'
