package s3compat_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// many is more keys than a register has room for.
const many = 6500

func manyKey(i int) string { return fmt.Sprintf("statements/%05d", i) }

// fill gives a resource more entries than fit its register. Some are inline.
func fill(tb testing.TB, s *s3compat.Store, f fencedstore.Fence) {
	tb.Helper()
	err := s.Update(tb.Context(), f, func(b *s3compat.Batch) error {
		for i := range many {
			if err := b.Put(tb.Context(), manyKey(i), strings.NewReader(fmt.Sprint(i)), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

func wantMany(t *testing.T, s *s3compat.Store, want int) {
	t.Helper()
	list, err := s.List(t.Context(), resource, "statements/")
	if err != nil || len(list) != want {
		t.Errorf("got %d keys, %v, want %d", len(list), err, want)
	}
}

// wantFormat wants the register to be written in a version of the format.
func wantFormat(t *testing.T, srv server, dir string, version int) {
	t.Helper()
	register, _ := naive{t, srv.client(), srv, dir}.get("register")
	if head := fmt.Sprintf("fenced-register %d ", version); !strings.HasPrefix(register, head) {
		t.Errorf("got a register that begins with %.20s, want %s", register, head)
	}
}

func TestEntriesThatDoNotFitTheRegisterObeyTheSameRules(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		prefix := freshPrefix()
		opts := &s3compat.Options{Prefix: prefix}
		a, b := open(t, srv, opts), open(t, srv, opts)
		dir := prefix + "/invoices/"
		claim(t, a, by(alice, 5))
		fill(t, a, by(alice, 5))
		wantFormat(t, srv, dir, 2)
		wantValue(t, b, manyKey(many-1), fmt.Append(nil, many-1))
		put(t, a, by(alice, 5), "k", []byte("more"))
		claim(t, b, by(bob, 6))
		wantErr(t, "older put", a.Put(t.Context(), by(alice, 5), "k", strings.NewReader("x"), nil), fencedstore.ErrStale)
		wantErr(t, "older gc", second(a.GC(t.Context(), by(alice, 5))), fencedstore.ErrStale)
		wantMany(t, b, many)
		put(t, b, by(bob, 6), "large", pattern(20_000))
		wantValue(t, a, "large", pattern(20_000))
		wantValue(t, a, "k", []byte("more"))

		s3compat.SetNow(b, func() time.Time { return time.Now().Add(2 * time.Hour) })
		got, err := b.GC(t.Context(), by(bob, 6))
		if err != nil || got.Objects != 2 || got.Waiting != 0 { // what the two later puts have replaced
			t.Errorf("gc: got %+v, %v, want two objects", got, err)
		}
		if left := objects(t, srv, dir+"d/"); len(left) != 2 {
			t.Errorf("left: %v, want the entries and a value", left)
		}
		wantMany(t, a, many)
		err = b.Update(t.Context(), by(bob, 6), func(b *s3compat.Batch) error {
			return errors.Join(b.Clear(), b.Put(t.Context(), "k", strings.NewReader("last"), nil))
		})
		wantErr(t, "clear", err, nil)
		wantFormat(t, srv, dir, 1)
		wantValue(t, a, "k", []byte("last"))
		if got, err := b.GC(t.Context(), by(bob, 6)); err != nil || got.Waiting != 2 {
			t.Errorf("gc: got %+v, %v, want entries and value to wait", got, err)
		}
	})
}

func TestRequestsWithEntriesThatDoNotFitTheRegister(t *testing.T) {
	t.Parallel()
	s, p, srv := wired(t, nil)
	const read, entries, swap = "GET invoices/register GetObject", "PUT invoices/d PutObject", "PUT invoices/register PutObject If-Match"
	claim(t, s, by(alice, 5))
	p.take()
	fill(t, s, by(alice, 5))
	wantLines(t, "update", p, entries, swap)
	put(t, s, by(alice, 5), "k", []byte("v"))
	wantLines(t, "put", p, entries, swap)
	wantValue(t, s, "k", []byte("v"))
	wantLines(t, "get", p, read, "GET invoices/d GetObject")
	claim(t, s, by(bob, 6)) // needs no entries
	wantLines(t, "claim", p, read, swap)
	fresh := open(t, srv.via(p.URL), &s3compat.Options{Prefix: "p"})
	p.take()
	put(t, fresh, by(bob, 6), "k", []byte("w"))
	wantLines(t, "put of another process", p, read, "GET invoices/d GetObject", entries, swap)
	wantErr(t, "older put", s.Put(t.Context(), by(alice, 5), "k", strings.NewReader("x"), nil), fencedstore.ErrStale)
	wantLines(t, "refused put", p, read)
}

// A claim writes a register that is a little larger than the one before.
func TestRegisterThatIsFullIsClaimed(t *testing.T) {
	t.Parallel()
	s, _, srv := wired(t, nil)
	claim(t, s, by(alice, 5))
	n := naive{t, srv.client(), srv, "p/invoices/"}
	room := func() int { register, _ := n.get("register"); return s3compat.MaxRegister - len(register) }
	keys := 0
	add := func(count, size int) {
		t.Helper()
		opts := &s3compat.PutOptions{Metadata: map[string]string{"m": strings.Repeat("x", size)}}
		err := s.Update(t.Context(), by(alice, 5), func(b *s3compat.Batch) error {
			for range count {
				keys++
				if err := b.Put(t.Context(), fmt.Sprint(keys), strings.NewReader(""), opts); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const about = 300 // bytes of an entry, and of what a commit adds
	for room() > 2*about {
		add(max(1, room()/(2000+about)), min(2000, room()-about))
	}
	wantFormat(t, srv, "p/invoices/", 1)
	for id := range int64(30) { // a register grows with each of its first 64 writes
		claim(t, s, by(bob, 6+id))
	}
	wantFormat(t, srv, "p/invoices/", 2)
	list, err := s.List(t.Context(), resource, "")
	if err != nil || len(list) != keys {
		t.Errorf("got %d keys, %v, want %d", len(list), err, keys)
	}
}

// What was uploaded for a commit goes when that has certainly failed, and stays
// when its outcome is unknown.
func TestEntriesOfACommitThatFailed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		f    fault
		want error
		left int
	}{
		{"refused", sayDenied, nil, 1},
		{"unknown", sayReset, fencedstore.ErrUnknownOutcome, 2},
		{"reply lost", doReset, fencedstore.ErrUnknownOutcome, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, p, srv := wired(t, nil)
			f := by(alice, 5)
			claim(t, s, f)
			fill(t, s, f)
			hasty := open(t, srv.via(p.URL), &s3compat.Options{Prefix: "p", SettleTimeout: time.Millisecond})
			_, err := hasty.List(t.Context(), resource, "")
			wantErr(t, "list", err, nil)
			p.set(func(r *request) fault {
				if conditional(r) {
					return c.f
				}
				return pass
			})
			if err := hasty.Put(t.Context(), f, "k", strings.NewReader("v"), nil); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("put: got %v, want %v", err, c.want)
			}
			p.set(nil)
			if left := objects(t, srv, "p/invoices/d/"); len(left) != c.left {
				t.Errorf("left: %v, want %d", left, c.left)
			}
			wantMany(t, s, many)
		})
	}
}

// The reader has the old register in hand when the entries go.
func TestReaderFollowsEntriesThatWereReplaced(t *testing.T) {
	t.Parallel()
	s, p, srv := wired(t, nil)
	writer := open(t, srv, &s3compat.Options{Prefix: "p", Grace: -1})
	f := by(alice, 5)
	claim(t, writer, f)
	fill(t, writer, f)
	p.next(func(r *request) bool { return r.method == http.MethodGet && strings.HasSuffix(r.path, "/register") }, stall)
	p.after(func() {
		put(t, writer, f, "k", []byte("new"))
		if got, err := writer.GC(t.Context(), f); err != nil || got.Objects != 1 {
			t.Errorf("gc: got %+v, %v, want the old entries", got, err)
		}
	})
	wantValue(t, s, "k", []byte("new"))
}

func TestEntriesThatAreMissingOrChangedAreCorrupt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(resp *response){
		"missing":    func(resp *response) { resp.status, resp.body = 404, []byte("<Error><Code>NoSuchKey</Code></Error>") },
		"other byte": func(resp *response) { resp.body[100]++ },
		"shorter":    func(resp *response) { resp.body = resp.body[:1000]; resp.header.Set("Content-Length", "1000") },
		"longer": func(resp *response) {
			resp.body = append(bytes.Clone(resp.body), 0)
			resp.header.Del("Content-Length")
		},
		"empty": func(resp *response) { resp.body = nil; resp.header.Set("Content-Length", "0") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, srv := wired(t, nil)
			claim(t, s, by(alice, 5))
			fill(t, s, by(alice, 5))
			fresh := open(t, srv.via(p.URL), &s3compat.Options{Prefix: "p"})
			p.alter(func(r *request, resp *response) {
				if r.method == http.MethodGet && strings.Contains(r.path, "/d/") {
					change(resp)
				}
			})
			_, err := fresh.Get(t.Context(), resource, manyKey(1), nil)
			wantErr(t, "get", err, s3compat.ErrCorrupt)
			wantErr(t, "put", fresh.Put(t.Context(), by(alice, 5), "k", strings.NewReader("x"), nil), s3compat.ErrCorrupt)
		})
	}
}
