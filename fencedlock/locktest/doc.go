// Package locktest helps to test programs that use package fencedlock: a Redis
// in the test's own process, and faults on the way to it.
//
//	test                        holder                 locktest.Server
//	                            Acquire ─────────────▶ lock, fence 41
//	Steal ───────────────────────────────────────────▶ lock, fence 42
//	                            next renewal ────────▶ taken
//	                            its context ends, *fencedlock.LostError
//
// A unit test of a job that loses its lock half way:
//
//	server, store := locktest.Start(t), memstore.New()
//	locker := server.Locker(t, &fencedlock.Options{Stores: []fencedstore.Claimer{store}})
//
//	err := locker.Do(t.Context(), "invoices", nil, func(ctx context.Context, f fencedstore.Fence) error {
//		successor := server.Steal(t, "invoices")
//		if err := store.Claim(ctx, successor); err != nil {
//			return err
//		}
//		return store.Write(ctx, f, "invoice/7", []byte("30"))
//	})
//	if !errors.Is(err, fencedstore.ErrStale) {
//		t.Errorf("got %v, want the store to refuse the job", err)
//	}
//
// A test that wants the holder to learn of it at once calls Renew on the lock.
//
// # What it does not do
//
// The server is miniredis, which answers as Redis does but is not Redis: it
// shows that a program handles a lost lock, not that the lock is right. It has
// one lock for everything, so figures of speed mean nothing. TTLs run by the
// clock of the process.
//
// # Errors
//
// What a test asks for with [Faults.FailNext] and [Faults.LoseReply] is an
// [ErrInjected] unless the test brings its own; see [ServerError].
//
// # Concurrency
//
// Server and Faults are safe for concurrent use.
package locktest
