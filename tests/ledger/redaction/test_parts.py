"""The parts of which redaction is made: names, values, quotes, patterns, merging."""

from __future__ import annotations

import pytest

from operator_sre.ledger.redaction import Finding, collapse
from operator_sre.ledger.redaction.findings import (
    Pattern,
    any_of,
    digest,
    each,
    merge,
    replace,
    without_markers,
)
from operator_sre.ledger.redaction.names import (
    NOTHING,
    ORDINARY,
    STEMS,
    TECHNICAL,
    Name,
    Trust,
    name_of,
)
from operator_sre.ledger.redaction.values import (
    Value,
    closing,
    is_basic,
    is_code,
    is_secret,
    line_end,
    line_start,
    looks_chosen,
    looks_made,
    looks_random,
    read_quoted,
    read_value,
    repeats,
)
from tests.every import every


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("DB_PASSWORD", "password"),
        ("dbPassword", "password"),
        ("spring.datasource.password", "password"),
        ("-Dssl.keyStorePassword", "password"),
        ("DB_PASSWORD_PROD", "password"),
        ("PGPASSWORD", "password"),
        ("smtp_pass", "password"),
        ("client-key-data", "private_key"),
        ("clientSecret", "secret"),
        ("x-api-key", "api_key"),
        ("_authToken", "token"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ],
)
def test_a_name_of_secrets_is_known(name: str, kind: str) -> None:
    named = name_of(name.encode())
    assert isinstance(named, Name)
    assert named.kind == kind


@every(
    "name",
    [
        *("PASSWORD_FILE", "password_min_length", "token_type", "tokens", "max_tokens", "author"),
        *("nextPageToken", "primary_key", "public_key", "cache_key", "key", "secretName", "bypass"),
        *("session_id", "aws_access_key_id", "password_changed_at", "compass", "monkey", ""),
    ],
)
def test_a_name_of_other_things_is_none(name: str) -> None:
    assert name_of(name.encode()) is None


def test_every_known_name_holds_a_stem() -> None:
    stem = Pattern(rb"(?i)" + STEMS)
    for name in (b"password", b"LDAP_BIND_PW", b"api_key", b"clientSecret", b"auth", b"sig"):
        assert name_of(name) is not None
        assert stem.first(name) is not None


@every(
    "value",
    [
        *(
            "${TOKEN}",
            "$PASSWORD",
            "<password>",
            "****",
            "xxxxxxxx",
            "{{ .Values.password }}",
            "%s",
        ),
        *("null", "none", "true", "required", "[REDACTED]", "[FILTERED]", "(sensitive value)"),
        *("/run/secrets/db", "vault:secret/db#password", "https://example.com/x", "your-api-key"),
        *("key.pem", "$(cat /run/secrets/db)", "abc***yz", "$HOME/.token", ""),
    ],
)
def test_a_placeholder_is_no_secret_whatever_its_name(value: str) -> None:
    assert not is_secret(value.encode(), Trust.ANY)
    assert not is_secret(value.encode(), Trust.ANY, is_env=True)


def test_how_much_a_name_proves_decides_what_its_value_must_be() -> None:
    assert is_secret(b"sunshine", Trust.ANY)
    assert not is_secret(b"sunshine", Trust.SAID)
    assert is_secret(b"correct-horse-battery7", Trust.SAID)
    assert not is_secret(b"correct-horse-battery7", Trust.CHOSEN)
    assert is_secret(b"hunter2", Trust.CHOSEN)
    assert not is_secret(b"hunter2", Trust.RANDOM)
    assert is_secret(b"0f3a9c1d2b", Trust.RANDOM)
    assert not is_secret(b"incorrect", Trust.ANY)
    assert is_secret(b"incorrect", Trust.ANY, is_env=True)
    assert not is_secret(b"p", Trust.ANY)
    assert is_secret(b"p", Trust.ANY, at_least=1)


def test_base64_that_begins_with_a_slash_is_no_path() -> None:
    assert is_secret(b"/IkX7bgfdJ4YZnEVHJ9uuNHuzkTp6g49", Trust.ANY)


@every(
    "value",
    [
        *("v1.2.3", "10.0.0.1:5432", "2025-01-31", "300ms", "web-01", "bob@example.com", "RFC7519"),
        *(
            "sha256:0123abcd",
            "sha256-hashed",
            "base64",
            "oauth2",
            "nginx-6d4cf56db6-x2k8p",
            "HTTP/2",
        ),
        *("default/db-credentials", "getUserToken", "settings.TOKEN2", "#cccccc", "8080:80/tcp"),
    ],
)
def test_known_shapes_are_not_random(value: str) -> None:
    assert not looks_random(value.encode())
    assert not looks_chosen(value.encode())
    assert not looks_made(value.encode())


