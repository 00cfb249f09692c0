package testenv

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// PgBouncer is a connection pooler in transaction mode before a Postgres
// server: each transaction may run in another server session, and sessions pass
// from client to client.
type PgBouncer struct {
	srv Server
	// Major and Minor are the version. Prepared statements of clients survive a
	// change of session from 1.21 on, with the setting max_prepared_statements.
	Major, Minor int
}

// NewPgBouncer starts a PgBouncer before the server of a database, with more
// lines for the section [pgbouncer] of its configuration, and stops it when the
// test ends. It runs on this machine, under the user of Postgres when the tests
// run as root. It logs in as the user of the URL, whoever connects.
func NewPgBouncer(tb testing.TB, database string, settings ...string) *PgBouncer {
	tb.Helper()
	u, err := url.Parse(database)
	if err != nil {
		tb.Fatalf("testenv: pgbouncer: the database is no URL") // it may hold a password
	}
	b := &PgBouncer{srv: startFrom(tb, "pgbouncer", local{}, func(Provider) (Server, error) { return startPgBouncer(u, settings) })}
	tb.Cleanup(func() { stopServer(tb, "pgbouncer", b.srv) })
	probe := func() error {
		through, err := b.at(database)
		if err == nil {
			_, err = pgExec(through, "SELECT 1")
		}
		return err
	}
	if err := waitReady(b.srv, probe); err != nil {
		tb.Fatalf("testenv: pgbouncer: %v", err)
	}
	if b.Major, b.Minor, err = pgBouncerVersion(); err != nil {
		tb.Fatalf("testenv: pgbouncer: %v", err)
	}
	return b
}

// URL is a database of the server, through the pooler.
func (b *PgBouncer) URL(tb testing.TB, database string) string {
	tb.Helper()
	u, err := b.at(database)
	if err != nil {
		tb.Fatalf("testenv: pgbouncer: the database is no URL")
	}
	return u.String()
}

// Do runs statements in a database through the pooler, and returns the rows of
// the last one as text, NULL as "". An error fails the test.
func (b *PgBouncer) Do(tb testing.TB, database, sql string) [][]string {
	tb.Helper()
	u, err := b.at(database)
	if err != nil {
		tb.Fatalf("testenv: pgbouncer: the database is no URL")
	}
	rows, err := pgExec(u, sql)
	if err != nil {
		tb.Fatalf("testenv: pgbouncer: %v: %s", err, sql)
	}
	return rows
}

func (b *PgBouncer) at(database string) (*url.URL, error) {
	u, err := url.Parse(database)
	if err == nil {
		u.Host = b.srv.Addr()
		u.User = url.User(u.User.Username())
	}
	return u, err
}

// pgBouncerBinary is FENCED_TEST_PGBOUNCER, pgbouncer on the PATH, or Debian's.
func pgBouncerBinary() (string, error) {
	if bin := os.Getenv("FENCED_TEST_PGBOUNCER"); bin != "" {
		return lookPath(bin)
	}
	path, err := lookPath("pgbouncer")
	if err == nil {
		return path, nil
	}
	return lookPath("/usr/sbin/pgbouncer") // not on the PATH of everybody
}

func startPgBouncer(server *url.URL, settings []string) (Server, error) {
	bin, err := pgBouncerBinary()
	if err != nil {
		return nil, err
	}
	who, err := postgresAccount()
	if err != nil {
		return nil, err
	}
	c, err := newChild("pgbouncer")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(c.dir.path, "pgbouncer.ini")
	err = os.WriteFile(config, []byte(pgBouncerConfig(server, c.port.Number, settings)), 0o600)
	if who != nil && err == nil {
		for _, path := range []string{c.dir.path, config} {
			if err = os.Chown(path, who.uid, who.gid); err != nil {
				break
			}
		}
	}
	if err != nil {
		_ = c.discard()
		return nil, err
	}
	c.command = func() *exec.Cmd { return who.apply(command(c.dir.path, nil, bin, config)) }
	c.quit = os.Kill // nothing of it is worth an orderly end
	return c.startOnce()
}

func pgBouncerConfig(server *url.URL, port int, settings []string) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	target := fmt.Sprintf("host=%s port=%s user=%s", server.Hostname(), server.Port(), quote(server.User.Username()))
	if password, ok := server.User.Password(); ok {
		target += " password=" + quote(password)
	}
	lines := []string{
		"[databases]", "* = " + target,
		"[pgbouncer]", "listen_addr = 127.0.0.1", "listen_port = " + strconv.Itoa(port), "unix_socket_dir =",
		"auth_type = any", "pool_mode = transaction",
	}
	return strings.Join(append(lines, settings...), "\n") + "\n"
}

var pgBouncerVersionLine = regexp.MustCompile(`PgBouncer (\d+)\.(\d+)`)

func pgBouncerVersion() (major, minor int, err error) {
	bin, err := pgBouncerBinary()
	if err != nil {
		return 0, 0, err
	}
	out, err := command("", nil, bin, "--version").Output()
	m := pgBouncerVersionLine.FindSubmatch(out)
	if err != nil || m == nil {
		return 0, 0, fmt.Errorf("%s --version says %q: %w", bin, out, err)
	}
	major, _ = strconv.Atoi(string(m[1]))
	minor, _ = strconv.Atoi(string(m[2]))
	return major, minor, nil
}
