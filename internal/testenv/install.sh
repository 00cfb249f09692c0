#!/usr/bin/env bash
# Installs what the tests use and this machine does not have, as far as it may:
# with apt-get, as root. Otherwise it says what is missing. It never fails: the
# tests skip what they cannot run, or fail if FENCED_TEST_REQUIRE says so.
set -euo pipefail

has() { command -v "$1" >/dev/null; }

packages=()
has redis-server || packages+=(redis-server)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || has initdb || packages+=(postgresql)
has cc || packages+=(gcc libc6-dev) # the race detector, and clocks that tests step
has make || packages+=(make)
if [ "$(id -u)" = 0 ]; then # others cannot build images or start an engine
	has docker || packages+=(docker.io)
	has docker || has iptables || packages+=(iptables)
	has busybox || packages+=(busybox-static)
fi
[ ${#packages[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! has apt-get; then
	echo "install: missing here: ${packages[*]} (installed only by root, with apt-get)"
	exit 0
fi
echo "install: ${packages[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
apt-get update >"$log" 2>&1 || true # an old list may do
case " ${packages[*]} " in
*' docker.io '*) ! apt-cache show docker-cli >/dev/null 2>&1 || packages+=(docker-cli) ;; # apart since Debian 13
esac
for package in "${packages[@]}"; do # one by one: one that fails must not take the others along
	apt-get install -y --no-install-recommends "$package" >>"$log" 2>&1 </dev/null || {
		echo "install: $package could not be installed:"
		tail -3 "$log"
	}
done
