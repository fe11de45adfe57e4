"""Secrets of every kind from a random generator, and the words around them."""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable

__all__ = [
    "CONTEXTS",
    "HOSTS",
    "USERS",
    "WORDS",
    "Made",
    "Make",
    "bearer",
    "context",
    "crypt_hash",
    "drawn",
    "jwt",
    "password",
    "pem_lines",
    "phrase",
    "stamp",
    "styled",
    "token",
    "vendor_token",
    "words_of",
]


def words_of(text: str) -> list[str]:
    """The words of a text, which is how long lists of them are written here."""
    return text.split()


# What stands before the secret, the secret as it is written there, what follows, the secret.
Made = tuple[str, str, str, str]
Make = Callable[[random.Random], Made]
CONTEXTS: dict[str, list[Make]] = {}

WORDS = words_of(
    """deploy restart gateway ingest orders payment scheduler cache replica shard cluster node
pipeline worker queue broker session metrics export import backup restore migrate rollout canary
staging production region zone primary standby leader follower quorum snapshot volume disk memory
latency timeout retry circuit budget alert pager runbook incident handler proxy ingress egress mesh
sidecar daemon controller operator reconcile probe liveness readiness config feature flag release
build artifact image registry pull push branch commit review merge report customer invoice ledger
search index document schema table column query plan vacuum lock wait thread pool socket"""
)
HOSTS = words_of(
    """db01 db-2.internal cache-1 redis.prod.svc 10.0.3.17 localhost pg-primary mq.example.com
broker-3 127.0.0.1 api.example.org vault.infra.local 192.168.7.20 node-17.cluster.local"""
)
USERS = words_of(
    """root admin app deploy svc_billing postgres grafana bob alice reporting ci-bot user1
readonly elastic backup_agent"""
)
_CHOSEN = words_of(
    """dragon summer winter monkey falcon coffee purple thunder wizard orange tiger castle
banana rocket silver shadow hunter sunshine qwerty welcome"""
)
_SIGNS = "!@#$%^&*+=?~"
_TEXT = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


def context(name: str) -> Callable[[Make], Make]:
    """Register a way to write a secret under the name of its context."""

    def register(make: Make) -> Make:
        CONTEXTS.setdefault(name, []).append(make)
        return make

    return register


def drawn(chance: random.Random, alphabet: str, length: int) -> str:
    """So many characters of an alphabet."""
    return "".join(chance.choices(alphabet, k=length))


def stamp(chance: random.Random) -> str:
    day = f"2025-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    time = f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"
    return chance.choice(
        [
            "",
            f"{day}T{time}Z ",
            f"{day} {time},{chance.randint(0, 999):03} INFO ",
            f"[{time}] ",
            f"{chance.choice(HOSTS)} {chance.choice(WORDS)}[{chance.randint(1, 65535)}]: ",
            "+ ",
            "$ ",
            "# ",
            "  ",
        ]
    )


def phrase(chance: random.Random, most: int = 6) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, most)))


def styled(chance: random.Random, words: list[str]) -> str:
    return chance.choice(
        [
            "_".join(words),
            "_".join(words).upper(),
            "-".join(words),
            ".".join(words),
            words[0] + "".join(word.capitalize() for word in words[1:]),
            "".join(word.capitalize() for word in words),
        ]
    )


def _chosen(chance: random.Random) -> str:
    word = chance.choice(_CHOSEN)
    word = chance.choice([word, word.capitalize(), word.replace("e", "3").replace("o", "0")])
    number = chance.choice([str(chance.randint(0, 9)), str(chance.randint(10, 9999))])
    sign = chance.choice(["", chance.choice(_SIGNS)])
    return chance.choice([word + number + sign, word + sign + number, number + word + sign])


def password(chance: random.Random) -> str:
    """What a person or a password manager chooses."""
    roll = chance.random()
    if roll < 0.35:
        return _chosen(chance)
    if roll < 0.75:
        return drawn(chance, _TEXT + _SIGNS, chance.randint(10, 31)) + "7k"
    if roll < 0.85:
        return drawn(chance, _TEXT + "._-", chance.randint(12, 40)) + "x9"
    if roll < 0.92:
        return "-".join(chance.choices(_CHOSEN, k=4)) + str(chance.randint(1, 99))
    return drawn(chance, _HEX, 32)


def bearer(chance: random.Random) -> str:
    """An opaque token without signs."""
    return drawn(chance, _TEXT, 1) + drawn(chance, _TEXT + "-_", chance.randint(18, 60)) + "q4Z"


