"""Where an endpoint is: what people write as `base_url`, made usable or refused, and how it is shown in errors."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from bot.errors import ConfigError

DEFAULT_BASE_URL = "https://api.openai.com/v1"
CHAT_PATH = "/chat/completions"


def usable_base_url(base_url: str, *, section: str = "llm", call: str = CHAT_PATH) -> str:
    """Return the address that `call` is put behind; '' is OpenAI's. `section` is whose key it is, for the error.

    Many manuals print the whole address of the call; what is pasted from there works too.

    Raises:
        ConfigError: not an http address.
    """
    text = base_url.strip() or DEFAULT_BASE_URL
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{section}.base_url must be an address that begins with http:// or https://")
    path = parts.path.rstrip("/").removesuffix(CHAT_PATH).removesuffix(call)
    if path.endswith("/v1/v1"):
        path = path.removesuffix("/v1")  # no server has it twice; who writes it has put two advices together
    return urlunsplit(parts._replace(path=path))


def refuse_unusable_key(api_key: str, *, section: str = "llm") -> None:
    """Refuse what no header can carry; `section` is whose key it is, for the error.

    Raises:
        ConfigError: the key can never work.
    """
    if not (api_key.isascii() and api_key.isprintable()):
        raise ConfigError(f"{section}.api_key contains a character that a key cannot have, such as a line break")


def shown_address(url: str) -> str:
    """Return an address for a log, without user name, password and query."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"


def not_found_hint(asked: str, answered: str) -> str:
    """Return what helps with a 404: where the request went, and what is unusual about that."""
    hint = f"asked {shown_address(answered)}"
    if shown_address(answered) != shown_address(asked):
        # A redirect turns the request into one without a body, unless it is one of two rare kinds.
        return f"{hint} after a redirect from {shown_address(asked)}; set base_url to where it leads"
    if "/v" not in urlsplit(asked).path:
        hint += "; most endpoints want /v1 at the end of base_url"
    return hint
