package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// config is what the flags say.
type config struct {
	accounts            int
	workers             int
	ttl                 time.Duration
	unsafe              bool
	mode                string
	redis, postgres, s3 string
}

// night is the one that is billed. It is no date of yours, so that the example
// never stands in the way of a real billing.
var night = time.Date(1999, time.December, 31, 0, 0, 0, 0, time.UTC)

func (c *config) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("billing", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are printed once, by complain
	fs.IntVar(&c.accounts, "accounts", 12, "accounts to bill, 2 to 10000")
	fs.IntVar(&c.workers, "workers", 2, "workers that want to bill them, 2 to 32")
	fs.DurationVar(&c.ttl, "ttl", time.Second, "lease of the lock, 100ms to 1m")
	fs.BoolVar(&c.unsafe, "unsafe", false, "lock with GET, then SET, and check no fence")
	fs.StringVar(&c.mode, "mode", modeLock, "what keeps workers apart: `lock`, once or queue; the latter two need -postgres and no -redis")
	fs.StringVar(&c.redis, "redis", "", "URL of a real Redis; needs -postgres")
	fs.StringVar(&c.postgres, "postgres", "", "URL of a real Postgres; needs -redis, or -mode")
	fs.StringVar(&c.s3, "s3", "", "URL of a bucket for statement files; needs -redis and -postgres")
	return fs
}

func parseFlags(args []string) (config, error) {
	var c config
	fs := c.flags()
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return c, err
		}
		return c, unusable("%w (-h explains)", err)
	}
	switch {
	case fs.NArg() > 0:
		return c, unusable("%q is no flag (-h explains)", fs.Arg(0))
	case c.accounts < 2 || c.accounts > 10_000:
		return c, unusable("-accounts is %d, it must be from 2 to 10000", c.accounts)
	case c.workers < 2 || c.workers > 32:
		return c, unusable("-workers is %d, it must be from 2 to 32", c.workers)
	case c.ttl < 100*time.Millisecond || c.ttl > time.Minute:
		return c, unusable("-ttl is %v, it must be from 100ms to 1m", c.ttl)
	case c.mode != modeLock:
		return c, c.checkLockless()
	case c.redis != "" && c.postgres == "":
		return c, unusable("-redis is given and -postgres is missing")
	case c.redis == "" && c.postgres != "":
		return c, unusable("-postgres is given and -redis is missing")
	}
	return c, c.checkObjects()
}

// What keeps workers apart.
const (
	modeLock  = "lock"
	modeOnce  = "once"
	modeQueue = "queue"
)

// checkLockless is about the modes in which a database does all.
func (c *config) checkLockless() error {
	switch {
	case c.mode != modeOnce && c.mode != modeQueue:
		return unusable("-mode is %q, it must be lock, once or queue", c.mode)
	case c.postgres == "":
		return unusable("-mode %s is given and -postgres is missing", c.mode)
	case c.redis != "" || c.s3 != "" || c.unsafe:
		return unusable("-mode %s goes with none of -redis, -s3 and -unsafe", c.mode)
	}
	return nil
}

// checkObjects is about -s3. The statements of a night are one resource, and each
// commit to it sends the list of all of them.
func (c *config) checkObjects() error {
	switch {
	case c.s3 == "":
		return nil
	case c.redis == "":
		return unusable("-s3 is given and -redis and -postgres are missing")
	case c.accounts > 1000:
		return unusable("-accounts is %d, with -s3 it must be at most 1000", c.accounts)
	}
	return nil
}

// stallAt is the account before whose invoice the first worker stalls: a third
// is billed by then.
func (c *config) stallAt() int64 { return int64(c.accounts)/3 + 1 }

func unusable(format string, args ...any) error {
	return &unusableError{fmt.Errorf(format, args...)}
}

type unusableError struct{ error }

func (e *unusableError) Is(target error) bool { return target == errUnusable }
func (e *unusableError) Unwrap() error        { return e.error }

func help() string {
	var b strings.Builder
	b.WriteString(`Billing bills every account of a small service once a night. Its first worker
stalls for longer than its lease, between reading an account and writing the
invoice; another takes over and finishes; then the first wakes up.

  billing                    the late write is refused, the books are right
  billing -unsafe            the same without a fence: invoices twice, exit code 3
  billing -redis redis://127.0.0.1:6379 -postgres postgres://127.0.0.1:5432/billing
                             on real servers: each worker is a process, and the
                             stall is a real SIGSTOP; goes with -unsafe, too
  billing -redis … -postgres … -s3 http://accesskey:secretkey@127.0.0.1:7070/bucket
                             writes a statement file beside each invoice, fenced
                             as well: the late one is refused, too; goes with
                             -unsafe

  billing -mode once -postgres …    without a lock: the night is one transaction, which
                             one worker commits
  billing -mode queue -postgres …   without a lock: each account is a job in a queue, and
                             the number of the attempt is its fence

On real servers it adds fenced's own schema (fencedstore) if that is missing, and
makes the schema billing_example anew. It touches nothing else in the database
(with -mode once, the key of its night in fencedstore.once),
in Redis only keys that begin with "billing-example:", and in the bucket only
those that begin with "billing-example/".

`)
	fs := new(config).flags()
	fs.SetOutput(&b)
	fs.PrintDefaults()
	b.WriteString(`
Exit codes: 0 the books are right, 3 they are not, 2 flags or servers cannot be
used, 130 interrupted, 1 anything else.
`)
	return b.String()
}
