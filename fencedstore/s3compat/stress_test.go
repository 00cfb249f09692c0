package s3compat_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// stressTime is how long a stress test runs; FENCED_TEST_SOAK lengthens it.
func stressTime(tb testing.TB) time.Duration {
	tb.Helper()
	soak := os.Getenv("FENCED_TEST_SOAK")
	if soak == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(soak)
	if err != nil {
		tb.Fatalf("FENCED_TEST_SOAK: %v", err)
	}
	return d
}

// oracle stands between the faults and the store and so knows the truth: every
// version of the register that the store has accepted.
type oracle struct {
	*proxy

	mu       sync.Mutex
	versions []accepted
	pending  sync.WaitGroup
	calm     atomic.Bool // nothing is lost
}

// accepted is one version.
type accepted struct {
	s3compat.Register
	values map[string]string
}

func newOracle(tb testing.TB, upstream string) *oracle {
	tb.Helper()
	o := &oracle{proxy: newProxy(tb, upstream)}
	o.alter(func(r *request, resp *response) {
		if r.method != http.MethodPut || !strings.HasSuffix(r.path, "/register") || resp.status != http.StatusOK {
			return
		}
		reg, values, err := s3compat.DecodeRegister(r.body)
		if err != nil {
			tb.Errorf("a register was written that cannot be read: %v", err)
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.versions = append(o.versions, accepted{reg, values})
	})
	return o
}

// lossy is a way to the oracle that loses 12 % of the replies and delivers 12 %
// of the requests after their caller has given up.
func (o *oracle) lossy(tb testing.TB) string {
	tb.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		switch dice := rand.IntN(100); {
		case o.calm.Load():
		case dice < 12:
			o.ServeHTTP(httptest.NewRecorder(), in)
			panic(http.ErrAbortHandler)
		case dice < 24:
			o.later(in)
			panic(http.ErrAbortHandler)
		}
		o.ServeHTTP(w, in)
	}))
	tb.Cleanup(srv.Close)
	return srv.URL
}

// later delivers a request after a while.
func (o *oracle) later(in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return
	}
	again := in.Clone(context.WithoutCancel(in.Context()))
	again.Body = io.NopCloser(bytes.NewReader(body))
	o.pending.Add(1)
	time.AfterFunc(rand.N(30*time.Millisecond), func() {
		defer o.pending.Done()
		o.ServeHTTP(httptest.NewRecorder(), again)
	})
}

// tally counts outcomes.
type tally struct{ applied, refused, unknown, claims atomic.Int64 }

// holder is one process: it claims and writes until it is refused, over and
// over.
type holder struct {
	t     *testing.T
	s     [2]*s3compat.Store // two handles, so that writers of one tenure meet
	next  *atomic.Int64      // fence IDs
	tally *tally
	mu    sync.Mutex
	said  map[string]error // by token: what its write has returned
}

func (h *holder) run(ctx context.Context) {
	for ctx.Err() == nil {
		f := by(fencedstore.NewHolder(), h.next.Add(1))
		err := h.s[0].Claim(context.WithoutCancel(ctx), f)
		if errors.Is(err, fencedstore.ErrStale) {
			continue
		}
		if errors.Is(err, fencedstore.ErrUnknownOutcome) {
			h.unknown(err)
			continue
		}
		if err != nil {
			h.t.Errorf("claim: %v", err)
			return
		}
		h.tally.claims.Add(1)
		var wg sync.WaitGroup
		for _, s := range h.s {
			wg.Go(func() { h.tenure(ctx, s, f) })
		}
		wg.Wait()
	}
}

func (h *holder) tenure(ctx context.Context, s *s3compat.Store, f fencedstore.Fence) {
	for i := 0; i < 15 && ctx.Err() == nil; i++ {
		token := fencedstore.NewHolder()
		err := s.Put(context.WithoutCancel(ctx), f, "k", strings.NewReader(token), nil)
		h.mu.Lock()
		h.said[token] = err
		h.mu.Unlock()
		switch {
		case err == nil:
			h.tally.applied.Add(1)
		case errors.Is(err, fencedstore.ErrUnknownOutcome):
			h.unknown(err)
		case errors.Is(err, fencedstore.ErrStale):
			h.tally.refused.Add(1)
			return
		default:
			h.t.Errorf("put: %v", err)
			return
		}
	}
}

// unknown counts an outcome that may be unknown for one reason only.
func (h *holder) unknown(err error) {
	h.tally.unknown.Add(1)
	if !strings.Contains(err.Error(), "more writes came since than the register remembers") {
		h.t.Errorf("unknown for another reason than the bound of the history: %v", err)
	}
}

// check compares what was said with the truth.
func (o *oracle) check(t *testing.T, said map[string]error) {
	t.Helper()
	o.pending.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.SortFunc(o.versions, func(a, b accepted) int { return int(a.Seq - b.Seq) })
	applied := map[string]bool{}
	for i, v := range o.versions {
		applied[v.values["k"]] = true
		if v.Seq != int64(i)+1 {
			t.Fatalf("version %d is in place %d: a version was lost, or two were accepted", v.Seq, i+1)
		}
		if i > 0 && v.Fence < o.versions[i-1].Fence {
			t.Errorf("version %d has fence %d, the one before %d", v.Seq, v.Fence, o.versions[i-1].Fence)
		}
	}
	for token, err := range said {
		switch {
		case errors.Is(err, fencedstore.ErrUnknownOutcome):
		case err == nil && !applied[token]:
			t.Errorf("false applied: %s", token)
		case err != nil && applied[token]:
			t.Errorf("false not applied: %s: %v", token, err)
		}
	}
}

func TestStressOverALossyNetwork(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		o := newOracle(t, srv.url)
		opts := &s3compat.Options{Prefix: freshPrefix(), SettleTimeout: time.Minute}
		var next atomic.Int64
		var tally tally
		said := map[string]error{}
		holders := make([]*holder, 3)
		o.calm.Store(true) // the probe is not what this is about
		for i := range holders {
			lossy := srv.via(o.lossy(t))
			holders[i] = &holder{t: t, next: &next, tally: &tally, said: map[string]error{}}
			for j := range holders[i].s {
				holders[i].s[j] = open(t, lossy, opts)
			}
		}
		o.calm.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), stressTime(t))
		defer cancel()
		var wg sync.WaitGroup
		for _, h := range holders {
			wg.Go(func() { h.run(ctx) })
		}
		wg.Wait()
		for _, h := range holders {
			maps.Copy(said, h.said)
		}
		o.check(t, said)
		t.Logf("%d claims, %d puts applied, %d refused, %d unknown, %d versions",
			tally.claims.Load(), tally.applied.Load(), tally.refused.Load(), tally.unknown.Load(), len(o.versions))
		if tally.applied.Load() == 0 || tally.refused.Load() == 0 || tally.claims.Load() < 2 {
			t.Error("nothing was contended: the test shows nothing")
		}
		// A writer that hears nothing for as long as others take for 64 commits,
		// half a second here, is told so.
		if unknown, applied := tally.unknown.Load(), tally.applied.Load(); unknown > 2+applied/20 {
			t.Errorf("%d outcomes stayed unknown beside %d that were applied", unknown, applied)
		}
	})
}
