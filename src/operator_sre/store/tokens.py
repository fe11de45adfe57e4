"""Tokens, and what was answered to requests that come twice."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.token import Reply, Token
from operator_protocols.errors import ConflictError, LedgerDamagedError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import Connection, plain
from operator_sre.store.decisions import UNCONFIRMED
from operator_sre.store.repository import (
    JsonTable,
    Repository,
    draft_of_user,
    in_transaction,
    insert_row,
    update_row,
)

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = ["StoredReplies", "StoredTokens", "create_token", "revoke_token"]

KEEP_MAX = 2000
_TOKENS = JsonTable("tokens", Token, "token", "operator tokens list")
log = logging.getLogger(__name__)


class StoredTokens(Repository):
    """Every token there was, as the ledger tells it."""

    @in_transaction
    def add(self, transaction: Transaction, token: Token, *, fingerprint: str) -> None:
        """It lets in from now on. ConflictError when there is one of that id or secret."""
        same = (plain(token.id), plain(fingerprint))
        if transaction.rows("SELECT id FROM tokens WHERE id = ? OR fingerprint = ?", same):
            raise ConflictError(f"There is a token {token.id!r} already.")
        payload = {"admits": to_json(token), "fingerprint": fingerprint}
        transaction.append(draft_of_user(Kind.TOKEN_CREATED, payload, token.created_by))

    @in_transaction
    def revoke(self, transaction: Transaction, token: str, *, by: Actor, reason: str) -> Token:
        """It lets nobody in from now on. NotFoundError; ConflictError when it is revoked."""
        if _TOKENS.load(transaction.rows, token).revoked_at is not None:
            raise ConflictError(f"The token {token!r} has been revoked already.")
        payload = {"id": token, "reason": reason}
        transaction.append(Draft(Kind.TOKEN_REVOKED, payload, actor=by))
        return _TOKENS.load(transaction.rows, token)

    def of(self, fingerprint: str) -> Token | None:
        """The one with this secret, also a revoked one; None when the ledger has another."""
        sql, secret = "SELECT fingerprint, body, seq FROM tokens", plain(fingerprint)
        decisions = self._decisions
        with decisions.snapshot(self._reader) as rows:
            stored = rows(f"{sql} WHERE fingerprint = ?", (secret,))
            # The database may take a shorter while for what is nearly right; nobody learns from it.
            if not stored or not hmac.compare_digest(stored[0][0].encode(), secret.encode()):
                return None
            _, body, seq = stored[0]
            made = decisions.entry(rows, seq, Kind.TOKEN_CREATED)
            if made is None or plain(str(made.payload["fingerprint"])) != secret:
                return None
            token = from_json(Token, made.payload["admits"])
            try:
                for gone in decisions.about(rows, (Kind.TOKEN_REVOKED,), token.id, after=made.seq):
                    token = replace(token, revoked_at=gone.at)
            except LedgerDamagedError as error:
                log.warning("the token %s is rejected: %s", token.id, error.message)
                return None
            if token != _TOKENS.parse(body) or not decisions.holds(rows, made):
                log.warning("the token %s is rejected: %s", token.id, UNCONFIRMED)
                return None
            return token

    def find(self) -> Sequence[Token]:
        """All there ever were, newest first."""
        return _TOKENS.select(self._reader.rows, "ORDER BY seq DESC")


def create_token(connection: Connection, entry: Entry) -> None:
    """A token as it was created, with the fingerprint of its secret."""
    fingerprint = plain(entry.payload["fingerprint"])
    _TOKENS.insert(connection, entry.seq, entry.payload["admits"], fingerprint=fingerprint)


def revoke_token(connection: Connection, entry: Entry) -> None:
    """It lets nobody in any more."""
    _TOKENS.merge(connection, entry.payload["id"], {"revoked_at": entry.at.isoformat()})


class StoredReplies(Repository):
    """What was answered, beside the ledger: it is gone after a while."""

    @in_transaction
    def begin(
        self, transaction: Transaction, reply: Reply, *, keep_s: float, keep_max: int = KEEP_MAX
    ) -> Reply | None:
        """Remember that it is being done; or the one of that key that was begun before.

        Of one owner, who stands in a key before its first '/', the latest `keep_max` are kept.
        """
        connection, at = transaction.connection, reply.at.timestamp()
        key, digest = plain(reply.key), plain(reply.digest)
        connection.execute("DELETE FROM replies WHERE at < ?", (at - keep_s,))
        row = connection.execute(
            "SELECT key, digest, at, status, body FROM replies WHERE key = ?", (key,)
        ).fetchone()
        if row is not None:
            return Reply(row[0], row[1], datetime.fromtimestamp(row[2], UTC), row[3], row[4])
        begun = {"key": key, "digest": digest, "at": at, "status": 0, "body": ""}
        insert_row(connection, "replies", begun)
        owner, divided, _ = key.partition("/")
        if divided:
            mine = f"{owner}/%"
            connection.execute(
                "DELETE FROM replies WHERE key LIKE ? AND at < (SELECT min(at) FROM (SELECT at"
                " FROM replies WHERE key LIKE ? ORDER BY at DESC LIMIT ?) AS latest)",
                (mine, mine, keep_max),
            )
        return None

    @in_transaction
    def end(self, transaction: Transaction, key: str, *, status: int, body: str) -> None:
        """What was answered."""
        answer = {"status": status, "body": plain(body)}
        update_row(transaction.connection, "replies", plain(key), answer, key="key")

    @in_transaction
    def drop(self, transaction: Transaction, key: str) -> None:
        """Nothing was done; it may be asked again."""
        transaction.connection.execute("DELETE FROM replies WHERE key = ?", (plain(key),))
