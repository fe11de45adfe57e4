"""What redaction finds, what it leaves alone, and what it costs, beside doing less.

    .venv/bin/python benchmarks/redaction.py [--seed 1] [--each 200] [--lines 20000]

Promise: of generated secrets in ops contexts at least 95 % are gone (90 % in each context), at most
0.5 % of ordinary lines change, 20 kB of typical text take less than 5 ms, and hostile text takes
linear time. Beside it in the same run: copying the text, and a list of patterns for the standard
library's `re`, which is what is usually written first. Times are of the processor, best of many.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from operator_sre.ledger.redaction import Redactor
from tests.ledger.redaction.generator import samples
from tests.ledger.redaction.measuring import leaks
from tests.ledger.redaction.naive import naive
from tests.ledger.redaction.ordinary import ordinary_lines, ordinary_texts

SIZE = 20_000
Redact = Callable[[str], str]


def copied(text: str) -> str:
    """The least that can be done: encode it, and decode it again."""
    return text.encode().decode()


def recall(redact: Redact, seed: int, each: int) -> dict[str, float]:
    """The part of secrets that is gone, by context."""
    total: dict[str, int] = {}
    leaked: dict[str, int] = {}
    for sample in samples(seed, each):
        total[sample.context] = total.get(sample.context, 0) + 1
        leaked[sample.context] = leaked.get(sample.context, 0) + leaks(sample, redact(sample.text))
    return {context: 1 - leaked[context] / total[context] for context in total}


def changed(redact: Redact, seed: int, count: int) -> float:
    """The part of ordinary lines that is not what it was."""
    lines = touched = 0
    for _, text in ordinary_texts(seed, count):
        pairs = zip(text.split("\n"), redact(text).split("\n"), strict=False)
        touched += sum(before != after for before, after in pairs)
        lines += text.count("\n") + 1
    return touched / lines


def best_ms(redact: Redact, text: str, times: int = 30) -> float:
    """The shortest of many, in milliseconds of the processor."""
    redact(text)
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        redact(text)
        best = min(best, time.process_time() - started)
    return best * 1000


def workloads(seed: int) -> Iterator[tuple[str, str]]:
    """Texts of 20 kB: usual ones, ones full of secrets, and ones meant to hurt."""
    ordinary = list(ordinary_lines(seed, 900))
    secret = [sample.text for sample in samples(seed, 4)]
    mixed = [line for pair in zip(*[iter(ordinary)] * 20, secret, strict=False) for line in pair]
    yield "typical", "\n".join(ordinary)[:SIZE]
    yield "typical, 1 line in 20 secret", "\n".join(mixed)[:SIZE]
    yield "nothing but secrets", "\n".join(secret * 3)[:SIZE]
    yield "hostile: password=", ("password=" * SIZE)[:SIZE]
    yield "hostile: quotes", ('password=\\"' * SIZE)[:SIZE]
    yield "hostile: URLs", ("://a:b@" * SIZE)[:SIZE]
    yield "hostile: one word", "a" * SIZE


def show_recall(redact: Redact, seed: int, each: int) -> None:
    """Print what is found, by context, beside the naive list."""
    ours, theirs = recall(redact, seed, each), recall(naive, seed, each)
    sys.stdout.write(f"{'recall by context':32}{'operator':>10}{'naive re':>10}\n")
    for context, part in ours.items():
        sys.stdout.write(f"{context:32}{part:10.1%}{theirs[context]:10.1%}\n")
    means = [sum(parts.values()) / len(parts) for parts in (ours, theirs)]
    sys.stdout.write(f"{'overall':32}{means[0]:10.1%}{means[1]:10.1%}\n\n")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=200)
    parser.add_argument("--lines", type=int, default=20_000)
    given = parser.parse_args()
    redact = Redactor(bytes(range(32))).text
    show_recall(redact, given.seed, given.each)
    ours, theirs = (changed(one, given.seed, given.lines) for one in (redact, naive))
    sys.stdout.write(f"{'ordinary lines changed':32}{ours:10.2%}{theirs:10.2%}\n\n")
    columns = ("operator ms", "naive re ms", "copy ms", "MB/s")
    sys.stdout.write(f"{'20 kB of':32}" + "".join(f"{name:>13}" for name in columns) + "\n")
    for name, text in workloads(given.seed):
        spent = [best_ms(one, text) for one in (redact, naive, copied)]
        row = "".join(f"{one:13.2f}" for one in spent) + f"{len(text) / spent[0] / 1000:13.1f}"
        sys.stdout.write(f"{name:32}{row}\n")
    sys.stdout.write("\ngrowth of hostile text, ms\n")
    for piece in ("password=", 'password=\\"', "://a:b@", "mysql -p "):
        sizes = [(piece * size)[:size] for size in (250_000, 500_000, 1_000_000)]
        row = "".join(f"{best_ms(redact, text, times=1):13.0f}" for text in sizes)
        sys.stdout.write(f"{piece:32}{row}\n")


if __name__ == "__main__":
    main()
