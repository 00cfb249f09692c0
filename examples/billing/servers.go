package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
	"github.com/fenced-go/fenced/migrations/migrate"
)

// reachWithin is how long a server may take to answer for the first time.
const reachWithin = 5 * time.Second

// servers is a stage on a real Redis and Postgres: workers are processes.
type servers struct {
	cfg   config
	redis string          // where it is, for people
	conn  *pgx.ConnConfig // into our schema
	admin *pgx.Conn       // holds the advisory lock that keeps other runs out
	files files           // of statements; nil without -s3
}

func newServers(ctx context.Context, cfg config) (_ *servers, err error) {
	s := &servers{cfg: cfg}
	if cfg.mode == modeLock {
		if s.redis, err = reachRedis(ctx, cfg.redis); err != nil {
			return nil, err
		}
	}
	if cfg.s3 != "" {
		if s.files, err = openFiles(ctx, cfg.s3, cfg.unsafe); err != nil {
			return nil, err
		}
	}
	pool, err := poolConfig(cfg.postgres)
	if err != nil {
		return nil, err
	}
	s.conn = pool.ConnConfig
	if s.admin, err = reachPostgres(ctx, s.conn); err != nil {
		return nil, err
	}
	if err := s.install(ctx); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

func reachRedis(ctx context.Context, addr string) (string, error) {
	opts, err := redis.ParseURL(addr)
	if err != nil {
		return "", unusable("-redis: %w", withoutURL(err))
	}
	rdb := redis.NewClient(opts)
	defer func() { _ = rdb.Close() }()
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return "", unusable("Redis at %s does not answer: %w", opts.Addr, err)
	}
	return opts.Addr, nil
}

// poolConfig is how workers connect: into the schema of the example.
func poolConfig(addr string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(addr)
	if err != nil {
		return nil, unusable("-postgres: %w", withoutURL(err))
	}
	c.ConnConfig.RuntimeParams["search_path"] = ledger.Schema
	c.ConnConfig.ConnectTimeout = reachWithin
	return c, nil
}

func reachPostgres(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, unusable("Postgres at %s:%d does not answer: %w", cfg.Host, cfg.Port, err)
	}
	return conn, nil
}

// install adds fenced's schema where it is missing, as a service does when it
// is deployed, and makes the example's own anew.
func (s *servers) install(ctx context.Context) error {
	db := stdlib.OpenDB(*s.conn)
	defer func() { _ = db.Close() }()
	if _, err := migrate.Up(ctx, db); err != nil {
		return unusable("%w", err)
	}
	var alone bool
	const lock = "SELECT pg_try_advisory_lock(hashtext('examples/billing'))"
	if err := s.admin.QueryRow(ctx, lock).Scan(&alone); err != nil {
		return err
	}
	if !alone {
		return unusable("another run of this example is using the database")
	}
	if s.cfg.mode == modeOnce { // another run may have billed the night
		if _, err := s.admin.Exec(ctx, "DELETE FROM fencedstore.once WHERE key = $1", nightly.Resource(night)); err != nil {
			return unusable("%w", err)
		}
	}
	err := ledger.Install(ctx, s.admin, int64(s.cfg.accounts), !s.cfg.unsafe)
	if errors.Is(err, ledger.ErrForeignSchema) {
		return unusable("%w", err)
	}
	return err
}

func (s *servers) describe() string {
	where := fmt.Sprintf("Postgres at %s:%d/%s. Workers are processes, a stall is a SIGSTOP.", s.conn.Host, s.conn.Port, s.conn.Database)
	switch s.cfg.mode {
	case modeOnce:
		return "No lock: the night is one transaction, which one worker commits.\n" + where
	case modeQueue:
		return "No lock: each account is a job in a queue; a fence is the number of an attempt.\n" + where
	}
	where = fmt.Sprintf("Redis at %s, %s", s.redis, where)
	if s.files != nil {
		where += fmt.Sprintf("\nStatements are files in bucket %q.", s.files.bucket())
	}
	if s.cfg.unsafe {
		return "UNSAFE: GET, then SET; no guard, and no unique constraint on invoices.\n" + where
	}
	return where
}

func (s *servers) start(ctx context.Context, n int, stallAt int64, tell func(event)) (actor, error) {
	return startProcess(ctx, job{
		N: n, StallAt: stallAt, Mode: s.cfg.mode, TTL: s.cfg.ttl, Unsafe: s.cfg.unsafe, Redis: s.cfg.redis, Postgres: s.cfg.postgres, S3: s.cfg.s3,
	}, tell)
}

// audit takes a connection of its own: Postgres may have been restarted.
func (s *servers) audit(ctx context.Context) (ledger.Audit, error) {
	conn, err := pgx.ConnectConfig(ctx, s.conn)
	if err != nil {
		return ledger.Audit{}, err
	}
	defer func() { _ = conn.Close(ctx) }()
	a, err := ledger.New(conn).Audit(ctx)
	if err == nil && s.files != nil {
		a.Statements, a.WrongStatements, err = auditStatements(ctx, conn, s.files)
	}
	return a, err
}

func (s *servers) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachWithin)
	defer cancel()
	_ = s.admin.Close(ctx)
}

// withoutURL drops what may carry a password from a parse error.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
