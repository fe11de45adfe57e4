"""Which hosts may be spoken to without a person."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.target import Target
from operator_sre.gate import Policy
from operator_sre.gate.policy import Egress, built_in
from operator_sre.gate.policy.egress import hosts_of
from tests.every import every, expect_each
from tests.gate.policy.writing import book

METADATA = [
    *("169.254.169.254", "169.254.169.254:80", "169.254.170.2"),
    *("metadata", "metadata.google.internal", "METADATA.google.internal.", "fd00:ec2::254"),
    *("[fd00:ec2::254]:80", "::ffff:169.254.169.254", "[::ffff:a9fe:a9fe]:80", "100.100.100.200"),
    *("2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "169.254"),
    *("169.254.169.254.nip.io", "x.169-254-169-254.example.com", "user@169.254.169.254"),
]
NEAR = [
    *("localhost", "LOCALHOST:80", "127.0.0.1:6379", "127.9.9.9", "[::1]:80", "::1"),
    *("10.1.2.3", "10.0.0.0/24", "172.31.0.1", "192.168.1.1:443", "fd12::1", "fe80::1%eth0"),
    *("::ffff:10.1.2.3", "user@10.1.2.3", "0.0.0.0"),  # noqa: S104
]
FAR = [
    *("example.com", "example.com:443", "db-1", "db-1.internal.", "2001:db8::1", "8.8.8.8"),
    *("172.32.0.1", "192.169.0.1", "11.0.0.1", "localhost.example.com", "10.0.0.1.example.com"),
    *("::ffff:8.8.8.8", "127.0.0.1.nip.io", "localhost@example.com", "", "x.localhost"),
]


@every("host", METADATA)
def test_where_clouds_hand_out_credentials_nobody_asks(host: str) -> None:
    everywhere = Policy(hosts=frozenset({"metadata", "169.254.169.254", "100.100.100.200"}))
    assert not everywhere.reaches(host)
    assert not everywhere.reaches_for_person(host)


@every("host", NEAR)
def test_what_is_near_may_be_read_from_by_anybody(host: str) -> None:
    assert Policy().reaches(host)
    assert Policy().reaches_for_person(host)


@every("host", FAR)
def test_what_is_far_may_be_read_from_by_people_only(host: str) -> None:
    assert not Policy().reaches(host)
    assert Policy().reaches_for_person(host)


TARGETS = (
    Target(
        "a", "node", host="DB.example.com.", endpoints=("db2.example.com:5432", "[2001:db8::7]:1")
    ),
    Target("b", "node", host="8.8.8.8", port=53, runs_at="ssh://ada@jump.example.com:2222"),
    Target("c", "node", host="", runs_at="docker://box.example.com"),
)


def test_hosts_of_targets_are_all_their_addresses_and_no_more() -> None:
    found = hosts_of(TARGETS)
    assert found == {
        *("db.example.com", "db2.example.com", "2001:db8::7", "8.8.8.8", "jump.example.com"),
    }
    policy = Policy(hosts=found)
    for host in (*found, "db.example.com:5432", "DB.EXAMPLE.COM", "[2001:db8::7]:1"):
        assert policy.reaches(host), host
    for host in ("example.com", "x.db.example.com", "db.example.com.org", "8.8.4.4", "box"):
        assert not policy.reaches(host), host


def test_a_target_where_nobody_may_ask_is_not_asked() -> None:
    denied = Policy(hosts=hosts_of(TARGETS), book=book(egress={"deny": ["*.example.com"]}))
    assert not denied.reaches("db.example.com")


def test_whoever_lists_hosts_means_everybody_unless_they_tell_people_apart() -> None:
    listed = Policy(book=book(egress={"allow": ["api.example.com"]}))
    apart = Policy(book=book(egress={"allow": ["api.example.com"], "people": ["*.example.org"]}))
    added = Policy(book=book(egress={"people": ["x.example.com"]}))
    expect_each(
        [
            (listed, "api.example.com", True, True),
            (listed, "www.example.com", False, False),
            (listed, "127.0.0.1", False, False),
            (apart, "api.example.com", True, True),
            (apart, "www.example.org", False, True),
            (apart, "www.example.com", False, False),
            (added, "127.0.0.1", True, True),
            (added, "x.example.com", False, True),
            (added, "www.example.com", False, False),
        ],
        _is_reached,
    )


def _is_reached(policy: Policy, host: str, by_agent: bool, by_person: bool) -> None:
    assert policy.reaches(host) is by_agent
    assert policy.reaches_for_person(host) is by_person


def test_all_hosts_are_reached_where_a_list_says_so() -> None:
    assert not built_in().egress.leads_anywhere()
    assert built_in().egress.leads_anywhere(person=True)
    assert book(egress={"allow": ["*"]}).egress.leads_anywhere()
    assert not Egress().reaches("localhost", person=True)


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
