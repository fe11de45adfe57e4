"""What may be asked of an engine: a table, and whatever else anybody thinks of is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_sre.executor.porter import Passage, Refused, find_passage
from operator_sre.executor.porter.lab import PART_LABEL, Described, find_way_out, is_own
from operator_sre.executor.porter.relay import BODY_BYTES_MAX, HEAD_BYTES_MAX, Head, read_head
from operator_sre.executor.porter.rules import About, beginning_of, narrow, nothing, program_of
from tests.every import every

ID = "ab" * 32
PROGRAM = b'{"Cmd":["id"],"AttachStdout":true}'
# Written a second time and on its own: all that an engine may ever hear.
HEARD = re.compile(
    r"(GET|HEAD) (/v1\.\d\d)?/_ping|GET (/v1\.\d\d)?/(version|containers/json)"
    r"|GET (/v1\.\d\d)?/containers/[\w.-]+/(json|logs|stats|top)"
    r"|POST (/v1\.\d\d)?/containers/[\w.-]+/(start|stop|restart|kill|pause|unpause|wait|exec)"
    r"|GET (/v1\.\d\d)?/exec/[0-9a-f]{64}/json|POST (/v1\.\d\d)?/exec/[0-9a-f]{64}/(start|resize)"
)
PASSES = (
    ("HEAD", "/_ping", ""),
    ("GET", "/v1.41/version", ""),
    ("GET", "/containers/json", "all=1&limit=5"),
    ("GET", "/v1.50/containers/web-1/json", ""),
    ("GET", "/containers/web_1.x/logs", "stdout=1&stderr=1&follow=1&tail=20&since=1700000000.5"),
    ("GET", f"/containers/{ID}/stats", "stream=0&one-shot=1"),
    ("GET", "/containers/web/top", "ps_args=-o+pid%2Cargs"),
    ("POST", "/containers/web/start", ""),
    ("POST", "/containers/web/stop", "t=5&signal=SIGINT"),
    ("POST", "/containers/web/restart", "t=-1"),
    ("POST", "/containers/web/kill", "signal=RTMIN%2B3"),
    ("POST", "/containers/web/pause", ""),
    ("POST", "/containers/web/unpause", ""),
    ("POST", "/containers/web/wait", "condition=next-exit"),
    ("GET", f"/exec/{ID}/json", ""),
    ("POST", f"/exec/{ID}/resize", "h=24&w=80"),
)
REFUSED = (
    ("POST", "/containers/create", ""),
    ("POST", "/v1.41/containers/create", "name=x"),
    ("DELETE", "/containers/web", "force=1"),
    ("POST", "/containers/web/rename", "name=other"),
    ("POST", "/containers/web/update", ""),
    ("POST", "/containers/web/attach", "stream=1&stdin=1"),
    ("GET", "/containers/web/attach/ws", ""),
    ("GET", "/containers/web/archive", "path=/etc"),
    ("PUT", "/containers/web/archive", "path=/etc"),
    ("GET", "/containers/web/export", ""),
    ("GET", "/containers/web/changes", ""),
    ("POST", "/containers/prune", ""),
    ("POST", "/commit", "container=web"),
    ("POST", "/build", ""),
    ("POST", "/session", ""),
    ("POST", "/grpc", ""),
    ("GET", "/images/json", ""),
    ("POST", "/images/create", "fromImage=x"),
    ("GET", "/volumes", ""),
    ("POST", "/volumes/create", ""),
    ("GET", "/networks", ""),
    ("POST", "/networks/lab/connect", ""),
    ("POST", "/swarm/init", ""),
    ("GET", "/secrets", ""),
    ("POST", "/plugins/pull", "remote=x"),
    ("GET", "/info", ""),
    ("GET", "/events", ""),
    ("GET", "/system/df", ""),
    ("GET", "/", ""),
    # Paths that two readers could read in two ways.
    ("POST", "/containers/web/../create", ""),
    ("POST", "/containers/./create", ""),
    ("POST", "/containers/%2e%2e/create", ""),
    ("POST", "/containers/web%2F..%2Fcreate", ""),
    ("POST", "/containers/web%2fstart", ""),
    ("POST", "//containers/web/start", ""),
    ("POST", "/containers//start", ""),
    ("POST", "/containers/web/start/", ""),
    ("POST", "/containers/web\\..\\create", ""),
    ("POST", "/containers/web;x/start", ""),
    ("POST", "/containers/wéb/start", ""),
    ("POST", "/containers/web/start\n", ""),
    ("POST", "/Containers/web/start", ""),
    ("POST", "http://docker/containers/web/start", ""),
    ("post", "/containers/web/start", ""),
    ("GET", "/containers/web/start", ""),
    # Versions in which a start could bring mounts along, and what is none.
    ("POST", "/v1.12/containers/web/start", ""),
    ("POST", "/v1.23/containers/web/start", ""),
    ("POST", "/v2.41/containers/web/start", ""),
    ("POST", "/v1.41/v1.41/containers/web/start", ""),
    # Parameters that are not known, are there twice, or are not what they should be.
    ("POST", "/containers/web/start", "checkpoint=x"),
    ("POST", "/containers/web/stop", "t=5&t=6"),
    ("POST", "/containers/web/stop", "%74=5"),
    ("POST", "/containers/web/stop", "t=5%0d%0aHost:%20x"),
    ("GET", "/containers/web/logs", "follow=maybe"),
    ("GET", "/containers/web/top", "ps_args=%24(id)"),
    ("GET", "/containers/json", "since=other"),
    ("GET", "/containers/json", "all=\xff"),
    ("GET", "/containers/json", "all=%ff"),
    ("GET", "/containers/json", "all=1#x"),
    ("GET", "/exec/abc/json", ""),
    ("POST", f"/exec/{ID.upper()}/start", ""),
)


@every("asked", PASSES)
def test_what_is_in_the_table_passes(asked: tuple[str, str, str]) -> None:
    passage = find_passage(*asked, b"")
    assert isinstance(passage, Passage), passage
    assert passage.path() == asked[1]
    assert HEARD.fullmatch(f"{asked[0]} {passage.path()}")
    assert parse_qsl(passage.target().partition("?")[2]) == parse_qsl(asked[2])


@every("asked", REFUSED)
def test_everything_else_is_refused(asked: tuple[str, str, str]) -> None:
    refused = find_passage(*asked, b"")
    assert isinstance(refused, Refused), refused
    assert (refused.status, refused.reason[-1]) == (403, ".")


def test_only_a_program_that_is_not_privileged_is_let_in() -> None:
    passage = find_passage("POST", "/containers/web/exec", "", PROGRAM)
    assert isinstance(passage, Passage)
    assert passage.enters
    for body in (
        b"",
        b"{}",
        b"[]",
        b'{"Cmd":[]}',
        b'{"Cmd":"id"}',
        b'{"Cmd":["id"],"Privileged":true}',
        b'{"Cmd":["id"],"privileged":true}',
        b'{"Cmd":["id"],"PRIVILEGED":true,"Privileged":false}',
        b'{"Cmd":["id"],"Privileged":false,"Privileged":true}',
        b'{"Cmd":["id"],"HostConfig":{"Binds":["/:/host"]}}',
        b'{"Cmd":["id"],"Mounts":[]}',
        b'{"Cmd":["id"]}{"Privileged":true}',
        b'{"Cmd":' + b"[" * 100_000,
        '{"Cmd":["id"]}'.encode("utf-16"),
    ):
        assert isinstance(find_passage("POST", "/containers/web/exec", "", body), Refused), body[
            :80
        ]
    # The last of two counts for us and for the engine, which sees one of them.
    twice = b'{"Cmd":["id"],"Privileged":true,"Privileged":false}'
    written = program_of(twice)
    assert written == b'{"Cmd":["id"]}'


def test_the_start_of_a_container_brings_nothing_along() -> None:
    body = b'{"Binds":["/:/host"],"Privileged":true}'
    for verb in ("start", "stop", "restart", "kill", "pause", "unpause", "wait"):
        assert isinstance(find_passage("POST", f"/containers/web/{verb}", "", body), Refused)
    assert nothing(b"") == b""
    assert isinstance(nothing(b"{}"), str)


def test_a_program_is_begun_with_what_is_known() -> None:
    passage = find_passage("POST", f"/exec/{ID}/start", "", b'{"Detach":false,"Tty":true}')
    assert isinstance(passage, Passage)
    assert (passage.upgrades, passage.body) == (True, b'{"Tty":true}')
    assert beginning_of(b"") == b"{}"
    assert isinstance(beginning_of(b'{"User":"root"}'), str)


def _list(filters: object) -> dict[str, list[str]] | Refused:
    asked = find_passage("GET", "/containers/json", f"filters={quote(json.dumps(filters))}", b"")
    assert isinstance(asked, Passage)
    assert asked.about is About.LIST
    told = narrow(asked, "lab")
    if isinstance(told, Refused):
        return told
    return msgspec.json.decode(dict(told.query)["filters"], type=dict[str, list[str]])


def test_a_list_is_narrowed_to_the_project_whatever_it_was_narrowed_by() -> None:
    own = "com.docker.compose.project=lab"
    assert _list({}) == {"label": [own]}
    other = "com.docker.compose.project=other"
    assert _list({"label": [other], "status": {"exited": True}}) == {
        "label": [other, own],
        "status": ["exited"],
    }
    told: list[object] = [{"volume": ["x"]}, {"label": "x"}, [], {"label": [1]}, {"id": ["x"] * 99}]
    for wrong in told:
        assert isinstance(_list(wrong), Refused), wrong


WORDS = st.sampled_from(
    [
        *("/.%?&=;\\# \r\n\0é"),
        *("..", "%2f", "%2e", "%00", "//", "v1.41", "v1.12", "containers", "create", "json"),
        *("exec", "start", "stop", "images", "volumes", "build", ID, "web", "privileged"),
        *("attach", "archive", "kill", "networks", "_ping", "version", "prune"),
    ]
)
METHODS = st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "get", ""])
RUNS = (("POST", "/containers/web/exec", ""), ("POST", f"/exec/{ID}/start", ""))
NEARLY = st.sampled_from([*PASSES, *RUNS, *RUNS, *REFUSED])
BODIES = st.dictionaries(
    st.sampled_from(["Cmd", "Privileged", "privileged", "Env", "User", "HostConfig", "Detach"]),
    st.sampled_from([True, False, None, ["id"], [], "root", {}, 1]),
).map(lambda told: json.dumps(told).encode())


@settings(max_examples=200)
@given(METHODS, NEARLY, st.lists(WORDS, max_size=5), st.integers(0, 60), BODIES, st.booleans())
def test_nothing_but_the_listed_requests_is_ever_heard_by_the_engine(
    method: str,
    nearly: tuple[str, str, str],
    words: list[str],
    cut: int,
    body: bytes,
    with_body: bool,
) -> None:
    piece = "".join(words)
    path = nearly[1][:cut] + piece + nearly[1][cut:]
    passage = find_passage(method, path, nearly[2], body if with_body else b"")
    if isinstance(passage, Refused):
        return
    heard = passage.target()
    assert HEARD.fullmatch(f"{method} {passage.path()}"), heard
    assert ".." not in passage.path().split("/")
    assert not re.search(r"[\s\0]|%2[fF]", passage.path())
    assert b"rivileged" not in passage.body
    assert b"HostConfig" not in passage.body
    # What was written passes again, as what it is: nobody reads it in another way.
    again = find_passage(method, passage.path(), heard.partition("?")[2], passage.body)
    assert again == passage


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_no_bytes_at_all_make_the_reader_of_heads_fail(raw: bytes) -> None:
    for text in (raw, b"POST /containers/web/start HTTP/1.1\r\nHost: d\r\n" + raw):
        head = read_head(text + b"\r\n\r\n")
        if isinstance(head, Head):
            assert 0 <= head.length <= BODY_BYTES_MAX


def _head(*lines: str, first: str = "POST /x?a=b HTTP/1.1") -> Head | Refused:
    return read_head("\r\n".join([first, "Host: docker", *lines, "", ""]).encode("latin-1"))


def test_a_head_says_what_it_says() -> None:
    assert _head("Content-Length: 12", "User-Agent: x") == Head("POST", "/x", "a=b", 12)
    upgrading = _head("Connection: Upgrade", "Upgrade: tcp")
    assert isinstance(upgrading, Head)
    assert upgrading.upgrades
    assert HEAD_BYTES_MAX < BODY_BYTES_MAX


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (("Transfer-Encoding: chunked",), 411),
        (("Content-Length: 5", "Transfer-Encoding: chunked"), 411),
        (("transfer-encoding:\tidentity",), 411),
        (("TE: trailers",), 411),
        (("Content-Length: 5", "Content-Length: 5"), 400),
        (("Content-Length: 5", "content-length: 0"), 400),
        (("Content-Length: +5",), 400),
        (("Content-Length: 5, 5",), 400),
        (("Content-Length: 0x5",), 400),
        (("Content-Length: -1",), 400),
        (("Content-Length: ٥",), 400),
        (("Content-Length:",), 400),
        (("Content-Length : 5",), 400),
        ((" Content-Length: 5",), 400),
        (("X: a", " folded: b"), 400),
        (("X: a\nTransfer-Encoding: chunked",), 400),
        (("X: a\rY: b",), 400),
        (("X: a\0",), 400),
        (("Host: other",), 400),
        (("Expect: 100-continue",), 400),
        (("Connection: close, Content-Length",), 400),
        (("Connection: Upgrade", "Upgrade: h2c"), 403),
        (("Connection: Upgrade", "Upgrade: websocket"), 403),
        (("Upgrade: tcp",), 403),
        (("Connection: Upgrade",), 403),
        ((f"Content-Length: {BODY_BYTES_MAX + 1}",), 413),
        (tuple(f"X-{number}: y" for number in range(80)), 400),
    ],
)
def test_what_two_readers_could_read_in_two_ways_is_refused(
    lines: tuple[str, ...], status: int
) -> None:
    head = read_head(
        "\r\n".join(["POST /x HTTP/1.1", "Host: docker", *lines, "", ""]).encode("utf-8")
    )
    assert isinstance(head, Refused), head
    assert head.status == status


def test_first_lines_that_are_none_are_refused() -> None:
    for first in (
        "POST /x HTTP/1.0",
        "POST /x HTTP/2.0",
        "POST  /x HTTP/1.1",
        "POST /x HTTP/1.1 ",
        "POST /x y HTTP/1.1",
        "POST x HTTP/1.1",
        "PRI * HTTP/2.0",
        "DELETE /containers/web HTTP/1.1",
        "POST http://docker/x HTTP/1.1",
        "",
    ):
        assert isinstance(_head(first=first), Refused), first
    assert isinstance(_head("Content-Length: 3", first="GET /x HTTP/1.1"), Refused)
    assert isinstance(read_head(b"GET /x HTTP/1.1\r\n\r\n"), Refused), "without a host"


def _described(host: Mapping[str, object], *mounts: dict[str, object]) -> Described:
    whole = {"Id": ID, "Name": "/w", "Config": {}, "HostConfig": dict(host), "Mounts": list(mounts)}
    return msgspec.json.decode(json.dumps(whole), type=Described)


def _bind(source: str, *, writable: bool = False) -> dict[str, object]:
    return {"Type": "bind", "Source": source, "Destination": "/x", "RW": writable}


def test_no_program_is_run_where_the_machine_below_can_be_reached() -> None:
    plain = {"NetworkMode": "lab_default", "IpcMode": "private", "CapAdd": ["NET_ADMIN"]}
    volume = {"Type": "volume", "Source": "/var/lib/docker/volumes/x", "RW": True}
    assert find_way_out(_described(plain, volume, _bind("/srv/lab/prometheus.yml"))) == ""
    leading_out: list[Mapping[str, object]] = [
        {"Privileged": True},
        {"PidMode": "host"},
        {"NetworkMode": "host"},
        {"PidMode": f"container:{ID}"},
        {"UsernsMode": "host"},
        {"CapAdd": ["cap_sys_admin"]},
        {"CapAdd": ["ALL"]},
        {"Devices": [{"PathOnHost": "/dev/sda"}]},
        {"SecurityOpt": ["seccomp=unconfined"]},
    ]
    for host in leading_out:
        assert find_way_out(_described(host)), host
    for source in ("/", "/var", "/run/docker.sock", "/var/run/docker.sock", "/etc", "/srv/d.sock"):
        assert find_way_out(_described({}, _bind(source))), source
    assert find_way_out(_described({}, _bind("/srv/lab", writable=True)))


def test_parts_of_operator_itself_are_not_the_labs() -> None:
    lab = {"com.docker.compose.project": "lab"}
    assert is_own(lab, "lab")
    assert not is_own({**lab, PART_LABEL: ""}, "lab")
    assert not is_own(lab, "la")
    assert not is_own(None, "lab")
    described = _described({})
    assert not described.is_of("lab")
