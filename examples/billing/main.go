// Billing is a nightly job of a small service, made safe with package fenced,
// and a story that shows why: a worker stalls for longer than its lease between
// reading an account and writing its invoice; another takes over and finishes;
// the first wakes up, still believing that it holds the lock.
//
//	go run ./examples/billing            its write is refused
//	go run ./examples/billing -unsafe    with GET-then-SET and no fence: doubled invoices
//	go run ./examples/billing -h         real servers, statement files on S3, and what else
//	                                     there is
//
// What a service would take from here is in internal/nightly (the job),
// internal/ledger (its repository) and worker.go (how they are put together).
// The rest plays the story: story.go directs it, embedded.go has the workers as
// goroutines over an in-process Redis and a store in memory, servers.go as
// processes on a Redis and a Postgres. With -s3 they also write statement files
// (statements.go, files.go). With -mode once or queue they have no lock
// (lockless.go).
//
// It exits with 0 when the books are right, 3 when they are not, 2 when the
// flags or the servers cannot be used, 130 when it was interrupted, and 1 when
// something else went wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitWrongBooks  = 3
	exitInterrupted = 130
)

func main() {
	redis.SetLogger(silent{}) // every error is returned as well
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	run := runStory
	if os.Getenv(workerEnv) != "" {
		run = runWorker
	}
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// errUnusable is matched by what a user can put right: flags and servers.
var errUnusable = errors.New("unusable")

func runStory(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(stdout, help())
		return 0
	}
	var right bool
	if err == nil {
		right, err = tell(ctx, cfg, stdout)
	}
	switch {
	case err == nil && right:
		return 0
	case err == nil:
		return exitWrongBooks
	case ctx.Err() != nil:
		complain(stderr, errors.New("interrupted; locks are released"))
		return exitInterrupted
	case errors.Is(err, errUnusable):
		complain(stderr, err)
		return exitUsage
	}
	complain(stderr, err)
	return exitFailed
}

// complain prints err on one line, whatever is in it.
func complain(w io.Writer, err error) {
	_, _ = fmt.Fprintln(w, "billing:", strings.Join(strings.Fields(err.Error()), " "))
}
