"""Where secrets lie: in one sealed file of the home, their values there or in the OS keyring."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from operator_protocols.domain.action import digest_of
from operator_protocols.errors import MissingExtraError, NotFoundError, StoreError, UsageError
from operator_sre.config import Config
from operator_sre.ledger.sealing import Vault
from operator_sre.ownership import must_be_trusted

__all__ = ["Holder", "KnownValues", "Owed", "Secret", "SecretStore", "open_secrets"]

FILE, LOCK, KEY = "secrets.box", "secrets.lock", "secrets.key"
HEAD = b"operator-secrets 1\n"
LABEL = "secrets"
BOX_BYTES_MAX = 64 * 1024 * 1024
LOCK_S_MAX = 10.0
LOCK_PAUSE_S = 0.02
# What is shorter stands in ordinary text too, and is not looked for there.
SHOWN_CHARACTERS_MIN = 6
IN_FILE, IN_KEYRING = "file", "keyring"
_LOG = logging.getLogger(__name__)
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


@dataclass(slots=True)
class Owed:
    """A change that the ledger has to be told of; it lies beside what it changes until it is.

    `done`: the change is in the same file. Without it whoever began was stopped on the way.
    """

    id: str
    name: str
    by: str
    told: dict[str, Any]
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
        return {one.name: one for one in self._read().secrets}

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
            raise _unreadable(self.path, f"it is damaged, or {str(self.key)!r} is another key")
        try:
            return msgspec.json.decode(plain, type=_Box)
        except msgspec.MsgspecError as error:
            raise _unreadable(self.path, "another version has written it") from error

    def value(self, secret: Secret) -> str:
        """What it is. StoreError when the keyring does not have it any more."""
        if secret.where == IN_FILE:
            return secret.value
        found = _asked(lambda: _keyring().get_password(self._service, secret.name))
        if found is None:
            raise StoreError(
                f"The secret {secret.name!r} is not in the keyring any more.",
                next_step=f"Set it again with: operator secrets set {secret.name}",
            )
        return str(found)

    @contextmanager
    def changing(self, owed: Owed | None = None) -> Iterator[dict[str, Secret]]:
        """All of them, to be changed by one at a time; kept when the block ends in order.

        `owed` is kept before anything is changed, because a keyring changes at once, and again in
        one step with the change; what the block tells it is told the ledger.
        """
        with self._locked():
            box = self._read()
            known = {one.name: one for one in box.secrets}
            if owed is not None:
                self._write(known, (*box.owed, owed))
            try:
                yield known
            except (NotFoundError, UsageError):  # nothing was begun; all else may have been
                if owed is not None:
                    self._write({one.name: one for one in box.secrets}, box.owed)
                raise
            if owed is None:
                self._write(known, box.owed)
            else:
                owed.done = True
                self._write(known, (*box.owed, owed))

    def owed(self) -> Sequence[Owed]:
        """What the ledger is not known to have been told; nobody is changing anything just now."""
        if not self._read().owed:
            return ()
        with self._locked():
            return self._read().owed

    def paid(self, told: Iterable[str]) -> None:
        """The ledger has been told of these."""
        gone = frozenset(told)
        with self._locked():
            box = self._read()
            left = tuple(one for one in box.owed if one.id not in gone)
            if left != box.owed:
                self._write({one.name: one for one in box.secrets}, left)

    def stow(self, secret: Secret, value: str) -> Secret:
        """The same with its value where it belongs: in the keyring where there is one."""
        fields = {one: getattr(secret, one) for one in ("name", "changed_at", "by", "holders")}
        if self._wanted == IN_FILE or not self._has_keyring():
            return Secret(**fields, where=IN_FILE, value=value)
        _asked(lambda: _keyring().set_password(self._service, secret.name, value))
        return Secret(**fields, where=IN_KEYRING)

    def drop(self, secret: Secret) -> None:
        """Its value leaves the keyring, if it lies there."""
        if secret.where == IN_KEYRING:
            _asked(lambda: _dropped(self._service, secret.name))

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
                "There is no keyring on this machine that could be used.",
                next_step='Start one, or set secrets_in = "file".',
            )
        return usable

    def _write(self, known: Mapping[str, Secret], owed: Sequence[Owed]) -> None:
        secrets_by_name = [asdict(known[name]) for name in sorted(known)]
        plain = msgspec.json.encode({"secrets": secrets_by_name, "owed": list(map(asdict, owed))})
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
            _sync(self._home)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise StoreError(
                f"{str(self.path)!r} cannot be written: {error.strerror}.",
                next_step="Make room, or check who owns the folder; nothing was changed.",
            ) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self._home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unreadable(self._home / LOCK, error.strerror or "") from error
        try:
            _lock(handle)
            for left in self._home.glob(f".{FILE}.*"):  # of one that was killed while it wrote
                left.unlink(missing_ok=True)
            yield
        finally:
            os.close(handle)


class KnownValues:
    """Every value that is kept, as it may stand in a text, so that redaction finds it anywhere.

    What was known once stays so: a value that is rotated still opens doors for a while.
    """

    def __init__(self, store: SecretStore) -> None:
        self._store = store
        self._stamp: tuple[int, ...] = ()
        self._forms: dict[bytes, bytes] = {}

    def __call__(self) -> Mapping[bytes, bytes]:
        """Each form to the value that it is a form of; the longest first."""
        stamp = _stamp(self._store.path)
        if stamp and stamp != self._stamp:
            self._learn()
            self._stamp = stamp
        return self._forms

    def _learn(self) -> None:
        found = dict(self._forms)
        try:
            for one in self._store.all().values():
                found |= _forms(self._store.value(one))
        except StoreError as error:  # whoever redacts goes on with what is known
            _LOG.warning("Secrets cannot be looked for in what is written: %s", error)
        self._forms = dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def open_secrets(config: Config) -> SecretStore:
    """The secrets of this home; nothing is opened or made yet."""
    named = str(config.values["secrets_key"])
    key = Path(named).expanduser() if named else config.home / KEY
    return SecretStore(config.home, key, wanted=str(config.values["secrets_in"]))


def _forms(value: str) -> dict[bytes, bytes]:
    """A value as it is, line by line, in JSON, in a URL, and in base64."""
    import base64
    import json
    from urllib.parse import quote, quote_plus

    raw = value.encode("utf-8", "surrogatepass")
    whole = len(raw) // 3 * 3  # what follows may be joined with other bytes
    coded = base64.b64encode(raw[:whole])
    texts = {value, *value.splitlines(), json.dumps(value)[1:-1]}
    texts |= {json.dumps(value, ensure_ascii=False)[1:-1]}
    if value.isprintable():
        texts |= {quote(value), quote(value, safe=""), quote_plus(value)}
    forms = {text.encode("utf-8", "surrogatepass") for text in texts}
    forms |= {coded, coded.translate(bytes.maketrans(b"+/", b"-_"))}
    return {form: raw for form in forms if len(form) >= SHOWN_CHARACTERS_MIN and form.strip()}


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _must_be_private(path: Path) -> None:
    """StoreError when others than its owner may read or write it, or when it is not there."""
    must_be_trusted(path, StoreError)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise _unreadable(path, error.strerror or "no reason was given") from error
    if mode & 0o077:
        raise StoreError(
            f"{str(path)!r} is open to others (mode {mode:o}), and guards secrets.",
            next_step=f"Close it with: chmod 600 {path}; and set anew what others could read.",
        )


def _unreadable(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{str(path)!r} cannot be used: {why}.",
        next_step="Bring it and its key back from a backup, or move it away and set them again.",
    )


def _lock(handle: int) -> None:
    ends = time.monotonic() + LOCK_S_MAX
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                raise StoreError(
                    "Another process has been changing secrets for a while.",
                    next_step="Look whether one hangs, and try again.",
                ) from None
            time.sleep(LOCK_PAUSE_S)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _keyring() -> Any:
    try:
        import keyring
    except ImportError as error:
        raise MissingExtraError("secrets", needed_for="The keyring of this machine") from error
    return keyring


def _asked(ask: Callable[[], T]) -> T:
    from keyring.errors import KeyringError

    try:
        return ask()
    except (KeyringError, RuntimeError, OSError) as error:
        raise StoreError(
            f"The keyring does not answer: {type(error).__name__}.",
            next_step='Unlock it, or set secrets_in = "file" and set the secrets again.',
        ) from error


def _dropped(service: str, name: str) -> None:
    from contextlib import suppress

    from keyring.errors import PasswordDeleteError

    with suppress(PasswordDeleteError):
        _keyring().delete_password(service, name)
