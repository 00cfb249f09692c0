package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
)

// FencesError says that a list of fences cannot be guarded together. It matches
// [fencedstore.ErrInvalidFence]: nothing was sent.
type FencesError struct {
	// Resource is the one that is named twice; "" when the list is empty.
	Resource string
	// Reason says what is wrong.
	Reason string
}

func (e *FencesError) Error() string { return "postgres: invalid fences: " + e.Reason }

// Is makes errors.Is(e, fencedstore.ErrInvalidFence) true.
func (e *FencesError) Is(target error) bool { return target == fencedstore.ErrInvalidFence }

// fences are those that one transaction is guarded by, in the caller's order
// and of resources that all differ.
type fences []fencedstore.Fence

// newFences copies and checks what a caller gave.
func newFences(given []fencedstore.Fence) (fences, error) {
	if len(given) == 0 {
		return nil, &FencesError{Reason: "the list is empty"}
	}
	seen := make(map[string]fencedstore.Fence, len(given))
	for _, f := range given {
		if err := f.Validate(); err != nil {
			return nil, err
		}
		if other, twice := seen[f.Resource]; twice {
			reason := fmt.Sprintf("%v is named twice", f)
			if other != f {
				reason = fmt.Sprintf("%v and %v have the same resource", other, f)
			}
			return nil, &FencesError{Resource: f.Resource, Reason: reason}
		}
		seen[f.Resource] = f
	}
	return append(fences(nil), given...), nil
}

// begun is what every call checks before it sends anything.
func (fs fences) begun(ctx context.Context, op string) error {
	for _, f := range fs {
		if err := begun(ctx, op, f); err != nil {
			return err
		}
	}
	return nil
}

// of is the fence that err is about: the one that the server refused, or else
// the first.
func (fs fences) of(err error) fencedstore.Fence {
	if len(fs) == 1 || err == nil {
		return fs[0]
	}
	resource := refusedResource(err)
	for _, f := range fs {
		if encodeResource(f.Resource) == resource {
			return f
		}
	}
	return fs[0]
}

// refusedResource is the resource that guard_many names in the error's field
// for a constraint.
func refusedResource(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.ConstraintName
	}
	if other, ok := errors.AsType[interface {
		error
		Get(field byte) string
	}](err); ok {
		return other.Get('n')
	}
	return ""
}

// guard is the statement that guards a transaction by all of them. A left of 0
// means no bound on the time that it may be idle.
func (fs fences) guard(left time.Duration) (sql string, args []any) {
	if len(fs) == 1 {
		return guardSQL, guardArgs(fs[0], left)
	}
	var resources, ids, holders []string
	for _, f := range fs {
		resources = append(resources, encodeResource(f.Resource))
		ids = append(ids, strconv.FormatInt(f.ID, 10))
		holders = append(holders, `\x`+hex.EncodeToString([]byte(f.Holder)))
	}
	return guardManySQL, []any{arrayLiteral(resources), arrayLiteral(ids), arrayLiteral(holders), milliseconds(left)}
}

var inArray = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// arrayLiteral is an array as text, which every driver can send.
func arrayLiteral(elements []string) string {
	var b strings.Builder
	for i, e := range elements {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + inArray.Replace(e) + `"`)
	}
	return "{" + b.String() + "}"
}
