#!/usr/bin/env bash
# Builds the container images of the tests without a registry, from the Debian
# packages of this machine: the programs, the libraries they are linked to, a
# static busybox, and an entrypoint that does what tests need of the official one.
# postgres17 is made of packages of Debian 13, which apt-get fetches (60 MB) and
# nothing installs.
#
# usage: build.sh [redis] [postgres] [postgres17]        default: the first two
#
# It needs root, for the owners of files in the image, a Docker engine, and the
# packages redis-server, postgresql and busybox-static. An image that is up to
# date is left alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- redis postgres

fail() {
	echo "images: $*" >&2
	exit 1
}

# copy ROOT FILE...: files and the libraries they need, at their own paths.
copy() {
	local root=$1 file
	shift
	for file; do
		mkdir -p "$root${file%/*}"
		cp -L "$file" "$root$file"
	done
	{ ldd "$@" 2>/dev/null || true; } | awk '/=> \//{print $3} $1 ~ /^\// && /\(0x/{print $1}' | sort -u |
		while read -r file; do
			case $file in /lib*) to=/usr$file ;; *) to=$file ;; esac # /lib is a link to /usr/lib
			[ -e "$root$to" ] && continue
			mkdir -p "$root${to%/*}"
			cp -L "$file" "$root$to"
		done
}

# skeleton ROOT: folders, a shell, users.
skeleton() {
	local root=$1 dir
	mkdir -p "$root"/{usr/{bin,sbin,lib,lib64},etc,tmp,run,proc,sys,dev,data,var/lib}
	for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$root/$dir"; done
	ln -s ../run "$root/var/run"
	chmod 1777 "$root/tmp"
	cp -L "$(command -v busybox)" "$root/usr/bin/busybox"
	chroot "$root" /usr/bin/busybox --install -s /usr/bin
	rm -f "$root/usr/bin/setpriv" # busybox's knows no --reuid
	copy "$root" /usr/bin/setpriv
	printf '%s\n' root:x:0:0::/:/bin/sh app:x:999:999::/data:/bin/sh postgres:x:998:998::/var/lib/postgresql:/bin/sh >"$root/etc/passwd"
	printf '%s\n' root:x:0: app:x:999: postgres:x:998: >"$root/etc/group"
	printf '%s\n' 'passwd: files' 'group: files' 'hosts: files dns' >"$root/etc/nsswitch.conf"
	mkdir -p "$root/usr/lib/locale"
	cp -a /usr/lib/locale/C.utf8 "$root/usr/lib/locale/"
}

# import ROOT TAG CHANGE...: makes the image.
import() {
	local root=$1 tag=$2 change changes=()
	shift 2
	for change in "$@" "LABEL fenced.recipe=$recipe" 'ENV PATH=/usr/bin' 'ENV LANG=C.UTF-8' \
		'ENTRYPOINT ["docker-entrypoint.sh"]'; do
		changes+=(-c "$change")
	done
	tar -C "$root" --numeric-owner -c . | docker import "${changes[@]}" - "$tag" >/dev/null
}

build_redis() {
	local root=$1
	skeleton "$root"
	copy "$root" /usr/bin/redis-server /usr/bin/redis-cli
	install -m755 "$here/redis-entrypoint.sh" "$root/usr/bin/docker-entrypoint.sh"
	import "$root" "$2" 'WORKDIR /data' 'VOLUME /data' 'EXPOSE 6379' 'CMD ["redis-server"]'
}

build_postgres() {
	local root=$1 version bin file files=()
	version=$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -1)
	bin=/usr/lib/postgresql/$version
	skeleton "$root"
	for file in postgres initdb pg_ctl psql; do
		files+=("$bin/bin/$file")
		ln -s "$bin/bin/$file" "$root/usr/bin/$file"
	done
	for file in "$bin"/lib/*.so; do
		case $file in */llvmjit.so | */sepgsql.so) ;; *) files+=("$file") ;; esac # LLVM is 110 MB
	done
	copy "$root" "${files[@]}"
	mkdir -p "$root"/usr/share/postgresql
	cp -a "/usr/share/postgresql/$version" "$root/usr/share/postgresql/"
	cp -a /usr/share/zoneinfo "$root/usr/share/"
	import_postgres "$root" "$2" "$version"
}

