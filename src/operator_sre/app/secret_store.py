"""Where secrets lie, sealed in one file of the home or in the OS keyring; and who is given them."""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import (
    MissingExtraError,
    NotFoundError,
    ObservationError,
    StoreError,
    UsageError,
)
from operator_sre.config import Config
from operator_sre.config.tables import SECRET
from operator_sre.ledger.keys import Vault
from operator_sre.ownership import must_be_trusted

if TYPE_CHECKING:
    from operator_protocols.domain.action import Action

__all__ = [
    "Holder",
    "Owed",
    "Secret",
    "SecretStore",
    "give_variables",
    "is_held",
    "model_key",
    "named_secret",
    "open_secrets",
    "read_secret",
    "secret_reader",
    "variables_for",
]

FILE, LOCK, KEY = "secrets.box", "secrets.lock", "secrets.key"
HEAD = b"operator-secrets 1\n"
LABEL = "secrets"
BOX_BYTES_MAX = 64 * 1024 * 1024
LOCK_S_MAX = 10.0
LOCK_PAUSE_S = 0.02
# What is shorter stands in ordinary text too, and is not looked for there.
SHOWN_CHARACTERS_MIN = 6
IN_FILE, IN_KEYRING = "file", "keyring"
SECRET_BYTES_MAX = 1 << 16
SUBJECT, MODEL, COMMAND = "subject", "model", "command"
# A command with one of these is more than one program, and the others are not who was meant.
_SEVERAL = frozenset(";&|`$<>(){}\n\r\0\\!")
# What a person hands to one command: that command, and the variables it gets.
_GIVEN: ContextVar[tuple[str, Mapping[str, str]] | None] = ContextVar("given", default=None)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """Who is given a secret: a subject, a model, or commands of a pattern, as a variable.

    Commands of this machine, or of the one `target` that it is meant for.
    """

    kind: str
    name: str
    variable: str = ""
    target: str = ""

    def __str__(self) -> str:
        at = f"@{self.target}" if self.target else ""
        return f"{self.kind}{at}:{self.name}"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret and who is given it. Its value is in no text that is made of it."""

    name: str
    changed_at: datetime
    by: str
    where: str = IN_FILE
    holders: tuple[Holder, ...] = ()
    value: str = field(default="", repr=False)

    @property
    def identity(self) -> str:
        """What tells it from a later one of the same name; it says nothing of the value."""
        return digest_of({"name": self.name, "changed_at": self.changed_at.isoformat()})


class Owed(msgspec.Struct):
    """A change that is not yet in the ledger; it is stored beside the secrets until it is.

    `done`: the change is in the same file. Otherwise its process was interrupted.
    """

    id: str
    name: str
    by: str
    details: dict[str, Any] = msgspec.field(name="told")
    done: bool = False


@dataclass(frozen=True, slots=True)
class _Box:
    secrets: tuple[Secret, ...] = ()
    owed: tuple[Owed, ...] = ()


class SecretStore:
    """The sealed file: read whole, changed under a lock, replaced in one step."""

    def __init__(self, home: Path, key: Path, *, wanted: str = "auto") -> None:
        self._home = home
        self.path = home / FILE
        self.key = key
        self._wanted = wanted

    def all(self) -> Mapping[str, Secret]:
        """Every secret by its name; values that lie in the keyring are not fetched."""
        return {secret.name: secret for secret in self._read().secrets}

    def _read(self) -> _Box:
        if not self.path.exists():
            return _Box()
        for path in (self.path, self.key):
            _must_be_private(path)
        try:
            with self.path.open("rb") as file:
                data = file.read(BOX_BYTES_MAX + 1)
        except OSError as error:
            raise _unreadable(self.path, error.strerror or "no reason was given") from error
        plain = Vault(self.key).open(data[len(HEAD) :], label=LABEL)
        if not data.startswith(HEAD) or plain is None:
            raise _unreadable(self.path, f"it is damaged, or {str(self.key)!r} is the wrong key")
        try:
            return msgspec.json.decode(plain, type=_Box)
        except msgspec.MsgspecError as error:
            raise _unreadable(self.path, "another version of Operator has written it") from error

    def value(self, secret: Secret) -> str:
        """What it is. StoreError when the keyring does not have it any more."""
        if secret.where == IN_FILE:
            return secret.value
        found = _ask_keyring(lambda: _keyring().get_password(self._service, secret.name))
        if found is None:
            raise StoreError(
                f"The secret {secret.name!r} is no longer in the keyring.",
                next_step=f"Set it again with: operator secrets set {secret.name}",
            )
        return str(found)

    @contextmanager
    def changing(self, owed: Owed | None = None) -> Iterator[dict[str, Secret]]:
        """All secrets, for changes by one process at a time; stored when the block succeeds.

        `owed` is stored before the change, because a keyring changes at once, and again together
        with the change. The ledger gets the details that the block adds to it.
        """
        with self._lock():
            box = self._read()
            known = {secret.name: secret for secret in box.secrets}
            if owed is not None:
                self._write(known, (*box.owed, owed))
            try:
                yield known
            except (
                NotFoundError,
                UsageError,
            ):  # nothing was started; after any other error it may have been
                if owed is not None:
                    self._write({secret.name: secret for secret in box.secrets}, box.owed)
                raise
            if owed is None:
                self._write(known, box.owed)
            else:
                owed.done = True
                self._write(known, (*box.owed, owed))

    def list_owed(self) -> Sequence[Owed]:
        """Changes that may be missing in the ledger; no other process changes secrets meanwhile."""
        if not self._read().owed:
            return ()
        with self._lock():
            return self._read().owed

    def drop_owed(self, changes: Iterable[str]) -> None:
        """Drop these changes, which are now in the ledger."""
        gone = frozenset(changes)
        with self._lock():
            box = self._read()
            left = tuple(name for name in box.owed if name.id not in gone)
            if left != box.owed:
                self._write({secret.name: secret for secret in box.secrets}, left)

    def stow(self, secret: Secret, value: str) -> Secret:
        """The same with its value where it belongs: in the keyring where there is one."""
        fields = {key: getattr(secret, key) for key in ("name", "changed_at", "by", "holders")}
        if self._wanted == IN_FILE or not self._has_keyring():
            return Secret(**fields, where=IN_FILE, value=value)
        _ask_keyring(lambda: _keyring().set_password(self._service, secret.name, value))
        return Secret(**fields, where=IN_KEYRING)

    def drop(self, secret: Secret) -> None:
        """Its value leaves the keyring, if it lies there."""
        if secret.where != IN_KEYRING:
            return
        from keyring.errors import PasswordDeleteError

        def delete() -> None:
            with suppress(PasswordDeleteError):
                _keyring().delete_password(self._service, secret.name)

        _ask_keyring(delete)

    @property
    def _service(self) -> str:
        return f"operator-sre {digest_of(str(self._home))[-16:]}"

    def _has_keyring(self) -> bool:
        try:
            usable = bool(_keyring().get_keyring().priority > 0)
        except (MissingExtraError, RuntimeError):
            if self._wanted == IN_KEYRING:
                raise
            return False
        if self._wanted == IN_KEYRING and not usable:
            raise StoreError(
                "This machine has no usable keyring.",
                next_step='Start one, or set secrets_in = "file".',
            )
        return usable

    def _write(self, known: Mapping[str, Secret], owed: Sequence[Owed]) -> None:
        secrets_by_name = [asdict(known[name]) for name in sorted(known)]
        plain = msgspec.json.encode({"secrets": secrets_by_name, "owed": list(owed)})
        if self.key.exists():
            _must_be_private(self.key)
        data = HEAD + Vault(self.key).seal(plain, label=LABEL)
        draft = self._home / f".{FILE}.{secrets.token_hex(8)}"
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
            folder = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise StoreError(
                f"{str(self.path)!r} cannot be written: {error.strerror}.",
                next_step="Nothing was changed. Free disk space, or check who owns the directory.",
            ) from error

    @contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self._home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unreadable(self._home / LOCK, error.strerror or "") from error
        try:
            ends = time.monotonic() + LOCK_S_MAX
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > ends:
                        raise StoreError(
                            "Another process holds the lock of the secrets.",
                            next_step="Check whether it hangs, and try again.",
                        ) from None
                    time.sleep(LOCK_PAUSE_S)
            for left in self._home.glob(
                f".{FILE}.*"
            ):  # from a process that was killed during a write
                left.unlink(missing_ok=True)
            yield
        finally:
            os.close(handle)


def open_secrets(config: Config) -> SecretStore:
    """The secrets of this home; nothing is opened or made yet."""
    named = str(config.values["secrets_key"])
    key = Path(named).expanduser() if named else config.home / KEY
    return SecretStore(config.home, key, wanted=str(config.values["secrets_in"]))


def named_secret(config: Config, name: str) -> Secret:
    """The secret of that name. NotFoundError lists those there are."""
    known = open_secrets(config).all()
    if name not in known:
        there = ", ".join(sorted(known)[:20]) or "none"
        raise NotFoundError(
            f"There is no secret {name[:64]!r}.",
            next_step=f"Set it with: operator secrets set NAME. There are: {there}.",
        )
    return known[name]


def read_secret(path: str) -> str:
    """The text of a file, without its line end. An ObservationError names the file only."""
    must_be_trusted(Path(path).expanduser(), ObservationError, of_any_user=True)
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
        if len(content) > SECRET_BYTES_MAX:
            raise ObservationError(
                f"The secret in {path!r} is longer than {SECRET_BYTES_MAX} bytes."
            )
        return content.decode().strip("\r\n")
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is not text"
        raise ObservationError(
            f"The secret in {path!r} cannot be read: {why}.",
            next_step="Correct the path or its permissions.",
        ) from problem


def secret_reader(config: Config, subject: str) -> Callable[[str], str]:
    """What reads the secrets of a subject: files, and kept ones that it holds."""
    holder = Holder(SUBJECT, subject)

    def read(path: str) -> str:
        if not path.startswith(SECRET):
            return read_secret(path)
        return _read_held(config, path.removeprefix(SECRET), (holder,))

    return read


def model_key(config: Config, key_file: str, names: Sequence[str]) -> str:
    """The key of a model: in a file, by the name of a kept secret, or bound to it; "" if none."""
    holders = tuple(Holder(MODEL, name) for name in names)
    if key_file.startswith(SECRET):
        return _read_held(config, key_file.removeprefix(SECRET), holders)
    if key_file:
        return read_secret(key_file)
    store = open_secrets(config)
    for secret in store.all().values():
        if any(_is_for(secret, holder) for holder in holders):
            return store.value(secret)
    return ""


def is_held(config: Config, kind: str, names: Sequence[str]) -> bool:
    """True when a secret is bound to one of these."""
    known = open_secrets(config).all().values()
    return any(_is_for(secret, Holder(kind, name)) for secret in known for name in names)


def variables_for(config: Config, action: Action, *, away: bool = False) -> Mapping[str, str]:
    """The variables of a command: secrets bound to its pattern, and a leased one.

    `away`: it runs on another machine, which is given only what was bound for that target.
    """
    line = action.command
    leased = None if away else _GIVEN.get()
    found = dict(leased[1]) if leased is not None and leased[0] == line else {}
    store = open_secrets(config)
    if not store.path.exists():
        return found
    places = {action.target} - {""} if away else {"", action.target}
    for secret in store.all().values():
        for holder in secret.holders:
            here = holder.kind == COMMAND and holder.target in places
            if here and _fits(line, holder.name):
                found.setdefault(holder.variable, store.value(secret))
    return found


@contextmanager
def give_variables(command: str, variables: Mapping[str, str]) -> Iterator[None]:
    """Within, exactly this command is given these variables."""
    token = _GIVEN.set((command, variables))
    try:
        yield
    finally:
        _GIVEN.reset(token)


def _read_held(config: Config, name: str, holders: Sequence[Holder]) -> str:
    store = open_secrets(config)
    secret = store.all().get(name)
    if secret is not None and any(_is_for(secret, holder) for holder in holders):
        return store.value(secret)
    to = holders[0]
    step = f"operator secrets bind {name} --to {to}"
    if secret is None:
        why, step = "is not set", f"operator secrets set {name}; {step}"
    else:
        why = f"is not bound to {str(to)!r}"
    missing = ObservationError(f"The secret {name!r} {why}.", next_step=f"Run: {step}")
    missing.category = ErrorCategory.MISSING_SECRET_BINDING
    missing.next_action = NextAction.SET_SECRET
    raise missing


def _is_for(secret: Secret, holder: Holder) -> bool:
    return any((bound.kind, bound.name) == (holder.kind, holder.name) for bound in secret.holders)


def _fits(line: str, pattern: str) -> bool:
    """Whether a command is one program whose words fit a pattern, word by word."""
    if _SEVERAL & set(line):
        return False
    try:
        words, wanted = shlex.split(line), shlex.split(pattern)
    except ValueError:
        return False
    if wanted and wanted[-1] == "*" and len(words) >= len(wanted) - 1:
        wanted, words = wanted[:-1], words[: len(wanted) - 1]
    fits = len(words) == len(wanted) > 0
    return fits and all(fnmatchcase(*pair) for pair in zip(words, wanted, strict=True))


def _must_be_private(path: Path) -> None:
    """StoreError when others than its owner may read or write it, or when it is not there."""
    must_be_trusted(path, StoreError)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise _unreadable(path, error.strerror or "no reason was given") from error
    if mode & 0o077:
        raise StoreError(
            f"{str(path)!r} guards secrets and is readable by other users (mode {mode:o}).",
            next_step=f"Run: chmod 600 {path}. Then replace the secrets that others could read.",
        )


def _unreadable(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{str(path)!r} cannot be used: {why}.",
        next_step="Restore it and its key from a backup, or move it and set the secrets again.",
    )


def _keyring() -> Any:
    try:
        import keyring
    except ImportError as error:
        raise MissingExtraError("secrets", needed_for="The keyring of this machine") from error
    return keyring


def _ask_keyring(ask: Callable[[], T]) -> T:
    from keyring.errors import KeyringError

    try:
        return ask()
    except (KeyringError, RuntimeError, OSError) as error:
        raise StoreError(
            f"The keyring does not answer: {type(error).__name__}.",
            next_step='Unlock it, or set secrets_in = "file" and set the secrets again.',
        ) from error
