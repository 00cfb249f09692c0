#!/usr/bin/env bash
# Has spin check the models of this folder, the right and the wrong ones, each
# with its own verdict, and prints how the wrong ones go wrong. On Debian as root
# it installs spin. At most 2 GB and two minutes for each.
set -euo pipefail
cd "$(dirname "$0")"

if ! command -v spin >/dev/null; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo 'model: spin is missing (Debian has it as a package; installed only by root)' >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update >/dev/null || true # an old list may do
	apt-get install -y --no-install-recommends spin >/dev/null
fi

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
status=0

# check VERDICT FILE OPTIONS...: the verdict is "holds" or "breaks".
check() {
	local want=$1 file=$2 got=unknown
	shift 2
	cp "$file" "$room"
	(cd "$room" && rm -f ./*.trail && spin "$@" -a "$file" >spin.log && cc -w -O2 -DSAFETY -DMEMLIM=2048 -o pan pan.c) ||
		{ cat "$room/spin.log"; return 1; }
	(cd "$room" && timeout 120 ./pan -E -i -m100000 >pan.log 2>&1) || true
	if grep -q 'errors: 0' "$room/pan.log" && ! grep -qE 'Search not completed|max search depth too small|truncated' "$room/pan.log"; then
		got=holds
	elif grep -q 'assertion violated' "$room/pan.log"; then
		got=breaks
	fi
	printf '%-8s %s %s (%s states)\n' "$got" "$file" "$*" "$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$room/pan.log")"
	if [ $got = breaks ]; then
		(cd "$room" && spin -t "$@" "$file") | grep -E '^ *([0-9]+|node [0-9]+:) [a-z]' | grep -v 'processes created' | sed 's/^ */    /'
	fi
	if [ $got != "$want" ]; then
		echo "model: it was to be: $want" >&2
		tail -20 "$room/pan.log"
		status=1
	fi
}

check holds propose.pml -DATTEMPTS=4 -DHIGHEST=3
check holds propose.pml -DN=5 -DATTEMPTS=3 -DHIGHEST=2
check breaks propose.pml -DEQUAL -DATTEMPTS=2
check breaks propose.pml -DLOSSES=1 -DATTEMPTS=2
check holds propose.pml -DMAJORITY=3 -DLOSSES=2 -DATTEMPTS=2
check holds claim.pml
check breaks claim.pml -DFIRST_USE -DTENURES=2
check breaks claim.pml -DONE_HOLDER -DTENURES=2
exit $status
