"""Many links: in this process, by workers on the cores of a machine, or on a Ray cluster."""

from __future__ import annotations

from pagelink.engine.crew import Engine
from pagelink.engine.forecast import Forecast, forecast
from pagelink.engine.job import explain_table, stream
from pagelink.engine.metrics import Metrics, published
from pagelink.engine.opening import FromFiles, Sent
from pagelink.engine.parts import open_parts, read_parts
from pagelink.engine.processes import Processes
from pagelink.engine.ray_engine import Ray
from pagelink.engine.report import write_report
from pagelink.engine.summary import Summary
from pagelink.engine.worker import InProcess
from pagelink.errors import SettingsError

__all__ = [
    "Engine", "Forecast", "FromFiles", "InProcess", "Metrics", "Processes", "Ray", "Sent",
    "Summary", "engine_of", "explain_table", "forecast", "open_parts", "published", "read_parts",
    "stream", "write_report",
]  # fmt: skip


def engine_of(
    given: str | Engine,
    workers: int | None = None,
    address: str | None = None,
    memory: float | None = None,
) -> Engine:
    """Return the engine of a name.

    Args:
        given: `processes`, `ray`, or an engine, which is returned as it is.
        workers: the number of workers. None: one per core.
        address: of a Ray cluster. None: one on this machine.
        memory: of the engine ray: gigabytes to request for each worker. None: nothing.

    Raises:
        SettingsError: there is no such engine, or these do not go together.
    """
    if not isinstance(given, str):
        if workers is not None or address is not None:
            raise SettingsError("workers and address go with an engine's name, not with an engine.")
        return given
    if given == "ray":
        return Ray(address, workers, memory)
    if given != "processes":
        raise SettingsError(f"The engines are processes and ray; got {given!r}.")
    if address is not None or memory is not None:
        raise SettingsError("An address and the memory of a worker go with the engine ray.")
    return Processes(workers)
