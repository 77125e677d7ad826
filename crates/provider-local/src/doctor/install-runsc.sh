#!/bin/sh
# Installs gVisor's runsc by apt, one of at least 2023: older ones lack options that sandboxes need.
# Debian 12 has such a one in its backports alone. They are read from the mirror that the machine
# uses already, with lists kept aside that go again; the machine's own sources stay as they are.
set -eu
export DEBIAN_FRONTEND=noninteractive
oldest='0.0~20230101'
install='install --yes --quiet --no-install-recommends -o DPkg::Lock::Timeout=120'

new_enough() {
    version=$(apt-cache "$@" policy runsc | sed -n 's/^ *Candidate: //p')
    [ -n "$version" ] && [ "$version" != '(none)' ] &&
        dpkg --compare-versions "$version" ge "$oldest"
}

new_enough || apt-get update --quiet
if new_enough; then
    # shellcheck disable=SC2086
    exec apt-get $install runsc
fi

. /etc/os-release
mirror=$(apt-get indextargets --format '$(REPO_URI)' \
    "Codename: ${VERSION_CODENAME:-none}" 'Component: main' | sed -n 1p)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
if [ "$ID" != debian ] || [ -z "$mirror" ] || [ ! -e "$keys" ]; then
    echo 'this distribution has no package of runsc from 2023 or later' >&2
    exit 1
fi
aside=$(mktemp -d)
trap 'rm -rf "$aside"' EXIT
# apt reads its lists as a user of its own.
chmod 755 "$aside"
mkdir -p "$aside/sources" "$aside/lists/partial"
cat > "$aside/sources/backports.sources" <<SOURCES
Types: deb
URIs: $mirror
Suites: $VERSION_CODENAME-backports
Components: main
Signed-By: $keys
SOURCES
set -- -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$aside/sources" \
    -o "Dir::State::Lists=$aside/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
apt-get "$@" update --quiet
# shellcheck disable=SC2086
apt-get "$@" $install --target-release "$VERSION_CODENAME-backports" runsc
