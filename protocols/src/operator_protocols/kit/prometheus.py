"""Metrics as servers show them in text: only what is wanted is read, in one pass each. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache

__all__ = ["Buckets", "Sample", "blocks_of", "buckets_of", "quantile_of", "samples_of", "since"]

# A bucket's upper bound, and how many were not above it.
Buckets = dict[float, float]
# The labels of one line, and its value.
Sample = tuple[dict[str, str], float]
LINES_MAX = 50_000
_LABEL = re.compile(r'(\w{1,100})="([^"\n]{0,200})"')


def blocks_of(content: bytes, names: tuple[str, ...]) -> dict[str, bytes]:
    """The lines of each of these metrics, found in one pass; of a long page that is most of it."""
    if content.startswith(b"# TYPE "):
        content = b"\n" + content
    found: dict[str, bytes] = {}
    for match in _types(names).finditer(content):
        ends = content.find(b"\n#", match.end())
        block = content[match.end() : ends if ends >= 0 else len(content)]
        found[match[1].decode()] = block
    return found


def samples_of(content: bytes, name: str) -> Iterator[Sample]:
    """Every line of one metric."""
    for labels, value in _lines(content, name):
        yield dict(_LABEL.findall(labels.decode("utf-8", "replace"))), value


def buckets_of(content: bytes, name: str, *, without: frozenset[bytes] = frozenset()) -> Buckets:
    """A histogram, the sum over all its series; those whose label `type` is in `without` left out.

    Sums come before quantiles: the mean of quantiles is a quantile of nothing.
    """
    block = _block(content, f"{name}_bucket")
    for kind in without:
        block = _cut(block, b'type="' + kind + b'"')
    sums: dict[bytes, float] = {}
    for bound, text in _bucket(name).findall(block)[:LINES_MAX]:
        value = _number(text)
        if value is not None:
            sums[bound] = sums.get(bound, 0.0) + value
    bounds = ((_number(text), value) for text, value in sums.items())
    return {bound: value for bound, value in bounds if bound is not None}


def since(now: Buckets, before: Mapping[float, float]) -> Buckets:
    """The increase since `before`; the whole value after a restart, which counts from 0."""
    if any(before.get(bound, 0.0) > value for bound, value in now.items()):
        return now
    return {bound: value - before.get(bound, 0.0) for bound, value in now.items()}


def quantile_of(buckets: Mapping[float, float], at: float) -> float | None:
    """The value below which that share lies, as Prometheus estimates it; None for nothing."""
    bounds = sorted(buckets)
    if not bounds or not math.isinf(bounds[-1]) or buckets[bounds[-1]] <= 0 or len(bounds) < 2:
        return None
    rank = at * buckets[bounds[-1]]
    lower, below = 0.0, 0.0
    for bound in bounds:
        count = buckets[bound]
        if count >= rank:
            if math.isinf(bound):
                return lower  # it is somewhere above the last bound that there is
            inside = count - below
            return lower + (bound - lower) * ((rank - below) / inside if inside > 0 else 1.0)
        lower, below = bound, count
    return lower


def _lines(content: bytes, name: str) -> Iterator[tuple[bytes, float]]:
    """Labels and values of every line of one metric."""
    for labels, text in _pattern(name).findall(_block(content, name))[:LINES_MAX]:
        value = _number(text)
        if value is not None:
            yield labels, value


def _block(content: bytes, name: str) -> bytes:
    """The lines of one metric. They stand together, so that the rest is not read."""
    begins = _begin(content, name.encode())
    if begins < 0:
        return b""
    ends = content.find(b"\n#", begins)
    return content[begins : ends if ends >= 0 else len(content)]


def _cut(block: bytes, mark: bytes) -> bytes:
    """The block without the lines that bear a mark."""
    first = block.find(mark)
    if first < 0:
        return block
    begins = block.rfind(b"\n", 0, first) + 1
    last = block.find(b"\n", block.rfind(mark))
    ends = last + 1 if last >= 0 else len(block)
    inner = block[begins:ends]
    # Series stand one after the other; where they do not, every line is read.
    if inner.count(mark) < len(inner.splitlines()):
        inner = b"".join(line for line in inner.splitlines(keepends=True) if mark not in line)
    else:
        inner = b""
    return block[:begins] + inner + block[ends:]


def _begin(content: bytes, name: bytes) -> int:
    """Where the first line of a metric begins; -1 where there is none."""
    at = -1 if not content.startswith(name) else 0
    while True:
        if at < 0 or content[at + len(name) : at + len(name) + 1] not in (b"{", b" "):
            found = content.find(b"\n" + name, max(at, 0))
            if found < 0:
                return -1
            at = found + 1
            continue
        return at


@cache
def _types(names: tuple[str, ...]) -> re.Pattern[bytes]:
    return re.compile(rb"\n# TYPE (" + "|".join(names).encode() + rb") [a-z]{1,20}\n")


@cache
def _pattern(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"^" + name.encode() + rb"(\{[^}\n]*\}|) ([^ \n]{1,40})", re.MULTILINE)


@cache
def _bucket(name: str) -> re.Pattern[bytes]:
    labels = rb'\{[^}\n]*\ble="([^"\n]{1,40})"[^}\n]*\}'
    return re.compile(rb"^" + name.encode() + rb"_bucket" + labels + rb" ([^ \n]{1,40})", re.M)


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value
