package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNotReplicated says that somebody cancelled a commit's wait for a synchronous
// standby: it is done on this server, and a failover may lose it. It is the cause
// of an ErrUnknownOutcome, on connections that [WatchReplication] prepared.
var ErrNotReplicated = errors.New("postgres: the commit's wait for a standby was cancelled")

// WatchReplication makes connections of cfg notice what the server reports in no
// other way than by a warning: that a commit with synchronous replication gave up
// waiting for its standby, because somebody cancelled it, and reports success. A
// call of a [Store] that meets that returns an ErrUnknownOutcome that matches
// [ErrNotReplicated] as well; repeating the call waits for the standby again. A
// claim always writes for this reason.
//
// Call it before connecting; for a pool with its ConnConfig. It calls the OnNotice
// that cfg has. It has no effect where client_min_messages is error, for then the
// server keeps the warning to itself, or where a wrapper hides the connection from
// the Store: its DB has to be a pgx pool or connection. It changes nothing where
// replication is asynchronous.
func WatchReplication(cfg *pgx.ConnConfig) {
	next := cfg.OnNotice
	cfg.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.Routine == waitRoutine { // the text is translated, and its SQLSTATE that of any warning
			conn.CustomData()[unreplicatedKey] = true
		}
		if next != nil {
			next(conn, n)
		}
	}
}

const (
	// waitRoutine is where the server waits for standbys, in every version.
	waitRoutine     = "SyncRepWaitForLSN"
	unreplicatedKey = "github.com/fenced-go/fenced/fencedstore/postgres: not replicated"
)

// forgetUnreplicated begins a call: what earlier commits met is not its business.
func forgetUnreplicated(conn *pgx.Conn) {
	if conn != nil {
		delete(conn.PgConn().CustomData(), unreplicatedKey)
	}
}

// replicated is the outcome of a commit that the server has acknowledged.
func replicated(conn *pgx.Conn) error {
	if conn != nil && conn.PgConn().CustomData()[unreplicatedKey] != nil {
		return ErrNotReplicated
	}
	return nil
}
