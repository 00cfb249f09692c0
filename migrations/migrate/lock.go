package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/fenced-go/fenced/migrations"
)

// What a step says that must not run now. Class ZF belongs to no standard.
const (
	codeBusy    = "ZFM01" // another process is at a step
	codeApplied = "ZFM02" // another process has applied this one
)

// lockSQL is what every step begins with, in the step's own transaction: the
// lock ends with it, whichever server session it runs in. It never waits, since
// a transaction that waits keeps others from what it has seen.
const lockSQL = `
-- +goose StatementBegin
DO $lock$ BEGIN
  IF NOT pg_try_advisory_xact_lock(%[1]d) THEN
    RAISE EXCEPTION 'another process migrates' USING ERRCODE = '%[2]s';
  END IF;
  IF EXISTS (SELECT FROM %[3]s WHERE version_id = %[4]d AND is_applied) THEN
    RAISE EXCEPTION 'another process has applied this step' USING ERRCODE = '%[5]s';
  END IF;
END $lock$;
-- +goose StatementEnd
`

// locked are migrations whose steps take the lock.
type locked struct{ fs.FS }

// Open implements fs.FS.
func (l locked) Open(name string) (fs.File, error) {
	f, err := l.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return f, err
	}
	data, err := io.ReadAll(f)
	if err == nil {
		data, err = withLock(name, data)
	}
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: name, Err: err}, f.Close())
	}
	return lockedFile{f, bytes.NewReader(data)}, nil
}

type lockedFile struct {
	fs.File
	text *bytes.Reader
}

// Read implements fs.File.
func (f lockedFile) Read(p []byte) (int, error) { return f.text.Read(p) }

func withLock(name string, data []byte) ([]byte, error) {
	version, err := goose.NumericComponent(name)
	if err != nil {
		return nil, err
	}
	const up = "-- +goose Up\n"
	text := string(data)
	if !strings.Contains(text, up) || strings.Contains(text, "NO TRANSACTION") {
		return nil, errors.New("it has no Up part, or one without a transaction to lock in")
	}
	lock := fmt.Sprintf(lockSQL, LockID, codeBusy, migrations.TableName, version, codeApplied)
	return []byte(strings.Replace(text, up, up+lock, 1)), nil
}

// whileBusy applies what is pending until nothing is, waiting for others that
// do the same: until is when it gives up.
func whileBusy(ctx context.Context, until time.Time, up func() ([]*goose.MigrationResult, error)) ([]*goose.MigrationResult, error) {
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	var all []*goose.MigrationResult
	for {
		done, err := up()
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			done = partial.Applied
		}
		all = append(all, done...)
		applied := isCode(err, codeApplied)
		if !applied && !isCode(err, codeBusy) || time.Now().After(until) {
			return all, err
		}
		if applied { // ask again what is pending
			continue
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return all, errors.Join(err, context.Cause(ctx))
		}
	}
}

func isCode(err error, code string) bool {
	state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	return ok && state.SQLState() == code
}
