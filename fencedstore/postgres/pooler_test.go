package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

// pooled is a database behind PgBouncer in transaction mode, whose sessions go
// round: every transaction gets the session that has been free for longest.
func pooled(tb testing.TB, size int, settings ...string) (bouncer *testenv.PgBouncer, direct string) {
	tb.Helper()
	direct = database(tb)
	settings = append(settings, "server_round_robin = 1", fmt.Sprintf("default_pool_size = %d", size))
	return testenv.NewPgBouncer(tb, direct, settings...), direct
}

// keepsStatements says that a PgBouncer can keep clients' prepared statements apart.
func keepsStatements(b *testenv.PgBouncer) bool { return b.Major > 1 || b.Minor >= 21 }

func TestGuardedWorkThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	const workers, rounds = 50, 6
	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			bouncer, direct := pooled(t, 3)
			if mode == pgx.QueryExecModeCacheStatement {
				if !keepsStatements(bouncer) {
					return // see TestPreparedStatementsBehindAnOldPoolerFailSafely
				}
				bouncer, direct = pooled(t, 3, "max_prepared_statements = 100")
			}
			pool := openPool(t, bouncer.URL(t, direct), execMode(mode), maxConns(workers))
			watch := openPool(t, direct, maxConns(2))
			run(t, watch, "insert into kv values ('n', '0')")
			s := newStore(t, pool, nil)
			f := claimed(t, s, "r", 1)
			errs := make(chan error, workers)
			for range workers {
				go func() { errs <- repeat(rounds, func() error { return everyWrite(t.Context(), s, pool, f) }) }()
			}
			for range workers {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if got, want := value(t, watch, "n"), fmt.Sprint(workers*rounds*5); got != want {
				t.Errorf("counted %s guarded writes, want %s", got, want)
			}
			claimed(t, s, "r", 2)
			if err := everyWrite(t.Context(), s, pool, f); !errors.Is(err, fencedstore.ErrStale) {
				t.Errorf("stale: %v", err)
			}
			nothingLeft(t, bouncer, direct, watch)
		})
	}
}

const countUp = "update kv set value = convert_to((convert_from(value, 'UTF8')::int + 1)::text, 'UTF8') where key = $1"

// everyWrite counts up in each way of writing under a guard, until one fails.
func everyWrite(ctx context.Context, s *postgres.Store, pool *pgxpool.Pool, f fencedstore.Fence) error {
	key := []byte("n")
	inTx := func(tx pgx.Tx) error { _, err := tx.Exec(ctx, countUp, key); return err }
	if err := s.Claim(ctx, f); err != nil {
		return err
	}
	if err := s.InTx(ctx, f, inTx); err != nil {
		return err
	}
	if _, err := s.Exec(ctx, f, countUp, key); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(countUp, key)
	if err := s.SendBatch(ctx, f, b); err != nil {
		return err
	}
	if _, err := s.Repo().Exec(fencedstore.NewContext(ctx, f), countUp, key); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := postgres.Guard(ctx, tx, f); err != nil {
			return err
		}
		return inTx(tx)
	})
}

// nothingLeft looks at every session of the pooler: what a transaction set must
// be gone for the next, who may be somebody else.
func nothingLeft(tb testing.TB, bouncer *testenv.PgBouncer, direct string, watch *pgxpool.Pool) {
	tb.Helper()
	for range 6 { // twice round
		got := bouncer.Do(tb, direct, "select string_agg(name || '=' || setting, ' ') from pg_settings where source = 'session'"+
			" and name in ('idle_in_transaction_session_timeout', 'lock_timeout', 'synchronous_commit')")
		if got[0][0] != "" {
			tb.Errorf("a session keeps %s", got[0][0])
		}
	}
	if n := locks(tb, watch, true); n != 0 {
		tb.Errorf("%d locks are left", n)
	}
}

