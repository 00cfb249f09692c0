# shellcheck shell=bash
# A Docker engine for the tests: functions for scripts that source this file.

engine_dir=${TMPDIR:-/var/tmp}/fenced-docker
engine_pid=

engine_answers() { timeout 10 docker version -f '{{.Server.Version}}' 2>/dev/null </dev/null; }

# engine_start uses the engine that answers, or starts one, as root. It fails,
# and says why, when there will be none.
engine_start() {
	local version
	if version=$(engine_answers); then
		echo "engine: $version answers"
		return 0
	fi
	if [ "$(id -u)" != 0 ] || ! command -v dockerd >/dev/null; then
		echo 'engine: none answers; starting one takes root and docker.io'
		return 1
	fi
	mkdir -p "$engine_dir"
	rm -f "$engine_dir"/docker.{sock,pid} # left by one that was killed
	echo '{}' >"$engine_dir/daemon.json" # not the machine's, which may contradict us
	export DOCKER_HOST=unix://$engine_dir/docker.sock
	local driver
	for driver in '' --storage-driver=vfs; do # an overlay does not work everywhere
		engine_try $driver && return 0
	done
	echo 'engine: dockerd does not start:'
	tail -5 "$engine_dir/log"
	unset DOCKER_HOST
	return 1
}

engine_try() {
	local version
	setsid dockerd --config-file "$engine_dir/daemon.json" --data-root "$engine_dir/data" --exec-root "$engine_dir/exec" \
		--pidfile "$engine_dir/docker.pid" -H "$DOCKER_HOST" "$@" >"$engine_dir/log" 2>&1 </dev/null &
	engine_pid=$!
	for _ in $(seq 300); do
		if version=$(engine_answers); then
			echo "engine: started $version"
			return 0
		fi
		kill -0 "$engine_pid" 2>/dev/null || break
		sleep 0.1
	done
	engine_stop
	return 1
}

# engine_stop ends an engine that engine_start started.
engine_stop() {
	[ -n "$engine_pid" ] || return 0
	kill "$engine_pid" 2>/dev/null || true
	wait "$engine_pid" 2>/dev/null || true
	engine_pid=
}

# engine_sweep removes what killed tests have left.
engine_sweep() {
	local label=label=org.testcontainers=true left
	engine_answers >/dev/null || return 0
	left=$(docker ps -aq --filter "$label")
	# shellcheck disable=SC2086 # several IDs
	[ -z "$left" ] || docker rm -fv $left >/dev/null || true
	docker network prune -f --filter "$label" >/dev/null || true
	docker volume prune -f --filter "$label" >/dev/null || true
}

# engine_postgres IMAGE starts a server as internal/testenv does and prints its URL.
# engine_sweep removes it.
engine_postgres() {
	local id port setting args=()
	docker image inspect "$1" >/dev/null 2>&1 </dev/null || return 1
	for setting in fsync=off full_page_writes=off wal_level=logical max_connections=200 jit=off; do
		args+=(-c "$setting")
	done
	id=$(docker run -d --label org.testcontainers=true -e POSTGRES_HOST_AUTH_METHOD=trust \
		-p 127.0.0.1::5432 "$1" postgres "${args[@]}" </dev/null) || return 1
	port=$(docker port "$id" 5432/tcp </dev/null | sed -n 's/^127.0.0.1://p')
	for _ in $(seq 600); do # its first start, for itself, is on no port
		if docker exec "$id" psql -h 127.0.0.1 -U postgres -qAt -c 'select 1' >/dev/null 2>&1 </dev/null; then
			echo "postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
			return 0
		fi
		sleep 0.1
	done
	docker logs "$id" >&2 </dev/null
	return 1
}
