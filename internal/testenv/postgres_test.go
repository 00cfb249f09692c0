package testenv_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

func TestDatabasesAreEmptyAndApart(t *testing.T) {
	t.Parallel()
	p := testenv.SharedPostgres(t)
	a, b := databaseName(t, testenv.Database(t)), databaseName(t, testenv.Database(t))
	if a == b {
		t.Fatalf("two databases have the name %s", a)
	}
	p.Do(t, a, "CREATE TABLE t (n int); INSERT INTO t VALUES (1), (NULL)")
	if rows := p.Do(t, a, "SELECT n, n IS NULL FROM t ORDER BY n"); len(rows) != 2 || rows[0][0] != "1" || rows[1][1] != "t" {
		t.Errorf("got rows %v", rows)
	}
	if rows := p.Do(t, b, "SELECT to_regclass('t') IS NULL"); rows[0][0] != "t" {
		t.Error("the second database has the first one's table")
	}
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	p := testenv.SharedPostgres(t)
	var name string
	t.Run("user", func(t *testing.T) { name = databaseName(t, testenv.Database(t)) })
	if rows := p.Do(t, "", "SELECT 1 FROM pg_database WHERE datname = '"+name+"'"); len(rows) != 0 {
		t.Errorf("database %s is still there", name)
	}
}

func databaseName(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

func TestKilledPostgresKeepsWhatItCommitted(t *testing.T) {
	t.Parallel()
	p := testenv.NewPostgres(t, "-c", "max_connections=20")
	if got := p.Do(t, "", "SHOW max_connections")[0][0]; got != "20" {
		t.Errorf("max_connections: got %s, want the argument's 20", got)
	}
	p.Do(t, "", "CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
	p.Kill(t)
	if _, err := tryDial(t, p.DirectAddr()); err == nil {
		t.Fatal("a killed server takes connections")
	}
	p.Start(t)
	if rows := p.Do(t, "", "SELECT n FROM t"); len(rows) != 1 {
		t.Errorf("after the restart: got rows %v, want one", rows)
	}
}

func TestPausedPostgresAnswersLater(t *testing.T) {
	t.Parallel()
	p := testenv.NewPostgres(t)
	before := p.Do(t, "", "SELECT pg_postmaster_start_time()")[0][0]
	p.Pause(t)
	c := dial(t, p.Addr())
	if _, err := c.Write([]byte("\x00\x00\x00\x08\x04\xd2\x16\x2f")); err != nil { // may we use TLS?
		t.Fatal(err)
	}
	silent(t, c)
	p.Resume(t)
	_ = c.SetReadDeadline(time.Now().Add(soon))
	if b, err := c.r.ReadByte(); err != nil || b != 'N' {
		t.Errorf("after the pause: got %q, %v; want N", b, err)
	}
	if after := p.Do(t, "", "SELECT pg_postmaster_start_time()")[0][0]; after != before {
		t.Errorf("the server started again at %s", after)
	}
}
