"""Random damage to files: found, or refused in a clear error, or without effect.

A case takes one of the formats that pagelink reads back, changes a few bytes of one of its files,
and has another process use it. That process may not die or hang, nor fail by an error that is not
pagelink's own; and where the format has checksums, no other answer may come without a word.
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pagelink.bench.fuzz.damaged_files import FORMATS
from pagelink.bench.fuzz.faults import Fault
from pagelink.store.manifest import MANIFEST
from pagelink.store.verification import CACHE_VARIABLE

SECONDS = 120
"""By the clock, for one case: what takes longer hangs."""
_SERVE = "from pagelink.bench.fuzz.damaged_files import serve; serve()"

Files = dict[str, bytes]


def random_damage(seed: int, cases: range) -> Iterator[Fault]:
    """Damage files at random, and have another process use them.

    Args:
        seed: with the number of a case it gives the case.
        cases: their numbers.

    Yields:
        What broke a promise: a process that died or hung, an error that is not pagelink's own, or
        another answer without a word.
    """
    with tempfile.TemporaryDirectory(prefix="pagelink-damage-") as place, _User(place) as user:
        samples = [_Sample.made(name, Path(place, str(i)), user) for i, name in enumerate(FORMATS)]
        for case in cases:
            rng = np.random.default_rng((seed, case))
            sample = samples[int(rng.integers(len(samples)))]
            way = str(rng.choice(sample.ways))
            what = sample.damage(rng, forge=way in ("searched", "explained"))
            fault = sample.fault(way, user.use(sample.name, sample.folder, way))
            sample.mend()
            if fault:
                yield Fault("damage", case, f"{sample.name}, {what}, {way}: {fault}")


@dataclass
class _Sample:
    """Files of one format, as they were written."""

    name: str
    folder: Path
    ways: list[str]
    files: Files
    answers: dict[str, str] = field(default_factory=dict)
    """What comes of them in each way, undamaged."""

    @classmethod
    def made(cls, name: str, folder: Path, user: _User) -> _Sample:
        folder.mkdir()
        FORMATS[name].make(folder)
        found = cls(name, folder, list(FORMATS[name].ways), _read(folder))
        for way in dict.fromkeys(found.ways):
            answer = user.use(name, folder, way)
            if "digest" not in answer:
                raise RuntimeError(f"{name}, undamaged, {way}: {answer}")
            found.answers[way] = answer["digest"]
            found.mend()
        return found

    def damage(self, rng: np.random.Generator, forge: bool) -> str:
        """Damage one of the files, and say which and how."""
        file = str(rng.choice(list(self.files)))
        how, content = _changed(self.files[file], rng)
        if forge and Path(file).name == MANIFEST:
            # With its own checksum in order: a manifest that others made.
            how, content = "forged", _forged(self.files[file], rng)
        path = self.folder / file
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        return f"{file} {how}"

    def fault(self, way: str, answer: dict[str, Any]) -> str | None:
        """Say what is wrong with an answer, if anything is."""
        if "digest" not in answer:
            return None if "refused" in answer else str(next(iter(answer.values())))
        finds = FORMATS[self.name].finds
        if way not in finds or answer["digest"] == self.answers[way]:
            # A store answers by its identity alone: it may not be opened as if it were unchanged.
            is_unnoticed = way in finds and self.name.startswith("store")
            return "damage that was not found" if is_unnoticed else None
        return "another answer without a word"

    def mend(self) -> None:
        """Put the files back as they were."""
        for file, content in _read(self.folder).items():
            if self.files.get(file) != content:
                (self.folder / file).unlink()
        for file, content in self.files.items():
            if not (self.folder / file).exists():
                (self.folder / file).write_bytes(content)


def _read(folder: Path) -> Files:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def _changed(content: bytes, rng: np.random.Generator) -> tuple[str, bytes | None]:
    """Return how content was changed, and what it is now; None: it is gone."""
    while True:
        found = bytearray(content)
        kind = rng.choice(["bytes", "bytes", "bytes", "bytes", "swap", "zeros", "cut", "longer",
                           "gone"])  # fmt: skip
        size = max(len(content), 1)
        if kind == "gone":
            return "removed", None
        if kind == "bytes":
            for place in rng.integers(0, size, rng.integers(1, 5)):
                if place < len(found):
                    found[place] = rng.integers(256)
        elif kind == "swap":
            width = int(rng.integers(1, max(2, size // 2)))
            one, other = (int(i) for i in rng.integers(0, max(1, size - width), 2))
            found[one : one + width] = content[other : other + width]
        elif kind == "zeros":
            first = int(rng.integers(0, size))
            last = min(len(content), first + int(rng.integers(1, 65)))
            found[first:last] = bytes(max(0, last - first))
        elif kind == "cut":
            del found[int(rng.integers(0, size)) :]
        else:
            found += rng.bytes(int(rng.integers(1, 65)))
        if bytes(found) != content:
            return f"changed ({kind})", bytes(found)


def _forged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a manifest that says something else in one place, with a checksum that fits it."""
    manifest = json.loads(content)
    place: Any = manifest
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(len(keys)))]
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.95:
            place = place[key]
            continue
        others: list[Any] = [0, -1, 1, 2**40, None, "", "../x.npy", "x" * 40, [], {}, True, 0.5]
        place[key] = others[int(rng.integers(len(others)))]
        break
    if "checksum" in manifest:
        manifest["checksum"] = "0" * 64
        text = json.dumps(manifest, ensure_ascii=False).encode()
        return text.replace(b"0" * 64, hashlib.sha256(text).hexdigest().encode(), 1)
    return json.dumps(manifest, ensure_ascii=False).encode()


class _User:
    """The process that uses the files; another one takes its place when it dies."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> _User:
        return self

    def __exit__(self, *raised: object) -> None:
        self._end()

    def use(self, name: str, folder: Path, way: str) -> dict[str, Any]:
        """Have files used in a way, and return what came of it."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
                env={**os.environ, CACHE_VARIABLE: str(Path(self._place, "cache"))},
            )  # fmt: skip
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it died, and its exit code says of what
            process.stdin.write(json.dumps([name, str(folder), way]) + "\n")
            process.stdin.flush()
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            if not ready.select(SECONDS):
                self._end()
                return {"hung": f"no answer within {SECONDS} s"}
        if line := process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = process.wait()
        self._end()
        return {"died": f"the process ended with exit code {code}"}

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None
