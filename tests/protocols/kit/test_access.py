"""Reaching a target: addresses, trust, who we are, and one request that is bounded."""

import os
from pathlib import Path

import pytest

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Access, Target
from operator_protocols.kit.access import addresses_of, authority, sentence_of, trust_for
from operator_protocols.kit.http import Request, UnaskableError, exchange
from operator_protocols.kit.tool import RefusedCall, check_arguments, rotate_log_of
from tests.contract.servers import closes, http, serving, unused_port
from tests.protocols.kit.test_tool import SPEC

pytestmark = pytest.mark.asyncio


async def test_a_target_is_asked_at_its_own_address_first() -> None:
    target = Target("a", "server", host="h", port=1, endpoints=("b:2", "[::1]:3", "nothing", "c:x"))
    assert addresses_of(target) == [("h", 1), ("b", 2), ("::1", 3)]
    assert addresses_of(target, 9) == [("h", 9), ("b", 9), ("::1", 9)]
    assert addresses_of(Target("a", "server")) == []
    assert [authority(one) for one in addresses_of(target)] == ["h:1", "b:2", "[::1]:3"]


async def test_trust_is_read_again_when_a_file_has_changed(tmp_path: Path) -> None:
    missing = Access(tls=True, ca_file=str(tmp_path / "none.pem"))
    with pytest.raises(OSError, match=r"none\.pem"):
        trust_for(missing)
    system = trust_for(Access(tls=True))
    assert trust_for(Access(tls=True)) is system
    file = tmp_path / "ca.pem"
    file.write_text("", encoding="utf-8")
    with pytest.raises(OSError, match="NO_CERTIFICATE"):
        trust_for(Access(tls=True, ca_file=str(file)))


async def test_one_request_has_one_bounded_answer() -> None:
    async with serving(http(418, b"x" * 100, headers="X-Kind: tea\r\n")) as port:
        whole = await exchange(("127.0.0.1", port), Request("GET", "/"))
        part = await exchange(("127.0.0.1", port), Request("GET", "/", body_bytes_max=10))
    assert (whole.status, len(whole.body), whole.cut) == (418, 100, False)
    assert whole.headers["x-kind"] == "tea"
    assert (part.body, part.cut) == (b"x" * 10, True)


async def test_what_goes_wrong_is_told_in_few_words() -> None:
    with unused_port() as dead:
        with pytest.raises(OSError) as refused:  # noqa: PT011 - what it says is checked below
            await exchange(("127.0.0.1", dead), Request("GET", "/"))
        assert sentence_of(refused.value) == "connection refused"
    async with serving(closes) as port:
        with pytest.raises(OSError) as closed:  # noqa: PT011 - it may be reset as well
            await exchange(("127.0.0.1", port), Request("GET", "/"))
        assert sentence_of(closed.value) == "it closed the connection"
        with pytest.raises(UnaskableError):
            await exchange(("127.0.0.1", port), Request("GET", "/", {"name": "two\r\nlines"}))
    assert sentence_of(TimeoutError()) == "it did not answer in time"
    unreachable = OSError(113, "Connect call failed ('10.0.0.1', 1)")
    assert sentence_of(unreachable) == os.strerror(113).lower()


async def test_a_log_on_another_machine_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("all of it", encoding="utf-8")
    done = await rotate_log_of(Target("a", "server", log=str(log)))
    assert (done.data["before_bytes"], log.read_text(encoding="utf-8")) == (9, "")
    with pytest.raises(RefusedCall) as refused:
        await rotate_log_of(Target("a", "server"))
    assert refused.value.category is FailureCategory.PERMISSION


async def test_arguments_are_completed_with_defaults() -> None:
    given = check_arguments(SPEC, {"target": "pool", "count": 3})
    assert given == {"target": "pool", "count": 3, "mode": "slow"}
