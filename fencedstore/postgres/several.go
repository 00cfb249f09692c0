package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// InTxMany is [Store.InTx] for work on several resources at once: every one of
// fs is the newest claim of its resource from before fn begins until the
// transaction has ended. Each must have been claimed. The order of fs does not
// matter: all transactions lock their resources in the same order, so that two
// of them never wait for each other, whatever claims are queued between.
//
// An empty list and a resource that is named twice are a *[FencesError], before
// anything is sent. A refusal names the fence that was refused, the first of
// them in the order of fs; an ErrUnknownOutcome names the first of fs. ctx
// carries at most one lease: let it be that of the lock that ends first.
func (s *Store) InTxMany(ctx context.Context, fs []fencedstore.Fence, fn func(tx pgx.Tx) error) error {
	return s.InTxManyOptions(ctx, fs, pgx.TxOptions{}, fn)
}

// InTxManyOptions is [Store.InTxMany] with an isolation level and access mode,
// as in [Store.InTxOptions].
func (s *Store) InTxManyOptions(ctx context.Context, fs []fencedstore.Fence, opts pgx.TxOptions, fn func(tx pgx.Tx) error) error {
	all, err := newFences(fs)
	if err != nil {
		return err
	}
	return s.inTx(ctx, all, opts, fn)
}

// SendBatchMany is [Store.SendBatch] under the guard of several fences, with
// the rules of [Store.InTxMany].
func (s *Store) SendBatchMany(ctx context.Context, fs []fencedstore.Fence, b *pgx.Batch) error {
	all, err := newFences(fs)
	if err != nil {
		return err
	}
	return s.sendBatch(ctx, all, b).Close()
}

// GuardMany is [Guard] for several fences in one statement, with the rules of
// [Store.InTxMany]. It cannot order what earlier guards of the transaction have
// locked: name all of its fences in one call.
func GuardMany(ctx context.Context, tx pgx.Tx, fs []fencedstore.Fence) error {
	all, err := newFences(fs)
	if err != nil {
		return err
	}
	return guardTx(ctx, tx, all)
}

// GuardManySQL is [GuardMany] for database/sql, see [GuardSQL].
func GuardManySQL(ctx context.Context, tx *sql.Tx, fs []fencedstore.Fence) error {
	all, err := newFences(fs)
	if err != nil {
		return err
	}
	return guardSQLTx(ctx, tx, all)
}
