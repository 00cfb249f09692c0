package postgres_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// decode is the inverse of what the documentation says about names.
func decode(tb testing.TB, text string) string {
	tb.Helper()
	var b strings.Builder
	for text != "" {
		before, after, found := strings.Cut(text, `\`)
		b.WriteString(before)
		text = after
		switch {
		case !found:
		case strings.HasPrefix(after, `\`):
			b.WriteByte('\\')
			text = after[1:]
		case strings.HasPrefix(after, "x"):
			c, err := strconv.ParseUint(after[1:3], 16, 8)
			if err != nil {
				tb.Fatal(err)
			}
			b.WriteByte(byte(c))
			text = after[3:]
		default:
			tb.Fatalf("a lone backslash in %q", text)
		}
	}
	return b.String()
}

func FuzzEncodeResource(f *testing.F) {
	for _, name := range []string{
		"invoices/2024", "Rechnung/äöü", `C:\path`, "\x00", "\xff\xfe", `\x00`, `\\`, "a\x80\\\x00é", "\u2028", "\U0010ffff",
		"\xed\xa0\x80", strings.Repeat("\xff", fencedstore.MaxResource),
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		text := postgres.EncodeResource(name)
		if got := decode(t, text); got != name {
			t.Errorf("%q became %q, which is %q", name, text, got)
		}
		if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			t.Errorf("%q became %q, which Postgres cannot hold", name, text)
		}
		if readable := utf8.ValidString(name) && !strings.ContainsAny(name, "\\\x00"); readable != (text == name) {
			t.Errorf("%q became %q", name, text)
		}
		if len(name) <= fencedstore.MaxResource && len(text) > 4*fencedstore.MaxResource {
			t.Errorf("%q became %d bytes", name, len(text))
		}
	})
}

func TestAnyBytesNameAResource(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	for id, name := range []string{
		"a", "A", "a ", "á", "a\u0301", "\x00", `\x00`, `\\x00`, "\xff", "a\x00b", "'; drop table kv --", "$1", "%s",
		strings.Repeat("\xff", fencedstore.MaxResource), strings.Repeat("\x00", fencedstore.MaxResource), strings.Repeat("é", fencedstore.MaxResource/2),
	} {
		f := claimed(t, s, name, int64(id)+1)
		if _, err := s.Exec(t.Context(), f, "select"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		var text string
		if err := pool.QueryRow(t.Context(), "select resource from fencedstore.fence where fence_id = $1", f.ID).Scan(&text); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if got := decode(t, text); got != name {
			t.Errorf("%q is stored as %q", name, text)
		}
	}
}
