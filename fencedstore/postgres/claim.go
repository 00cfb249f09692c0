package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// Claim implements [fencedstore.Claimer]: it makes f the newest fence of its
// resource in a committed transaction of its own. When it returns nil, every
// transaction guarded by an older fence has ended, committed or not, and none
// can begin. Claim before the first read.
//
// It waits for such transactions at most Options.LockTimeout and then fails
// with a *[BusyError]. Other errors are a *[fencedstore.StaleError], a
// *[fencedstore.FenceReusedError], an ErrInvalidFence, or an ErrUnknownOutcome
// when the answer did not arrive. Repeating a claim is safe. It is one round
// trip, or three where default_transaction_isolation is not read committed.
//
// The claim is durable as the server understands synchronous_commit = on, even
// where the session has it off. A claim that the fence's own holder makes while
// it has a transaction guarded by an older fence open waits for itself.
func (s *Store) Claim(ctx context.Context, f fencedstore.Fence) error {
	if err := begun(ctx, "claim", f); err != nil {
		return err
	}
	ss, err := s.session(ctx)
	if err != nil {
		return failed(ctx, "claim", f, err)
	}
	defer ss.release()
	err = s.claim(ctx, ss, f)
	if hasCode(err, codeLockTimeout) {
		return &BusyError{Fence: f, PIDs: ss.holders(ctx, f), Err: err}
	}
	if err == nil {
		err = replicated(ss.conn)
	}
	return outcome(ctx, "claim", f, err, ss.alive())
}

// claim is one statement where the session's default isolation level allows it.
func (s *Store) claim(ctx context.Context, ss *session, f fencedstore.Fence) error {
	if !s.explicit.Load() {
		err := s.claimIn(ctx, ss, f)
		if !hasCode(err, codeIsolation) {
			return err
		}
		s.explicit.Store(true)
	}
	return s.claimReadCommitted(ctx, ss, f)
}

func (s *Store) claimIn(ctx context.Context, db sender, f fencedstore.Fence) error {
	wait := remainder(ctx, s.opts.LockTimeout)
	if wait < s.opts.LockTimeout {
		wait -= wait / 8 // so that the server's answer arrives before ctx ends
	}
	b := &pgx.Batch{}
	b.Queue(claimSQL, guardArgs(f, wait)...)
	return db.SendBatch(ctx, b).Close()
}

func (s *Store) claimReadCommitted(ctx context.Context, ss *session, f fencedstore.Fence) error {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	tx, err := ss.begin(ctx, b)
	if err != nil {
		return err
	}
	defer rollback(ctx, tx)
	if err := s.claimIn(ctx, tx, f); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// sender is a connection or a transaction.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// holders asks who was in the way. It is a help for people: no answer, none.
func (ss *session) holders(ctx context.Context, f fencedstore.Fence) []int32 {
	b := &pgx.Batch{}
	b.Queue(holdersSQL, encodeResource(f.Resource))
	br := ss.SendBatch(ctx, b)
	rows, _ := br.Query()
	pids, _ := pgx.CollectRows(rows, pgx.RowTo[int32])
	_ = br.Close()
	return pids
}
