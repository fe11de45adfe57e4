#!/bin/sh
# Fetch Debian's sshd for the tests of commands over ssh, without installing anything: it is
# unpacked into a cache folder of its own. Says in one sentence why when it cannot.
set -u
cache="${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/operator-sre-tests"
root="$cache/sshd"

[ -x /usr/sbin/sshd ] && exit 0
[ -x "$root/usr/sbin/sshd" ] && exit 0
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo 'There is no sshd, and no apt-get to fetch one: tests over ssh will be skipped.' >&2
    exit 0
fi

half="$cache/sshd.$$"
mkdir -p "$half" && cd "$half" || exit 1
trap 'rm -rf "$half"' EXIT
# libwrap is the one library that sshd needs and a small system lacks; newer ones need none.
fetch() {
    apt-get download -q openssh-server >/dev/null 2>&1 || return 1
    apt-get download -q libwrap0 >/dev/null 2>&1 || true
}
if ! fetch; then
    { [ "$(id -u)" = 0 ] && apt-get update -qq >/dev/null 2>&1 && fetch; } || {
        echo 'sshd cannot be fetched: tests over ssh will be skipped.' >&2
        exit 0
    }
fi
for package in ./*.deb; do
    dpkg-deb -x "$package" . || exit 1
done
rm -f ./*.deb
mv "$half" "$root" 2>/dev/null || [ -x "$root/usr/sbin/sshd" ]
