"""Which hosts may be spoken to without a person."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_sre.gate import Policy
from operator_sre.gate.policy import Egress
from tests.every import every

METADATA = [
    *("169.254.169.254", "169.254.169.254:80", "169.254.170.2"),
    *("metadata", "metadata.google.internal", "METADATA.google.internal.", "fd00:ec2::254"),
    *("[fd00:ec2::254]:80", "::ffff:169.254.169.254", "[::ffff:a9fe:a9fe]:80", "100.100.100.200"),
    *("2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "169.254"),
    *("169.254.169.254.nip.io", "x.169-254-169-254.example.com", "user@169.254.169.254"),
]
ORDINARY = [
    *("example.com", "example.com:443", "localhost", "127.0.0.1:6379", "10.1.2.3", "[::1]:80"),
    *("::1", "db-1", "db-1.internal.", "10.0.0.0/24", "2001:db8::1"),
]


@every("host", METADATA)
def test_where_clouds_hand_out_credentials_nobody_asks(host: str) -> None:
    assert not Policy().reaches(host)


@pytest.mark.parametrize("host", ORDINARY)
def test_other_hosts_may_be_read_from(host: str) -> None:
    assert Policy().reaches(host)


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("api.example.com", True),
        ("API.example.com:443", True),
        ("example.com", False),
        ("api.example.com.evil.org", False),
        ("pay.example.com", False),
        ("10.9.8.7", True),
        ("10.0.0.1", False),
        ("11.0.0.1", False),
        ("2001:db8::5", True),
        ("2001:db9::5", False),
    ],
)
def test_what_is_denied_wins_over_what_is_allowed(host: str, reached: bool) -> None:
    egress = Egress(
        allow=("*.example.com", "10.0.0.0/8", "2001:db8::/32"),
        deny=("pay.example.com", "10.0.0.1"),
    )
    assert egress.reaches(host) is reached


@given(st.text(max_size=40))
def test_any_text_has_an_answer(host: str) -> None:
    assert Policy().reaches(host) in (True, False)
