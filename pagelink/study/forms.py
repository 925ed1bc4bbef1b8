"""What people send: small forms, from the pages of the study itself."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

MOST_BYTES = 8192
_MOST_FIELDS = 10
_FORM = "application/x-www-form-urlencoded"


class Refusal(Exception):  # noqa: N818 - no fault of the program: a page is made of it
    """A request that is answered by a page saying why it is not taken."""

    def __init__(self, status: int, heading: str, text: str) -> None:
        super().__init__(heading)
        self.status, self.heading, self.text = status, heading, text


def is_cross_site(headers: Headers) -> bool:
    """Return whether a browser says that another site sends this.

    Browsers say where a request comes from by `Sec-Fetch-Site`, or by `Origin` where they leave
    that out, as they do for plain HTTP. What is no browser says neither.

    Example:
        >>> is_cross_site(Headers({"sec-fetch-site": "same-origin"}))
        False
        >>> is_cross_site(Headers({"origin": "http://elsewhere.org", "host": "here.org"}))
        True
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    # The scheme may differ behind a server that ends TLS.
    return origin is not None and urlsplit(origin).netloc != headers.get("host", "")


async def posted(request: Request) -> dict[str, str]:
    """Return the fields of a form; of a name that comes twice, the last.

    Raises:
        Refusal: another site sends it, or it is too long, or no form.
    """
    if is_cross_site(request.headers):
        raise Refusal(403, "Not from here", "This was sent by another site, and is not taken.")
    if request.headers.get("content-type", _FORM).split(";")[0].strip().lower() != _FORM:
        raise Refusal(415, "Not a form", "Only the forms of these pages are taken.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise Refusal(413, "Too long", "What was sent is longer than any form of these pages.")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise Refusal(400, "Not a form", "Only the forms of these pages are taken.") from error
    fields = dict(pairs)
    request.state.fields = fields  # a page that asks to send it again needs it
    return fields
