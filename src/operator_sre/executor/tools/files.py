"""Files of this machine: read a part, replace the whole, and put it back as it was."""

from __future__ import annotations

import asyncio
import difflib
import errno
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO, TypeAlias

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.excerpt import keep_first, note_omission
from operator_protocols.domain.observation import Value
from operator_protocols.domain.tool import Parameter, ParameterType, Prepared, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.executor.tools.parameters import Validated, check_arguments
from operator_sre.executor.tools.replacement import FILE_BYTES_MAX, Kept, State, open_place

__all__ = ["ReadFile", "RedactPart", "RestoreFile", "Rights", "WriteFile", "difference"]

READ_BYTES_MAX = 65_536
# What is read around a part to redact it: the header of a table, what stands before, after.
HEADER_BYTES_MAX, BEFORE_BYTES_MAX, AFTER_BYTES_MAX = 4096, 131_072, 65_536
# A text without its secrets, as what stands before and after it shows them.
RedactPart: TypeAlias = Callable[[str, str, str], str]
PATH_CHARACTERS_MAX = 4096
# A difference is for people to read, and is never worth more than this.
DIFF_LINES_MAX, COMPARED_LINES_MAX = 400, 2000
DIFF_CHARACTERS_MAX = 32_768
HIDDEN = "(The difference is not shown, because the file may contain secrets.)"
_PATH = Parameter(
    "path", "the absolute path, without symbolic links", minimum=1, maximum=PATH_CHARACTERS_MAX
)
_CATEGORIES = {
    errno.ENOENT: FailureCategory.NOT_FOUND,
    errno.ENOTDIR: FailureCategory.NOT_FOUND,
    errno.EACCES: FailureCategory.PERMISSION,
    errno.EPERM: FailureCategory.PERMISSION,
    errno.EROFS: FailureCategory.PERMISSION,
    errno.EINVAL: FailureCategory.SYNTAX,
    errno.EFBIG: FailureCategory.RESOURCE,
    errno.ENOSPC: FailureCategory.RESOURCE,
    errno.EDQUOT: FailureCategory.RESOURCE,
}


@dataclass(frozen=True, slots=True)
class Rights:
    """The policy's word at the moment of a call: what may be written, and what holds secrets."""

    writable: Callable[[str], bool]
    secret: Callable[[str], bool]


