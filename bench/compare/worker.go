package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// workerEnv is set in worker processes, to a world.
const workerEnv = "FENCED_COMPARE_WORKER"

// What a worker tells the experiment, one a line. To the first three it waits
// for an answer, "go" or "stop".
const (
	sayNext         = "next"    // not inside the lock
	sayWorking      = "working" // has read, has not asked
	sayWriting      = "writing" // the lock has said that it is held
	sayAcknowledged = "acknowledged"
	sayNoticed      = "noticed"
	sayRefused      = "refused"
	sayUnknown      = "unknown"
	sayBusy         = "busy" // did not get the lock in time

	answerGo   = "go"
	answerStop = "stop"
)

const (
	// acquireWithin bounds one wait for the lock.
	acquireWithin = 5 * time.Second
	// workLeast and workMost bound the time between read and write.
	workLeast, workMost = 10 * time.Millisecond, 30 * time.Millisecond
)

// errBusy is about a lock that was not got, and may be next time.
var errBusy = errors.New("busy")

// world is what one worker has to do with.
type world struct {
	Contender, Redis, Postgres string

	pool  *pgxpool.Pool
	store *postgres.Store
}

// client is a go-redis client with its defaults.
func (w *world) client() *redis.Client { return redis.NewClient(&redis.Options{Addr: w.Redis}) }

// workerMain is the whole worker; its result is an exit status.
func workerMain() int {
	ctx := context.Background()
	err := func() error {
		var w world
		if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &w); err != nil {
			return err
		}
		return w.run(ctx, &line{in: bufio.NewReader(os.Stdin), out: os.Stdout})
	}()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

func (w *world) run(ctx context.Context, to *line) (err error) {
	c, ok := find(w.Contender)
	if !ok {
		return fmt.Errorf("no contender %q", w.Contender)
	}
	if w.pool, err = pgxpool.New(ctx, w.Postgres); err != nil {
		return err
	}
	defer w.pool.Close()
	if w.store, err = postgres.New(w.pool, nil); err != nil {
		return err
	}
	lock, err := c.open(w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.close()) }()
	for {
		if err := to.ask(sayNext); err != nil {
			return ignoreStop(err)
		}
		result, err := w.section(ctx, to, c, lock.acquire)
		if err != nil {
			return err
		}
		if err := to.say(result); err != nil {
			return err
		}
	}
}

// section is one stay inside the lock. Its write is sent with a context that
// does not end with the lock: it is about workers that notice nothing.
func (w *world) section(ctx context.Context, to *line, c contender, acquire acquirer) (result string, err error) {
	account := 1 + rand.IntN(accounts)
	waiting, cancel := context.WithTimeout(ctx, acquireWithin)
	defer cancel()
	t, err := acquire(waiting, fmt.Sprintf("%s/%d", w.Contender, account))
	if err != nil {
		if waiting.Err() != nil || errors.Is(err, errBusy) {
			return sayBusy, nil
		}
		return "", err
	}
	defer func() { err = errors.Join(err, t.release(ctx)) }()
	e := entry{account: account, tenure: rand.Int64()}
	value, err := w.read(ctx, account, e.tenure)
	if err != nil {
		return "", err
	}
	e.value = value + 1
	if err := wait(ctx, workLeast+rand.N(workMost-workLeast)); err != nil {
		return "", err
	}
	if err := to.ask(sayWorking); err != nil {
		return "", err
	}
	if !t.held(ctx) {
		return sayNoticed, nil
	}
	if err := to.ask(sayWriting); err != nil {
		return "", err
	}
	return outcome(c.write(ctx, w, t, e))
}

// outcome names how a write ended.
func outcome(err error) (string, error) {
	switch {
	case err == nil:
		return sayAcknowledged, nil
	case errors.Is(err, errRefused):
		return sayRefused, nil
	case errors.Is(err, fencedstore.ErrUnknownOutcome):
		return sayUnknown, nil
	default:
		return "", err
	}
}

// line is the pipe between a worker and the experiment.
type line struct {
	in  *bufio.Reader
	out io.Writer
}

// errStop says that the experiment is over.
var errStop = errors.New("stopped")

func (l *line) say(what string) error {
	_, err := fmt.Fprintln(l.out, what)
	return err
}

// ask says something and waits to be told to go on.
func (l *line) ask(what string) error {
	if err := l.say(what); err != nil {
		return err
	}
	answer, err := l.in.ReadString('\n')
	if err != nil {
		return err
	}
	if strings.TrimSpace(answer) != answerGo {
		return errStop
	}
	return nil
}

func ignoreStop(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}
