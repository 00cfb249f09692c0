#!/bin/sh
# What tests need of the official image's entrypoint: POSTGRES_USER,
# POSTGRES_PASSWORD, POSTGRES_DB and POSTGRES_HOST_AUTH_METHOD, a first start on
# the socket only, and a second one that is announced by the same line.
set -eu
case ${1-} in -*) set -- postgres "$@" ;; esac
[ "$1" = postgres ] || exec "$@"
if [ "$(id -u)" = 0 ]; then
	mkdir -p "$PGDATA"
	chown -R postgres:postgres "$PGDATA" /run/postgresql
	chmod 700 "$PGDATA"
	exec /usr/bin/setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	user=${POSTGRES_USER:-postgres} db=${POSTGRES_DB:-${POSTGRES_USER:-postgres}}
	auth=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
	if [ -z "${POSTGRES_PASSWORD-}" ] && [ "$auth" != trust ]; then
		echo >&2 'Set POSTGRES_PASSWORD, or POSTGRES_HOST_AUTH_METHOD=trust.'
		exit 1
	fi
	initdb --username="$user" --auth-local=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync -D "$PGDATA"
	echo "host all all all $auth" >>"$PGDATA/pg_hba.conf"
	pg_ctl -D "$PGDATA" -o "-c listen_addresses=''" -w start
	psql -qX -v ON_ERROR_STOP=1 -U "$user" -d postgres -v user="$user" -v pw="${POSTGRES_PASSWORD-}" -v db="$db" <<-'SQL'
		SELECT format('ALTER ROLE %I PASSWORD %L', :'user', :'pw') WHERE :'pw' <> '' \gexec
		SELECT format('CREATE DATABASE %I', :'db') WHERE :'db' <> 'postgres' \gexec
	SQL
	pg_ctl -D "$PGDATA" -m fast -w stop
fi
exec "$@"
