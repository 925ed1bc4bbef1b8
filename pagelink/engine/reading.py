"""Reading the folder of a job."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset

from pagelink.engine.parts import SUMMARY_FILE, part_files
from pagelink.errors import SettingsError
from pagelink.job_identity import JOB_FILE
from pagelink.views.rows import SCHEMA


def open_parts(folder: Path | str, *, partial: bool = False) -> pyarrow.dataset.Dataset:
    """Return the rows of a job as a dataset, which is read only as far as it is asked for.

    Args:
        folder: what `--out` named.
        partial: take what there is of a job that is not done.

    Raises:
        SettingsError: it is not the folder of a job, or the job is not done.
    """
    path = Path(folder)
    if not (path / JOB_FILE).is_file():
        raise SettingsError(f"{path} is not the folder of a job: it has no {JOB_FILE}.")
    if not partial and not (path / SUMMARY_FILE).is_file():
        raise SettingsError(
            f"The job of {path} is not done. Run its command again to finish it, or take what "
            "there is with partial=True."
        )
    files = [str(file) for file in part_files(path)]
    return pyarrow.dataset.dataset(files, schema=SCHEMA, format="parquet")


def read_parts(folder: Path | str, *, partial: bool = False) -> pa.Table:
    """Return the rows of a job as one table, in the order of the links' lines.

    Args:
        folder: what `--out` named.
        partial: take what there is of a job that is not done.

    Raises:
        SettingsError: as `open_parts`.
    """
    return open_parts(folder, partial=partial).to_table().sort_by(
        [("line", "ascending"), ("path", "ascending")]
    )  # fmt: skip
