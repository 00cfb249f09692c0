package testenv

import (
	"net/url"
	"os"
	"testing"
)

// Postgres is a Postgres server behind a [Proxy].
type Postgres struct {
	Proxy *Proxy
	srv   Server
	base  url.URL // who logs in, and how; host and database are filled in
}

// NewPostgres starts an empty server with extra arguments of the server
// program, such as "-c", "fsync=on", and stops it when the test ends. A test
// that only needs a database of its own takes [Database], which is quicker.
//
// Unless the arguments say otherwise, what is committed survives Kill, and
// logical decoding is on.
func NewPostgres(tb testing.TB, args ...string) *Postgres {
	tb.Helper()
	return postgresOn(tb, startFirst(tb, "postgres", func(p Provider) (Server, error) { return p.Postgres(args) }))
}

// NewPostgresFrom is [NewPostgres] with the provider given; a mode that rules
// it out, or a provider that cannot serve, ends the test as missing.
func NewPostgresFrom(tb testing.TB, p Provider, args ...string) *Postgres {
	tb.Helper()
	return postgresOn(tb, startFrom(tb, p.Name(), p, func(p Provider) (Server, error) { return p.Postgres(args) }))
}

func postgresOn(tb testing.TB, s Server) *Postgres {
	tb.Helper()
	p := newPostgres(s)
	tb.Cleanup(func() { stopServer(tb, "postgres", s) })
	p.ready(tb)
	p.Proxy = proxyFor(tb, s)
	return p
}

func newPostgres(s Server) *Postgres {
	p := &Postgres{srv: s}
	p.base = url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/postgres", RawQuery: "sslmode=disable"}
	if _, ok := s.(*given); ok {
		if u, err := url.Parse(os.Getenv("FENCED_TEST_POSTGRES_URL")); err == nil {
			p.base = *u
		}
	}
	return p
}

func (p *Postgres) ready(tb testing.TB) {
	tb.Helper()
	if err := waitReady(p.srv, p.probe); err != nil {
		tb.Fatalf("testenv: postgres: %v", err)
	}
}

func (p *Postgres) probe() error {
	_, err := pgExec(p.at(p.srv.Addr(), ""), "SELECT 1")
	return err
}

// at is the URL of a database, "" for the one that always exists.
func (p *Postgres) at(addr, db string) *url.URL {
	u := p.base
	u.Host = addr
	if db != "" {
		u.Path = "/" + db
	}
	return &u
}

// URL is a database through the proxy; it stays the same over restarts. The
// database must exist; "postgres" always does.
func (p *Postgres) URL(db string) string { return p.at(p.Proxy.Addr(), db).String() }

// DirectURL is a database at the server itself, which no fault of the proxy
// disturbs.
func (p *Postgres) DirectURL(db string) string { return p.at(p.srv.Addr(), db).String() }

// Addr is the server through its proxy, host:port.
func (p *Postgres) Addr() string { return p.Proxy.Addr() }

// DirectAddr is the server itself, host:port.
func (p *Postgres) DirectAddr() string { return p.srv.Addr() }

// Do runs statements in a database at the server itself, and returns the rows
// of the last one as text, NULL as "". An error fails the test.
func (p *Postgres) Do(tb testing.TB, db, sql string) [][]string {
	tb.Helper()
	rows, err := pgExec(p.at(p.srv.Addr(), db), sql)
	if err != nil {
		tb.Fatalf("testenv: postgres: %v: %s", err, sql)
	}
	return rows
}

// Pause stops every process of the server as SIGSTOP does: connections stay,
// nothing answers.
func (p *Postgres) Pause(tb testing.TB) {
	tb.Helper()
	harm(tb, "postgres", "pause", p.srv.Pause)
}

// Resume ends a pause.
func (p *Postgres) Resume(tb testing.TB) {
	tb.Helper()
	harm(tb, "postgres", "resume", p.srv.Resume)
}

// Kill is kill -9 of every process of the server.
func (p *Postgres) Kill(tb testing.TB) {
	tb.Helper()
	harm(tb, "postgres", "kill", p.srv.Kill)
}

// Start starts a killed server again on the same address and data, and waits
// until it has recovered.
func (p *Postgres) Start(tb testing.TB) {
	tb.Helper()
	harm(tb, "postgres", "start", p.srv.Start)
	p.ready(tb)
}

// Log is the end of what the server has printed.
func (p *Postgres) Log() string { return p.srv.Log() }
