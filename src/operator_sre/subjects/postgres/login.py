"""Who we are at a server: the role that watches, the role that acts, and their passwords."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ConfigError
from operator_protocols.ports import SubjectSettings

__all__ = ["ACTING", "PASSWORDS_FILE", "WATCHING", "Login", "home_of", "login_of", "password_in"]

WATCHING = "operator"
ACTING = "operator_acting"
# Lines as libpq has them in its own file: host:port:database:user:password.
PASSWORDS_FILE = "pgpass"
DATABASE = "postgres"


@dataclass(frozen=True, slots=True)
class Login:
    """What a connection is opened with. The password shows nowhere."""

    user: str
    password: str = field(default="", repr=False)
    database: str = DATABASE
    access: Access = field(default_factory=Access)


def login_of(settings: SubjectSettings, target: Target, *, acting: bool = False) -> Login:
    """How to sign in at a target: to look, or to act where a role of its own is there for that."""
    access = target.access or Access()
    options = settings.options
    user = access.user or _text(options, "user") or WATCHING
    password_file = access.password_file or _text(options, "password_file")
    if acting and _text(options, "acting_user"):
        user = _text(options, "acting_user")
        password_file = _text(options, "acting_password_file")
    database = _text(options, "database") or DATABASE
    if password_file:
        return Login(user, settings.secret(password_file), database, access)
    left = _left_at(settings, target)
    if acting and not _text(options, "acting_user") and password_in(left, ACTING):
        user = ACTING
    return Login(user, password_in(left, user), database, access)


def home_of(target: Target, file: str = PASSWORDS_FILE) -> Path | None:
    """The directory that a rig gave to this target, by a file in it; None where it has none."""
    data, log = Path(target.data_dir or "/"), Path(target.log or "/")
    places = (data, data.parent, log.parent) if target.data_dir or target.log else ()
    return next((place for place in places if (place / file).is_file()), None)


def password_in(lines: str, user: str) -> str:
    """The password of a user in the lines of a password file, or ""."""
    for line in lines.splitlines():
        parts = line.split(":", 4)
        if len(parts) == 5 and parts[3] == user:
            return parts[4]
    return ""


def _left_at(settings: SubjectSettings, target: Target) -> str:
    """What the password file of a rig says, where the target is of one."""
    home = home_of(target)
    return settings.secret(str(home / PASSWORDS_FILE)) if home is not None else ""


def _text(options: object, name: str) -> str:
    value = options.get(name, "") if hasattr(options, "get") else ""
    if not isinstance(value, str):
        raise ConfigError(f"The option {name!r} of a PostgreSQL subject has to be a text.")
    return value
