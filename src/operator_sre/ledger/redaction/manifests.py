"""Kubernetes Secrets: every value under `data:` and `stringData:`, in YAML and in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from operator_sre.ledger.redaction.findings import Finding, Pattern
from operator_sre.ledger.redaction.values import line_end, read_quoted

__all__ = ["TRIGGERS", "Manifest", "find_compact", "find_manifest", "has_secret"]

# The type tells it as well, where the kind was cut away.
_TYPES = rb"Opaque|kubernetes\.io/(?:tls|basic-auth|ssh-auth|dockerc\w+|service-account-token)"
TRIGGERS = rb"kind[\"'\\]*:\s*[\"'\\]*Secret\b|\btype[\"'\\]*:\s*[\"'\\]*(?:" + _TYPES + rb")\b"
_TYPE = Pattern(_TYPES)
LINE_BYTES_MAX = 65_536
DEPTHS_MAX = 64
_KIND = Pattern(TRIGGERS)
_COMPACT = Pattern(rb"[\"'\\]+(?:data|stringData)[\"'\\]+:\s?\{")
_BLOCKS = frozenset({b"data", b"stringData"})


@dataclass(slots=True)
class _Block:
    """The entries of one `data:`, kept until it is known whose they are."""

    indent: int
    start: int
    found: list[Finding] = field(default_factory=list)
    scalar: int = -1  # the indent of an entry whose value is on the lines below it


@dataclass(slots=True)
class Manifest:
    """The state after earlier lines: the kind of the object at each depth, and open blocks."""

    kinds: dict[int, bytes] = field(default_factory=dict)
    block: _Block | None = None
    waiting: dict[int, _Block] = field(default_factory=dict)

    def copy(self) -> Manifest:
        """The same, apart; only kinds and an open block of a known kind go on to later text."""
        block = self.block and _Block(self.block.indent, 0, [], self.block.scalar)
        return Manifest(dict(self.kinds), block, {})

    def find_unresolved(self) -> int | None:
        """Where the first block begins whose kind is not known yet."""
        blocks = list(self.waiting.values())
        if self.block is not None and self.block.indent not in self.kinds:
            blocks.append(self.block)
        return min((block.start for block in blocks), default=None)


def has_secret(data: bytes) -> bool:
    """Whether a Secret is in the text at all."""
    return _KIND.first(data) is not None


def find_compact(data: bytes) -> Iterator[Finding]:
    """Entries of a Secret that is one line of JSON, also inside another string."""
    done = 0
    for start, _ in _KIND.spans(data):
        if start < done:
            continue
        first = data.rfind(b"\n", max(0, start - LINE_BYTES_MAX), start) + 1
        done = line_end(data, start, LINE_BYTES_MAX)
        for _, at in _COMPACT.spans(data, max(first, start - LINE_BYTES_MAX), done):
            while True:
                name = read_quoted(data, at)
                at = name.end + name.depth + 1 if name is not None else at
                if name is None or data[at : at + 1] != b":":
                    break
                at += 2 if data[at + 1 : at + 2] == b" " else 1
                value = read_quoted(data, at)
                if value is None:
                    break
                if value.end > value.start:
                    yield Finding(value.start, value.end, "k8s_secret", value.plain(data))
                at = value.end + value.depth + 1
                at += 2 if data[at : at + 2] == b", " else 1


def find_manifest(data: bytes, state: Manifest) -> Iterator[Finding]:
    """Entries of Secrets that are spread over lines; the state goes on to the text that follows."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield from _line(data, at, min(end, at + LINE_BYTES_MAX), state)
        at = end + 1
    if state.block is not None and state.kinds.get(state.block.indent) == b"Secret":
        yield from state.block.found
        state.block.found = []


def _line(data: bytes, start: int, end: int, state: Manifest) -> Iterator[Finding]:
    line = data[start:end].rstrip(b"\r ")
    text = line.lstrip(b" ")
    if not text or text.startswith(b"[... "):  # where bytes were left out, it may go on
        return
    indent = len(line) - len(text)
    if text.startswith(b"---"):
        state.kinds, state.block, state.waiting = {}, None, {}
        return
    while text.startswith(b"- "):
        indent += 2
        text = text[2:].lstrip(b" ")
        state.kinds = {depth: kind for depth, kind in state.kinds.items() if depth < indent}
        state.waiting = {depth: block for depth, block in state.waiting.items() if depth < indent}
    block = state.block
    if block is not None and indent > block.indent:
        # The value of one entry, or one more line of a value that has many.
        at = start + len(line) - len(text)
        name, colon, value = text.partition(b":")
        if 0 <= block.scalar < indent:
            block.found.append(Finding(at, at + len(text), "k8s_secret"))
            return
        block.scalar = indent if value.strip()[:1] in (b"|", b">") else -1
        stripped = value.strip(b" \"',")
        if colon and stripped and block.scalar < 0:
            first = at + len(name) + 1 + value.index(stripped)
            block.found.append(Finding(first, first + len(stripped), "k8s_secret"))
        return
    if block is not None:
        state.block = None
        yield from _close(block, state)
    # Take in `kind:` and the beginning of `data:`.
    name, colon, value = text.partition(b":")
    name, value = name.strip(b"\"' "), value.strip(b"\"', ")
    if not indent and not colon and name not in (b"{", b"}"):
        state.kinds = {}  # not a manifest any more
    if not colon or len(state.kinds) > DEPTHS_MAX:
        return
    if name == b"type" and _TYPE.fits(value):
        name, value = b"kind", b"Secret"
    if name == b"kind":
        state.kinds[indent] = value
        block = state.waiting.pop(indent, None)
        if block is not None:
            yield from _close(block, state)
    elif name in _BLOCKS and value in (b"", b"{"):
        state.block = _Block(indent, start)


def _close(block: _Block, state: Manifest) -> Iterator[Finding]:
    kind = state.kinds.get(block.indent)
    if kind == b"Secret":
        yield from block.found
    elif kind is None and block.found and len(state.waiting) < DEPTHS_MAX:
        state.waiting[block.indent] = block
