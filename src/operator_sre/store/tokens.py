"""Tokens of network clients, and replies to repeated requests."""

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
    """All tokens, also revoked ones."""

    @in_transaction
    def add(self, transaction: Transaction, token: Token, *, fingerprint: str) -> None:
        """Add a token. ConflictError when its id or secret exists."""
        same = (plain(token.id), plain(fingerprint))
        if transaction.rows("SELECT id FROM tokens WHERE id = ? OR fingerprint = ?", same):
            raise ConflictError(f"The token {token.id!r} already exists.")
        payload = {"admits": to_json(token), "fingerprint": fingerprint}
        transaction.append(draft_of_user(Kind.TOKEN_CREATED, payload, token.created_by))

    @in_transaction
    def revoke(self, transaction: Transaction, token: str, *, by: Actor, reason: str) -> Token:
        """Revoke a token. NotFoundError; ConflictError when it is revoked already."""
        if _TOKENS.load(transaction.rows, token).revoked_at is not None:
            raise ConflictError(f"The token {token!r} has already been revoked.")
        payload = {"id": token, "reason": reason}
        transaction.append(Draft(Kind.TOKEN_REVOKED, payload, actor=by))
        return _TOKENS.load(transaction.rows, token)

    def of(self, fingerprint: str) -> Token | None:
        """The token of a secret, also a revoked one; None when the ledger does not confirm it."""
        sql, secret = "SELECT fingerprint, body, seq FROM tokens", plain(fingerprint)
        decisions = self._decisions
        with decisions.snapshot(self._reader) as rows:
            stored = rows(f"{sql} WHERE fingerprint = ?", (secret,))
            # The lookup is not constant-time, but timing a hash tells nothing about its secret.
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
        """All tokens, newest first."""
        return _TOKENS.select(self._reader.rows, "ORDER BY seq DESC")


def create_token(connection: Connection, entry: Entry) -> None:
    """Store a token with the fingerprint of its secret."""
    fingerprint = plain(entry.payload["fingerprint"])
    _TOKENS.insert(connection, entry.seq, entry.payload["admits"], fingerprint=fingerprint)


def revoke_token(connection: Connection, entry: Entry) -> None:
    """Mark a token as revoked."""
    _TOKENS.merge(connection, entry.payload["id"], {"revoked_at": entry.at.isoformat()})


class StoredReplies(Repository):
    """Replies to idempotent requests, which are not in the ledger and expire."""

    @in_transaction
    def begin(
        self, transaction: Transaction, reply: Reply, *, keep_s: float, keep_max: int = KEEP_MAX
    ) -> Reply | None:
        """Record a request in progress, or return the earlier one of the same key.

        The latest `keep_max` of each owner, the part of a key before its first '/', are kept.
        """
        connection, at = transaction.connection, reply.at.timestamp()
        key, digest = plain(reply.key), plain(reply.digest)
        connection.execute("DELETE FROM replies WHERE at < ?", (at - keep_s,))
        row = connection.execute(
            "SELECT key, digest, at, status, body FROM replies WHERE key = ?", (key,)
        ).fetchone()
        if row is not None:
            return Reply(row[0], row[1], datetime.fromtimestamp(row[2], UTC), row[3], row[4])
        request = {"key": key, "digest": digest, "at": at, "status": 0, "body": ""}
        insert_row(connection, "replies", request)
        owner, slash, _ = key.partition("/")
        if slash:
            mine = f"{owner}/%"
            connection.execute(
                "DELETE FROM replies WHERE key LIKE ? AND at < (SELECT min(at) FROM (SELECT at"
                " FROM replies WHERE key LIKE ? ORDER BY at DESC LIMIT ?) AS latest)",
                (mine, mine, keep_max),
            )
        return None

    @in_transaction
    def end(self, transaction: Transaction, key: str, *, status: int, body: str) -> None:
        """Store the reply."""
        answer = {"status": status, "body": plain(body)}
        update_row(transaction.connection, "replies", plain(key), answer, key="key")

    @in_transaction
    def drop(self, transaction: Transaction, key: str) -> None:
        """Delete a request that did nothing, so that it can be repeated."""
        transaction.connection.execute("DELETE FROM replies WHERE key = ?", (plain(key),))
