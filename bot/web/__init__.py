"""The one way to the web: a client that connects only where the network guard lets it, within limits.

`ctx.room.web` is a `GuardedClient` (`client.py`); nothing else in the tools opens a connection::

    answer = await ctx.room.web.request("GET", url, max_bytes=10 * MIB, timeout_s=30)
    answer = await ctx.room.web.request("POST", base_url + "/search", json={...}, headers={...}, trusted=True)

`trusted=True` is for endpoints that the operator's configuration names (search engines, image models): their
addresses and ports are not judged, so that one on this machine can be used; every other limit holds, and a
redirect to another origin is judged like any page's. `proxy=` (an HTTP proxy) goes with `trusted=True` only:
behind a proxy there is no address to judge. `silence_s=` is for endpoints that think for long before they answer.

`Answer` (`wire.py`) has `status` (HTTP errors are answers), `url` (after redirects), `headers`, `content_type`,
`charset`, `body` (unpacked by its Content-Encoding) and `is_cut`. What can go wrong: `BadUrl` and `NetworkRefused`
from `bot/security/network.py`, `WebError` and its kinds from `errors.py`.

`content.py` makes text of answers, `charsets.py` of bytes; `reader.py` (`ctx.room.pages`) has pages read in a process
of its own. What a model gets is put between marks by `bot/security/untrusted.py`. `search/` has the search engines,
`images.py` the endpoint that makes pictures.
"""
