"""Files that DGL 1.1.3 wrote, of one graph: compressed, the unused bytes of their heads emptied."""

from __future__ import annotations

import base64
import zlib

# Users 0 to 3, items 0 to 2, attributes 0 and 1; users have a feature.
EDGES = {
    ("item", "bought_by", "user"): [[1, 0, 1, 0], [0, 1, 2, 2]],
    ("user", "buys", "item"): [[0, 1, 2, 2], [1, 0, 1, 0]],
    ("user", "likes", "item"): [[2, 0], [1, 1]],
}
FILES = {
    "coo": (
        "eNqzX7jF7YO/3l0mBgiA0YwMo2AUjIJRMApGwSgYBaNgFIyCUTAKRsEoGC5AQACVv99LyXTf/Ii7+7NYFP7F29xV"
        "/3ifVehyzl1mqDyMtl+4ZdoHh7i7MH2MyLQDIwMLlK+Aw15GEs2DqZOA0kzY1JFhDro6mLlwheoLt3z7kKB3lxGq"
        "iB1KowcQ+gAKpQ4h1kMwPgeF+uAA5KHL/xPvslAY44w4PMZAYQpCjyliAxwTjNiohTmQZYCigtpJZTRqyY5amMcF"
        "0Ms/MvWTGhCYgBnNJeg+YiZQo8DoNFxWgwxmUkCkQia01Nj2RHx/6/5Z+55E21tuCrlmb7eM3/43s5T9tpBD+xPr"
        "Du1nJlClojs4saSkCMbOLEnNhbFLi1OLYGo5oXRSfml6Rkl8UiVMUVJpZTErlJ2TmZ1ajB7QsAocJg4Agw3P3w=="
    ),
    "csr": (
        "eNqzX7jF7YO/3l0mBgiA0YwMo2AUjIJRMApGwSgYBaNgFIyCUTAKRsEoGC5AQACVv99LyXTf/Ii7+7NYFP7F29xV"
        "/3ifVehyzl1mqDyMtl+4ZdoHh7i7MH2MyLQDIwMLlK+Aw15GEs2DqZOA0kzY1JFhDro6mLlwheoLt3z7kAAZIGGE"
        "KgDR6AGEPoBCqUOI9RCMz0GhPjiAeYiFSjEOCxAWNJpU8zBiiMQAx2UeMw7zRm7MM5MYU6xQvgaBPEWtFMCAg09u"
        "CkV3J/NoCqByCkAPYWIDCqZOgMwAwqWfAb2UR496FhyFAy6PpeFyCchgJgVE2mNCS4NtT8T3t+6fte9JtL3lppBr"
        "9nbL+O1/M0vZbws5tD+x7tB+ZgL1N7qDE0tKimDszJLUXBi7tDi1CKaWE0on5ZemZ5TEJ1XCFCWVVhbDojInMzu1"
        "GD3cYK0FmDgAQQrNyg=="
    ),
    "csc": (
        "eNqzX7jF7YO/3l0mBgiA0YwMo2AUjIJRMApGwSgYBaNgFIyCUTAKRsEoGC5AQACVv99LyXTf/Ii7+7NYFP7F29xV"
        "/3ifVehyzl1mqDyMtl+4ZdoHh7i7MH2MyLQDIwMLlK+Aw15GEs2DqZOA0kzY1JFhDro6mLlwheoLt3z7kKB3lwWq"
        "CEajBxD6AAqlDiHWQzA+B4X64AA9xlmINJAVytcgELIsJJqLnpIYcZjPQGHKRHcnM8NITwEsVMrz1I55Jhzmk2se"
        "Mw7zRmOeWqU9qQEEUyeAI8ZJ1Y9RVjDjyOwsOJIErhhKw+USkMFMCoiQYUILobYn4vtb98/a9yTa3nJTyDV7u2X8"
        "9r+Zpey3hRzan1h3aD8zgXob3cGJJSVFMHZmSWoujF1anFoEU8sJpZPyS9MzSuKTKmGKkkori2HFd05mdmqxAJpv"
        "YK0EmDgA9jvNyw=="
    ),
}


def dgl_file(stored: str) -> bytes:
    """The file with edges stored as "coo", "csr" or "csc"."""
    return zlib.decompress(base64.b64decode(FILES[stored]))
