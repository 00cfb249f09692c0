package postgres_test

import (
	"strings"
	"testing"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

func TestEnterReadsWhatFenceStringWrites(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	for id, name := range []string{"a", `C:\path %`, "Rechnung/äöü", "two\nlines\n=x\n:", "'; drop table inv --"} {
		f := fencedstore.Fence{Resource: name, ID: int64(id) + 1, Holder: "any\x00 byte\xff"}
		if err := s.store.Claim(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if err := postgres.Protect(t.Context(), s.admin, "inv", name, nil); err != nil {
			t.Fatal(err)
		}
		if err := script(t.Context(), s.app, "begin; select fencedstore.enter('"+f.String()+"'); update inv set v = 1"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, text := range []string{
		"", "5", "5:A", "5:A:", "0:A:inv", "-5:A:inv", "5:A:inv:x", "5:%:inv", "5:A:%zz", "5: A:inv", "99999999999999999999:A:inv",
		"5:A:inv\n", "9999999999999999999:A:inv",
	} {
		_, err := s.app.Exec(t.Context(), "select fencedstore.enter($1)", text)
		if got := code(t, err); got != "22023" && got != "22003" || strings.Contains(err.Error(), ":A") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if _, err := s.app.Exec(t.Context(), "select fencedstore.enter('5:A:%FF')"); code(t, err) != "22021" {
		t.Errorf("a name that is not UTF-8: %v", err)
	}
}
