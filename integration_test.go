package fenced_test

import (
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of migrations
	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/internal/testenv"
	_ "github.com/fenced-go/fenced/internal/testenv/docker" // servers in containers
	"github.com/fenced-go/fenced/migrations/migrate"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(faultWorkerEnv); spec != "" {
		runFaultWorker(spec)
		return
	}
	if spec := os.Getenv(workerEnv); spec != "" {
		runWorker(spec)
		return
	}
	testenv.Main(m)
}

// patience bounds every wait: long, because the machine may be busy.
const patience = 2 * time.Minute

// ttl is short enough to be waited for, and long against what a busy machine
// makes of a renewal.
const ttl = 1500 * time.Millisecond

// env is what the workers of one test share.
type env struct {
	redis    *testenv.Redis
	postgres *testenv.Postgres
	db       string
}

// newEnv is a Redis of the test's own and a database on the shared Postgres.
func newEnv(t *testing.T) env {
	t.Helper()
	u, err := url.Parse(testenv.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	return prepare(t, testenv.NewRedis(t), testenv.SharedPostgres(t), u.Path[1:])
}

// newEnvOn is a database on servers of the test's own, which it may harm.
func newEnvOn(t *testing.T, r *testenv.Redis, p *testenv.Postgres) env {
	t.Helper()
	db := "fenced_test_" + strings.ToLower(rand.Text()[:12])
	p.Do(t, "", "CREATE DATABASE "+db)
	t.Cleanup(func() { p.Do(t, "", "DROP DATABASE "+db+" WITH (FORCE)") })
	return prepare(t, r, p, db)
}

// prepare migrates a database and makes the tables of the workers.
func prepare(t *testing.T, r *testenv.Redis, p *testenv.Postgres, db string) env {
	t.Helper()
	e := env{r, p, db}
	migrateUp(t, p.DirectURL(db))
	p.Do(t, e.db, "CREATE TABLE counter (n int NOT NULL); INSERT INTO counter VALUES (0);"+
		"CREATE TABLE entry (op text PRIMARY KEY, fence_id bigint NOT NULL)")
	return e
}

func migrateUp(t *testing.T, url string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := migrate.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

// worker starts a worker on servers that it reaches directly, unless change says
// otherwise.
func (e env) worker(t *testing.T, name string, change func(*setup)) *worker {
	t.Helper()
	s := setup{Name: name, Redis: e.redis.DirectAddr(), Postgres: e.postgres.DirectURL(e.db), TTL: ttl}
	if change != nil {
		change(&s)
	}
	return startWorker(t, s)
}

// throughProxy has a worker's way to Redis lead through the proxy.
func (e env) throughProxy(s *setup) { s.Redis = e.redis.Addr() }

func (e env) count(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(e.postgres.Do(t, e.db, "SELECT n FROM counter")[0][0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// refused checks that the database itself said that a fence is stale.
func refused(t *testing.T, w *worker, r result) {
	t.Helper()
	if !r.is("stale") || r.Code != "ZF001" {
		t.Errorf("%s: got %+v, want a stale fence and SQLSTATE ZF001", w.name, r)
	}
}

// newer checks that a successor's fence is above its predecessor's.
func newer(t *testing.T, before, after result) {
	t.Helper()
	if after.Fence <= before.Fence {
		t.Errorf("fence %d after %d", after.Fence, before.Fence)
	}
}

// stopPastTTL has a hold the lock and stand still until b has taken over and
// written. cut is done while a stands still.
func stopPastTTL(t *testing.T, e env, cut func()) {
	t.Helper()
	a, b := e.worker(t, "a", e.throughProxy), e.worker(t, "b", nil)
	first := a.must(t, "acquire", 0)
	a.must(t, "set", 1)
	a.Pause(t)
	second := b.must(t, "acquire", 0)
	newer(t, first, second)
	if r := b.must(t, "get", 0); r.N != 1 {
		t.Errorf("b reads %d, want what a wrote before it was stopped", r.N)
	}
	b.must(t, "set", 2)
	cut()
	a.tell(t, "err", 0)
	a.tell(t, "set", 3)
	a.tell(t, "get", 0)
	a.Resume(t)
	if r := a.hear(t); !r.is("lost") {
		t.Errorf("the first thing that a hears of its lock is %+v, want that it is lost", r)
	}
	refused(t, a, a.hear(t))
	refused(t, a, a.hear(t))
	b.must(t, "release", 0)
	if n := e.count(t); n != 2 {
		t.Errorf("the counter is %d, want 2, which b wrote", n)
	}
}

func TestDatabaseRefusesAHolderThatWasStopped(t *testing.T) {
	t.Parallel()
	stopPastTTL(t, newEnv(t), func() {})
}

func TestDatabaseRefusesAStoppedHolderWithoutRedis(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	stopPastTTL(t, e, e.redis.Proxy.Cut)
}

func TestCheckBeforeAWriteProvesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.worker(t, "a", nil), e.worker(t, "b", nil)
	first := a.must(t, "acquire", 0)
	if r := a.ask(t, "check, then set", 1); r.Err != "" {
		t.Fatalf("a does not hold: %+v", r)
	}
	a.Pause(t) // checked, and about to write
	newer(t, first, b.must(t, "acquire", 0))
	b.must(t, "set", 2)
	a.tell(t, "go on", 0)
	a.Resume(t)
	refused(t, a, a.hear(t))
	if n := e.count(t); n != 2 {
		t.Errorf("the counter is %d, want 2", n)
	}
}

// onePoll is the longest time that a waiter leaves between two looks.
const onePoll = 500 * time.Millisecond

func TestKilledHolderIsSucceededAfterItsLease(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.worker(t, "a", nil), e.worker(t, "b", nil)
	first := a.must(t, "acquire", 0)
	a.must(t, "set", 1)
	b.tell(t, "acquire", 0)
	a.Kill(t)
	killed := time.Now()
	second := b.hear(t)
	// A busy machine may need as long again; waiting for more than one lease
	// would take longer.
	if took, bound := time.Since(killed), ttl+onePoll; took > 2*bound {
		t.Errorf("b waited for %v, a lease and a poll are %v", took, bound)
	}
	if second.Err != "" {
		t.Fatal(second.Err)
	}
	newer(t, first, second)
	if r := b.must(t, "get", 0); r.N != 1 {
		t.Errorf("b reads %d, want 1", r.N)
	}
}

// flush has Redis lose everything while a works.
func flush(t *testing.T, e env) {
	t.Helper()
	a, b := e.worker(t, "a", nil), e.worker(t, "b", nil)
	first := a.must(t, "acquire", 0)
	a.must(t, "set", 1)
	e.redis.Do(t, "FLUSHALL")
	second := b.must(t, "acquire", 0)
	newer(t, first, second)
	refused(t, a, a.ask(t, "set", 3))
	if r := b.must(t, "get", 0); r.N != 1 {
		t.Errorf("b reads %d, want 1", r.N)
	}
	b.must(t, "set", 2)
	if r := a.ask(t, "wait", 0); !r.is("lost") {
		t.Errorf("the lock of a ends with %+v, want that it was lost", r)
	}
	b.must(t, "release", 0)
	if n := e.count(t); n != 2 {
		t.Errorf("the counter is %d, want 2", n)
	}
}

func TestRedisThatLostItsDataGoesOn(t *testing.T) {
	t.Parallel()
	flush(t, newEnv(t))
}

// Here the clock of the next client is a day behind the fences in use, so that
// its proposal is below what the store knows: only the floor gets it through.
func TestFloorHealsAfterDataLossWithAClockFarBehind(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ahead := time.Now().Add(24 * time.Hour).UnixMicro()
	e.redis.Do(t, "SET", "fenced:{"+resource+"}:fence", strconv.FormatInt(ahead, 10))
	flush(t, e)
	rows := e.postgres.Do(t, e.db, "SELECT fence_id FROM fencedstore.fence")
	if len(rows) != 1 || rows[0][0] < strconv.FormatInt(ahead, 10) {
		t.Errorf("the mark is %v, want one above %d: the clock alone got through", rows, ahead)
	}
}

func TestContextEndsBeforeTheLeaseWhenRedisIsUnreachable(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a := e.worker(t, "a", func(s *setup) {
		e.throughProxy(s)
		s.TTL = 3 * time.Second
		s.RenewEvery = s.TTL * 9 / 10 // none succeeds, so that the end of the lease is known
	})
	for range 5 { // a busy machine may be late once, and not every time
		a.must(t, "acquire", 0)
		e.redis.Proxy.Cut()
		r := a.ask(t, "wait", 0)
		if !r.is("lost") {
			t.Fatalf("the context ends with %+v, want *LostError", r)
		}
		if r.N == 1 {
			return
		}
		e.redis.Proxy.Heal()
	}
	t.Error("the lease ended while the context still stood, five times out of five")
}

func TestReadmeExampleBills(t *testing.T) {
	t.Parallel()
	db, r := testenv.Database(t), testenv.NewRedis(t)
	migrateUp(t, db)
	pool, err := pgxpool.New(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for statement := range strings.SplitSeq("CREATE TABLE accounts (id int, usage int);CREATE TABLE invoices (id int UNIQUE, amount int);INSERT INTO accounts VALUES (1, 10), (2, 20)", ";") {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	rdb := redis.NewClient(&redis.Options{Addr: r.Addr()})
	defer func() { _ = rdb.Close() }()
	if err := bill(t.Context(), rdb, pool); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := pool.QueryRow(t.Context(), "SELECT sum(amount) FROM invoices").Scan(&n); err != nil || n != 30 {
		t.Errorf("billed %d, %v, want 30", n, err)
	}
}