def test_random_text_looks_random() -> None:
    assert looks_chosen(b"hunter2")
    assert looks_chosen(b"xkcdqwvz")
    assert looks_random(b"abcdefghijklmnopq")
    assert looks_made(b"aB3dE5fG7hJ9kL1m")
    assert not looks_made(b"aB3dE5f")


def test_code_is_known() -> None:
    assert is_code(b"os.environ[")
    assert is_code(b"get_password()")
    assert is_code(b"DB_PASSWORD")
    assert not is_code(b"hunter2")
    assert repeats(b"api_key", b"apiKey")
    assert repeats(b"password", b"db_password")
    assert not repeats(b"password", b"mysecretpassword")
    assert is_basic(b"dXNlcjpodW50ZXIy")
    assert not is_basic(b"authentication")


def test_words_are_lower_case_and_terms_are_patterns() -> None:
    assert NOTHING < ORDINARY
    assert all(word == word.lower() for word in ORDINARY)
    assert any_of(*TECHNICAL).fits(b"SHA256")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"a b"', b"a b"),
        (b"'it''s' x", b"it''s"),
        (b'"a\\"b" x', b'a\\"b'),
        (b'"a\\\\" x', b"a\\\\"),
        (b'\\"a\\\\\\"b\\" x', b'a\\\\\\"b'),
        (b"abc&x=1", b"abc"),
        (b"a&b c", b"a&b"),
        (b"abc;User Id=1", b"abc"),
        (b"abc, next", b"abc"),
        (b"abc).", b"abc"),
        (b"f(x) y", b"f(x)"),
        (b"abc\\nNEXT=1", b"abc"),
        (b'"never closed', b"never"),
        (b"a\0b", b"a"),
    ],
)
def test_a_value_ends_where_it_ends(text: bytes, value: bytes) -> None:
    read = read_value(text, 0)
    assert read is not None
    assert read.of(text) == value


def test_quotes_have_depths() -> None:
    text = b'\\"a\\"'
    assert read_quoted(text, 0) == Value(2, 3, b'"', 1)
    assert closing(text, 2, b'"', 1) == 3
    assert read_quoted(b'"a', 0) is None
    assert read_value(b" x", 0) is None
    escaped = read_quoted(b'"a\\"b"', 0)
    assert escaped is not None
    assert escaped.plain(b'"a\\"b"') == b'a"b'


def test_lines_are_looked_for_so_far_and_no_further() -> None:
    assert line_start(b"ab\ncd", 4) == 3
    assert line_start(b"abcdef", 5, most=2) == 3
    assert line_end(b"ab\ncd", 0, 10) == 2
    assert line_end(b"abcdef", 0, 3) == 3


def test_findings_that_touch_become_one() -> None:
    found = [Finding(0, 4, "a"), Finding(4, 9, "b"), Finding(12, 14, "c"), Finding(12, 14, "d")]
    assert merge(found) == [Finding(0, 9, "b"), Finding(12, 14, "d")]
    assert merge([Finding(0, 9, "a"), Finding(2, 4, "b")]) == [Finding(0, 9, "a")]


def test_a_marker_takes_the_place_and_can_be_short() -> None:
    replaced, changed = replace(b"x\npassword=abc\n", [Finding(11, 14, "password")], b"k" * 32)
    marker = f"[REDACTED:password:{digest(b'k' * 32, b'abc')}]"
    assert replaced.decode() == f"x\npassword={marker}\n"
    assert changed.decode() == f"password={marker}"
    assert without_markers(replaced) == b"x\npassword=" + bytes(len(marker)) + b"\n"
    assert collapse(f"é {marker}.") == "é [REDACTED]."


def test_matches_inside_of_a_finding_are_passed_over() -> None:
    found = each(b"aaaa", Pattern(rb"a"), lambda data, start, end: [Finding(start, start + 3, "x")])
    assert [one.start for one in found] == [0, 3]


def test_a_pattern_reads_bytes_that_are_no_text() -> None:
    pattern = Pattern(rb"[^ ]+")
    assert list(pattern.spans(b"\xff\xfe \x80")) == [(0, 2), (3, 4)]
    assert pattern.at(b" a", 0) == -1
    assert pattern.fits(b"\xff")