# import_postgres ROOT TAG VERSION: the part that is alike for all versions.
import_postgres() {
	local root=$1 version=$3
	mkdir -p "$root"/var/lib/postgresql/data "$root"/run/postgresql
	sed -ri "s/^#?listen_addresses.*/listen_addresses = '*'/" "$root/usr/share/postgresql/$version/postgresql.conf.sample"
	chown -R 998:998 "$root/var/lib/postgresql" "$root/run/postgresql"
	install -m755 "$here/postgres-entrypoint.sh" "$root/usr/bin/docker-entrypoint.sh"
	import "$root" "$2" 'ENV PGDATA=/var/lib/postgresql/data' 'VOLUME /var/lib/postgresql/data' \
		'EXPOSE 5432' 'CMD ["postgres"]'
}

# unpack ROOT PACKAGE...: packages of Debian 13 with what they depend on. Of that,
# libraries only, without those of perl and of LLVM (110 MB).
unpack() {
	local root=$1 apt deb mirror
	shift
	apt=$(mktemp -d)
	mkdir -p "$apt"/{lists,archives}/partial "$apt"/empty
	: >"$apt/status"
	# from where this machine has its own
	mirror=${FENCED_TEST_DEBIAN:-$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' | sed -n 's|^Debian \(.*/debian/*\)$|\1|p' | head -n 1)}
	[ -n "$mirror" ] || fail 'apt-get knows no mirror of Debian: set FENCED_TEST_DEBIAN'
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$apt/sources.list"
	cat >"$apt/conf" <<-EOF
		Dir::State::lists "$apt/lists";
		Dir::State::status "$apt/status";
		Dir::Cache "$apt";
		Dir::Etc::SourceList "$apt/sources.list";
		Dir::Etc::SourceParts "$apt/empty";
		Acquire::Languages "none";
		APT::Sandbox::User "root";
	EOF
	APT_CONFIG=$apt/conf apt-get -qq update >&2 &&
		APT_CONFIG=$apt/conf apt-get -qq -y --no-install-recommends --download-only install "$@" >&2 ||
		{ rm -rf "$apt"; fail "packages of Debian 13 cannot be fetched"; }
	for deb in "$apt"/archives/*.deb; do
		case ${deb##*/} in
		lib*-perl_* | libperl5* | libllvm* | libz3-* | perl* | *-common_* | *-common-dev_*) ;;
		lib* | zlib1g_* | tzdata_* | postgresql-17_* | postgresql-client-17_*) dpkg-deb -x "$deb" "$root" ;;
		esac
	done
	rm -rf "$apt" "$root"/usr/share/{doc,man,locale,info}
}

build_postgres17() {
	local root=$1 file
	skeleton "$root"
	unpack "$root" postgresql-17 libc-bin tzdata
	rm -rf "$root"/usr/lib/postgresql/17/lib/{llvmjit.so,bitcode}
	for file in postgres initdb pg_ctl psql; do
		ln -s "/usr/lib/postgresql/17/bin/$file" "$root/usr/bin/$file"
	done
	for file in postgres initdb psql; do # finds its libraries
		chroot "$root" "/usr/bin/$file" --version >/dev/null || fail "$file of Debian 13 does not run"
	done
	import_postgres "$root" "$2" 17
}

# recipe: what decides how the image comes out.
recipe() {
	{
		cat "$here"/*.sh
		dpkg-query -W redis-server 'postgresql-*' busybox-static 2>/dev/null || true
	} | sha256sum | cut -c1-16
}

[ "$(id -u)" = 0 ] || fail 'root is needed: files of an image have owners'
docker version >/dev/null 2>&1 || fail 'no Docker engine answers'
command -v busybox >/dev/null || fail 'install busybox-static'

for service; do
	case $service in
	redis) [ -x /usr/bin/redis-server ] || fail 'install redis-server' ;;
	postgres17) command -v apt-get >/dev/null || fail 'apt-get is needed' ;;
	postgres) compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || fail 'install postgresql' ;;
	*) fail "no image is called $service" ;;
	esac
	tag=fenced-test/$service:local
	recipe=$(recipe)
	if [ "$(docker image inspect -f '{{index .Config.Labels "fenced.recipe"}}' "$tag" 2>/dev/null)" = "$recipe" ]; then
		echo "images: $tag is up to date"
		continue
	fi
	old=$(docker image inspect -f '{{.Id}}' "$tag" 2>/dev/null || true)
	root=$(mktemp -d)
	trap 'rm -rf "$root"' EXIT
	"build_$service" "$root" "$tag"
	rm -rf "$root"
	[ -z "$old" ] || docker image rm "$old" >/dev/null 2>&1 || true
	echo "images: built $tag, $(docker image inspect -f '{{.Size}}' "$tag" | awk '{printf "%.0f MB", $1 / 1e6}')"
done
