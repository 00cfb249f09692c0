package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// Evict ends the server sessions that have a guarded transaction of the resource
// open and so make a claim wait, as [BusyError] names them, and returns their
// process IDs, none when nobody is in the way. Their transactions are rolled
// back, or, where COMMIT is under way already, have an unknown outcome. Other
// sessions are left alone; so are claims that wait.
//
// It is for the successor of a holder that hangs: claim, and on a [BusyError]
// evict and claim again. Whoever is the holder is evicted: never call it for a
// resource that is in good hands. A session that ends its transaction in the
// same moment may be hit in its next one; a pooler runs others' there.
//
// It needs more than the other methods do: EXECUTE on fencedstore.evict for the
// role, and for the owner of the schema membership in pg_signal_backend, unless
// all sessions are its own. When a right is missing, nobody is evicted and the
// error is an [ErrRights]: a *[RightsError] where a GRANT would do. A bad name is
// an ErrInvalidFence. An ErrUnknownOutcome means that the answer did not arrive;
// evicting again is safe.
func (s *Store) Evict(ctx context.Context, resource string) ([]int32, error) {
	f := fencedstore.Fence{Resource: resource} // names the resource in errors
	if err := fencedstore.ValidateResource(resource); err != nil {
		return nil, err
	}
	ss, err := s.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres: evict from %q: %w", resource, withCause(ctx, err))
	}
	defer ss.release()
	var pids []int32
	b := &pgx.Batch{}
	b.Queue(evictSQL, encodeResource(resource)).QueryRow(func(row pgx.Row) error { return row.Scan(&pids) })
	err = ss.SendBatch(ctx, b).Close()
	switch {
	case err == nil:
		return pids, nil
	case hasCode(err, codePrivilege):
		return nil, evictRights(err)
	case notDone(err, ss.alive()):
		return nil, fmt.Errorf("postgres: evict from %q: %w", resource, withCause(ctx, err))
	}
	return nil, &fencedstore.UnknownOutcomeError{Op: "evict", Fence: f, Err: withCause(ctx, err)}
}

// evictRights is what the server says about a missing right. The function names
// its owner where a grant to it would do.
func evictRights(err error) error {
	if _, owner := sqlState(err); owner != "" {
		rights := &RightsError{Role: owner, Missing: []string{"pg_signal_backend"}}
		return fmt.Errorf("%w (%w)", rights, err)
	}
	return fmt.Errorf("%w: %w", ErrRights, err)
}
