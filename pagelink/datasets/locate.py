"""Where the data folders are."""

from __future__ import annotations

import os
from pathlib import Path

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
        >>> find_data("my-data", path="/nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        pagelink.datasets.locate.DataNotFoundError: The data folder 'my-data' is not at ...
    """
    if path is not None:
        places = [Path(path)]
    elif os.environ.get(DATA_VARIABLE):
        places = [Path(os.environ[DATA_VARIABLE]) / name]
    else:
        roots = (Path.cwd(), Path(__file__).parents[2])
        places = [root.resolve().parent / "shared" / "data" / name for root in roots]
    for place in places:
        if place.is_dir():
            return place
    looked = " or ".join(str(place) for place in dict.fromkeys(places))
    raise DataNotFoundError(
        f"The data folder {name!r} is not at {looked}. Give its path, or set {DATA_VARIABLE} to "
        f"the folder that holds {name!r}."
    )
