#!/usr/bin/env bash
# Installs what the tests use and this machine does not have, as far as it may:
# the S3 server with go install, the rest with apt-get, as root. Otherwise it
# says what is missing. It never fails: the tests skip what they cannot run, or
# fail if FENCED_TEST_REQUIRE says so.
set -euo pipefail
cd "$(dirname "$0")"

has() { command -v "$1" >/dev/null; }

# s3 builds the server into the user's cache folder, where local_s3.go looks.
# Once built it stays; it takes two or three minutes of one core.
s3() {
	local version cache bin
	version=$(sed -n 's/^const GatewayVersion = "\(.*\)"$/\1/p' local_s3.go)
	case $(uname -s) in
	Darwin) cache=$HOME/Library/Caches ;;
	*) cache=${XDG_CACHE_HOME:-$HOME/.cache} ;;
	esac
	bin=$cache/fenced-testenv/versitygw-$version
	! has versitygw && ! [ -x "$bin/versitygw" ] || return 0
	echo "install: versitygw $version"
	(cd / && GOBIN=$bin GOFLAGS='' go install "github.com/versity/versitygw/cmd/versitygw@$version") ||
		echo "install: versitygw $version could not be built"
}
[ -n "${FENCED_TEST_S3_SERVER:-}${FENCED_TEST_S3_URL:-}" ] || s3

packages=()
has redis-server || packages+=(redis-server)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || has initdb || packages+=(postgresql)
has pgbouncer || [ -x /usr/sbin/pgbouncer ] || [ -n "${FENCED_TEST_PGBOUNCER:-}" ] || packages+=(pgbouncer)
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
