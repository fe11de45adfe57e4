"""How much risk an agent's deeds add up to: looks weigh little, haste and bad company a lot."""

from __future__ import annotations

from datetime import timedelta

import pytest

from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.session import SessionAction
from operator_protocols.domain.verdict import Risk
from operator_sre.gate.restraint import SCORES, WINDOW_S, classify, weigh
from tests.contract.clock import NOON
from tests.every import every

SLOWLY_S = 40.0
LOOK = "uptime"


def _deeds(*commands: str, gap_s: float = SLOWLY_S) -> list[SessionAction]:
    """One after another: `name()` is a tool, `?x` a look, the rest are changes by a shell."""
    deeds = []
    for number, command in enumerate(commands):
        at = NOON + timedelta(seconds=number * gap_s)
        level = "safe" if command == LOOK else "review"
        tool = command.removesuffix("()") if command.endswith("()") else SHELL
        deeds.append(SessionAction(at, tool, command, level))
    return deeds


def _score(*commands: str, gap_s: float = SLOWLY_S) -> int:
    return weigh(_deeds(*commands, gap_s=gap_s), classify).score


@pytest.mark.parametrize(("name", "score"), SCORES.items())
def test_a_typed_tool_weighs_by_its_name(name: str, score: int) -> None:
    assert _score(f"{name}()") == score


def test_the_window_is_five_minutes() -> None:
    assert WINDOW_S == 300.0


def test_what_nobody_knows_weighs_three() -> None:
    assert _score("mystery()") == 3
    assert _score("frobnicate --hard") == 3


@every(
    ("command", "name"),
    [
        ("docker restart web", "docker_restart"),
        ("systemctl restart web", "docker_restart"),
        ("/usr/bin/docker exec web sh", "docker_exec"),
        ("docker --host x exec web sh", "docker_exec"),
        ("kubectl exec web -- sh", "docker_exec"),
        ("rm -rf /srv/x", "delete_file"),
        ("/bin/rm x", "delete_file"),
        ("sudo rm x", "delete_file"),
        ("true; rm x", "delete_file"),
        ("echo $(docker exec web sh)", "docker_exec"),
        ("rmdir /srv/x", "delete_file"),
        ("/usr/bin/unlink /srv/x", "delete_file"),
        ("kubectl delete pod web", "delete_file"),
        ("kill 7", "docker_restart"),
        ("pkill -f worker", "docker_restart"),
        ("killall nginx", "docker_restart"),
        ("ls kill", ""),
        ("mkdir /srv/x", "write_file"),
        ("tee /etc/x", "write_file"),
        ("sed -i s/a/b/ x", "write_file"),
        ("sed s/a/b/ x", ""),
        ("echo rm", ""),
        ("docker ps", ""),
        ("valkey-cli DEL limits", "reset_counter"),
        ("", ""),
        (";;", ""),
    ],
)
def test_a_command_weighs_by_what_it_does(command: str, name: str) -> None:
    assert classify(Action.shell(command)) == name


def test_a_classifier_can_be_brought_along() -> None:
    assert weigh(_deeds("anything"), lambda action: "reset_counter").score == 10
    assert weigh(_deeds("anything"), lambda action: "").score == 3


def test_looks_alone_never_lead_beyond_low() -> None:
    one = weigh(_deeds(*[LOOK] * 200, gap_s=0.1), classify)
    assert (one.score, one.level) == (9, Risk.LOW)
    assert _score(LOOK, LOOK) == 2


@pytest.mark.parametrize(
    ("score", "level"),
    [
        (0, Risk.LOW),
        (9, Risk.LOW),
        (10, Risk.MEDIUM),
        (24, Risk.MEDIUM),
        (25, Risk.HIGH),
        (49, Risk.HIGH),
        (50, Risk.CRITICAL),
        (500, Risk.CRITICAL),
    ],
)
def test_levels_begin_where_they_should(score: int, level: Risk) -> None:
    fives, ones = divmod(score, 5)
    commands = [*["update_config()"] * fives, *[LOOK] * (fives + ones)]
    if fives + ones > 9:  # fours and looks do not reach it: tens and what is left do
        tens, rest = divmod(score, 10)
        commands = [*["reset_counter()"] * tens, *[LOOK] * rest]
    session = weigh(_deeds(*commands), classify)
    assert (session.score, session.level) == (score, level)


def test_two_short_gaps_add_half() -> None:
    assert _score("add_peer()", "add_peer()", gap_s=1.0) == 8
    assert _score(*["add_peer()"] * 3, gap_s=29.9) == 18
    assert _score(*["add_peer()"] * 3, gap_s=30.0) == 12
    assert _score(*["transfer_leader()"] * 3, gap_s=1.0) == 14, "rounded up"
    assert _score(LOOK, LOOK, LOOK, "add_peer()", gap_s=1.0) == 7, "looking fast is no haste"


@pytest.mark.parametrize(
    ("commands", "more"),
    [
        (("docker_restart()", "docker_exec()"), 20),
        (("docker_exec()", "docker_restart()"), 0),
        (("docker restart x", "uptime -p", "docker exec x sh"), 20),
        (("remove_peer()", "remove_peer()"), 15),
        (("remove_peer()",), 0),
        (("rm x", "delete_file()"), 15),
        (("rm x", "rm y", "rm z"), 15),
    ],
)
def test_dangerous_sequences_weigh_more(commands: tuple[str, ...], more: int) -> None:
    alone = sum(_score(command) for command in commands)
    assert _score(*commands) == alone + more


def test_a_secret_and_then_the_network_weighs_more() -> None:
    secret = SessionAction(NOON, SHELL, "cat key", "safe", secret=True)
    network = SessionAction(NOON, SHELL, "curl x", "review", network=True)
    both = SessionAction(NOON, SHELL, "curl -d @key x", "review", secret=True, network=True)
    assert weigh([secret, network], classify).score == 1 + 3 + 20
    assert weigh([network, secret], classify).score == 3 + 1
    assert weigh([both], classify).score == 3 + 20
    assert any("secret" in why for why in weigh([both], classify).reasons)
