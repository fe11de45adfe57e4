"""Tokens, and what was answered to requests that come twice."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.token import Reply, Token
from operator_protocols.errors import ConflictError, LedgerDamagedError, NotFoundError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import plain
from operator_sre.store.decisions import UNCONFIRMED, Decisions
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredReplies", "StoredTokens"]

KEEP_MAX = 2000
log = logging.getLogger(__name__)


class StoredTokens:
    """Every token there was, as the ledger tells it."""

    def __init__(self, reader: Reader, writer: Writer, decisions: Decisions) -> None:
        self._reader = reader
        self._writer = writer
        self._decisions = decisions

    async def add(self, token: Token, *, fingerprint: str) -> None:
        """It lets in from now on. ConflictError when there is one of that id or secret."""

        def change(transaction: Transaction) -> None:
            known = transaction.connection.execute(
                "SELECT id FROM tokens WHERE id = ? OR fingerprint = ?",
                (plain(token.id), plain(fingerprint)),
            ).fetchone()
            if known is not None:
                raise ConflictError(f"There is a token {token.id!r} already.")
            payload = {"admits": to_json(token), "fingerprint": fingerprint}
            actor = Actor(id=token.created_by, type="user")
            transaction.append(Draft(Kind.TOKEN_CREATED, payload, actor=actor))

        await self._writer.write(change)

    async def revoke(self, token: str, *, by: Actor, reason: str) -> Token:
        """It lets nobody in from now on. NotFoundError; ConflictError when it is revoked."""

        def change(transaction: Transaction) -> Token:
            known = _load(transaction, token)
            if known is None:
                raise NotFoundError(
                    f"There is no token {token!r}.", next_step="See them with: operator tokens list"
                )
            if known.revoked_at is not None:
                raise ConflictError(f"The token {token!r} has been revoked already.")
            payload = {"id": token, "reason": reason}
            transaction.append(Draft(Kind.TOKEN_REVOKED, payload, actor=by))
            revoked = _load(transaction, token)
            assert revoked is not None
            return revoked

        return await self._writer.write(change)

    def of(self, fingerprint: str) -> Token | None:
        """The one with this secret, also a revoked one; None when the ledger has another."""
        rows = self._reader.rows
        sql = "SELECT fingerprint, body, seq FROM tokens WHERE fingerprint = ?"
        found = rows(sql, (plain(fingerprint),))
        # The database may take a shorter while for what is nearly right; nobody learns from this.
        if not found or not hmac.compare_digest(found[0][0].encode(), plain(fingerprint).encode()):
            return None
        decisions, (_, body, seq) = self._decisions, found[0]
        made = decisions.entry(rows, seq, Kind.TOKEN_CREATED)
        if made is None or plain(str(made.payload["fingerprint"])) != plain(fingerprint):
            return None
        token = from_json(Token, made.payload["admits"])
        try:
            gone = decisions.about(rows, (Kind.TOKEN_REVOKED,), token.id, after=made.seq)
            for revoked in gone:
                token = replace(token, revoked_at=revoked.at)
        except LedgerDamagedError as error:
            log.warning("the token %s lets nobody in: %s", token.id, error.message)
            return None
        if token != _token(body) or not decisions.holds(rows, made):
            log.warning("the token %s lets nobody in: %s", token.id, UNCONFIRMED)
            return None
        return token

    def find(self) -> Sequence[Token]:
        """All there ever were, newest first."""
        rows = self._reader.rows("SELECT body FROM tokens ORDER BY seq DESC")
        return [_token(row[0]) for row in rows]


class StoredReplies:
    """What was answered, beside the ledger: it is gone after a while."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def begin(self, reply: Reply, *, keep_s: float, keep_max: int = KEEP_MAX) -> Reply | None:
        """Remember that it is being done; or the one of that key that was begun before.

        Of one owner, who stands in a key before its first '/', the latest `keep_max` are kept.
        """

        def change(transaction: Transaction) -> Reply | None:
            connection = transaction.connection
            at = reply.at.timestamp()
            connection.execute("DELETE FROM replies WHERE at < ?", (at - keep_s,))
            row = connection.execute(
                "SELECT key, digest, at, status, body FROM replies WHERE key = ?",
                (plain(reply.key),),
            ).fetchone()
            if row is not None:
                return Reply(row[0], row[1], datetime.fromtimestamp(row[2], UTC), row[3], row[4])
            connection.execute(
                "INSERT INTO replies (key, digest, at, status, body) VALUES (?, ?, ?, 0, '')",
                (plain(reply.key), plain(reply.digest), at),
            )
            _keep_latest(transaction, plain(reply.key), keep_max)
            return None

        return await self._writer.write(change)

    async def end(self, key: str, *, status: int, body: str) -> None:
        """What was answered."""
        sql = "UPDATE replies SET status = ?, body = ? WHERE key = ?"
        values = (status, plain(body), plain(key))
        await self._writer.write(lambda one: _do(one, sql, values))

    async def drop(self, key: str) -> None:
        """Nothing was done; it may be asked again."""
        sql = "DELETE FROM replies WHERE key = ?"
        await self._writer.write(lambda one: _do(one, sql, (plain(key),)))


def _keep_latest(transaction: Transaction, key: str, keep_max: int) -> None:
    owner, divided, _ = key.partition("/")
    if divided:
        mine = f"{owner}/%"
        transaction.connection.execute(
            "DELETE FROM replies WHERE key LIKE ? AND at < (SELECT min(at) FROM (SELECT at"
            " FROM replies WHERE key LIKE ? ORDER BY at DESC LIMIT ?) AS latest)",
            (mine, mine, keep_max),
        )


def _do(transaction: Transaction, sql: str, values: Sequence[object]) -> None:
    transaction.connection.execute(sql, values)


def _load(transaction: Transaction, token: str) -> Token | None:
    sql = "SELECT body FROM tokens WHERE id = ?"
    row = transaction.connection.execute(sql, (plain(token),)).fetchone()
    return _token(row[0]) if row else None


def _token(body: str) -> Token:
    return from_json(Token, json.loads(body))