class ReadFile:
    """Reads a part of a file.

    A part is redacted here, where what stands around it can be seen: the name of a secret may
    stand before the part.
    """

    spec = ToolSpec(
        name="read_file",
        sentence="Reads a part of a regular file. Does not follow symbolic links.",
        parameters=(
            _PATH,
            Parameter(
                "offset",
                "the number of bytes to skip",
                ParameterType.INTEGER,
                required=False,
                default=0,
                minimum=0,
                maximum=2**62,
            ),
            Parameter(
                "bytes_max",
                "the maximum number of bytes to read",
                ParameterType.INTEGER,
                required=False,
                default=READ_BYTES_MAX,
                minimum=1,
                maximum=READ_BYTES_MAX,
            ),
        ),
        risk=Risk.LOW,
        changes=False,
        idempotent=True,
        expected="The content of the file, as text.",
        timeout_s=30.0,
    )

    def __init__(self, redact: RedactPart, readable: Callable[[str], bool]) -> None:
        self._redact = redact
        self._readable = readable

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Read it. What is not text is shown by its bytes, and `binary` in the data says so."""
        given = check_arguments(self.spec, arguments)
        if isinstance(given, Result):
            return given
        started = time.monotonic()
        try:
            found = await asyncio.to_thread(self._read, given)
        except OSError as trouble:
            found = _failure(trouble)
        return replace(found, duration_s=round(time.monotonic() - started, 4))

    def _read(self, given: Validated) -> Result:
        path, offset = given.text("path"), given.integer("offset")
        if not self._readable(path):
            raise OSError(
                errno.EACCES,
                f"{path} belongs to Operator; of its home, only the logs of targets are read here.",
            )
        with open_place(path) as place:
            file = place.open()
        with os.fdopen(file, "rb") as stream:
            size = os.fstat(file).st_size
            before = _read_before(stream, min(offset, size)) if offset else b""
            if offset:
                stream.seek(offset)
            content = (
                stream.read(given.integer("bytes_max")) or b""
            )  # a file that is read while it fills
            after = stream.read(AFTER_BYTES_MAX) or b""
        text = _decode(content)
        if content and (before or after):
            text = self._redact(_decode(before), text, _decode(after))
        return Result(
            Outcome.RAN,
            exit_code=0,
            stdout=text,
            truncated=bool(after),
            data={
                "path": path,
                "size_bytes": size,
                "offset": offset,
                "read_bytes": len(content),
                "end": not after,
                "binary": b"\0" in content,
                "sha256": hashlib.sha256(content).hexdigest() if not (offset or after) else "",
            },
        )


class WriteFile:
    """Replaces a file whole; what it held is kept, and the result can put it back."""

    spec = ToolSpec(
        name="write_file",
        sentence="Replaces the content of a file atomically, and keeps a backup.",
        parameters=(
            _PATH,
            Parameter("text", "the new content of the file", minimum=0, maximum=FILE_BYTES_MAX),
            Parameter(
                "expect_sha256",
                "the hash of the current content, or 'absent'; looked up when the action is "
                "proposed",
                required=False,
                maximum=64,
            ),
        ),
        risk=Risk.HIGH,
        changes=True,
        reversible=True,
        idempotent=True,
        undo="restore_file",
        expected="The file has the new content, with the same mode and owner.",
        verify="read_file shows the hash of the text.",
        timeout_s=30.0,
    )

    def __init__(self, rights: Rights, kept: Kept) -> None:
        self._rights = rights
        self._kept = kept

    async def prepare(self, arguments: Mapping[str, Argument]) -> Prepared:
        """What would be different; only of a file that may be written at all."""
        path, text = arguments.get("path"), arguments.get("text")
        if (
            not isinstance(path, str)
            or not isinstance(text, str)
            or not self._rights.writable(path)
        ):
            return Prepared()
        try:
            now = await asyncio.to_thread(_state, path)
        except OSError:  # reported by the call; there is nothing to show before
            return Prepared()
        return Prepared({"expect_sha256": now.sha256}, self._difference(path, now, _encode(text)))

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Replace it. The difference is the output."""
        given = check_arguments(self.spec, arguments)
        if isinstance(given, Result):
            return given
        return await _run_timed(self._write, given)

    def _write(self, given: Validated) -> Result:
        path, new = given.text("path"), _encode(given.text("text"))
        _check(self._rights, path)
        if len(new) > FILE_BYTES_MAX:
            raise OSError(errno.EFBIG, f"The text is longer than {FILE_BYTES_MAX / 1e6:g} MB.")
        with open_place(path) as place:
            old = place.state()
            after = replace(old, content=new)
            if old.content == new:  # also when it was done before, so that it may be tried again
                return _change_result(path, old, after, f"{path} already has this content.")
            _expect(path, old, given.text("expect_sha256"))
            backup = self._kept.keep(path, old)
            place.put(after, old)
        undo = _undo(path, backup, after)
        return replace(
            _change_result(path, old, after, self._difference(path, old, new)), undo=undo
        )

    def _difference(self, path: str, old: State, new: bytes) -> str:
        return HIDDEN if self._rights.secret(path) else difference(path, old.content, new)


