package testenv_test

import (
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
)

// Two clients one after the other use the same server session: what a session
// keeps is the next client's too.
func TestPgBouncerPassesSessionsOn(t *testing.T) {
	t.Parallel()
	url := testenv.Database(t)
	b := testenv.NewPgBouncer(t, url, "default_pool_size = 1")
	first, second := b.Do(t, url, "SELECT pg_backend_pid()"), b.Do(t, url, "SELECT pg_backend_pid()")
	if second[0][0] != first[0][0] {
		t.Errorf("sessions %v and %v, want one", first, second)
	}
	if b.Major < 1 {
		t.Errorf("version %d.%d", b.Major, b.Minor)
	}
}
