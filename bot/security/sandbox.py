"""What a command sees when it runs in bubblewrap: the argument list, and nothing but that.

A command gets its chat's folder to write in, at the same path as outside so that every tool means the same file
by it, and `shared` to read (`chats` too where the view has it, to read: whoever could replace another chat's folder
by a link would choose what that chat's sandbox is bound to). The system's programs are read-only; of `/etc` only
what programs need to start is there, without accounts, keys or names of this machine. `/tmp` is its own and small.
With `[tools.exec] network` a command reaches what the machine reaches, services on its loopback included.

Pure: nothing is opened or started here. Whether bubblewrap works on this machine is found out in
`bot/shell/detection.py`, who may run a command at all is decided in `bot/shell/shell.py`, and how many processes
it may have is watched over in `bot/shell/warden.py`.

Options: bwrap(1), https://manpages.debian.org/bookworm/bubblewrap/bwrap.1.en.html (read 2026-11-29).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from bot.config import ExecSection
from bot.security.workspace import WorkspaceView

STANDARD_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")

SYSTEM_FILES = (
    "/etc/alternatives", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/debian_version", "/etc/fonts",
    "/etc/host.conf", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/magic",
    "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/pki/ca-trust", "/etc/pki/tls/certs",
    "/etc/protocols", "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/terminfo",
)  # fmt: skip
"""What of `/etc` commands need; nothing in them tells about people or secrets."""

NETWORK_FILES = ("/etc/gai.conf", "/etc/hosts", "/etc/resolv.conf")

TMP_BYTES = 512 * 1024 * 1024
"""`/tmp` and `/dev/shm` are memory: a command that fills them must not fill the machine's."""

USER_ID = 1000
"""The command's user and group inside; outside it is the bot's own user, which it cannot see."""

_FIRST_DATA_FD = 20
_UNBINDABLE = frozenset({"/", "/proc", "/dev", "/sys", "/run", "/tmp"})  # noqa: S108 - not used, refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """What is the same for every command of an installation.

    `bwrap` is the program, `abilities` the options that this machine's bubblewrap was found to support.
    `read_only` and `writable` are folders outside of the workspace that every command sees. `hidden` are folders
    within them, by their path inside, that stay empty but for what of the chat's own lies in them; `pinned`, with
    the uppermost first, are the writable folders on the way to those, which no command may move elsewhere.
    """

    bwrap: str
    abilities: tuple[str, ...] = ()
    network: bool = False
    path: tuple[str, ...] = ()
    read_only: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxCommand:
    """An argument list, and what its open descriptors must deliver: small files that exist only inside."""

    argv: tuple[str, ...]
    data: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))


def path_folders(section: ExecSection) -> tuple[str, ...]:
    """Return the folders in which commands find their programs, the configured ones first."""
    return (*(folder for folder in section.path.split(":") if folder), *STANDARD_PATH)


def command_environment(home: Path, folders: Iterable[str]) -> dict[str, str]:
    """Return all of a command's environment. Nothing of the bot's own is in it: keys come by environment."""
    return {
        "PATH": ":".join(folders),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
    }


def sandbox_command(
    view: WorkspaceView,
    walls: Walls,
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    terminal: bool = False,
    max_processes: int | None = None,
    programs: Sequence[Path] = (),
) -> SandboxCommand:
    """Return the bubblewrap call that runs `argv` for the chat of `view`.

    `cwd` is a folder below the view's root, which it starts in by default. With `terminal`, standard input must be
    a terminal, which becomes the command's controlling one. `max_processes` sets the limit inside, which
    counts this sandbox alone (Linux 5.14). `programs` are further folders to read, for this command only.

    The folders of the view must exist (`WorkspaceView.make_dirs`), and `root` must be no link.
    """
    data = {
        _FIRST_DATA_FD: f"user:x:{USER_ID}:{USER_ID}:user:{view.root}:/bin/sh\n",
        _FIRST_DATA_FD + 1: f"user:x:{USER_ID}:\n",
    }
    names = ["/etc/passwd", "/etc/group"]
    if not walls.network:
        data[_FIRST_DATA_FD + 2] = "127.0.0.1 localhost\n::1 localhost\n"
        names.append("/etc/hosts")
    options = [
        walls.bwrap,
        *("--unshare-all", "--unshare-user", *(["--share-net"] if walls.network else [])),
        *walls.abilities,
        *("--uid", str(USER_ID), "--gid", str(USER_ID), "--hostname", "sandbox"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *_system(walls),
        *(part for fd, name in zip(data, names, strict=True) for part in ("--ro-bind-data", str(fd), name)),
        *_chosen_folders(walls, programs),
        *_chat(view),
        # What bubblewrap makes for itself lies in memory without a limit. /proc/sys is a way out for a command of
        # a bot that runs as root (kernel.core_pattern): the kernel lets user 0 write there without capabilities.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", str(cwd or view.root)),
        "--",
        *_inner(argv, terminal=terminal, max_processes=max_processes),
    ]
    return SandboxCommand(argv=tuple(options), data=data)


def _system(walls: Walls) -> list[str]:
    shm = ("--perms", "1777", "--size", str(TMP_BYTES), "--tmpfs")
    options = ["--proc", "/proc", "--dev", "/dev", *shm, "/dev/shm", *shm, "/tmp"]  # noqa: S108 - its own
    files = (*SYSTEM_FILES, *NETWORK_FILES) if walls.network else SYSTEM_FILES
    for name in (*SYSTEM_FOLDERS, *files):
        options += ["--ro-bind-try", name, name]
    return options


def _chosen_folders(walls: Walls, programs: Sequence[Path]) -> list[str]:
    """Return the configured folders, and the covers of what they must not bring along."""
    options: list[str] = []
    for kind, folders in (
        ("--ro-bind-try", (*map(Path, walls.path), *programs, *walls.read_only)),
        ("--bind-try", walls.writable),
    ):
        for folder in folders:
            if is_bindable(folder):
                options += [kind, str(folder), str(folder)]
    for pinned in walls.pinned:  # onto itself: the kernel renames and removes no mount point
        options += ["--bind", str(pinned), str(pinned)]
    for hidden in walls.hidden:
        options += ["--tmpfs", str(hidden)]
    return options


def is_bindable(folder: Path) -> bool:
    """Whether a configured folder is bound: not what would open the whole machine, or is there already."""
    return str(folder) not in _UNBINDABLE and not any(folder.is_relative_to(root) for root in SYSTEM_FOLDERS)


def _chat(view: WorkspaceView) -> list[str]:
    options = ["--bind", str(view.root), str(view.root)]
    if not view.alone:
        options += ["--ro-bind", str(view.shared), str(view.root / "shared")]
    if view.all_chats:
        options += ["--ro-bind", str(view.root.parent), str(view.root / "chats")]
    return options


def _inner(argv: Sequence[str], *, terminal: bool, max_processes: int | None) -> list[str]:
    """Return the command with what can only be set up inside, by the one shell that is everywhere."""
    steps = []
    if max_processes is not None:
        steps.append(f"ulimit -u {max_processes} 2>/dev/null || ulimit -p {max_processes} 2>/dev/null")
    if terminal:
        # bubblewrap puts the terminal of its standard output there. Opened by the first process of a session
        # without a terminal it becomes that session's own, so keys such as Ctrl-C reach the command alone.
        steps.append("exec 0<>/dev/console 1>&0 2>&0")
    if not steps:
        return list(argv)
    session = ["setsid"] if terminal else []
    return [*session, "/bin/sh", "-c", "; ".join((*steps, 'exec "$@"')), "sh", *argv]
