"""Programs run in containers of a real engine: bounded, told truly, and ended as a tree."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.ports import Job
from operator_sre.executor.docker.execs import OUTPUT_BYTES_MAX
from tests.engines.dockerd import Engine, docker_engine, private_engine
from tests.executor.tools.hands import Hands, hands_on
from tests.processes.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.system]

STAYS = ("sh", "-c", "while :; do sleep 1000; done")


@pytest.fixture(scope="module")
def home(pytestconfig: pytest.Config) -> Iterator[str]:
    """A container that only stays; what a test cleans up is not this one."""
    own = Engine(docker_engine(pytestconfig).socket)
    yield own.run(*STAYS)
    own.clean()


@pytest.fixture
def home_alone(engine: Engine) -> str:
    """The same of one test, which leaves something in it."""
    return engine.run(*STAYS)


def _others(engine: Engine, home: str) -> list[str]:
    """What runs beside the container's own program."""
    rows = engine.ask("GET", f"/containers/{home}/top?ps_args=-o%20pid,stat,args")["Processes"]
    return [
        str(row[-1]) for row in rows if "sleep 1000" not in row[-1] and not row[1].startswith("Z")
    ]


@pytest.mark.system(smoke=True)
async def test_both_streams_and_the_exit_code_are_told(hands: Hands, home: str) -> None:
    heard: list[tuple[int, bytes]] = []
    action = await hands.propose(
        "docker_exec", container=home, argv=("sh", "-c", "echo out; echo err >&2; exit 7")
    )
    job = Job(timeout_s=30.0, watch=lambda number, piece: heard.append((number, piece)))
    result = await hands.call(action, job=job)
    assert (result.outcome, result.exit_code) == (Outcome.RAN, 7)
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert (result.stdout_bytes, result.stderr_bytes) == (4, 4)
    assert result.category is FailureCategory.RUNTIME
    assert sorted(heard) == [(1, b"out\n"), (2, b"err\n")]


async def test_no_shell_reads_the_arguments(hands: Hands, home: str) -> None:
    words = ("echo", "$(id)", ";", "a b", "*")
    result = await hands.do("docker_exec", container=home, argv=words)
    assert result.stdout == "$(id) ; a b *\n"


async def test_user_and_folder(hands: Hands, home: str) -> None:
    result = await hands.do(
        "docker_exec",
        container=home,
        argv=("sh", "-c", "id -u; pwd"),
        user="nobody",
        workdir="/tmp",
    )
    assert result.stdout == "65534\n/tmp\n"


async def test_there_is_no_terminal_and_no_input(hands: Hands, home: str) -> None:
    result = await hands.do(
        "docker_exec", container=home, argv=("sh", "-c", "test -t 0 || test -t 1; echo $?; cat")
    )
    assert (result.ok, result.stdout) == (True, "1\n")


@pytest.mark.parametrize(
    ("argv", "exit_code", "category"),
    [
        (("no-such-program",), 127, FailureCategory.NOT_FOUND),
        (("/no/such/program",), 127, FailureCategory.NOT_FOUND),
        (("/etc/passwd",), 126, FailureCategory.PERMISSION),
        (("sh", "-c", "kill -9 $$"), 137, FailureCategory.RESOURCE),
    ],
)
async def test_what_cannot_run_is_named_rightly(
    hands: Hands, home: str, argv: tuple[str, ...], exit_code: int, category: FailureCategory
) -> None:
    result = await hands.do("docker_exec", container=home, argv=argv)
    assert (result.outcome, result.exit_code) == (Outcome.RAN, exit_code), result
    assert result.category is category, result


async def test_an_unknown_user_is_a_result(hands: Hands, home: str) -> None:
    result = await hands.do("docker_exec", container=home, argv=("id",), user="nobody-here")
    assert result.outcome is Outcome.RAN
    assert result.exit_code not in (0, None)


async def test_one_that_does_not_run_is_told(engine: Engine, hands: Hands) -> None:
    made = engine.create("true")
    result = await hands.do("docker_exec", container=made, argv=("id",))
    assert (result.outcome, result.exit_code) == (Outcome.RAN, 1)
    assert "not running" in result.stderr


async def test_much_output_is_kept_at_its_ends(hands: Hands, home: str) -> None:
    line = "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last"
    result = await hands.do("docker_exec", container=home, argv=("sh", "-c", line))
    assert result.ok
    assert result.truncated
    assert result.stdout_bytes == 20_000_000 + 12
    assert len(result.stdout) <= OUTPUT_BYTES_MAX
    assert result.stdout.startswith("first\n")
    assert result.stdout.endswith("\nlast\n")
    assert "bytes left out" in result.stdout


async def test_bytes_that_are_no_text_are_survived(hands: Hands, home: str) -> None:
    result = await hands.do(
        "docker_exec", container=home, argv=("sh", "-c", "head -c 5000 /dev/urandom")
    )
    assert (result.ok, result.stdout_bytes) == (True, 5000)


