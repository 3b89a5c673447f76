#!/bin/sh
# Installs or upgrades Dutiful as a system service. Safe to run again: it changes only what is missing or old.
set -eu

usage() {
    cat <<'USAGE'
Usage: install.sh [--source DIR_OR_WHEEL] [--python PROGRAM]

Installs or upgrades Dutiful as the systemd service "dutiful"; run it as root, again for each upgrade.
  --source   what to install: a checkout or a wheel (default: the checkout this script is in)
  --python   the Python (3.11 or newer, with venv) for the environment (default: python3)
  --help     this text

It creates, where missing: the user dutiful, the environment /opt/dutiful/venv, the configuration
/etc/dutiful/config.toml (0640, root:dutiful; an existing one is never changed), and the unit
/etc/systemd/system/dutiful.service. It does not start the service the first time.
With $DESTDIR set, files go below it, and users and systemd stay as they are.
USAGE
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
source=$(dirname -- "$here")
python=python3
while [ $# -gt 0 ]; do
    case $1 in
        --source) [ $# -ge 2 ] || fail "--source needs a value"; source=$2; shift 2 ;;
        --python) [ $# -ge 2 ] || fail "--python needs a value"; python=$2; shift 2 ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option: $1" ;;
    esac
done

root=${DESTDIR:-}
prefix=$root/opt/dutiful
etc=$root/etc/dutiful
unit=$root/etc/systemd/system/dutiful.service
user=dutiful

[ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "this must be run as root"
[ -e "$source" ] || fail "there is no $source"
command -v "$python" >/dev/null 2>&1 || fail "there is no program $python"
"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail "$python is older than 3.11 or lacks venv (Debian: apt-get install python3-venv)"

if [ -z "$root" ] && ! id -u "$user" >/dev/null 2>&1; then
    useradd --system --user-group --home-dir /var/lib/dutiful --no-create-home --shell /usr/sbin/nologin "$user"
fi

command -v bwrap >/dev/null 2>&1 ||
    echo "Without bubblewrap the tools that run commands stay off (Debian: apt-get install bubblewrap)."

umask 022
mkdir -p "$prefix" "$etc" "$(dirname -- "$unit")"
[ -x "$prefix/venv/bin/python" ] || "$python" -m venv "$prefix/venv"
# A checkout brings the versions its tests ran with. Without the hashes: pip cannot check one for the checkout itself.
versions=$(mktemp)
trap 'rm -f -- "$versions"' EXIT
if [ -f "$source/requirements.lock" ]; then
    sed -n '/^[A-Za-z0-9]/s/ *\\$//p' "$source/requirements.lock" >"$versions"
fi
echo "Installing into $prefix/venv; this takes a minute or two."
"$prefix/venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade -c "$versions" "$source"
# The same version number may stand for newer code in a checkout.
"$prefix/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$source"

if [ ! -e "$etc/config.toml" ]; then
    # The example comes from the installed package, so that a wheel is enough to install from.
    (umask 077 && "$prefix/venv/bin/python" -I -c \
        'import bot.config, sys; sys.stdout.write(bot.config.default_config_text())' >"$etc/config.toml.new")
    mv -- "$etc/config.toml.new" "$etc/config.toml"
fi
if [ -z "$root" ]; then
    chown root:"$user" "$etc" "$etc/config.toml"
fi
chmod 0750 "$etc"
chmod 0640 "$etc/config.toml"

changed=no
if ! cmp -s "$here/dutiful.service" "$unit"; then
    install -m 0644 "$here/dutiful.service" "$unit"
    changed=yes
fi

if [ -z "$root" ] && command -v systemctl >/dev/null 2>&1 && [ -d /run/systemd/system ]; then
    [ "$changed" = no ] || systemctl daemon-reload
    if systemctl is-active --quiet dutiful; then
        systemctl restart dutiful
        echo "Dutiful was upgraded and restarted."
        exit 0
    fi
fi

cat <<NEXT
Dutiful is installed. Next:
  1. Edit $etc/config.toml: a channel, who may talk to it, and a model.
  2. Check it: sudo -u $user $prefix/venv/bin/dutiful check --config $etc/config.toml
  3. Start it: systemctl enable --now dutiful
  4. Look:     systemctl status dutiful; journalctl -u dutiful -f
No commands and no stdio MCP servers? Then also install deploy/locked-down.conf as a drop-in.
NEXT
