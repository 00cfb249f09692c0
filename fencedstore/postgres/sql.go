package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fenced-go/fenced/fencedstore"
)

// Every parameter is cast, so that its type never depends on what surrounds it
// or on pgx's execution mode, and the holder is always a parameter, so that it
// shows neither in pg_stat_activity nor in pg_stat_statements.
const (
	claimSQL = "select fencedstore.claim($1::text, $2::int8, $3::bytea, $4::int8)"
	guardSQL = "select fencedstore.guard($1::text, $2::int8, $3::bytea, $4::int8)"
	// The arrays are text, which drivers of database/sql can send.
	guardManySQL = "select fencedstore.guard_many($1::text[], $2::int8[], $3::bytea[], $4::int8)"
	holdersSQL   = "select pid from fencedstore.holders($1::text)"
	evictSQL     = "select fencedstore.evict($1::text)"
)

// guardArgs are the parameters of guardSQL. A left of 0 means no bound.
func guardArgs(f fencedstore.Fence, left time.Duration) []any {
	return []any{encodeResource(f.Resource), f.ID, []byte(f.Holder), milliseconds(left)}
}

// milliseconds is a bound as a parameter: NULL when left is 0, for none.
func milliseconds(left time.Duration) any {
	if left == 0 {
		return nil
	}
	return max(left.Milliseconds(), 1)
}

// remainder is the least of limit, the time until ctx ends, and what the lock
// that ctx comes from says of its lease; 0 when nothing bounds it.
func remainder(ctx context.Context, limit time.Duration) time.Duration {
	left := limit
	if deadline, ok := ctx.Deadline(); ok {
		left = sooner(left, time.Until(deadline))
	}
	if lease, known := fencedstore.Remaining(ctx); known {
		left = sooner(left, lease)
	}
	return left
}

// sooner is the lesser of two bounds, of which left may be 0 for none.
func sooner(left, d time.Duration) time.Duration {
	d = max(d, time.Millisecond)
	if left == 0 {
		return d
	}
	return min(left, d)
}

// encodeResource writes any bytes as text that Postgres can hold: valid UTF-8
// stands for itself, except that a backslash is doubled, and a NUL or a byte
// that is not valid UTF-8 becomes \xNN. No two names have the same text.
func encodeResource(name string) string {
	if utf8.ValidString(name) && !strings.ContainsAny(name, "\\\x00") {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == 0, r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + hexByte(name[i]))
		default:
			b.WriteString(name[i : i+size])
		}
		i += size
	}
	return b.String()
}

func hexByte(c byte) string {
	s := strconv.FormatUint(uint64(c), 16)
	if len(s) == 1 {
		s = "0" + s
	}
	return s
}