def token(chance: random.Random) -> str:
    """What a machine makes: hexadecimal, base64, UUIDs, opaque text, or a vendor's format."""
    roll = chance.random()
    if roll < 0.25:
        return drawn(chance, _HEX, chance.choice([24, 32, 40, 64]))
    if roll < 0.45:
        return base64.b64encode(chance.randbytes(chance.choice([18, 24, 32, 48]))).decode()
    if roll < 0.55:
        return str(uuid.UUID(bytes=chance.randbytes(16), version=4))
    if roll < 0.8:
        return bearer(chance)
    return vendor_token(chance)


def _segment(document: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def jwt(chance: random.Random) -> str:
    """A signed token."""
    head = _segment({"alg": chance.choice(["HS256", "RS256"]), "typ": "JWT"})
    body = _segment({"sub": chance.choice(USERS), "iat": chance.randint(10**9, 2 * 10**9)})
    return f"{head}.{body}.{drawn(chance, _TEXT + '-_', 43)}"


_VENDORS: tuple[tuple[str, str, int], ...] = (
    ("ghp_", _TEXT, 36),
    ("gho_", _TEXT, 36),
    ("github_pat_", _TEXT + "_", 82),
    ("glpat-", _TEXT + "-_", 20),
    ("xoxb-", _TEXT + "-", 50),
    ("xoxp-", _TEXT + "-", 70),
    ("sk_live_", _TEXT, 24),
    ("sk-ant-" + "api03-", _TEXT + "-_", 90),
    ("sk-proj-", _TEXT + "-_", 60),
    ("sk-", _TEXT, 48),
    ("AIza", _TEXT + "-_", 35),
    ("AKIA", string.ascii_uppercase + string.digits, 16),
    ("ASIA", string.ascii_uppercase + string.digits, 16),
    ("npm_", _TEXT, 36),
    ("pypi-AgEI", _TEXT + "-_", 90),
    ("hvs.", _TEXT + "-_", 90),
    ("dop_v1_", _HEX, 64),
    ("SK", _HEX, 32),
    ("hf_", _TEXT, 34),
    ("glsa_", _TEXT, 41),
    ("dapi", _HEX, 32),
    ("shpat_", _HEX, 32),
    ("dckr_pat_", _TEXT + "-_", 27),
    ("ya29.", _TEXT + "-_", 120),
    ("GOCSPX-", _TEXT + "-_", 28),
)


def vendor_token(chance: random.Random) -> str:
    """A key in the format of one of many vendors."""
    roll = chance.random()
    if roll < 0.06:
        return f"SG.{drawn(chance, _TEXT, 22)}.{drawn(chance, _TEXT, 43)}"
    if roll < 0.12:
        return f"{chance.randint(10**8, 10**10 - 1)}:AA{drawn(chance, _TEXT + '-_', 33)}"
    if roll < 0.2:
        return jwt(chance)
    start, alphabet, length = chance.choice(_VENDORS)
    return start + drawn(chance, alphabet, length - 1) + drawn(chance, _HEX[:10], 1)


def crypt_hash(chance: random.Random) -> str:
    """A hashed password, as in /etc/shadow or htpasswd."""
    body = _TEXT + "./"
    salt = drawn(chance, body, 8)
    return chance.choice(
        [
            f"$6${salt}${drawn(chance, body, 86)}",
            f"$5$rounds=5000${salt}${drawn(chance, body, 43)}",
            f"$1${salt}${drawn(chance, body, 22)}",
            f"$apr1${salt}${drawn(chance, body, 22)}",
            f"$2y$10${drawn(chance, body, 53)}",
            f"$y$j9T${salt}${drawn(chance, body, 43)}",
            f"$argon2id$v=19$m=65536,t=3,p=4${drawn(chance, _TEXT, 22)}${drawn(chance, _TEXT, 43)}",
            "{SSHA}" + base64.b64encode(chance.randbytes(24)).decode(),
        ]
    )


def pem_lines(chance: random.Random) -> tuple[str, list[str]]:
    """The label and the lines of a private key; the bytes are no key, they only look like one."""
    label = chance.choice(
        [
            "RSA PRIVATE KEY",
            "PRIVATE KEY",
            "EC PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
        ]
    )
    text = base64.b64encode(chance.randbytes(chance.randint(80, 1600))).decode()
    return label, [text[at : at + 64] for at in range(0, len(text), 64)]
