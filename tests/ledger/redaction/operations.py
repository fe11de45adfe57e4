"""Secrets in operational text: every shape of secret in every format of operations.txt."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import quote

from tests.ledger.redaction.generator import Sample
from tests.ledger.redaction.making import USERS, crypt_hash, drawn, jwt
from tests.ledger.redaction.ordinary import fill_slots
from tests.ledger.redaction.vendors import VENDORS, fill

__all__ = ["FILES", "WHOLE_FILES", "formats", "is_held_out", "operational", "pem_base64"]

FILES = ("operations", "field")
# Patterns were written for all of the first, and for none of the second.
WHOLE_FILES = ("systems", "later")
_TEXT = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_PEOPLE = [
    "dragon",
    "summer",
    "winter",
    "monkey",
    "falcon",
    "coffee",
    "purple",
    "thunder",
    "wizard",
    "orange",
    "tiger",
    "castle",
    "banana",
    "rocket",
    "silver",
    "shadow",
    "hunter",
    "sunshine",
    "welcome",
    "harbour",
    "pepper",
    "cobalt",
    "marble",
    "lantern",
]


def _hex(chance: random.Random, *sizes: int) -> str:
    """Hexadecimal with a letter and a digit in it."""
    return drawn(chance, _HEX, chance.choice(sizes) - 2) + "a4"


def _base64(chance: random.Random) -> str:
    return base64.b64encode(chance.randbytes(chance.choice([16, 24, 32, 48]))).decode()


def _uuid(chance: random.Random) -> str:
    return str(uuid.UUID(bytes=chance.randbytes(16), version=4))


def _vendor(chance: random.Random) -> str:
    return fill(chance, VENDORS[chance.choice(sorted(VENDORS))])


def _token(chance: random.Random) -> str:
    """What a machine makes, of 12 to 64 characters."""
    size = chance.randint(12, 64)
    makes: list[Callable[[], str]] = [
        lambda: drawn(chance, _TEXT, size - 1) + "7",
        lambda: drawn(chance, _TEXT, size - 1) + "q",
        lambda: drawn(chance, string.ascii_lowercase + string.digits, size - 2) + "k3",
        lambda: _hex(chance, 16, 20, 24, 32, 40, 48, 64),
        lambda: drawn(chance, string.ascii_uppercase + string.digits, max(size, 16)),
        lambda: "t" + drawn(chance, _TEXT + "-_", size) + "Z2",
        lambda: _base64(chance),
        lambda: _uuid(chance),
        lambda: _vendor(chance),
    ]
    return chance.choice(makes)()


def _password(chance: random.Random, signs: str = "!@#$%^&*+=?~-_.,:;") -> str:
    """What a person or a password manager chooses."""
    word, other = chance.sample(_PEOPLE, 2)
    number = str(chance.randint(1, 99_999))
    sign = chance.choice(signs)
    size = chance.randint(10, 24)
    return chance.choice(
        [
            word + number,
            word.capitalize() + number,
            word.capitalize() + sign + number,
            word.capitalize() + other.capitalize() + number,
            word.replace("e", "3").replace("a", "4").replace("o", "0") + number[:1],
            f"{word}-{other}-{chance.choice(_PEOPLE)}-{number}",
            f"{word}_{other}{number}",
            number + word.upper(),
            drawn(chance, _TEXT + signs, size) + "7k",
            "a" + drawn(chance, _TEXT, size) + "9",
            drawn(chance, string.ascii_lowercase, 3) + number + drawn(chance, _TEXT, 4),
        ]
    )


def _quotable(chance: random.Random) -> str:
    if chance.random() < 0.1:
        return " ".join(chance.sample(_PEOPLE, 4)) + f" {chance.randint(1, 99)}"
    return _password(chance)


def _basic(chance: random.Random) -> str:
    return base64.b64encode(f"{chance.choice(USERS)}:{_password(chance)}".encode()).decode()


def _pem_body(chance: random.Random) -> str:
    return base64.b64encode(chance.randbytes(48)).decode()


def pem_base64(chance: random.Random) -> str:
    """A private key in PEM, in base64 once more, as kubectl keeps it."""
    body = f"-----BEGIN EC PRIVATE KEY-----\n{_pem_body(chance)}\n-----END EC PRIVATE KEY-----\n"
    return base64.b64encode(body.encode()).decode()


# What is written in the place of each kind of slot.
_SECRETS: dict[str, Callable[[random.Random], str]] = {
    "token": _token,
    "urltoken": lambda chance: quote(_token(chance), safe="~"),
    "password": _quotable,
    "shellpassword": lambda chance: _password(chance, "@%+=_-.^~"),
    "wordpassword": lambda chance: _password(chance, "@%+=_-$^*"),
    "urlpassword": lambda chance: quote(_password(chance), safe="!*~"),
    "jsonpassword": lambda chance: json.dumps(_quotable(chance))[1:-1],
    "rubypassword": lambda chance: _password(chance, "!@%+=_-."),
    "sqlpassword": _quotable,
    "csvpassword": lambda chance: _password(chance, "!@#$%^&*+=?~-_."),
    "xmlpassword": lambda chance: _password(chance, "!@#$%^*+=?~-_."),
    "vendor": _vendor,
    "basic": _basic,
    "base64": lambda chance: base64.b64encode(chance.randbytes(32)).decode(),
    "uuid": _uuid,
    "aws": lambda chance: drawn(chance, _TEXT + "+/", 38) + "b7",
    "azurekey": lambda chance: base64.b64encode(chance.randbytes(64)).decode(),
    "slackhook": lambda chance: fill(chance, "T{U10}/B{U10}/{A24}"),
    "webhook": lambda chance: fill(chance, "{W68}"),
    "telegram": lambda chance: fill(chance, VENDORS["telegram"]),
    "discord": lambda chance: fill(chance, VENDORS["discord"]),
    "swarm": lambda chance: fill(chance, VENDORS["swarm"]),
    "kubeadm": lambda chance: fill(chance, "{L6}.{L16}"),
    "hex32": lambda chance: _hex(chance, 32),
    "hex40": lambda chance: _hex(chance, 40),
    "hex64": lambda chance: _hex(chance, 64),
    "digits": lambda chance: drawn(chance, string.digits, 6),
    "base32": lambda chance: drawn(chance, string.ascii_uppercase + "234567", 32),
    "recovery": lambda chance: fill(chance, "{H5}-{H5}"),
    "mysqlhash": lambda chance: _hex(chance, 40).upper(),
    "crypt43": lambda chance: drawn(chance, _TEXT + "./", 43),
    "jwt": jwt,
    "crypt": crypt_hash,
    "pembody": _pem_body,
    "pemb64": pem_base64,
}


@cache
def formats(file: str = "operations") -> tuple[tuple[str, str], ...]:
    """Every format of a file with its family."""
    found: list[tuple[str, str]] = []
    family = ""
    path = Path(__file__).with_name(f"{file}.txt")
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            family = line.removeprefix("== ")
        elif family and line:
            found.append((family, line.replace("↵", "\n").replace("⇥", "\t")))
    return tuple(found)


def is_held_out(form: str, file: str = "operations") -> bool:
    """Whether nothing may be tuned on this format: a third of them, by their hash."""
    if file in WHOLE_FILES:
        return file == "later"
    text = form if file == "operations" else f"{file} {form}"
    return hashlib.sha256(text.encode()).digest()[0] % 3 == 0


def operational(
    seed: int, each: int, *, held_out: bool, file: str = "operations"
) -> Iterator[Sample]:
    """So many samples of each format; one with two secrets makes two samples of each text."""
    for family, form in formats(file):
        if is_held_out(form, file) is not held_out:
            continue
        chance = random.Random(f"{seed} {form}")
        for _ in range(each):
            # Literal text and kinds of secrets in turn: even pieces are text.
            pieces = [part for chunk in form.split("«") for part in chunk.split("»")]
            written = [
                _SECRETS[part](chance) if at % 2 else fill_slots(chance, part)
                for at, part in enumerate(pieces)
            ]
            for at in range(1, len(pieces), 2):
                before, after = "".join(written[:at]), "".join(written[at + 1 :])
                yield Sample(family, before, written[at], after, written[at])
