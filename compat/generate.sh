#!/usr/bin/env bash
# Writes the generated code anew, with the versions that wrote it before.
# sqlc takes some minutes to build; without cgo it needs no C compiler.
set -euo pipefail
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
CGO_ENABLED=0 GOBIN=$tools go install github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1
(cd sqlc && "$tools/sqlc" generate)
GOBIN=$tools go install entgo.io/ent/cmd/ent@v0.14.5
"$tools/ent" generate ./ent/schema
gofmt -w ent sqlc
