"""The sandbox: what a command in it can read, write, reach and see; and the argument list that makes it so."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bot.config.tools import ExecSection, FilesSection
from bot.security.sandbox import (
    Walls,
    command_environment,
    is_bindable,
    path_folders,
    sandbox_command,
)
from bot.security.workspace import WorkspaceView
from bot.shell.detection import detect, find_bwrap
from tests.support.commands import MEMBER, OWNER_IN_GROUP, Commands, commands, needs_bwrap

SECRET = "TOP SECRET"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Commands]:
    """Sandboxed commands; secrets lie outside of the workspace and in another chat."""
    (tmp_path / "secret").write_text(SECRET)
    async with commands(tmp_path) as made:
        (made.root(MEMBER) / "theirs").write_text(SECRET)
        yield made


# --- the argument list


def view(*, all_chats: bool = False) -> WorkspaceView:
    return WorkspaceView.of(Path("/data/workspace"), "telegram:1", all_chats=all_chats)


def pairs(argv: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    return [(argv[at + 1], argv[at + 2]) for at, part in enumerate(argv) if part == option]


def test_only_the_chats_own_folder_can_be_written() -> None:
    argv = sandbox_command(view(), Walls(bwrap="bwrap"), ["true"]).argv
    root = str(view().root)
    assert pairs(argv, "--bind") == [(root, root)]
    assert pairs(argv, "--bind-try") == []
    assert pairs(argv, "--ro-bind") == [("/data/workspace/shared", f"{root}/shared")]
    assert argv[-2:] == ("--", "true")


def test_the_other_chats_are_read_only_and_only_where_the_view_has_them() -> None:
    argv = sandbox_command(view(all_chats=True), Walls(bwrap="bwrap"), ["true"]).argv
    assert ("/data/workspace/chats", f"{view().root}/chats") in pairs(argv, "--ro-bind")


def test_every_namespace_is_its_own_and_the_network_only_by_configuration() -> None:
    for network in (False, True):
        argv = sandbox_command(view(), Walls(bwrap="bwrap", network=network), ["true"]).argv
        assert {"--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"} <= set(argv)
        assert ("--share-net" in argv) is network
        assert any("resolv.conf" in part for part in argv) is network
        assert argv[argv.index("--cap-drop") + 1] == "ALL"


def test_configured_folders_are_bound_as_they_are_meant() -> None:
    walls = Walls(
        bwrap="bwrap",
        path=("/opt/tools/bin",),
        read_only=(Path("/srv/docs"), Path("/")),
        writable=(Path("/srv/out"), Path("/usr/share")),
        hidden=(Path("/srv/docs/data"),),
    )
    command = sandbox_command(view(), walls, ["true"], programs=(Path("/opt/app"),))
    read_only = {source for source, _ in pairs(command.argv, "--ro-bind-try")}
    assert {"/opt/tools/bin", "/srv/docs", "/opt/app"} <= read_only
    assert "/" not in read_only
    assert pairs(command.argv, "--bind-try") == [("/srv/out", "/srv/out")]
    hides = command.argv.index("/srv/docs/data")
    assert command.argv[hides - 1] == "--tmpfs"
    assert hides < command.argv.index("--bind")  # the chat's own folder comes on top


@pytest.mark.parametrize("folder", ["/", "/proc", "/dev", "/sys", "/run", "/tmp", "/usr/local", "/bin"])
def test_what_would_open_the_machine_or_is_there_already_is_not_bound(folder: str) -> None:
    assert not is_bindable(Path(folder))


def test_the_environment_is_made_of_nothing_that_is_around() -> None:
    env = command_environment(Path("/home/x"), path_folders(ExecSection(path="/opt/a:/opt/b")))
    assert sorted(env) == ["HOME", "LANG", "PATH", "TERM"]
    assert env["PATH"].startswith("/opt/a:/opt/b:/usr/local/sbin:")


# --- what holds in a real one


@needs_bwrap
@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.bot/config.json",
        "cat $HOME/../x",
        "p=/etc; cat $p/passwd",
        "cat /etc/shadow",
        "cat {data}/secret",
        "cat $HOME/../../../secret",
        "cat {data}/workspace/chats/*/theirs",
        "cat /proc/1/root{data}/secret",
        "cat /proc/*/root{data}/secret",
        "ls -A {data}/workspace /root /home /var /run /sys /work",
        "find / -name secret -o -name theirs | xargs cat",
    ],
)
async def test_no_byte_from_outside_is_read(desk: Commands, tmp_path: Path, command: str) -> None:
    """C079, and other ways."""
    (desk.root(OWNER_IN_GROUP).parent / "x").write_text(SECRET)
    result = await desk.run(command.replace("{data}", str(tmp_path)), OWNER_IN_GROUP)
    assert SECRET not in result
    assert "root:" not in result


@needs_bwrap
async def test_a_link_that_leads_out_gives_nothing(desk: Commands, tmp_path: Path) -> None:
    """C080, the shell's part."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    root = desk.root()
    (root / "link.txt").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    result = await desk.run("cat link.txt; cat folder/secret; echo no > link.txt; echo no > folder/new; echo done")
    assert SECRET not in result
    assert "done" in result
    assert (outside / "secret").read_text() == SECRET
    assert [path.name for path in outside.iterdir()] == ["secret"]


