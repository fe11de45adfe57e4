"""Opening a home: its store, its keys and its policy."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_sre.app.wiring.home import App
from operator_sre.clock import SystemClock
from operator_sre.ledger import KeyFile
from operator_sre.ledger.sealing import Vault
from operator_sre.store import open_store_at
from operator_sre.store.head import KeptHead
from operator_sre.store.places import database_at
from operator_sre.store.transaction import Rules

if TYPE_CHECKING:
    from operator_protocols.ports import Clock
    from operator_sre.config import Config
    from operator_sre.gate.policy import Rulebook
    from operator_sre.gate.policy.reload import PolicyFile
    from operator_sre.ledger.redaction import Redactor
    from operator_sre.store.maintenance import Maintenance

__all__ = ["kept_head", "look_at_app", "maintenance_of", "open_app"]


@contextmanager
def open_app(config: Config) -> Iterator[App]:
    """The home of `config`, opened for the length of a `with`."""
    with _opened(config, config.store) as app:
        yield app


@contextmanager
def look_at_app(config: Config) -> Iterator[App]:
    """The same for whoever changes nothing: a home that is not there yet is not made."""
    if not isinstance(config.store, Path) or config.store.exists():
        with open_app(config) as app:
            yield app
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        _opened(config, Path(folder) / config.store.name) as app,
    ):
        yield app


@contextmanager
def _opened(config: Config, where: str | Path) -> Iterator[App]:
    clock, key = SystemClock(), KeyFile(config.ledger_key)
    store = open_store_at(where, _rules(config, clock, key, where))
    kept_s = config.number("history_days") * 86_400
    store.observations.keep(kept=int(config.number("history_looks")), kept_s=kept_s)
    store.alerts.keep(kept_s=kept_s)
    try:
        yield App(config, store, clock, key, lambda: secrets.token_hex(16), _rulebook(config))
    finally:
        store.close()


def maintenance_of(config: Config) -> Maintenance:
    """The store of `config` as a whole; nothing is opened or made yet."""
    from operator_sre.store.maintenance import Maintenance

    return Maintenance(
        database=database_at(config.store),
        rules=_rules(config, SystemClock(), KeyFile(config.ledger_key), config.store),
        backups=config.home / "backups",
    )


def _rulebook(config: Config) -> Callable[[], Rulebook]:
    opened: list[PolicyFile] = []

    def rules() -> Rulebook:
        from operator_sre.app.policy import policy_file

        if not opened:  # whoever only reads the store needs no policy
            opened.append(policy_file(config))
        return opened[0].book()

    return rules


def kept_head(config: Config, clock: Clock, key: KeyFile) -> KeptHead:
    """Where this home keeps the head of its store: one file for each store it is used with."""
    place = database_at(config.store).place
    name = sha256(place.encode()).hexdigest()[:16] if isinstance(config.store, str) else "operator"
    # A home may be moved with all that is in it.
    store = place if isinstance(config.store, str) else config.store.name
    return KeptHead(config.home / f"{name}.head", key, clock, store=store)


def _rules(config: Config, clock: Clock, key: KeyFile, where: str | Path) -> Rules:
    redactor: list[Redactor] = []

    def redact(payload: Any) -> Any:
        from operator_sre.app.redaction import open_redactor

        if not redactor:  # made when it is first needed: whoever only reads needs none
            redactor.append(open_redactor(config))
        return redactor[0].value(payload)

    # What is thrown away afterwards is not the store of this home.
    head = kept_head(config, clock, key) if where == config.store else None
    return Rules(clock, redact, Vault(config.home / "vault.key"), key, head=head)
