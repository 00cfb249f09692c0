package testenv_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
)

func TestProgramsHaveServersWithoutATest(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three servers")
	}
	r, err := testenv.StartRedis("--appendonly", "no")
	if err != nil {
		unavailable(t, "redis", err)
	}
	if got := ask(t, dial(t, r.Addr()), "EXISTS k"); got != "0" {
		t.Errorf("through the proxy: got %s, want 0", got)
	}
	p, err := testenv.StartPostgres("-c", "fsync=on")
	if err != nil {
		unavailable(t, "postgres", err)
	}
	if got := p.Do(t, "", "SHOW fsync")[0][0]; got != "on" {
		t.Errorf("fsync: got %s, want the argument's on", got)
	}
	s, err := testenv.StartS3()
	if err != nil {
		unavailable(t, "s3", err)
	}
	if got := status(t, s.URL()+"/"+s.Bucket); got != http.StatusForbidden {
		t.Errorf("S3 through the proxy: got %d, want 403", got)
	}
	if err := errors.Join(r.Stop(), p.Stop(), s.Stop()); err != nil {
		t.Error(err)
	}
	for _, addr := range []string{r.DirectAddr(), r.Addr(), p.DirectAddr(), p.Addr(), strings.TrimPrefix(s.URL(), "http://")} {
		if _, err := tryDial(t, addr); err == nil {
			t.Errorf("%s still takes connections", addr)
		}
	}
}

// unavailable ends a test that cannot have a server.
func unavailable(t *testing.T, service string, err error) {
	t.Helper()
	if errors.Is(err, testenv.ErrUnavailable) {
		testenv.Missing(t, service, err.Error())
	}
	t.Fatal(err)
}

func TestProgramsLearnWhyThereIsNoServer(t *testing.T) {
	t.Setenv("FENCED_TEST_MODE", "docker") // not linked into this binary
	if _, err := testenv.StartRedis(); !errors.Is(err, testenv.ErrUnavailable) {
		t.Errorf("got %v, want an ErrUnavailable", err)
	}
	t.Setenv("FENCED_TEST_MODE", "local")
	t.Setenv("FENCED_TEST_POSTGRES_BIN", t.TempDir())
	if _, err := testenv.StartPostgres(); !errors.Is(err, testenv.ErrUnavailable) {
		t.Errorf("got %v, want an ErrUnavailable", err)
	}
}
