package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// allowed says whether FENCED_TEST_MODE lets a provider serve.
func allowed(provider string) bool {
	mode := os.Getenv("FENCED_TEST_MODE")
	return mode == "" || mode == "auto" || mode == provider
}

// checkMode fails a test on a mode that does not exist, which would otherwise
// skip everything.
func checkMode(tb testing.TB) {
	tb.Helper()
	mode := os.Getenv("FENCED_TEST_MODE")
	if !slices.Contains([]string{"", "auto", "url", "docker", "local"}, mode) {
		tb.Fatalf("testenv: FENCED_TEST_MODE=%s: want auto, url, docker or local", mode)
	}
}

// Required says whether FENCED_TEST_REQUIRE demands a service: it names it, or
// it is "all". What FENCED_TEST_MODE rules out is demanded by its name only.
func Required(service string) bool {
	names := strings.Split(os.Getenv("FENCED_TEST_REQUIRE"), ",")
	if slices.Contains(names, service) {
		return true
	}
	return slices.Contains(names, "all") && (service != "docker" || allowed("docker"))
}

// Missing ends a test that cannot have a service: a failure where the service
// is required, a skip otherwise. Both say why, and what would help.
func Missing(tb testing.TB, service, why string) {
	tb.Helper()
	msg := "testenv: no " + service + ": " + why + "; " + remedy(service)
	if Required(service) {
		tb.Fatal(msg + " (FENCED_TEST_REQUIRE does not let it be skipped)")
	}
	tb.Skip(msg)
}

func remedy(service string) string {
	switch service {
	case "redis":
		return "install redis-server, or set FENCED_TEST_REDIS_SERVER or FENCED_TEST_REDIS_URL"
	case "postgres":
		return "install postgresql, or set FENCED_TEST_POSTGRES_BIN or FENCED_TEST_POSTGRES_URL"
	case "s3":
		return "run internal/testenv/install.sh, or set FENCED_TEST_S3_SERVER or FENCED_TEST_S3_URL"
	case "pgbouncer":
		return "install pgbouncer, or set FENCED_TEST_PGBOUNCER"
	case "docker":
		return "start a Docker engine; internal/testenv/images/build.sh makes the images without a registry"
	case "disk":
		return "be root on Linux, where file systems can be mounted"
	default:
		return "see docs/testing.md"
	}
}
