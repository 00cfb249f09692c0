package testenv

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
)

// Standby is a Postgres that follows another one until it is promoted.
type Standby struct {
	*Postgres
	// Link is what it hears from its primary through: cut, it lags. It is apart
	// from the primary's own proxy.
	Link    *Proxy
	primary *Postgres
}

// NewStandby copies a server, starts the copy as its standby, named "standby",
// and stops it when the test ends. It is asynchronous unless the primary's
// synchronous_standby_names name it. Only a server of this machine can be
// followed.
func NewStandby(tb testing.TB, primary *Postgres) *Standby {
	tb.Helper()
	if _, ok := primary.srv.(*child); !ok {
		Missing(tb, "postgres", "a standby follows a server that is a local process")
	}
	link := proxyFor(tb, primary.srv)
	s := startFrom(tb, "postgres", local{}, func(Provider) (Server, error) {
		return startPostgres(func(bin, dir, data string, who *account) error {
			return copyPostgres(bin, dir, data, primary.srv.Addr(), who)
		}, []string{"-c", "primary_conninfo=" + following(link.Addr())})
	})
	sb := &Standby{Postgres: postgresOn(tb, s), Link: link, primary: primary}
	sb.CatchUp(tb)
	return sb
}

func following(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("host=%s port=%s user=postgres application_name=standby sslmode=disable", host, port)
}

// copyPostgres makes the data of a standby: a copy that says that it is one.
func copyPostgres(bin, dir, data, addr string, who *account) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	return runToEnd(who.apply(command(dir, nil, filepath.Join(bin, "pg_basebackup"), "-h", host, "-p", port,
		"-U", "postgres", "-D", data, "-X", "stream", "-c", "fast", "--no-sync", "-R")))
}

// CatchUp waits until the standby has applied all that its primary has committed.
func (s *Standby) CatchUp(tb testing.TB) {
	tb.Helper()
	lsn := s.primary.Do(tb, "", "SELECT pg_current_wal_flush_lsn()")[0][0]
	Eventually(tb, readyWithin, "the standby has caught up", func() bool {
		return s.Do(tb, "", "SELECT coalesce(pg_last_wal_replay_lsn() >= '"+lsn+"', false)")[0][0] == "t"
	})
}

// Promote makes the standby a primary of its own, with what it has heard so far.
func (s *Standby) Promote(tb testing.TB) {
	tb.Helper()
	if s.Do(tb, "", "SELECT pg_promote(true, 60)")[0][0] != "t" {
		tb.Fatalf("testenv: the standby was not promoted: %s", s.Log())
	}
}
