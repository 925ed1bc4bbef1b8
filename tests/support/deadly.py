"""A part of the random tests whose cases end their process, hang or raise; run by a worker."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Generator

from pagelink.bench.fuzz.faults import Fault

KILLED, EXITED, HANGING, RAISING, FAULTY = 3, 5, 11, 13, 17


def deadly_cases(seed: int, cases: range) -> Generator[Fault, None, Counter[str]]:
    for case in cases:
        if case == KILLED:
            os.kill(os.getpid(), signal.SIGSEGV)
        elif case == EXITED:
            os._exit(4)
        elif case == HANGING:
            time.sleep(600)
        elif case == RAISING:
            raise RuntimeError("of the part itself")
        elif case == FAULTY:
            yield Fault("deadly", case, f"broken under seed {seed}")
    return Counter(cases=len(cases))
