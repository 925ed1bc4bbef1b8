"""What a job will take, from a sample of its links: time, memory, disk."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import compress, count
from pathlib import Path

import numpy as np
import pyarrow as pa

from pagelink.engine.opening import Opening
from pagelink.engine.seal import part_size
from pagelink.engine.tasks import LINKS_A_CHUNK, Task, check_chunk, plan
from pagelink.engine.worker import Explaining, Order, own_memory
from pagelink.errors import GraphError
from pagelink.explain.explainer import MEMORY
from pagelink.explain.options import ExplainOptions
from pagelink.runtime.arrays import Doubles
from pagelink.store.addresses import Mirror, fetched, is_address
from pagelink.tables.link_tables import count_links
from pagelink.views.rows import SCHEMA, is_one_file, write_rows

PLACES = 8
"""Places of the table that a sample is from."""
LINKS_A_PLACE = 64
SECONDS = 60.0
"""After which no further place is tried."""
FEWEST_PLACES = 3
"""That say how much places differ."""
TWO_SIDED = 2.0
"""Standard errors on either side of a mean that a range has."""


@dataclass(frozen=True)
class Forecast:
    """What a job will take."""

    num_links: int
    sampled: int
    """How many of them were explained."""
    opening: float
    """Seconds until graph and model were open."""
    per_link: float
    """CPU seconds per link."""
    error: float | None
    """Standard error of that, from place to place; None of fewer than three places."""
    memory: float
    """The most memory that a worker has for itself, in GB."""
    num_parts: int
    disk: float
    """Gigabytes of the parts, and of the file that is made from them."""
    free: float
    """Gigabytes that are free where they go."""

    @property
    def hours(self) -> float:
        """Hours of one core."""
        return self.num_links * self.per_link / 3600

    @property
    def hours_range(self) -> tuple[float, float] | None:
        """From how many hours of one core to how many; None of fewer than three places."""
        if self.error is None:
            return None
        off = TWO_SIDED * self.error * self.num_links / 3600
        return max(0.0, self.hours - off), self.hours + off


def forecast(
    opening: Opening,
    links: Path,
    out: Path,
    *,
    asked: ExplainOptions | None = None,
    memory: float = MEMORY,
    chunk: int = LINKS_A_CHUNK,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Forecast:
    """Explain a sample of the links of a job in this process, and write nothing of it.

    The sample has up to 64 links from each of eight places spread over the table, or of fewer
    places if these take more than a minute. The first of them is explained twice, and counts once:
    the first time has compiled kernels and pages of the graph to load.

    Args:
        opening: as for `explain_table`, like the others.
        links: the table of links.
        out: where the job would write.
        asked: what the rows are to hold beside the paths.
        memory: about how many gigabytes the links side by side may take.
        chunk: the number of links per part.
        progress: called with the number of links explained and the number of the sample.

    Raises:
        SettingsError: an argument is out of its range.
        GraphError: the table of links cannot be read, or is empty.
    """
    check_chunk(chunk)
    if is_address(out):
        out = Mirror(out).path  # where it is made
    links, is_file = fetched(links), is_one_file(out)
    total = count_links(links)
    if not total:
        raise GraphError(f"{links} has no links.")
    sample = list(_spread(plan(links, chunk, sort=not is_file), math.ceil(total / chunk)))
    started = time.perf_counter()
    options = {"memory": memory, **asdict(asked or ExplainOptions())}
    explaining = Explaining(Order(opening, options, rows=True))
    opened = time.perf_counter() - started
    explaining.run(sample[0])
    seconds, tables, sizes = [], [], []
    for task in sample:
        began = time.process_time()
        tables.append(explaining.run(task).product)
        seconds.append(time.process_time() - began)
        sizes.append(len(task.links))
        progress(sum(sizes), sum(len(each.links) for each in sample))
        if time.perf_counter() - started > SECONDS:
            break
    sampled, num_parts = sum(sizes), math.ceil(total / chunk)
    empty, together = part_size(SCHEMA.empty_table()), max(1, chunk // LINKS_A_PLACE)
    parts = [tables[n : n + together] for n in range(0, len(tables), together)]
    filled = sum(part_size(pa.concat_tables(part)) - empty for part in parts)
    disk = num_parts * empty + total / sampled * filled
    if is_file:
        disk += total / sampled * _size_as(tables, out.suffix)
    return Forecast(
        num_links=total, sampled=sampled, opening=opened, per_link=sum(seconds) / sampled,
        error=_error(np.array(seconds), np.array(sizes, float)), memory=own_memory() / 1e9,
        num_parts=num_parts, disk=disk / 1e9, free=shutil.disk_usage(_existing(out)).free / 1e9,
    )  # fmt: skip


def _spread(planned: Iterator[Task], num_chunks: int) -> Iterator[Task]:
    """Yield the first links of chunks spread over all of them, the farthest apart first."""
    places = min(PLACES, num_chunks)
    wanted = {place * num_chunks // places for place in range(places)}
    found = list(compress(planned, (number in wanted for number in count())))
    # Of eight: 0, 4, 2, 6, 1, 5, 3, 7. A sample that is cut short is from all over the table.
    order = sorted(range(places), key=lambda n: f"{n:0{PLACES.bit_length() - 1}b}"[::-1])
    for place in order:
        yield found[place].cut(0, min(LINKS_A_PLACE, len(found[place].links)))


def _error(seconds: Doubles, sizes: Doubles) -> float | None:
    """Standard error of the ratio of two sums, by how the places differ."""
    if len(sizes) < FEWEST_PLACES:
        return None
    off = seconds - sizes * (seconds.sum() / sizes.sum())
    return float(math.sqrt((off**2).sum() * len(sizes) / (len(sizes) - 1)) / sizes.sum())


def _size_as(tables: list[pa.Table], suffix: str) -> int:
    with tempfile.TemporaryDirectory(prefix="pagelink-") as folder:
        file = Path(folder) / f"rows{suffix}"
        write_rows(tables, file)
        return file.stat().st_size


def _existing(out: Path) -> Path:
    return next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
