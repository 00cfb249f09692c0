package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// session is the one connection that a call uses from its first statement to
// its last: guarded work never takes a second one.
type session struct {
	DB
	conn    *pgx.Conn // nil when DB does not show it
	release func()
}

// session takes a connection. An error means that nothing was sent.
func (s *Store) session(ctx context.Context) (*session, error) {
	return take(ctx, s.db)
}

func take(ctx context.Context, db DB) (*session, error) {
	ss, err := connected(ctx, db)
	if err == nil {
		forgetUnreplicated(ss.conn)
	}
	return ss, err
}

func connected(ctx context.Context, db DB) (*session, error) {
	switch db := db.(type) {
	case *pgxpool.Pool:
		c, err := db.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return &session{DB: c, conn: c.Conn(), release: c.Release}, nil
	case *pgxpool.Conn:
		return &session{DB: db, conn: db.Conn(), release: func() {}}, nil
	case *pgx.Conn:
		return &session{DB: db, conn: db, release: func() {}}, nil
	default:
		return &session{DB: db, release: func() {}}, nil
	}
}

// alive says that the connection is known to be in step with its server. After
// an error that the server did not send, that means it was found by the client
// before anything was sent.
func (ss *session) alive() bool { return ss.conn != nil && !ss.conn.IsClosed() }

// errNoTx is about a DB that takes batches apart.
var errNoTx = errors.New("the DB does not pass on Batch.BeginTx")

// begin sends a batch that begins a transaction. When anything in it fails, the
// transaction has ended.
func (ss *session) begin(ctx context.Context, b *pgx.Batch) (pgx.Tx, error) {
	br := ss.SendBatch(ctx, b)
	tx, err := br.Tx(), br.Close()
	if tx == nil {
		return nil, errors.Join(err, errNoTx)
	}
	if err != nil {
		rollback(ctx, tx)
		return nil, err
	}
	return tx, nil
}
