"""The tools' sections: what each key means, that nothing loosens a wall by mistake, and where plugins have theirs."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest
from pydantic import BaseModel

from bot.config import Config, Section, load_config
from tests.support.configuration import isolate, load, problems


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


def test_without_a_section_the_walls_stand(tmp_path: Path) -> None:
    tools = load(tmp_path, "").tools
    assert tools.main.disabled == []
    assert (tools.web.networks, tools.web.search_engines) == ((), {})
    assert (tools.exec.sandbox, tools.exec.unsandboxed, tools.exec.network, tools.exec.timeout_s) == (
        "auto",
        False,
        False,
        60,
    )
    assert (tools.files.extra_read, tools.files.extra_write, tools.image.model) == ([], [], None)
    assert tools.cli_apps == {}


def test_networks_may_be_single_addresses(tmp_path: Path) -> None:
    tools = load(tmp_path, '[tools.web]\nallow_networks = ["10.0.0.0/8", "192.168.1.5", "fd00::/8"]').tools
    assert tools.web.networks == (ip_network("10.0.0.0/8"), ip_network("192.168.1.5/32"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    "text",
    [
        '[tools.web.search_engines.searxng]\nbase_url = "http://s"\n[tools.web.search_engines.brave]\napi_key = "k"',
        '[tools.web]\nsearch_engines = [{name = "searxng", base_url = "http://s"}, {name = "brave", api_key = "k"}]',
        """[[tools.web.search_engines]]
name = "searxng"
base_url = "http://s"
[[tools.web.search_engines]]
name = "brave"
api_key = "k"
""",
    ],
)
def test_search_engines_stand_in_order(tmp_path: Path, text: str) -> None:
    engines = load(tmp_path, text).tools.web.search_engines
    assert list(engines) == ["searxng", "brave"]
    assert engines["searxng"].base_url == "http://s"
    assert engines["brave"].api_key is not None


def test_a_name_alone_is_an_engine(tmp_path: Path) -> None:
    assert list(load(tmp_path, '[tools.web]\nsearch_engines = ["ddgs"]').tools.web.search_engines) == ["ddgs"]


def test_keys_of_tools_are_secrets(tmp_path: Path) -> None:
    text = '[tools.image]\napi_key = "image-key-1"\n[tools.web.search_engines.brave]\napi_key = "brave-key-1"\n'
    proxy = '[tools.web.search_engines.tavily]\napi_key = "tavily-key-1"\nproxy = "http://u:proxy-pass-1@p:1"\n'
    assert load(tmp_path, text + proxy).secrets() >= {"image-key-1", "brave-key-1", "tavily-key-1", "proxy-pass-1"}


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("command = \"git -C '/a b' log\"", ["git", "-C", "/a b", "log"]),
        ('command = ["/opt/my app/run"]', ["/opt/my app/run"]),
    ],
)
def test_an_apps_command_is_a_list_or_a_line(tmp_path: Path, line: str, command: list[str]) -> None:
    app = load(tmp_path, f"[cli_apps.my-app]\n{line}").tools.cli_apps["my-app"]
    assert (app.command, app.arguments, app.timeout_s) == (command, None, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tools = 1", "tools: must be a section, [tools], not a whole number"),
        ("[tools]\ndisable = []", "tools.disable: unknown key; did you mean 'disabled'?"),
        ("[tools.wep]", "tools.wep: unknown section; did you mean 'web'?"),
        ("[tools.exec]\nunsandbox = true", "tools.exec.unsandbox: unknown key; did you mean 'unsandboxed'?"),
        ("[tools.exec]\nunsandboxed = 1", "tools.exec.unsandboxed: must be true or false, not a whole number"),
        ("[tools.exec]\ntimeout_s = 601", "tools.exec.timeout_s: must be less than or equal to 600, not 601"),
        (
            '[tools.exec]\npath = "bin:/opt/bin"',
            "tools.exec.path: 'bin' is not an absolute folder; several are separated by ':'",
        ),
        (
            '[tools.web]\nallow_networks = ["10.0.0.1/8"]',
            "tools.web.allow_networks: '10.0.0.1/8' is not a network such as '10.0.0.0/8', '192.168.1.5' or 'fd00::/8'",
        ),
        (
            "[tools.web.search_engines.google]",
            "tools.web.search_engines: unknown engine 'google'; known: ddgs, brave, tavily, searxng",
        ),
        ("[tools.web.search_engines.brave]", "tools.web.search_engines: brave needs an api_key"),
        ("[tools.web.search_engines.searxng]", "tools.web.search_engines: searxng needs the base_url of an instance"),
        (
            "[tools.web]\nsearch_engines = [1]",
            "tools.web.search_engines: must be a table per engine, or a list of names",
        ),
        (
            '[tools.web.search_engines.searxng]\nbase_url = "http://s"\nproxy = "foo"',
            "tools.web.search_engines.searxng.proxy: must be the URL of a proxy, such as 'http://127.0.0.1:3128'",
        ),
        ("[cli_apps.a]\ncommand = []", "cli_apps.a.command: must not be empty"),
        ("cli_apps = 1", "cli_apps: must be a table of sections such as [cli_apps.NAME]"),
        ("[cli_apps.a]", "cli_apps.a.command: is required"),
        ("[cli_apps.a]\ncomand = 'x'\ncommand = 'x'", "cli_apps.a.comand: unknown key; did you mean 'command'?"),
        ('[cli_apps."a b"]\ncommand = "x"', "cli_apps.a b: a name has letters, digits, '_' and '-', at most 64"),
        (
            '[cli_apps.a]\ncommand = "x \'y"',
            "cli_apps.a.command: command cannot be split into words: No closing quotation",
        ),
        ("[cli_apps.a]\ncommand = ''", "cli_apps.a: command must name a program"),
        (
            "[cli_apps.a]\ncommand = 'x'\narguments = ['(']",
            "cli_apps.a: arguments: '(' is not a regular expression of RE2: missing ): (",
        ),
        (
            "[cli_apps.a]\ncommand = 'x'\narguments = ['(?=a)a']",
            "cli_apps.a: arguments: '(?=a)a' is not a regular expression of RE2: invalid perl operator: (?=",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in problems(tmp_path, text)


class WeatherSection(Section):
    """A plugin's section."""

    city: str = "Berlin"