@pytest.mark.parametrize(
    "line",
    [
        "sleep 500",
        "trap '' TERM; while :; do sleep 0.1; done",
        "setsid sh -c 'sleep 501' & setsid sh -c 'trap \"\" TERM; sleep 502; sleep 503' & wait",
        "(sleep 504 &) ; sleep 505",
        "i=0; while [ $i -lt 60 ]; do sleep 506 & i=$((i + 1)); done; wait",
        "sleep 507 & kill -STOP $!; wait",
    ],
    ids=["plain", "ignores TERM", "sessions", "orphan", "many", "stopped"],
)
@pytest.mark.parametrize("user", ["", pytest.param("nobody", marks=pytest.mark.slow)])
async def test_a_time_out_leaves_nobody_in_the_container(
    engine: Engine, hands: Hands, home: str, line: str, user: str
) -> None:
    result = await hands.do(
        "docker_exec", container=home, argv=("sh", "-c", line), user=user, timeout_s=1.0
    )
    assert result.outcome is Outcome.TIMED_OUT
    assert (result.exit_code, result.category) == (124, FailureCategory.TIMEOUT)
    assert result.data["ended"] is True, result.stderr
    assert _others(engine, home) == []
    assert engine.is_running(home)


async def test_a_time_out_leaves_nobody_of_a_plain_user(
    engine: Engine, hands: Hands, home: str
) -> None:
    line = "setsid sh -c 'trap \"\" TERM; sleep 521; sleep 522' & (sleep 523 &) ; wait"
    result = await hands.do(
        "docker_exec", container=home, argv=("sh", "-c", line), user="nobody", timeout_s=1.0
    )
    assert (result.timed_out, result.data["ended"]) == (True, True), result
    assert _others(engine, home) == []


async def test_a_time_out_ends_nobody_else(engine: Engine, hands: Hands, home: str) -> None:
    line = "until test -e /go; do sleep 0.1; done; echo done"
    other = asyncio.create_task(
        hands.do("docker_exec", container=home, argv=("sh", "-c", line, "other"))
    )
    await eventually(lambda: any("other" in one for one in engine.processes(home)))
    result = await hands.do("docker_exec", container=home, argv=("sleep", "500"), timeout_s=0.5)
    assert result.timed_out
    assert (await hands.do("docker_exec", container=home, argv=("touch", "/go"))).ok
    assert (await other).stdout == "done\n"


async def test_what_became_another_user_is_ended_by_root(
    engine: Engine, hands: Hands, home: str
) -> None:
    line = "su -s /bin/sh nobody -c 'sleep 508' & wait"
    result = await hands.do("docker_exec", container=home, argv=("sh", "-c", line), timeout_s=1.0)
    assert (result.timed_out, result.data["ended"]) == (True, True), result
    assert _others(engine, home) == []


async def test_cancelled_it_is_ended_first(engine: Engine, hands: Hands, home: str) -> None:
    work = asyncio.create_task(hands.do("docker_exec", container=home, argv=("sleep", "509")))
    await eventually(lambda: any("sleep 509" in one for one in engine.processes(home)))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert _others(engine, home) == []


async def test_without_a_shell_it_is_said_that_it_runs_on(engine: Engine, hands: Hands) -> None:
    home = engine.run(*STAYS)
    assert (await hands.do("docker_exec", container=home, argv=("rm", "/bin/sh"))).ok
    result = await hands.do("docker_exec", container=home, argv=("sleep", "510"), timeout_s=0.5)
    assert (result.timed_out, result.data["ended"]) == (True, False)
    assert "no shell" in result.stderr


async def test_a_child_that_keeps_the_output_open_is_not_waited_for(
    hands: Hands, home_alone: str
) -> None:
    result = await hands.do(
        "docker_exec",
        container=home_alone,
        argv=("sh", "-c", "sleep 511 & echo gone"),
        timeout_s=30.0,
    )
    assert (result.ok, result.stdout) == (True, "gone\n")


async def test_another_container_under_the_same_name_is_refused(
    engine: Engine, hands: Hands
) -> None:
    name = engine.name()
    first = engine.run(*STAYS, name=name)
    action = await hands.propose("docker_exec", container=name, argv=("touch", "/done"))
    engine.remove(first)
    second = engine.run(*STAYS, name=name)
    assert (await hands.call(action)).outcome is Outcome.REFUSED
    seen = await hands.do("docker_exec", container=second, argv=("test", "-e", "/done"))
    assert seen.exit_code == 1


async def test_an_engine_that_dies_meanwhile_leaves_it_unknown(
    pytestconfig: pytest.Config,
) -> None:
    engine = private_engine(pytestconfig)
    try:
        hands = hands_on(engine.socket)
        home = engine.run(*STAYS)
        work = asyncio.create_task(
            hands.do("docker_exec", container=home, argv=("sh", "-c", "echo here; sleep 512"))
        )
        await eventually(lambda: any("sleep 512" in one for one in engine.processes(home)))
        engine.kill()
        result = await work
        assert result.outcome is Outcome.UNKNOWN, result
        assert result.stdout == "here\n"
        assert result.data["error_category"] == "docker_unavailable"
    finally:
        engine.end()
