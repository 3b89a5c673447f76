"""The sections of MCP servers: what is taken, and what each mistake is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.config import Config
from bot.errors import ConfigError
from bot.parts import load_settings


def load(folder: Path, text: str) -> Config:
    path = folder / "dutiful.toml"
    path.write_text(text)
    return load_settings(path)


def test_servers_are_known_by_name_with_the_defaults_of_the_contract(tmp_path: Path) -> None:
    config = load(tmp_path, '[mcp.files]\ncommand = "npx"\nargs = ["x"]\n[mcp.web]\nurl = "https://mcp.example/mcp/"\n')
    files, web = config.mcp["files"], config.mcp["web"]
    assert (files.command, files.args, files.enabled, files.enabled_tools) == ("npx", ["x"], True, None)
    assert (files.timeout_s, files.start_timeout_s, files.max_concurrency) == (60.0, 30.0, 4)
    assert (web.url, web.transport, web.auth, web.allow_private) == ("https://mcp.example/mcp", "http", "none", False)


def test_secrets_of_servers_are_known_for_redaction(tmp_path: Path) -> None:
    process = '[mcp.a]\ncommand = "x"\nenv = {KEY = "s3cret-a"}\n'
    address = '[mcp.b]\nurl = "https://b.example"\nheaders = {X-Key = "s3cret-b"}\n'
    login = 'auth = "oauth"\noauth_client_id = "c"\noauth_client_secret = "s3cret-c"\n'
    config = load(tmp_path, process + address + login)
    assert {"s3cret-a", "s3cret-b", "s3cret-c"} <= config.secrets()
    assert "s3cret" not in repr(config.mcp)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[mcp.a]\n", "either command"),
        ('[mcp.a]\ncommand = "x"\nurl = "https://a.example"\n', "either command"),
        ('[mcp.a]\nurl = "ftp://a.example"\n', "http://"),
        ('[mcp.a]\ncommand = "x"\nheaders = {A = "b"}\n', "headers belongs to a server with url"),
        ('[mcp.a]\nurl = "https://a.example"\nargs = ["x"]\n', "args belongs to a server with command"),
        ('[mcp."A B"]\ncommand = "x"\n', "a name has a-z"),
        ('[mcp.a]\ncommand = "x"\nenabled_tool = ["y"]\n', "did you mean 'enabled_tools'"),
        ('[mcp.a]\nurl = "https://a.example"\ntransport = "websocket"\n', "mcp.a.transport"),
        ('[mcp.a]\nurl = "https://a.example"\nauth = "oauth"\nheaders = {authorization = "x"}\n', "exclude each other"),
        ('[mcp.a]\nurl = "https://a.example"\noauth_client_id = "x"\n', 'oauth_client_id belongs to auth = "oauth"'),
        ('[mcp.a]\ncommand = "x"\noauth_issuer = "https://b.example"\n', "oauth_issuer belongs to a server with url"),
        (
            '[mcp.a]\nurl = "https://a.example"\nauth = "oauth"\noauth_client_secret = "x"\n',
            "oauth_client_secret belongs to an oauth_client_id",
        ),
        ('[mcp.a]\nurl = "https://a.example"\nauth = "oauth"\noauth_issuer = "b.example"\n', "http://"),
        ('[mcp.a]\ncommand = "x"\nenv = {"A=B" = "c"}\n', "environment variable"),
        ("mcp = 3\n", "must be a table of sections such as [mcp.NAME]"),
    ],
)
def test_a_mistake_is_named_with_its_section(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match="mcp") as caught:
        load(tmp_path, text)
    assert problem in str(caught.value)
