"""Ordinary lines of an operator's day, made from a seed: logs, listings, code, documents, prose."""

from __future__ import annotations

import base64
import random
import re
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.ledger.redaction.making import HOSTS, USERS, WORDS, drawn

__all__ = ["families", "fill_slots", "ordinary_lines", "ordinary_texts"]

_TEMPLATES = Path(__file__).with_name("ordinary.txt")
_HEX = "0123456789abcdef"
_BASE36 = "bcdfghjklmnpqrstvwxz2456789"
_SLOT = re.compile(r"~(\w+)~")

Fill = Callable[[random.Random], str]
_FILLS: dict[str, Fill] = {
    "word": lambda chance: chance.choice(WORDS),
    "Word": lambda chance: chance.choice(WORDS).capitalize(),
    "WORD": lambda chance: chance.choice(WORDS).upper(),
    "words": lambda chance: " ".join(chance.choices(WORDS, k=chance.randint(2, 7))),
    "host": lambda chance: chance.choice(HOSTS),
    "user": lambda chance: chance.choice(USERS),
    "n": lambda chance: str(chance.randint(0, 999)),
    "digit": lambda chance: str(chance.randint(1, 9)),
    "big": lambda chance: str(chance.randint(1000, 99_999_999)),
    "port": lambda chance: str(chance.randint(1024, 65535)),
    "pid": lambda chance: str(chance.randint(2, 99_999)),
    "float": lambda chance: f"{chance.random() * 100:.3f}",
    "ms": lambda chance: f"{chance.randint(1, 9999)}ms",
    "size": lambda chance: f"{chance.randint(1, 900)}{chance.choice(['Mi', 'Gi', 'K', 'M', 'kB'])}",
    "ip": lambda chance: ".".join(str(chance.randint(1, 254)) for _ in range(4)),
    "day": lambda chance: f"2025-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
    "time": lambda chance: ":".join(f"{chance.randint(0, 59) % 24:02}" for _ in range(3)),
    "month": lambda chance: chance.choice(["Jan", "Mar", "Jun", "Oct"]),
    "sha1": lambda chance: drawn(chance, _HEX, 40),
    "short": lambda chance: drawn(chance, _HEX, chance.choice([7, 8, 12])),
    "sha256": lambda chance: drawn(chance, _HEX, 64),
    "md5": lambda chance: drawn(chance, _HEX, 32),
    "hex16": lambda chance: drawn(chance, _HEX, 16),
    "uuid": lambda chance: str(uuid.UUID(bytes=chance.randbytes(16), version=4)),
    "pod": lambda chance: (
        f"{chance.choice(WORDS)}-{drawn(chance, _BASE36, 10)}-{drawn(chance, _BASE36, 5)}"
    ),
    "b64": lambda chance: base64.b64encode(chance.randbytes(chance.randint(12, 60))).decode(),
    "version": lambda chance: ".".join(str(chance.randint(0, 30)) for _ in range(3)),
    "code": lambda chance: str(chance.choice([200, 201, 204, 301, 400, 401, 403, 404, 500, 503])),
    "level": lambda chance: chance.choice(["DEBUG", "INFO", "WARN", "ERROR"]),
    "path": lambda chance: "/" + "/".join(chance.choices(WORDS, k=chance.randint(1, 4))),
    "age": lambda chance: f"{chance.randint(1, 90)}{chance.choice('smhd')}",
    "fn": lambda chance: "_".join(chance.choices(WORDS, k=2)),
    "Class": lambda chance: "".join(w.capitalize() for w in chance.choices(WORDS, k=2)),
}


def fill_slots(chance: random.Random, template: str) -> str:
    """The template with something in each `~slot~`."""
    return _SLOT.sub(lambda slot: _FILLS[slot[1]](chance), template)


@cache
def families() -> dict[str, list[str]]:
    """The templates by their family."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in _TEMPLATES.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            lines = found.setdefault(line.removeprefix("== "), [])
        elif line and not line.startswith("# Fam") and not line.startswith("# Ord"):
            lines.append(line.replace("↵", "\n").replace("⇥", "\t"))
    return found


def ordinary_texts(seed: int, count: int) -> Iterator[tuple[str, str]]:
    """So many texts of one or more lines that hold no secret, with the name of their family."""
    chance = random.Random(f"{seed} ordinary")
    pairs = [(family, template) for family, all_ in families().items() for template in all_]
    for _ in range(count):
        family, template = chance.choice(pairs)
        yield family, fill_slots(chance, template)


def ordinary_lines(seed: int, count: int) -> Iterator[str]:
    """The same line by line."""
    for _, text in ordinary_texts(seed, count):
        yield from text.splitlines()
