package testenv

import (
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"
)

// shared is the one Postgres of a test binary.
var shared struct {
	sync.Mutex
	main     bool // Main runs and will stop it
	postgres *Postgres
}

// Main runs the tests, stops the servers that they shared, and exits. A package
// that uses [Database] or [SharedPostgres] calls it:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
func Main(m *testing.M) {
	shared.Lock()
	shared.main = true
	shared.Unlock()
	code := m.Run()
	if err := stopShared(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString("testenv: " + err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.postgres == nil {
		return nil
	}
	_ = shared.postgres.Proxy.Close()
	return shared.postgres.srv.Stop()
}

// SharedPostgres is the server that all tests of this binary share, started on
// first use. A test must not pause or kill it, and heals its proxy.
func SharedPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.main {
		tb.Fatal("testenv: the package's TestMain must call testenv.Main")
	}
	if shared.postgres != nil {
		return shared.postgres
	}
	p := newPostgres(startFirst(tb, "postgres", func(p Provider) (Server, error) { return p.Postgres(nil) }))
	proxy, err := open(p.srv, p.probe)
	if err != nil {
		tb.Fatalf("testenv: postgres: %v", err)
	}
	p.Proxy = proxy
	shared.postgres = p
	return p
}

// Database makes an empty database on the shared server and returns its URL,
// directly at the server. It is dropped when the test ends, with what is
// connected to it.
func Database(tb testing.TB) string {
	tb.Helper()
	p := SharedPostgres(tb)
	name := "fenced_test_" + strings.ToLower(rand.Text()[:12])
	p.Do(tb, "", "CREATE DATABASE "+name)
	tb.Cleanup(func() { p.Do(tb, "", "DROP DATABASE "+name+" WITH (FORCE)") })
	return p.DirectURL(name)
}
