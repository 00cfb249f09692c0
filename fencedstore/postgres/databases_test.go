package postgres_test

import (
	"context"
	"database/sql"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

// databases lends migrated, empty databases and takes them back: making one
// costs more than most of the tests that need one.
type databases struct {
	tb   testing.TB // outlives every loan
	mu   sync.Mutex
	free []loan
}

type loan struct {
	url string
	db  *sql.DB // one connection that stays
}

func (d *databases) get(tb testing.TB) string {
	tb.Helper()
	d.mu.Lock()
	var l loan
	if n := len(d.free); n > 0 {
		l, d.free = d.free[n-1], d.free[:n-1]
	}
	d.mu.Unlock()
	if l.url == "" {
		l.url = database(d.tb)
		l.db = openSQL(d.tb, l.url)
		l.db.SetMaxOpenConns(1)
	}
	tb.Cleanup(func() {
		l.empty(tb)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.free = append(d.free, l)
	})
	return l.url
}

// empty ends what is still running in a database and deletes everything.
func (l loan) empty(tb testing.TB) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	const query = "select pg_terminate_backend(pid, 10000) from pg_stat_activity" +
		" where datname = current_database() and pid <> pg_backend_pid();" +
		"delete from fencedstore.fence; delete from kv"
	if _, err := l.db.ExecContext(ctx, query); err != nil {
		tb.Fatal(err)
	}
}

const lossyName = "lossy"

// openLossy returns a store behind a proxy. The next call takes effect and its
// answer is lost: the proxy holds it back until the server has finished, and
// then breaks the connection.
func openLossy(tb testing.TB, v variant, dbURL string) *kv {
	tb.Helper()
	u, err := url.Parse(dbURL)
	if err != nil {
		tb.Fatal(err)
	}
	proxy, err := testenv.NewProxy(u.Host)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = proxy.Close() })
	u.Host = proxy.Addr()
	k := openKV(tb, v, u.String(), maxConns(1), setting("application_name", lossyName), func(c *pgxpool.Config) {
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	warmUp(tb, k)
	k.losing = sync.OnceFunc(func() { loseReply(tb, dbURL, proxy) })
	return k
}

// warmUp lets the connection learn the statements, so that a call is a single
// request.
func warmUp(tb testing.TB, k *kv) {
	tb.Helper()
	f := fencedstore.Fence{Resource: "warm-up", ID: 1, Holder: "warm-up"}
	for _, err := range []error{
		k.Claim(tb.Context(), f),
		k.Write(tb.Context(), f, "warm-up", []byte("x")),
		k.Write(tb.Context(), f, "warm-up", nil),
	} {
		if err != nil {
			tb.Fatal(err)
		}
	}
}

func loseReply(tb testing.TB, dbURL string, proxy *testenv.Proxy) {
	tb.Helper()
	db := openSQL(tb, dbURL)
	var now string
	if err := db.QueryRowContext(tb.Context(), "select clock_timestamp()::text").Scan(&now); err != nil {
		tb.Error(err)
	}
	proxy.CutReplies()
	go func() {
		defer proxy.Heal()
		defer proxy.Reset()
		for done := false; !done; { // until the test ends at the latest
			err := db.QueryRowContext(tb.Context(), "select exists (select from pg_stat_activity where datname = current_database()"+
				" and application_name = $1 and state = 'idle' and query_start > $2::timestamptz)", lossyName, now).Scan(&done)
			done = done || err != nil
		}
	}()
}
