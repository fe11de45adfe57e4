"""Addresses of places where commands run."""

from __future__ import annotations

import pytest

from operator_protocols.errors import ConfigError
from operator_sre.executor.transports.places import Container, Here, Host, Pod, place_of
from tests.every import every


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("", Here()),
        ("ssh://root@db-1.example", Host("root", "db-1.example", 22)),
        ("ssh://ops@10.0.0.7:2222", Host("ops", "10.0.0.7", 2222)),
        ("ssh://ops@[fe80::1]:22", Host("ops", "fe80::1", 22)),
        ("docker://web_1", Container("web_1")),
        ("docker://" + "a" * 64, Container("a" * 64)),
        ("kubectl://lab/shop/web-0/app", Pod("lab", "shop", "web-0", "app")),
        ("kubectl://arn:aws:eks:x:1:cluster%2Flab/shop/web-0/app",
         Pod("arn:aws:eks:x:1:cluster/lab", "shop", "web-0", "app")),
    ],
)  # fmt: skip
def test_an_address_says_where(shell: str, place: object) -> None:
    assert place_of(shell) == place


@every(
    "shell",
    [
        *("local", "ssh", "ssh:", "ssh://", "ssh://host", "ssh://@host", "ssh://u@", "http://u@h"),
        *("ssh://u@h:0", "ssh://u@h:65536", "ssh://u@h:x", "ssh://u@h:22/path", "ssh://u@h?x=1"),
        *("ssh://u@-oProxyCommand=id", "ssh://-l@h", "ssh://u u@h", "ssh://u@h h", "ssh://u@h\n"),
        *(
            "docker://",
            "docker://-x",
            "docker://a/b",
            "docker://../x",
            "docker://a b",
            "docker://ä",
        ),
        *("kubectl://a/b/c", "kubectl://a/b/c/d/e", "kubectl://-x/b/c/d", "kubectl://a/-b/c/d"),
        *("kubectl://a/b/--c/d", "kubectl://a/b/c/%2Dd", "kubectl://a/B/c/d", "kubectl:////"),
        "ssh://u@" + "h" * 2000,
    ],
)
def test_a_wrong_address_is_one_sentence_with_what_to_write(shell: str) -> None:
    with pytest.raises(ConfigError) as told:
        place_of(shell)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500
    assert "ssh://user@host:port" in str(told.value)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as told:
        place_of("ssh://root:hunter2@db-1")
    assert "hunter2" not in str(told.value)
    assert "password" in str(told.value)


@pytest.mark.parametrize(
    "shell",
    ["ssh://ops@10.0.0.7:2222", "ssh://ops@[fe80::1]:22", "docker://web", "kubectl://a/b/c/d"],
)
def test_a_place_is_written_as_it_is_read(shell: str) -> None:
    assert str(place_of(shell)) == shell
    assert str(Here()) == "this machine"
