#!/bin/sh
# Fetch programs of Debian for the tests, without installing anything: each is unpacked into a cache
# folder of its own. Says in one sentence why when one cannot be had.
set -u
cache="${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/operator-sre-tests"

# download PACKAGE OPTIONAL...: into this folder; where the first fails, newer lists are fetched.
download() {
    if ! apt-get download -q "$1" >/dev/null 2>&1; then
        [ "$(id -u)" = 0 ] && apt-get update -qq >/dev/null 2>&1 \
            && apt-get download -q "$1" >/dev/null 2>&1 || return 1
    fi
    shift
    for package in "$@"; do
        apt-get download -q "$package" >/dev/null 2>&1 || true
    done
}

# have NAME PROGRAM WHAT PACKAGE OPTIONAL...: the program, below the cache folder of this name.
have() {
    name=$1 program=$2 what=$3
    shift 3
    [ -x "/$program" ] || [ -x "$cache/$name/$program" ] && return
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        echo "There is no $name, and no apt-get to fetch one: $what will be skipped." >&2
        return
    fi
    half="$cache/$name.$$"
    mkdir -p "$half" && cd "$half" || exit 1
    trap 'rm -rf "$half"' EXIT
    if download "$@"; then
        for package in ./*.deb; do
            dpkg-deb -x "$package" . || exit 1
        done
        rm -f ./*.deb
        [ -e bin ] || ln -s usr/bin bin  # a newer Debian has all programs below usr
        # Another one may have been faster.
        mv "$half" "$cache/$name" 2>/dev/null || [ -x "$cache/$name/$program" ] || exit 1
    else
        echo "$name cannot be fetched: $what will be skipped." >&2
    fi
    rm -rf "$half"
}

# libwrap is the one library that sshd needs and a small system lacks; newer ones need none.
have sshd usr/sbin/sshd 'tests over ssh' openssh-server libwrap0
have busybox bin/busybox 'tests in containers' busybox-static
have nginx usr/sbin/nginx 'the test of its pack' nginx
# Larger ones, for the test bed of foreign systems: sh tests/tools/debian.sh bed
if [ "${1:-}" = bed ] || [ "${1:-}" = servers ]; then
    have mariadb usr/sbin/mariadbd 'the test bed' mariadb-server-core libaio1 liblzo2-2 libnuma1 \
        libsnappy1v5 liburing2
fi
# All that the packs and probes are tried against: sh tests/tools/debian.sh servers
if [ "${1:-}" = servers ]; then
    have haproxy usr/sbin/haproxy 'the test of its pack' haproxy liblua5.3-0 liblua5.4-0 \
        libopentracing-c-wrapper0 libopentracing1
    have prometheus usr/bin/prometheus 'the test of its pack' prometheus
    have alertmanager usr/bin/prometheus-alertmanager 'the test of its pack' \
        prometheus-alertmanager
    have rabbitmq usr/lib/erlang/bin/erl 'the test of its pack' erlang-base rabbitmq-server \
        erlang-asn1 erlang-crypto erlang-eldap erlang-inets erlang-mnesia erlang-os-mon \
        erlang-parsetools erlang-public-key erlang-runtime-tools erlang-ssl erlang-syntax-tools \
        erlang-tools erlang-xmerl
fi
