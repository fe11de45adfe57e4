"""Channels: real messages by HTTP, and an address that is never shown."""

from __future__ import annotations

import logging

import pytest

from operator_sre.notify.channel import CHANNELS_MAX, AppriseChannel, channels_of
from operator_sre.notify.notice import Message
from tests.notify.sink import sink

pytestmark = pytest.mark.asyncio

HELLO = Message("one line", "a body\n  of two")


async def test_a_message_arrives_as_it_is() -> None:
    with sink() as kept:
        assert await AppriseChannel(kept.url()).send(HELLO) == ""
    assert (kept.titles, kept.came[0]["message"]) == (["one line"], "a body\n  of two")


async def test_what_is_not_taken_is_said_without_the_address(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with sink() as kept:
        kept.refuse = 1
        told = [await AppriseChannel(kept.url()).send(HELLO)]
    for url in (f"json://127.0.0.1:{kept.port}/s3cret", "nosuch://s3cret/", "s3cret", "json://"):
        channel = AppriseChannel(url)
        told.append(await channel.send(HELLO))
        told.append(repr(channel))
        told.append(channel.name)
    assert all(told)
    captured = capfd.readouterr()
    for text in (*told, caplog.text, captured.out, captured.err):
        assert "s3cret" not in text


async def test_the_same_address_has_the_same_name_and_others_have_others() -> None:
    names = [AppriseChannel(url).name for url in ("slack://a/b", "slack://a/b", "slack://a/c")]
    assert names[0] == names[1] != names[2]
    assert names[0].startswith("slack-")


async def test_addresses_are_read_one_a_line() -> None:
    text = "\n# people\n json://a \njson://b\njson://a\n"
    assert len(channels_of(text)) == 2
    assert channels_of("# nobody\n") == []
    assert len(channels_of("\n".join(f"json://{n}" for n in range(99)))) == CHANNELS_MAX