class RestoreFile:
    """Restores a file as it was before write_file, unless it has changed since."""

    spec = ToolSpec(
        name="restore_file",
        sentence="Restores a file as it was before write_file: content, mode and owner.",
        parameters=(
            _PATH,
            Parameter("backup", "the id that write_file returned", minimum=1, maximum=64),
            Parameter(
                "expect_sha256",
                "the hash of the current content, or 'absent'",
                minimum=6,
                maximum=64,
            ),
        ),
        risk=Risk.HIGH,
        changes=True,
        reversible=True,
        idempotent=False,
        undo="restore_file",
        expected="The file is as it was before.",
        verify="read_file shows the hash of the backup.",
        timeout_s=30.0,
    )

    def __init__(self, rights: Rights, kept: Kept) -> None:
        self._rights = rights
        self._kept = kept

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Put it back."""
        given = check_arguments(self.spec, arguments)
        if isinstance(given, Result):
            return given
        return await _run_timed(self._restore, given)

    def _restore(self, given: Validated) -> Result:
        path = given.text("path")
        _check(self._rights, path)
        wanted = self._kept.load(given.text("backup"), path)
        with open_place(path) as place:
            old = place.state()
            _expect(path, old, given.text("expect_sha256"))
            backup = self._kept.keep(path, old)
            place.put(wanted, old)
        sentence = f"{path} is as it was: {wanted.sha256}."
        return replace(
            _change_result(path, old, wanted, sentence), undo=_undo(path, backup, wanted)
        )


def difference(path: str, old: bytes | None, new: bytes) -> str:
    """What would be different, for people: a unified difference, cut where it is long. Pure."""
    if old is not None and b"\0" in old:
        return f"{path} is not a text; it is replaced by {len(new)} bytes."
    before, after = _lines(old or b""), _lines(new)
    name = "/dev/null" if old is None else path
    if len(before) > COMPARED_LINES_MAX or len(after) > COMPARED_LINES_MAX:
        return f"{path}: {len(before)} lines are replaced by {len(after)} lines."
    found = list(difflib.unified_diff(before, after, name, path, lineterm=""))
    cut = "\n".join(found[:DIFF_LINES_MAX])[:DIFF_CHARACTERS_MAX]
    whole = len(found) <= DIFF_LINES_MAX and len(cut) < DIFF_CHARACTERS_MAX
    return cut if whole else f"{cut}\n(and more: {len(found)} lines in all)"


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8", "backslashreplace").splitlines()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _state(path: str) -> State:
    with open_place(path) as place:
        return place.state()


def _check(rights: Rights, path: str) -> None:
    if not rights.writable(path):
        why = f"The policy forbids writing {path!r}: see 'paths: write' in the policy."
        raise OSError(errno.EPERM, why)


def _expect(path: str, old: State, sha256: str) -> None:
    if sha256 and sha256 != old.sha256:
        raise OSError(0, f"{path!r} has changed since this action was proposed.")


def _undo(path: str, backup: str, now: State) -> Action:
    given = {"path": path, "backup": backup, "expect_sha256": now.sha256}
    return Action(RestoreFile.spec.name, given, timeout_s=RestoreFile.spec.timeout_s)


def _change_result(path: str, old: State, new: State, sentence: str) -> Result:
    data: dict[str, Value] = {
        "path": path,
        "changed": old.content != new.content or old.mode != new.mode,
        "before_sha256": old.sha256,
        "sha256": new.sha256,
        "bytes": len(new.content or b""),
        "mode": f"{new.mode:o}",
    }
    return Result(Outcome.RAN, exit_code=0, stdout=sentence, data=data)


async def _run_timed(work: Callable[[Validated], Result], given: Validated) -> Result:
    started = time.monotonic()
    try:
        result = await asyncio.to_thread(work, given)
    except OSError as trouble:
        result = _failure(trouble)
    return replace(result, duration_s=round(time.monotonic() - started, 4))


def _read_before(stream: BinaryIO, offset: int) -> bytes:
    """What stands before a part: the header of a table, then the lines before it."""
    begin = max(0, offset - BEFORE_BYTES_MAX)
    head = keep_first(stream.read(HEADER_BYTES_MAX), HEADER_BYTES_MAX - 1) if begin else b""
    stream.seek(begin)
    near = stream.read(offset - begin) or b""
    if not begin:
        return near
    # The line in which this begins is no line of a table.
    near = near[near.find(b"\n") + 1 :]
    return head + note_omission(begin) + near


def _decode(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")


def _failure(trouble: OSError) -> Result:
    return Result(
        Outcome.RAN,
        exit_code=1,
        stderr=trouble.strerror or str(trouble),
        category=_CATEGORIES.get(trouble.errno or 0, FailureCategory.RUNTIME),
    )