@needs_bwrap
async def test_no_byte_outside_is_written(desk: Commands, tmp_path: Path) -> None:
    (desk.root().parent.parent / "shared" / "common.txt").write_text("common")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    result = await desk.run(
        f"for place in {tmp_path}/new {tmp_path}/workspace/new shared/new shared/common.txt chats/telegram=3A3/new "
        "chats/telegram=3A3/theirs chats/new ../new /new /usr/new /etc/new /dev/new /proc/sys/kernel/hostname; "
        "do (echo broken > $place) 2>/dev/null && echo wrote $place; done; "
        "mv chats/telegram=3A3 chats/other; rm -rf chats/telegram=3A3; echo kept > mine.txt; cat shared/common.txt"
    )
    assert "wrote /" not in result.replace(f"wrote {tmp_path}", "")
    assert "common" in result
    mine = str(desk.root() / "mine.txt")
    made = {mine, str(desk.root() / "shared"), str(desk.root() / "chats")}
    assert sorted(str(path) for path in tmp_path.rglob("*") if str(path) not in made) == before
    assert Path(mine).read_text() == "kept\n"
    assert (desk.root(MEMBER) / "theirs").read_text() == SECRET


@needs_bwrap
async def test_the_kernels_settings_cannot_be_written_by_a_bot_that_runs_as_root(desk: Commands) -> None:
    """`core_pattern` names a program that the kernel starts outside of every sandbox."""
    result = await desk.run(
        "for name in kernel/core_pattern kernel/hostname kernel/pid_max vm/swappiness; do "
        "(cat /proc/sys/$name > /proc/sys/$name) 2>/dev/null && echo wrote $name; done; mount -o remount,rw /proc; "
        "unshare -Urm mount -o remount,rw /proc && echo remounted; echo end"
    )
    assert "wrote" not in result
    assert "remounted" not in result
    assert "end" in result


@needs_bwrap
async def test_an_owners_private_chat_reads_the_other_chats(desk: Commands) -> None:
    assert SECRET in await desk.run("cat chats/telegram=3A3/theirs")
    assert SECRET not in await desk.run("cat chats/telegram=3A3/theirs", OWNER_IN_GROUP)


@needs_bwrap
async def test_the_chats_own_folder_is_the_same_inside_and_outside(desk: Commands) -> None:
    result = await desk.run("mkdir -p a/b && echo text > a/b/c && cd a/b && pwd")
    assert f"{desk.root()}/a/b\n" in result
    assert (desk.root() / "a/b/c").read_text() == "text\n"


