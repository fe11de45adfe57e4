"""Work that another thread does only while the writer waits for the disk."""

import threading
import time

from operator_sre.store.writer import Lull

SOON_S = 0.001
LONG_S = 10.0


def _left_s(lull: Lull) -> float:
    """How long the next lull can be used."""
    until = lull.wait(limit_s=LONG_S, share=0.5)
    assert until is not None
    return until - time.perf_counter()


def test_nobody_writes_when_there_is_no_lull() -> None:
    assert Lull().wait(limit_s=SOON_S, share=1.0) is None


def test_a_lull_that_nobody_waited_for_is_not_remembered() -> None:
    lull = Lull()
    with lull:
        pass
    assert lull.wait(limit_s=SOON_S, share=1.0) is None


def test_a_lull_can_be_used_for_less_than_it_usually_takes() -> None:
    lull, over = Lull(), threading.Event()
    taken_s: list[float] = []

    def write() -> None:
        while not over.is_set():
            began = time.perf_counter()
            with lull:
                over.wait(0.02)
            taken_s.append(time.perf_counter() - began)

    writer = threading.Thread(target=write)
    writer.start()
    left_s = [_left_s(lull) for _ in range(20)]
    over.set()
    writer.join()
    assert 0.0 < max(left_s) < max(taken_s)
