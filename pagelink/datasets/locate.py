"""Where the data folders are."""

from __future__ import annotations

import os
from pathlib import Path

import pagelink
from pagelink.errors import PageLinkError

DATA_VARIABLE = "PAGELINK_DATA"


class DataNotFoundError(PageLinkError, FileNotFoundError):
    """A data folder is not where it was looked for."""


def find_data(name: str, path: Path | str | None = None) -> Path:
    """Return the folder of a data set.

    It is `path` if that is given; else the folder `name` in the folder that the environment
    variable PAGELINK_DATA names, if it is set; else `../shared/data/<name>`, seen from the current
    folder or from the folder that holds the package.

    Raises:
        DataNotFoundError: there is no such folder. The message says where it was looked for.

    Example:
        >>> find_data("no-such-data", path="nowhere")
        Traceback (most recent call last):
        pagelink.datasets.locate.DataNotFoundError: The data folder 'no-such-data' is not at nowhere...
    """
    if path is not None:
        places = [Path(path)]
    elif os.environ.get(DATA_VARIABLE):
        places = [Path(os.environ[DATA_VARIABLE]) / name]
    else:
        roots = (Path.cwd(), Path(pagelink.__file__).parent.parent)
        places = [root.resolve().parent / "shared" / "data" / name for root in roots]
    for place in places:
        if place.is_dir():
            return place
    looked = " or ".join(str(place) for place in dict.fromkeys(places))
    raise DataNotFoundError(
        f"The data folder {name!r} is not at {looked}. Give its path, or set {DATA_VARIABLE} to the "
        f"folder that holds {name!r}."
    )
