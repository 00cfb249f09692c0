package testenv_test

import (
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
)

func TestStandbyFollowsLagsAndIsPromoted(t *testing.T) {
	t.Parallel()
	primary := testenv.NewPostgres(t)
	primary.Do(t, "", "CREATE TABLE t (n int)")
	standby := testenv.NewStandby(t, primary)
	primary.Do(t, "", "INSERT INTO t VALUES (1)")
	standby.CatchUp(t)
	standby.Link.Cut()
	primary.Do(t, "", "INSERT INTO t VALUES (2)")
	primary.Kill(t)
	standby.Promote(t)
	standby.Do(t, "", "INSERT INTO t VALUES (3)")
	rows := standby.Do(t, "", "SELECT string_agg(n::text, ' ' ORDER BY n) FROM t")
	if got := rows[0][0]; got != "1 3" {
		t.Errorf("the promoted standby has %s, want 1 3: what it heard, and its own", got)
	}
}
