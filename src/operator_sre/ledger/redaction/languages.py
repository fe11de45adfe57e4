"""Passwords, keys and tokens by what other languages call them."""

from __future__ import annotations

from collections.abc import Iterator

from operator_sre.ledger.redaction.finding import Finding, each
from operator_sre.ledger.redaction.names import Trust
from operator_sre.ledger.redaction.pattern import Pattern
from operator_sre.ledger.redaction.reading import Value, read_near
from operator_sre.ledger.redaction.values import is_secret, looks_made

__all__ = ["TRIGGERS", "find_foreign"]

_PASSWORDS = "|".join(
    (
        *(r"\bmot de passe", r"\bmdp\b", r"\bcontrase(?:ñ|n)a", r"\bclave\b", r"\bsenha\b"),
        *(r"\bpalavra-passe", r"\bparola\b", r"\bwachtwoord", r"\bhas(?:ł|l)o\b", r"\bheslo\b"),
        *(r"\bl(?:ö|o)senord", r"(?:Ş|ş|\bs)ifre", r"\bjelsz(?:ó|o)", r"\bsalasana"),
        *(r"\badgangskode", r"\bpassord", r"\bkodeord", r"\bpasswort", r"\bkennwort"),
        *(r"\bzugangsdaten", r"\bkata sandi", r"\bparool", r"\bslapta(?:ž|z)odis"),
        *("[Пп]арол[ьяюе](?:м)?", "ПАРОЛЬ", "[Пп]арола", "[Лл]озинка", "[Гг]асло"),
        *("密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호", "mật khẩu"),
        *("รหัสผ่าน", "كلمة المرور", "كلمة السر", "סיסמה", "סיסמא", "[Κκ]ωδικός", "पासवर्ड"),
    )
)
_KEYS = "|".join(
    (
        *(r"\bcl(?:é|e) (?:API|d'API|secr)", r"\bclave (?:API|secr)", r"\bchave\b", r"\bchiave\b"),
        *(r"\bschl(?:ü|ue)ssel\b", r"\bsleutel\b", r"\bklucz\b", r"\bnyckel\b", r"\banahtar\b"),
        *(r"\bjeton\b", r"\bgeheimnis\b", r"\bsegreto\b", r"\bsegredo\b", r"\bsecreto\b"),
        *("[Кк]люч", "[Тт]окен", "[Сс]екрет", "密钥", "密鑰", "令牌", "秘密鍵", "トークン", "토큰"),
    )
)
TRIGGERS = f"{_PASSWORDS}|{_KEYS}".encode()
# The noun with its ending; an adjective, a verb and a sign may follow before the value.
_FOREIGN_PASSWORD = Pattern(f"(?i)(?:{_PASSWORDS})[^\\s\"'`:=：<>/|.,;]{{0,16}}".encode())
_FOREIGN_KEY = Pattern(f"(?i)(?:{_KEYS})[^\\s\"'`:=：<>/|.,;]{{0,16}}".encode())
_SIGN = Pattern("(?:[ \\t(/|:=]|：|->|→|は|是|为|為|인)*".encode())
WORDS_MAX = 4


def find_foreign(data: bytes) -> Iterator[Finding]:
    """`mot de passe : ...`, `la contraseña es ...`, `密码：...`."""
    yield from each(data, _FOREIGN_PASSWORD, _password)
    yield from each(data, _FOREIGN_KEY, _key)


def _values(data: bytes, at: int) -> Iterator[Value]:
    """The next words, without the signs between them."""
    for _ in range(WORDS_MAX):
        value = read_near(data, max(at, _SIGN.at(data, at)))
        if value is None:
            return
        yield value
        at = value.end + len(value.quote)


def _password(data: bytes, _: int, end: int) -> Iterator[Finding]:
    for value in _values(data, end):
        raw = value.of(data)
        if any(48 <= byte < 58 for byte in raw) and is_secret(raw, Trust.SAID):
            yield Finding(value.start, value.end, "password")
            return


def _key(data: bytes, _: int, end: int) -> Iterator[Finding]:
    for value in _values(data, end):
        if looks_made(value.of(data)) and is_secret(value.of(data), Trust.RANDOM):
            yield Finding(value.start, value.end, "token")
            return