// Before version 1.21 PgBouncer hands a client's prepared statements to another
// client. Then a call in the mode that prepares them fails, but never half, and
// never as a success.
func TestPreparedStatementsBehindAnOldPoolerFailSafely(t *testing.T) {
	t.Parallel()
	bouncer, direct := pooled(t, 1)
	watch := openPool(t, direct, maxConns(1))
	run(t, watch, "insert into kv values ('n', '0')")
	f := claimed(t, newStore(t, watch, nil), "r", 1)
	var done, failed int
	for range 3 { // the first prepares, the second finds its names taken
		pool := openPool(t, bouncer.URL(t, direct), execMode(pgx.QueryExecModeCacheStatement), maxConns(1))
		_, err := newStore(t, pool, nil).Exec(t.Context(), f, countUp, []byte("n"))
		switch {
		case err == nil:
			done++
		case errors.Is(err, fencedstore.ErrUnknownOutcome):
			t.Errorf("an unknown outcome: %v", err)
		default:
			failed++
		}
	}
	if got := value(t, watch, "n"); got != fmt.Sprint(done) {
		t.Errorf("%s writes, want the %d that succeeded", got, done)
	}
	if !keepsStatements(bouncer) && failed == 0 {
		t.Error("no call failed: the mode is supported after all")
	}
}

// The user's own timeouts bound guarded work as well; none of ours is longer.
func TestTimeoutsOfTheUserAreRespected(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		for _, name := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
			pool := openPool(t, url, setting("default_transaction_isolation", level), setting(name, "17s"))
			s := newStore(t, pool, &postgres.Options{LockTimeout: within, IdleTimeout: within})
			f, g := claimed(t, s, level+name, 1), claimed(t, s, "other "+level+name, 1)
			show := func(tx pgx.Tx) error {
				var got string
				err := tx.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&got)
				if got != "17s" {
					t.Errorf("%s: %s is %s inside, want the user's", level, name, got)
				}
				return err
			}
			for _, err := range []error{
				s.InTx(t.Context(), f, show), s.InTxMany(t.Context(), []fencedstore.Fence{g, f}, show), pgx.BeginFunc(t.Context(), pool, show),
			} {
				if err != nil {
					t.Errorf("%s, %s: %v", level, name, err)
				}
			}
		}
	}
}

// A claim and a guard that wait are ended by the user's timeouts, which are
// shorter than ours.
func TestShortTimeoutsOfTheUserEndTheWait(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	holder := stuck(t, pool, f)
	var all sync.WaitGroup
	defer all.Wait()
	for name, busy := range map[string]bool{"statement_timeout": false, "lock_timeout": true} {
		short := newStore(t, openPool(t, pool.Config().ConnString(), setting(name, "40ms")), &postgres.Options{LockTimeout: within})
		err := short.Claim(t.Context(), fence("r", 2))
		if err == nil || errors.Is(err, postgres.ErrBusy) != busy || errors.Is(err, fencedstore.ErrUnknownOutcome) {
			t.Errorf("claim with %s: got %v", name, err)
		}
		all.Go(func() { _ = s.Claim(t.Context(), f) }) // the guard waits behind it
		untilQueued(t, pool, 1)
		if err := short.InTx(t.Context(), f, nil); err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) {
			t.Errorf("guard with %s: got %v", name, err)
		}
		if err := holder.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		holder = stuck(t, pool, f)
	}
}

// A database's own default level reaches every session of the pooler, where no
// client has asked for it.
func TestDefaultIsolationBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		direct := database(t)
		watch := openPool(t, direct, maxConns(1))
		run(t, watch, "insert into kv values ('n', '0')")
		run(t, watch, "alter database "+watch.Config().ConnConfig.Database+" set default_transaction_isolation = '"+level+"'")
		bouncer := testenv.NewPgBouncer(t, direct, "server_round_robin = 1", "default_pool_size = 2")
		if got := bouncer.Do(t, direct, "show transaction_isolation")[0][0]; got != level {
			t.Fatalf("the level is %s, want %s", got, level)
		}
		pool := openPool(t, bouncer.URL(t, direct), execMode(pgx.QueryExecModeExec))
		s := newStore(t, pool, nil)
		f := claimed(t, s, "r", 1)
		if err := everyWrite(t.Context(), s, pool, f); err != nil {
			t.Errorf("%s: %v", level, err)
		}
		claimed(t, s, "r", 2)
		if err := everyWrite(t.Context(), s, pool, f); !errors.Is(err, fencedstore.ErrStale) {
			t.Errorf("%s: stale: %v", level, err)
		}
		if got := value(t, watch, "n"); got != "5" {
			t.Errorf("%s: counted %s writes, want 5", level, got)
		}
	}
}
