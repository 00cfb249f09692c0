#!/bin/sh
# Builds what the tests need and packages do not have: the S3 server, in the
# version that local_s3.go names, into the user's cache folder. Once built it
# stays; a cold build takes two or three minutes of one core.
set -eu
version=$(sed -n 's/^const GatewayVersion = "\(.*\)"$/\1/p' "$(dirname "$0")/local_s3.go")
case $(uname -s) in
Darwin) cache=$HOME/Library/Caches ;;
*) cache=${XDG_CACHE_HOME:-$HOME/.cache} ;;
esac
bin=$cache/fenced-testenv/versitygw-$version
if command -v versitygw >/dev/null 2>&1 || [ -x "$bin/versitygw" ]; then
	exit 0
fi
GOBIN=$bin GOFLAGS= go install "github.com/versity/versitygw/cmd/versitygw@$version"
