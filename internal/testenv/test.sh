#!/usr/bin/env bash
# Runs everything: installs and starts what is missing, as far as it may, then
# the suite on local servers, then the container tests, and says at the end
# what was not run.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=internal/testenv
# shellcheck source=internal/testenv/engine.sh
. "$here/engine.sh"

log=$(mktemp)
trap 'engine_sweep; engine_stop; rm -f "$log"' EXIT
step() { printf '== %s (%s s)\n' "$*" "$SECONDS"; }

step 'what the tests use'
"$here/install.sh"
race=-race
if ! command -v cc >/dev/null; then
	race=
	echo 'test: no C compiler: the race detector is off' | tee -a "$log"
fi

step 'containers'
if engine_start; then
	engine_sweep
	if [ "$(id -u)" = 0 ] && "$here/images/build.sh"; then
		export FENCED_TEST_NO_PULL=1 # what is needed is here
	fi
	if [ "$(id -u)" = 0 ]; then
		"$here/images/build.sh" postgres17 || true # or the step below says so
	fi
fi

status=0
run() {
	local mode=$1
	shift
	FENCED_TEST_MODE=$mode go test $race -shuffle=on -count=1 -timeout 20m -v "$@" 2>&1 | tee -a "$log" || status=1
}
step 'examples'
go build -o /dev/null ./examples/... || status=1
step 'tests on containers'
run docker -run Container . "./$here/docker"
step 'tests on local servers'
mapfile -t packages < <(go list ./... | grep -v "/$here/docker\$")
run local -skip Container "${packages[@]}"

step 'guard on Postgres 17'
if seventeen=$(engine_postgres fenced-test/postgres17:local); then
	# in mode auto, tests that kill or configure their server take a local one
	# pg_dump of this machine is older; in its container, the server does not reach
	# itself by the port that it is published on
	FENCED_TEST_POSTGRES_URL=$seventeen run auto -skip '^(TestDumpAndRestoreKeepTheProtection|TestSubscriberReceivesWhatAHolderWrote)$' \
		./fencedstore/postgres ./migrations/...
else
	echo 'test: no Postgres 17: no image fenced-test/postgres17:local, or no engine' | tee -a "$log"
	case ,${FENCED_TEST_REQUIRE:-}, in *,all,* | *,postgres17,*) status=1 ;; esac
fi

step 'summary'
count() { grep -acE "^ *--- $1" "$log" || true; }
echo "$(count PASS) tests and subtests passed, $(count FAIL) failed, $(count SKIP) skipped"
grep -aE '^ *--- (FAIL|SKIP)' "$log" | sed -E 's| \([0-9.]+s\)||' | sort || true
grep -ahoE 'testenv: no .*|^test: .*' "$log" | sort | uniq -c || true
exit "$status"
