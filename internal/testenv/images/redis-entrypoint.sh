#!/bin/sh
# What tests need of the official image's entrypoint: "redis-server" may be left
# out before options, and the server does not run as root.
set -eu
case ${1-} in -* | *.conf) set -- redis-server "$@" ;; esac
if [ "$(id -u)" = 0 ] && [ "$1" = redis-server ]; then
	chown -R app:app /data
	exec /usr/bin/setpriv --reuid=app --regid=app --clear-groups "$@"
fi
exec "$@"
