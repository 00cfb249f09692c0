package fenced_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/faults"
	"github.com/fenced-go/fenced/internal/testenv"
)

// pair is a primary and its standby. The primary fails over once, for good.
type pair struct {
	*testing.T
	primary *testenv.Postgres
	standby *testenv.Standby
	lags    bool // it is asynchronous, and need not have everything
	calls   int  // of failOver
	down    bool // what takes writes is paused or dead
	over    bool
	forgot  time.Time // when the old primary was gone
}

// now is the server that takes writes.
func (p *pair) now() *testenv.Postgres {
	if p.over {
		return p.standby.Postgres
	}
	return p.primary
}

// faults are those of the pair, and one failover. The old primary stays dead: two
// that take writes are two stores.
func (p *pair) faults() []faults.Fault {
	const lane = "postgres"
	var target *testenv.Postgres
	begin := func(do func(*testenv.Postgres)) func() {
		return func() {
			target, p.down = p.now(), true
			do(target)
		}
	}
	end := func(do func(*testenv.Postgres)) func() {
		return func() {
			if target == p.now() {
				do(target)
			}
			p.down = false
		}
	}
	return []faults.Fault{
		{
			Name: "pause the primary", Lane: lane, Longest: long,
			Begin: begin(func(s *testenv.Postgres) { s.Pause(p) }), End: end(func(s *testenv.Postgres) { s.Resume(p) }),
		},
		{
			Name: "kill the primary", Lane: lane, Longest: long,
			Begin: begin(func(s *testenv.Postgres) { s.Kill(p) }), End: end(func(s *testenv.Postgres) { s.Start(p) }),
		},
		{Name: "cut the standby off", Lane: lane, Longest: long, Begin: p.standby.Link.Cut, End: p.standby.Link.Heal},
		{Name: "fail over", Lane: "failover", Begin: p.failOver},
	}
}

// failOver has the standby take over when it is called for the second time.
func (p *pair) failOver() {
	if p.calls++; p.calls != 2 {
		return
	}
	if p.lags {
		p.standby.Link.Cut()
		rest(p.Context(), faultTTL/2)
	} else if !p.down {
		// A wait for the standby that a client has given up leaves a commit that
		// others see and the standby lacks. It gets what there is of those; what is
		// committed from now on has to be there by itself.
		p.standby.Link.Heal()
		p.standby.CatchUp(p)
	}
	p.primary.Kill(p)
	p.forgot = time.Now()
	p.standby.Promote(p)
	p.over = true
	// it has no standby of its own to wait for
	p.standby.Do(p, "", "ALTER SYSTEM RESET synchronous_standby_names")
	p.standby.Do(p, "", "SELECT pg_reload_conf()")
}

// onAPair runs workers on a primary with a standby until the standby has taken
// over, whatever the plan says.
func onAPair(t *testing.T, synchronous string) (*faultRun, *pair, env) {
	t.Helper()
	r := newFaultRun(t)
	redis := testenv.NewRedis(t)
	p := &pair{T: t, primary: testenv.NewPostgres(t), lags: synchronous == ""}
	e := prepare(t, nil, p.primary, "postgres")
	r.tables(e)
	p.standby = testenv.NewStandby(t, p.primary)
	p.primary.Do(t, "", "ALTER SYSTEM SET synchronous_standby_names = '"+synchronous+"'")
	p.primary.Do(t, "", "SELECT pg_reload_conf()")
	r.harm(p.faults()...)
	r.harm(processFaults(t, "redis", redis)...)
	r.setup.Redis = []string{redis.Addr()}
	r.setup.Postgres = firstWritable(t, p.primary.URL(e.db), p.standby.URL(e.db))
	r.crew(nil)
	return r, p, e
}

// firstWritable is a database at whichever of two servers takes writes.
func firstWritable(t *testing.T, a, b string) string {
	t.Helper()
	first, err := url.Parse(a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	first.Host += "," + second.Host
	q := first.Query()
	q.Set("target_session_attrs", "read-write")
	first.RawQuery = q.Encode()
	return first.String()
}

// A synchronous standby has every claim and every acknowledged write: nothing is
// lost by a failover.
func TestFaultsOnASynchronousStandby(t *testing.T) {
	t.Parallel()
	r, p, e := onAPair(t, "standby")
	r.run()
	if !p.over {
		t.Fatal("there was no failover: the run shows nothing")
	}
	r.judge(journal(t, p.standby.Postgres, e.db))
}

// An asynchronous standby may lack the last claims and writes, which is said in
// docs/guarantees.md. Everything holds for those who acquire afterwards.
func TestFaultsOnAnAsynchronousStandby(t *testing.T) {
	t.Parallel()
	r, p, e := onAPair(t, "")
	r.run()
	if !p.over {
		t.Fatal("there was no failover: the run shows nothing")
	}
	r.judgeOps(faults.After(p.forgot, r.history.Ops(), journal(t, p.standby.Postgres, e.db)))
}
