"""Whatever cuts a text before it is redacted shows no piece of a secret whose name it cut away."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.action import Argument
from operator_protocols.domain.excerpt import find_start, keep_first, keep_last_line, note_omission
from operator_protocols.domain.target import Target
from operator_sre.app import context
from operator_sre.executor.tools.docker_state import Newest
from operator_sre.executor.tools.files import ReadFile
from operator_sre.executor.transports import script
from operator_sre.ledger.redaction import Redactor, Stream
from operator_sre.ledger.redaction import redactor as streams
from operator_sre.processes import files
from operator_sre.processes.capture import Capture
from tests.executor.jobs import new_job
from tests.ledger.redaction.conftest import KEY
from tests.ledger.redaction.generator import Sample, samples
from tests.ledger.redaction.making import password, token

REDACTOR = Redactor(KEY)
# So many letters in a row of a secret are a piece of it; fewer stand in many words.
PIECE = 7
LINE = "2026-03-04 10:11:12 worker-3 INFO request 4711 took 12 ms, 200\n"


def _pem_lines(chance: random.Random) -> list[str]:
    letters = string.ascii_letters + string.digits + "+/"
    body = ["".join(chance.choices(letters, k=64)) for _ in range(4)]
    return ["-----BEGIN PRIVATE KEY-----", *body, "Zm9vYmFy", "-----END PRIVATE KEY-----"]


def _spread(chance: random.Random) -> Iterator[Sample]:
    """Secrets on other lines than their names."""
    for secret in (token(chance), password(chance)):
        for before, after in (
            ("clientSecret: >-\n  ", "\nregion: eu\n"),
            ('{\n  "clientSecret":\n    "', '",\n  "tenant": "ops"\n}\n'),
            ("env:\n- name: SMTP_PASSWORD\n  value: ", "\n- name: LANG\n  value: C\n"),
            ('{"env": [{"name": "DB_PASSWORD",\n "value": "', '"},\n {"name": "A"}]}\n'),
            ("host,user,password,port\ndb1,app,", ",5432\ndb2,app,x,5432\n"),
            ("passwords:\n  - ", "\n  - other\nport: 1\n"),
            ("kind: Secret\nmetadata: {}\ndata:\n  tls.key: ", "\n  a: YWJjZGVm\nother: 1\n"),
            ("machine db1 login app\n  password ", "\n"),
        ):
            yield Sample("spread", before, secret, after, secret)
    lines = _pem_lines(chance)
    for number, line in enumerate(lines[1:-1], start=1):
        head, rest = "\n".join(lines[:number]), "\n".join(lines[number + 1 :])
        yield Sample("spread", f"{head}\n", line, f"\n{rest}\n", line)
    yield Sample("spread", f'{{"k": "{lines[0]}\\n', lines[1], f'\\n{lines[-1]}\\n"}}\n', lines[1])


def _cases(seed: int, each: int) -> list[Sample]:
    """Samples that redaction finds when it sees all of them, each among ordinary lines."""
    chance = random.Random(seed)
    made = [*samples(seed, each), *_spread(chance), *_spread(chance)]
    found = [
        Sample(
            one.context, LINE * 9 + one.before, one.written, f"{one.after}\n{LINE * 9}", one.secret
        )
        for one in made
        if len(one.written) > PIECE
    ]
    return [one for one in found if not _pieces(one, REDACTOR.text(one.text))]


def _pieces(one: Sample, shown: str) -> list[str]:
    """The pieces of the secret that can be seen, but for pieces that stand elsewhere too."""
    around = one.before + "\0" + one.after
    pieces = (one.written[at : at + PIECE] for at in range(len(one.written) - PIECE + 1))
    return [piece for piece in pieces if piece in shown and piece not in around]


CASES = _cases(11, 2)


def _offsets(one: Sample, chance: random.Random) -> Iterator[int]:
    """Where a cut hurts: at the name, before the secret, in it, after it."""
    begin, end = len(one.before.encode()), len((one.before + one.written).encode())
    yield from (begin, (begin + end) // 2, chance.randrange(begin, end), begin - 1, end - PIECE)
    yield chance.randrange(max(0, begin - 40), begin)


def _expect_none(cut: Callable[[bytes, int], str]) -> None:
    """Nothing of any secret is shown where `cut` leaves out what stands before an offset."""
    chance = random.Random(7)
    shown = 0
    for one in CASES:
        data = one.text.encode()
        for offset in _offsets(one, chance):
            text = cut(data, offset)
            assert not _pieces(one, REDACTOR.text(text)), (one, offset, text)
            shown += bool(text.strip())
    assert shown > len(CASES)  # a cut that shows nothing proves nothing


def test_there_are_many_cases_of_many_kinds() -> None:
    assert len(CASES) > 90
    assert len({one.context for one in CASES}) > 20
    assert sum(one.context == "spread" for one in CASES) > 30


def test_a_bare_cut_would_show_many() -> None:
    bare = [one for one in CASES if _pieces(one, REDACTOR.text(one.text[len(one.before) :]))]
    assert len(bare) > len(CASES) / 3


@pytest.mark.asyncio
async def test_a_part_of_a_file_is_redacted_with_what_stands_around_it(tmp_path: Path) -> None:
    tool, chance = ReadFile(REDACTOR.part, lambda path: True), random.Random(3)
    path = tmp_path / "a.log"
    shown = 0
    for one in CASES:
        path.write_bytes(one.text.encode())
        for offset in _offsets(one, chance):
            given: dict[str, Argument] = {"path": str(path), "offset": offset}
            if chance.random() < 0.5:
                given["bytes_max"] = chance.randrange(1, 200)
            result = await tool.call(given, new_job())
            assert result.ok
            assert not _pieces(one, REDACTOR.text(result.stdout)), (one, given, result.stdout)
            shown += bool(result.stdout)
    assert shown > len(CASES)


@pytest.mark.asyncio
async def test_the_header_of_a_table_counts_for_all_of_a_file(tmp_path: Path) -> None:
    path, rows = tmp_path / "users.csv", [f"db{n},app,Winter!{n:06}z,5432\n" for n in range(40_000)]
    path.write_text("host,user,password,port\n" + "".join(rows))
    tool = ReadFile(REDACTOR.part, lambda path: True)
    for offset in (300_000, 700_011):
        result = await tool.call({"path": str(path), "offset": offset}, new_job())
        assert result.ok
        assert ",5432\n" in result.stdout
        assert "!0" not in result.stdout


@pytest.mark.parametrize("limit", [600, 2000])
def test_the_ends_of_an_output_that_is_too_long(limit: int) -> None:
    def cut(data: bytes, offset: int) -> str:
        # So much before and after that the tail begins at the offset.
        capture = Capture(limit)
        kept = capture._tail_max - 48
        capture.feed(LINE.encode() * 40 + data[:offset])
        capture.feed((data[offset:] + LINE.encode() * 40)[:kept])
        return capture.kept_bytes().decode("utf-8", "replace")

    def cut_head(data: bytes, offset: int) -> str:
        capture = Capture(2 * offset + 48)
        capture.feed(data + LINE.encode() * 100)
        return capture.kept_bytes().decode("utf-8", "replace")

    _expect_none(cut)
    if limit > 1000:  # the head does not depend on it
        _expect_none(cut_head)


def test_the_newest_lines_of_a_container() -> None:
    def cut(data: bytes, offset: int) -> str:
        lines = data.count(b"\n", offset)
        newest = Newest(lines, 1 << 16)
        newest.feed(1, data)
        return newest.text()

    def cut_bytes(data: bytes, offset: int) -> str:
        newest = Newest(1000, len(data) - offset)
        newest.feed(1, data)
        return newest.text()

    _expect_none(cut)
    _expect_none(cut_bytes)


def test_the_end_of_the_log_of_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    target = Target("db", "node", log=str(path))

    def cut(data: bytes, offset: int) -> str:
        path.write_bytes(data)
        monkeypatch.setattr(context, "TAIL_BYTES_MAX", len(data) - offset)
        found = context.log_tails([target], ["db"], REDACTOR.text)
        return "\n".join(line for tail in found for line in tail.lines)

    _expect_none(cut)


def test_the_last_line_of_a_log_and_of_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    for one in CASES:
        if "\n" in one.before[len(LINE) * 9 :] + one.written:
            continue
        whole = one.before + one.written + one.after.partition("\n")[0]
        text = whole.splitlines()[-1]
        path.write_text(text)
        for size in (len(one.written), len(text) - 1, len(text)):
            assert not _pieces(one, REDACTOR.text(keep_last_line(whole, size)))
            monkeypatch.setattr(files, "TAIL_BYTES", size)
            assert not _pieces(one, REDACTOR.text(files.last_line(path)))


def test_what_a_place_kept_of_an_output_without_end() -> None:
    token_ = "\x1e0123456789abcdef"

    def cut(data: bytes, offset: int) -> str:
        heard: list[bytes] = []
        ear = script.Ear(1, token_, 0, lambda _, part: heard.append(part))
        kept, last = b"begin\n", (data[offset:] + LINE.encode() * 600)[: script.LAST_BYTES_MAX]
        more = len(data) + script.LAST_BYTES_MAX
        ear.feed(token_.encode() + token_.encode() + f"{len(kept)} 0 {more} ran 0\n".encode())
        for part in (kept, last[:100], last[100:]):
            ear.feed(part)
        text = b"".join(heard).decode("utf-8", "replace")
        left_out = re.match(r"begin\n(?P<note>\n\[\.\.\. (?P<count>\d+) .*\n)", text)
        assert left_out
        assert left_out["note"].encode() == note_omission(int(left_out["count"]))
        return text

    _expect_none(cut)


def test_a_line_without_end_is_redacted_across_its_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LINE_CHARACTERS_MAX", 3000)
    monkeypatch.setattr(streams, "AROUND_CHARACTERS", 1000)
    for one in CASES:
        name = one.before[len(LINE) * 9 :]
        if "\n" in name + one.written or len(name + one.written) > 700:
            continue
        stream = Stream(REDACTOR)
        rest = one.after.partition("\n")[0]
        text = "word " * 380 + name + one.written + rest + " next" * 800 + "\n"
        if _pieces(one, REDACTOR.text(text)):
            continue  # its name must begin a line
        shown = "".join(stream.feed(text[at : at + 500]) for at in range(0, len(text), 500))
        shown += stream.end()
        assert shown.endswith(" next next\n")
        assert not _pieces(one, shown), (one, shown)


@pytest.mark.parametrize(
    ("text", "inside", "shown"),
    [
        (LINE * 2, False, LINE * 2),
        (f"rest of it\n{LINE}", True, LINE),
        ("no end", True, ""),
        ("web-1\nweb-2\nweb-3\n", True, "web-3\n"),  # the first may be the value of a name
        ("web-1\n/var/log/a\n/var/log/b\n", False, "/var/log/a\n/var/log/b\n"),
        ("  at a.b(C.java:10)\n  at d\n", False, "  at a.b(C.java:10)\n  at d\n"),
        ("1 2 3\n4 5 6\n", False, "1 2 3\n4 5 6\n"),
    ],
)
def test_ordinary_lines_after_a_cut_stay(text: str, inside: bool, shown: str) -> None:
    assert text[find_start(text.encode(), inside=inside) :] == shown


@pytest.mark.parametrize(
    ("text", "size", "shown"),
    [
        ("one two\nthree four", 12, "one two\n"),
        ("one two three", 9, "one two "),
        ("one", 9, "one"),
        ("password=hunter2long", 12, ""),
        ('{"a":1,"token":"abcdef"}', 20, '{"a":1,"token":"'),
    ],
)
def test_a_beginning_ends_with_a_line_or_a_word(text: str, size: int, shown: str) -> None:
    assert keep_first(text.encode(), size) == shown.encode()
