package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// A locker takes its next fence above the mark that a refusal names. What is not
// a fence ID is not a mark.
func TestRefusalWithAStrangeDetailNamesNoMark(t *testing.T) {
	t.Parallel()
	f := fence("r", 5)
	for _, detail := range []string{"", "0", "-7", "+7", "007", "7 ", "7.0", "9223372036854775808", "99999999999999999999", "seven"} {
		var stale *fencedstore.StaleError
		err := postgres.Refused(f, &pgconn.PgError{Code: "ZF001", Detail: detail})
		if !errors.As(err, &stale) || stale.Newest != 0 {
			t.Errorf("%q: got %+v, want a refusal that names no mark", detail, err)
		}
		var notClaimed *fencedstore.NotClaimedError
		err = postgres.Refused(f, &pgconn.PgError{Code: "ZF003", Detail: detail})
		if !errors.As(err, &notClaimed) || notClaimed.Newest != 0 {
			t.Errorf("%q: got %+v, want a refusal that names no mark", detail, err)
		}
	}
}

func FuzzErrorDetail(f *testing.F) {
	for _, code := range []string{"ZF001", "ZF002", "ZF003", "ZF004", "ZF005", "40001", ""} {
		for _, detail := range []string{"", "0", "7", "-7", "9223372036854775807", "9223372036854775808", "x"} {
			f.Add(code, detail)
		}
	}
	f.Fuzz(func(t *testing.T, code, detail string) {
		for _, err := range []error{&pgconn.PgError{Severity: "ERROR", Code: code, Detail: detail}, pqError{code, detail}} {
			checkRefusal(t, postgres.Refused(fence("r", 5), err), detail)
			if out := postgres.Outcome(t.Context(), "commit", fence("r", 5), err, false); out == nil {
				t.Fatalf("%q, %q became a success", code, detail)
			}
		}
	})
}

func checkRefusal(t *testing.T, err error, detail string) {
	t.Helper()
	id, bad := fencedstore.ParseID(detail)
	if bad != nil {
		id = 0
	}
	var stale *fencedstore.StaleError
	if errors.As(err, &stale) && stale.Newest != id {
		t.Fatalf("%q became mark %d", detail, stale.Newest)
	}
	var notClaimed *fencedstore.NotClaimedError
	if errors.As(err, &notClaimed) && notClaimed.Newest != id {
		t.Fatalf("%q became mark %d", detail, notClaimed.Newest)
	}
}
