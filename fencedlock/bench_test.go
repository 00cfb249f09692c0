package fencedlock_test

import (
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
)

// BenchmarkAcquireRelease is the uncontended pair, whose allocations count.
func BenchmarkAcquireRelease(b *testing.B) {
	srv := testenv.NewRedis(b)
	l := locker(b, client(b, srv.DirectAddr()), nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := acquire(b, l, "r").Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQuorumOfFiveAcquireAndRelease(b *testing.B) {
	_, clients := several(b, 5)
	l := quorum(b, clients, nil)
	b.ReportAllocs()
	for b.Loop() {
		k, err := l.Acquire(b.Context(), "r", nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := k.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