def load_with_plugin(tmp_path: Path, text: str, key: str = "weather") -> Config:
    (tmp_path / "p.toml").write_text(text)
    sections: dict[str, type[BaseModel]] = {key: WeatherSection}
    return load_config(tmp_path / "p.toml", sections=sections)


@pytest.mark.parametrize("header", ["[weather]", "[tools.weather]"])
def test_a_plugins_section_stands_under_its_config_key(tmp_path: Path, header: str) -> None:
    config = load_with_plugin(tmp_path, f'{header}\ncity = "Rome"')
    assert config.plugins == {"weather": WeatherSection(city="Rome")}
    assert load_with_plugin(tmp_path, "").plugins == {}


def test_a_plugins_section_is_checked(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"weather\.town: unknown key; known: city"):
        load_with_plugin(tmp_path, "[tools.weather]\ntown = 1")
    with pytest.raises(Exception, match=r"tools\.weather: stands as \[weather\] too; keep one of them"):
        load_with_plugin(tmp_path, "[weather]\n[tools.weather]")


@pytest.mark.parametrize("key", ["llm", "tools", "cli_apps", "tools.exec"])
def test_a_plugin_cannot_take_a_section_of_the_core(tmp_path: Path, key: str) -> None:
    config = load_with_plugin(tmp_path, "[llm]\nmodel = 'm'\n[tools.exec]\nnetwork = true\n", key)
    assert (config.llm.model, config.tools.exec.network, config.plugins) == ("m", True, {})


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ('extra_write = ["/"]', "extra_write[0]: contains, or lies in, [bot] data_dir: which is not for every chat"),
        ('extra_read = ["data"]', "extra_read[0]: contains, or lies in, [bot] data_dir: which is not for every chat"),
        ('extra_read = ["data/workspace/chats"]', "extra_read[0]: contains, or lies in, [bot] data_dir"),
        ('extra_read = ["link"]', "extra_read[0]: contains, or lies in, [bot] data_dir"),
        (
            'extra_read = ["a/b"]\nextra_write = ["a"]',
            "extra_read[0]: contains, or lies in, extra_write[0]",
        ),
        ('extra_read = ["a", "a/b"]', "extra_read[1]: contains, or lies in, extra_read[0]"),
        ('extra_write = ["data/workspace"]', "extra_write[0]: contains, or lies in, [bot] data_dir"),
    ],
)
def test_no_folder_for_all_chats_opens_what_is_kept_apart(tmp_path: Path, files: str, problem: str) -> None:
    (tmp_path / "link").symlink_to("data")
    (found,) = problems(tmp_path, f'[bot]\ndata_dir = "data"\n[tools.files]\n{files}')
    assert found.startswith(f"tools.files.{problem}")


def test_folders_beside_the_data_are_fine(tmp_path: Path) -> None:
    text = '[bot]\ndata_dir = "data"\n[tools.files]\nextra_read = ["data2", "b"]\nextra_write = ["b"]'
    assert load(tmp_path, text).tools.files.extra_read == [tmp_path / "data2", tmp_path / "b"]
