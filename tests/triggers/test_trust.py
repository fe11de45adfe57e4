"""Who is believed: the right token, the right signature, at the right time, and nobody else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_sre.triggers.trigger import SKEW_S_MAX, Trigger, refusal, signature_of
from tests.triggers.payloads import ALERTMANAGER

NOW_S = 1_772_000_000.0
SECRETS = {"token": "s3cret-token", "key": "s3cret-key", "empty": ""}
BEARER = replace(ALERTMANAGER, token_file="token")
SIGNED = replace(ALERTMANAGER, hmac_file="key", hmac_header="X-Sig", time_header="X-Time")
BODY = b'{"a": 1}'


def _why(trigger: Trigger, /, *bodies: bytes, **headers: str) -> str:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    (body,) = bodies or (BODY,)
    return refusal(trigger, named, body, now_s=NOW_S, secret=SECRETS.__getitem__)


def _signed(body: bytes = BODY, *, at_s: float = NOW_S, key: str = "s3cret-key") -> dict[str, str]:
    time = str(int(at_s))
    return {"x_sig": signature_of(key, time, body), "x_time": time}


def test_the_right_token_is_believed() -> None:
    assert _why(BEARER, authorization="Bearer s3cret-token") == ""
    assert _why(BEARER, authorization="bearer  s3cret-token ") == ""


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", "Bearer S3cret-token", "Basic s3cret-token", "Bearer s3cret-toke"],
)
def test_any_other_token_is_not(given: str) -> None:
    assert "token" in _why(BEARER, authorization=given)
    assert "token" in _why(BEARER)


def test_an_empty_secret_lets_nobody_in() -> None:
    assert _why(replace(BEARER, token_file="empty"), authorization="Bearer ")
    time = str(int(NOW_S))
    signature = signature_of("", time, BODY)
    assert _why(replace(SIGNED, hmac_file="empty"), x_sig=signature, x_time=time)


def test_a_signature_of_this_body_at_this_time_is_believed() -> None:
    assert _why(SIGNED, **_signed()) == ""
    named = _signed()
    assert _why(SIGNED, x_sig=f"sha256={named['x_sig']}", x_time=named["x_time"]) == ""


def test_a_signature_of_anything_else_is_not() -> None:
    assert "wrong" in _why(SIGNED, b"other", **_signed())
    assert "wrong" in _why(SIGNED, **_signed(key="another"))
    assert "wrong" in _why(SIGNED, **{**_signed(), "x_time": str(int(NOW_S) + 1)})
    assert "missing" in _why(SIGNED, x_sig=_signed()["x_sig"])
    assert "missing" in _why(SIGNED, x_time="1")


@pytest.mark.parametrize("off_s", [SKEW_S_MAX + 1, -SKEW_S_MAX - 1, 86400.0])
def test_an_old_signature_is_a_replay(off_s: float) -> None:
    assert "too old" in _why(SIGNED, **_signed(at_s=NOW_S - off_s))
    assert _why(SIGNED, **_signed(at_s=NOW_S - SKEW_S_MAX)) == ""


def test_where_both_are_asked_for_both_have_to_be_right() -> None:
    both = replace(SIGNED, token_file="token")
    assert _why(both, **_signed(), authorization="Bearer s3cret-token") == ""
    assert _why(both, **_signed())
    assert _why(both, authorization="Bearer s3cret-token")


@given(st.dictionaries(st.sampled_from(["authorization", "x-sig", "x-time"]), st.text()))
def test_no_header_does_harm_or_is_believed(headers: dict[str, str]) -> None:
    for trigger in (BEARER, SIGNED):
        why = refusal(trigger, headers, BODY, now_s=NOW_S, secret=SECRETS.__getitem__)
        assert why
        assert "s3cret" not in why
