package s3compat_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
	"github.com/fenced-go/fenced/internal/testenv"
)

// An older holder that commits without a pause has the ETag at hand, and a claim
// has to read it first. It wins nevertheless, and then the older one is done.
func TestClaimComesThroughAgainstABusyHolder(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		opts := &s3compat.Options{Prefix: freshPrefix()}
		next := open(t, srv, opts)
		claim(t, next, by(alice, 5))
		var begun, commits atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			busy := open(t, srv, opts)
			wg.Go(func() {
				for begun.Add(1); ; commits.Add(1) {
					err := busy.Put(t.Context(), by(alice, 5), "k", strings.NewReader("x"), nil)
					if errors.Is(err, fencedstore.ErrStale) {
						return
					}
					if err != nil {
						t.Errorf("busy put: %v", err)
						return
					}
				}
			})
		}
		testenv.Eventually(t, within, "the busy holder to commit", func() bool { return commits.Load() > 10 })
		before := commits.Load()
		claim(t, next, by(bob, 6))
		after := commits.Load()
		wg.Wait()
		t.Logf("%d commits of the older holder went before the claim", after-before)
		put(t, next, by(bob, 6), "k", []byte("mine"))
		wantValue(t, next, "k", []byte("mine"))
	})
}

// One process may write from many goroutines: they take turns and lose nothing.
func TestWritersOfOneTenureLoseNothing(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		opts := &s3compat.Options{Prefix: freshPrefix()}
		handles := []*s3compat.Store{open(t, srv, opts), open(t, srv, opts)}
		f := by(alice, 5)
		claim(t, handles[0], f)
		const writers, each = 6, 5
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					key := fmt.Sprint(w, "/", i)
					if err := handles[w%2].Put(t.Context(), f, key, strings.NewReader(key), nil); err != nil {
						t.Errorf("put: %v", err)
					}
				}
			})
		}
		wg.Wait()
		list, err := handles[0].List(t.Context(), resource, "")
		if err != nil || len(list) != writers*each {
			t.Errorf("got %d keys, %v, want %d", len(list), err, writers*each)
		}
	})
}
