"""What holds for every text."""

from __future__ import annotations

import random
import re

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from operator_sre.ledger.redaction import Redactor, Stream
from tests.ledger.redaction.conftest import KEY
from tests.ledger.redaction.generator import CONTEXTS, Sample
from tests.ledger.redaction.measuring import leaks

REDACTOR = Redactor(KEY)
MARKER = re.compile(r"\[REDACTED:[a-z0-9_]+:([0-9a-f]{8})\]")
quick = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Pieces of which hostile and half-broken texts are made.
PIECES = [
    *("password", "=", ":", " ", "\n", '"', "'", "\\", "token", "secret", "hunter2", "Bearer "),
    *("Authorization: ", "://", "@", "u:p", "/", "?", "&", "key", "--", "-p", "mysql ", "\\n"),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "MIIEabcdefghijklmnopqrstuv"),
    *("user,password\n", "bob,", "kind: Secret\n", "data:\n  ", "x: ", "{", "}", "[", "]", "|"),
    *("<password>", "</password>", "$6$abc$", "is ", "é", "\0", "\ud800", "😀", "%40", "12345"),
    *("[REDACTED:password:00000000]", "[REDACTED:", "name: ", "value: ", "DB_PASSWORD", "sid="),
    *("Cookie: ", "; ", "echo ", "| sudo -S", "identified by ", "|\n  ", "(", ")", "for ", ","),
]
pieces = st.lists(st.sampled_from(PIECES), max_size=16).map("".join)
texts = st.one_of(
    st.text(alphabet=st.characters(), max_size=200),
    st.binary(max_size=200).map(lambda data: data.decode("utf-8", "surrogateescape")),
    pieces,
)
secrets = st.text(
    alphabet="abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ23456789", min_size=10, max_size=40
).filter(lambda text: any(map(str.isdigit, text)) and any(map(str.isalpha, text)))


@st.composite
def sample(draw: st.DrawFn) -> Sample:
    context = draw(st.sampled_from(sorted(CONTEXTS)))
    chance = random.Random(draw(st.integers(0, 2**32)))
    before, written, after, secret = chance.choice(CONTEXTS[context])(chance)
    return Sample(context, before, written, after, secret)


@quick
@given(texts)
def test_any_text_is_taken_and_a_second_time_changes_nothing(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


@quick
@given(texts)
def test_what_is_reported_is_what_is_redacted(text: str) -> None:
    places = [(found.start, found.end) for found in REDACTOR.report(text)]
    assert places == sorted(places)
    assert all(0 <= start < end <= len(text) for start, end in places)
    assert bool(places) == (REDACTOR.text(text) != text)


@quick
@given(sample())
def test_the_sentence_around_a_secret_stays_and_a_second_time_changes_nothing(one: Sample) -> None:
    redacted = REDACTOR.text(one.text)
    assert REDACTOR.text(redacted) == redacted
    assume(not leaks(one, redacted))
    assert redacted.startswith(one.before)
    assert redacted.endswith(one.after)


@quick
@given(sample())
def test_line_by_line_nothing_more_leaks_than_at_once(one: Sample) -> None:
    stream = Stream(REDACTOR)
    redacted = "".join(map(stream.feed, one.text.splitlines(keepends=True))) + stream.end()
    assert leaks(one, redacted) == leaks(one, REDACTOR.text(one.text))


@quick
@given(texts)
def test_a_stream_loses_and_adds_nothing_around_secrets(text: str) -> None:
    stream = Stream(REDACTOR)
    redacted = "".join(map(stream.feed, text)) + stream.end()
    if "[REDACTED:" not in redacted:
        assert redacted == text


@quick
@given(secrets)
def test_equal_secrets_have_equal_hashes_wherever_they_stand(secret: str) -> None:
    places = [
        f"DB_PASSWORD={secret}",
        f"password: {secret}",
        f'{{"password": "{secret}"}}',
        f"postgres://app:{secret}@db/app",
        f"tool --password {secret}",
        f"mysql -u root -p{secret}",
        f"user,password\nbob,{secret}\n",
        f"the password is {secret}",
    ]
    hashes = {MARKER.findall(REDACTOR.text(place))[0] for place in places}
    assert len(hashes) == 1
    value = REDACTOR.value({"password": secret})
    assert MARKER.findall(str(value)) == list(hashes)


@quick
@given(secrets, secrets)
def test_different_secrets_have_different_hashes(one: str, other: str) -> None:
    assume(one != other)
    first, second = MARKER.findall(REDACTOR.text(f"A_PASSWORD={one}\nB_PASSWORD={other}\n"))
    assert first != second


@quick
@given(secrets)
def test_another_key_makes_other_hashes(secret: str) -> None:
    text = f"DB_PASSWORD={secret}"
    assert REDACTOR.text(text) != Redactor(bytes(32)).text(text)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(["password", "token", "data"]), texts), inner),
    ),
    max_leaves=12,
)


@quick
@given(json_values)
def test_any_json_value_is_taken_and_a_second_time_changes_nothing(value: object) -> None:
    once = REDACTOR.value(value)  # type: ignore[arg-type]
    assert REDACTOR.value(once) == once
