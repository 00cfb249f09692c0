package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// A holder that is paused inside a transaction occupies the resource for no
// longer than its lease lasts.
func TestTransactionIsIdleForNoLongerThanTheLease(t *testing.T) {
	t.Parallel()
	s, _ := setUp(t)
	f := claimed(t, s, "accounts", 7)
	for name, c := range map[string]struct {
		lease time.Duration
		most  float64 // seconds
	}{
		"short lease": {3 * time.Second, 3},
		"long lease":  {time.Hour, 30}, // the default of Options.IdleTimeout
	} {
		ctx := fencedstore.NewLeaseContext(t.Context(), f, func() time.Duration { return c.lease })
		var got float64
		err := s.InTx(ctx, f, func(tx pgx.Tx) error {
			return tx.QueryRow(t.Context(),
				"select extract(epoch from current_setting('idle_in_transaction_session_timeout')::interval)::float8").Scan(&got)
		})
		if err != nil || got <= 0 || got > c.most {
			t.Errorf("%s: got an idle timeout of %v s, %v, want at most %v s", name, got, err, c.most)
		}
	}
}