@needs_bwrap
async def test_it_has_its_own_process_numbers_and_sees_no_other_process(desk: Commands) -> None:
    result = await desk.run("echo $$; ls -d /proc/[0-9]* | wc -l; kill -9 1; kill -0 " + str(os.getpid()))
    number, count = result.split("\n")[:2]
    assert int(number) < 10
    assert int(count) < 10
    assert "No such process" in result


@needs_bwrap
async def test_no_key_of_the_bot_is_in_any_environment(desk: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-bot")
    monkeypatch.setenv("LD_PRELOAD_OF_THE_BOT", "sk-of-the-bot")
    result = await desk.run("env; cat /proc/*/environ | tr '\\0' '\\n'")
    assert "sk-of-the-bot" not in result
    # PATH, HOME, LANG and TERM are given; the rest is what bash and bubblewrap set.
    names = {line.partition("=")[0] for line in result.split("\n") if "=" in line}
    assert names <= {"PATH", "HOME", "LANG", "TERM", "PWD", "SHLVL", "_", "OLDPWD"}


@pytest.fixture
def listener() -> Iterator[int]:
    """A port of this machine that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


CONNECT = "if (exec 3<>/dev/tcp/127.0.0.1/{port}); then echo connected; else echo alone; fi"


@needs_bwrap
async def test_there_is_no_network(desk: Commands, listener: int) -> None:
    result = await desk.run(CONNECT.format(port=listener) + " 2>/dev/null; cat /proc/net/dev")
    assert "alone" in result
    assert "connected" not in result
    assert "eth" not in result


@needs_bwrap
async def test_there_is_a_network_if_the_configuration_says_so(tmp_path: Path, listener: int) -> None:
    async with commands(tmp_path, ExecSection(network=True)) as desk:
        assert "connected" in await desk.run(CONNECT.format(port=listener))
        assert "has network" in desk.exec.description


@needs_bwrap
async def test_tmp_is_its_own_and_bounded(desk: Commands) -> None:
    assert "exit code 0" in await desk.run("echo left > /tmp/left && echo left > /dev/shm/left")
    assert "left" not in await desk.run("ls /tmp /dev/shm")
    assert not Path("/tmp/left").exists()
    result = await desk.run("head -c 1000M /dev/zero > /tmp/big; head -c 1000M /dev/zero > /dev/shm/big")
    assert result.count("No space left on device") == 2


@needs_bwrap
async def test_configured_folders_can_be_used_and_never_show_the_bots_data(tmp_path: Path) -> None:
    for name in ("read", "write", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "read" / "note").write_text("a note")
    program = tmp_path / "bin" / "greet"
    program.write_text("#!/bin/sh\necho greetings\n")
    program.chmod(0o755)
    data = tmp_path / "read" / "data"
    data.mkdir()
    (data / "dutiful.db").write_text(SECRET)
    (tmp_path / "alias").symlink_to(tmp_path / "read")
    (tmp_path / "other").symlink_to(data / "workspace" / "chats")
    files = FilesSection(
        extra_read=[tmp_path / "read", tmp_path / "alias", tmp_path / "missing", data / "workspace"],
        extra_write=[tmp_path / "write", tmp_path / "other"],
    )
    async with commands(data, ExecSection(path=str(tmp_path / "bin")), files=files) as desk:
        (desk.root(MEMBER) / "theirs").write_text(SECRET)
        result = await desk.run(
            f"greet; cat {tmp_path}/read/note; echo x > {tmp_path}/read/x; echo x > {tmp_path}/bin/x; "
            f"echo x > {tmp_path}/write/x; cat {tmp_path}/read/data/* {tmp_path}/alias/data/*; echo own > own; "
            f"cat own; cat {data}/workspace/chats/*/theirs {tmp_path}/other/*/theirs"
        )
    assert "greetings" in result
    assert "a note" in result
    assert "own\n" in result
    assert result.count("Read-only file system") == 2
    assert (tmp_path / "write" / "x").read_text() == "x\n"
    assert SECRET not in result


@needs_bwrap
async def test_no_folder_on_the_way_to_the_bots_data_can_be_moved(tmp_path: Path) -> None:
    """With another name for one of them, the next sandbox would show what the cover no longer lies on."""
    data = tmp_path / "srv" / "bots" / "data"
    data.mkdir(parents=True)
    (data / "dutiful.db").write_text(SECRET)
    async with commands(data, files=FilesSection(extra_write=[tmp_path])) as desk:
        moved = await desk.run(f"cd {tmp_path}; mkdir beside; mv srv/bots srv/other; mv srv new; rmdir beside")
        assert moved.count("Device or resource busy") == 2
        assert SECRET not in await desk.run(f"cat {tmp_path}/dutiful.db {tmp_path}/*/*/data/*")
    assert (data / "dutiful.db").read_text() == SECRET
    assert not (tmp_path / "beside").exists()


@needs_bwrap
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of its system calls are those of x86-64")
async def test_no_key_of_the_bots_keyring_is_reached(desk: Commands) -> None:
    """A session's keyring is inherited through every namespace; whoever possesses a key may read it."""
    add_key, keyctl, join, set_permissions, session_keyring, possessor_all = 248, 250, 1, 5, -3, 0x3F000000
    libc = ctypes.CDLL(None)
    if libc.syscall(keyctl, join, None) < 0:
        pytest.skip("no keyrings here")
    key = libc.syscall(add_key, b"user", b"ticket", SECRET.encode(), len(SECRET), session_keyring)
    assert libc.syscall(keyctl, set_permissions, key, possessor_all) == 0
    assert "ticket" in Path("/proc/keys").read_text()
    seen = await desk.run("cat /proc/keys")
    assert "keyring" in seen
    assert "ticket" not in seen


@needs_bwrap
async def test_a_link_in_the_way_of_shared_makes_nothing_outside(desk: Commands, tmp_path: Path) -> None:
    """bubblewrap would make the folder it mounts on, wherever a link leads."""
    outside = tmp_path / "outside"
    outside.mkdir()
    root = desk.root()
    (root / "shared").symlink_to(outside / "new")
    result = await desk.run("echo ran")
    assert result.is_refused
    assert "stands in the way" in result
    assert not any(outside.iterdir())


@needs_bwrap
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as a normal user already")
async def test_a_bot_that_is_not_root_has_the_same_sandbox() -> None:
    folder = Path(tempfile.mkdtemp(prefix="sandbox-", dir="/tmp"))
    try:
        made = WorkspaceView.of(folder / "workspace", "telegram:1")
        made.make_dirs()
        (made.root / "shared").mkdir()
        (folder / "secret").write_text(SECRET)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)
        walls = Walls(bwrap=find_bwrap(), abilities=(await detect(find_bwrap())).abilities)
        script = f"id -u; cat {folder}/secret; echo new > new; for n in $(seq 100); do sleep 60 & done"
        command = sandbox_command(made, walls, ["sh", "-c", script], max_processes=64)
        done = await asyncio.to_thread(_run_as_nobody, command.argv, dict(command.data))
        assert SECRET not in done.stdout
        assert done.stdout.startswith("1000\n")
        assert "fork" in done.stdout  # "Cannot fork": the kernel keeps this user's sandbox to the limit
        assert (made.root / "new").read_text() == "new\n"
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


def _run_as_nobody(argv: tuple[str, ...], data: dict[int, str]) -> subprocess.CompletedProcess[str]:
    kept = []
    for fd, text in data.items():
        file = os.memfd_create("data")
        os.write(file, text.encode())
        os.lseek(file, 0, os.SEEK_SET)
        os.dup2(file, fd, inheritable=True)
        os.close(file)
        kept.append(fd)
    try:
        return subprocess.run(
            argv, user=65534, group=65534, extra_groups=[], pass_fds=kept, timeout=30, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={"PATH": "/usr/bin:/bin"},
        )  # fmt: skip
    finally:
        for fd in kept:
            os.close(fd)
