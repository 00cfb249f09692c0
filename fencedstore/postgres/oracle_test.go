package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

// toyLock is a lock service with leases. It knows nothing of what its holders
// do after their lease has ended.
type toyLock struct {
	repeats bool // sometimes hands the last fence out again, to somebody else
	mu      sync.Mutex
	last    map[string]fencedstore.Fence
	until   map[string]time.Time
}

func (l *toyLock) acquire(resource string) (fencedstore.Fence, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last, l.until = map[string]fencedstore.Fence{}, map[string]time.Time{}
	}
	if time.Now().Before(l.until[resource]) {
		return fencedstore.Fence{}, false
	}
	id := l.last[resource].ID + 1
	if l.repeats && id > 1 && rand.IntN(3) == 0 {
		id--
	}
	f := fence(resource, id)
	l.last[resource], l.until[resource] = f, time.Now().Add(stressLease)
	return f, true
}

func (l *toyLock) release(f fencedstore.Fence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[f.Resource] == f {
		l.until[f.Resource] = time.Time{}
	}
}

// verdict counts what the order of commits shows.
type verdict struct {
	claims, writes int
	refused        int // what the holders were told
	order          int // a commit under a lower fence than an earlier one
	reuse          int // a write under a fence that another holder has written under
	lost           int // a write over a value that its holder had not seen
}

func (v verdict) String() string {
	return fmt.Sprintf("%d claims, %d writes, %d refused; out of order %d, reused %d, lost updates %d",
		v.claims, v.writes, v.refused, v.order, v.reuse, v.lost)
}

// slot is a logical replication slot: the server's own account of what was
// committed, in the order in which it was.
type slot struct {
	pool *pgxpool.Pool
	name string
}

func newSlot(tb testing.TB, pool *pgxpool.Pool) slot {
	tb.Helper()
	var level string
	if err := pool.QueryRow(tb.Context(), "show wal_level").Scan(&level); err != nil {
		tb.Fatal(err)
	}
	if level != "logical" {
		testenv.Missing(tb, "postgres", "its wal_level is "+level+", and the oracle needs logical")
	}
	s := slot{pool, pool.Config().ConnConfig.Database}
	_, err := pool.Exec(tb.Context(), "select pg_create_logical_replication_slot($1, 'test_decoding')", s.name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { // or the database cannot be dropped
		db := openSQL(tb, pool.Config().ConnString())
		if _, err := db.Exec("select pg_drop_replication_slot($1)", s.name); err != nil { //nolint:noctx // the test's context has ended
			tb.Error(err)
		}
	})
	return s
}

var (
	claimLine = regexp.MustCompile(`^table (?:fencedstore\.fence|public\.naive): (?:INSERT|UPDATE): resource\[text\]:'(\w+)' fence_id\[bigint\]:(\d+)`)
	writeLine = regexp.MustCompile(`^table public\.journal: INSERT: resource\[text\]:'(\w+)' fence_id\[bigint\]:(\d+)` +
		` holder\[text\]:'(\w+)' saw\[bigint\]:(\d+) wrote\[bigint\]:(\d+)`)
)

func (s slot) judge(tb testing.TB) verdict {
	tb.Helper()
	rows, err := s.pool.Query(tb.Context(), "select data from pg_logical_slot_get_changes($1, null, null)", s.name)
	if err != nil {
		tb.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	var v verdict
	of := map[string]*history{}
	for _, r := range stressResources {
		of[r] = &history{writers: map[int64]string{}}
	}
	for _, line := range lines {
		if m := claimLine.FindStringSubmatch(line); m != nil {
			of[m[1]].claim(&v, number(m[2]))
		}
		if m := writeLine.FindStringSubmatch(line); m != nil {
			of[m[1]].write(&v, number(m[2]), m[3], number(m[4]), number(m[5]))
		}
	}
	return v
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// history is one resource as its commits unfold.
type history struct {
	newest, value int64
	writers       map[int64]string
}

func (h *history) claim(v *verdict, id int64) {
	v.claims++
	h.newest = max(h.newest, id)
}

func (h *history) write(v *verdict, id int64, holder string, saw, wrote int64) {
	v.writes++
	if id < h.newest {
		v.order++
	}
	h.newest = max(h.newest, id)
	if other, ok := h.writers[id]; ok && other != holder {
		v.reuse++
	}
	h.writers[id] = holder
	if saw != h.value {
		v.lost++
	}
	h.value = wrote
}
