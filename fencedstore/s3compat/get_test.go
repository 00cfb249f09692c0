package s3compat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

func TestRanges(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		s := open(t, srv, &s3compat.Options{Prefix: freshPrefix(), PartSize: s3compat.MinPartSize})
		claim(t, s, by(alice, 5))
		for _, n := range []int{0, 10, 20_000, s3compat.MinPartSize + 10} {
			value := pattern(n)
			put(t, s, by(alice, 5), "k", value)
			for _, r := range []s3compat.GetOptions{{}, {Offset: 3}, {Length: 4}, {Offset: 2, Length: 5}, {Offset: int64(n)}, {Length: int64(n)}, {Offset: int64(n) - 1, Length: 100}} {
				if r.Offset < 0 || r.Offset > int64(n) {
					continue
				}
				want := value[r.Offset:]
				if r.Length > 0 {
					want = want[:min(r.Length, int64(len(want)))]
				}
				o, err := s.Get(t.Context(), resource, "k", &r)
				if err != nil {
					t.Fatalf("%d bytes, %+v: %v", n, r, err)
				}
				got, err := io.ReadAll(o.Body)
				_ = o.Body.Close()
				if err != nil || !bytes.Equal(got, want) || o.Size != int64(n) {
					t.Errorf("%d bytes, %+v: got %d bytes of %d, %v, want %d", n, r, len(got), o.Size, err, len(want))
				}
			}
			_, err := s.Get(t.Context(), resource, "k", &s3compat.GetOptions{Offset: int64(n) + 1})
			wantErr(t, "behind the end", err, s3compat.ErrRange)
			if _, err := s.Get(t.Context(), resource, "k", &s3compat.GetOptions{Offset: -1}); err == nil {
				t.Error("negative offset: got no error")
			}
		}
	})
}

func TestInfoIsWhatWasPut(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		s := open(t, srv, &s3compat.Options{Prefix: freshPrefix()})
		f := by(alice, 5)
		claim(t, s, f)
		meta := map[string]string{"Äußerung": "größer", "plain": "x"}
		for _, n := range []int{10, 20_000} {
			began := time.Now().Add(-time.Second)
			opts := &s3compat.PutOptions{ContentType: "text/csv; charset=utf-8", Metadata: meta, Size: int64(n)}
			if err := s.Put(t.Context(), f, "k", bytes.NewReader(pattern(n)), opts); err != nil {
				t.Fatal(err)
			}
			info, err := s.Head(t.Context(), resource, "k")
			if err != nil {
				t.Fatal(err)
			}
			if info.ContentType != opts.ContentType || !maps.Equal(info.Metadata, meta) || info.Size != int64(n) ||
				info.FenceID != 5 || info.Key != "k" || len(info.SHA256) != 64 || info.Modified.Before(began) {
				t.Errorf("head: got %+v", info)
			}
			o := wantValue(t, s, "k", pattern(n))
			if fmt.Sprint(o.Info) != fmt.Sprint(info) {
				t.Errorf("get: got %+v, want %+v", o.Info, info)
			}
		}
	})
}

func TestListIsSortedAndOfOneResource(t *testing.T) {
	t.Parallel()
	s := open(t, newFake(t), nil)
	other := fencedstore.Fence{Resource: "other", ID: 1, Holder: alice}
	claim(t, s, by(alice, 5))
	claim(t, s, other)
	for _, key := range []string{"b", "a/2", "a/1", "ä", "a"} {
		put(t, s, by(alice, 5), key, []byte(key))
	}
	put(t, s, other, "a/3", []byte("x"))
	for prefix, want := range map[string]string{"": "[a a/1 a/2 b ä]", "a/": "[a/1 a/2]", "c": "[]"} {
		list, err := s.List(t.Context(), resource, prefix)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, info := range list {
			got = append(got, info.Key)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: got %v, want %s", prefix, got, want)
		}
	}
	if list, err := s.List(t.Context(), "nothing claimed", ""); err != nil || len(list) != 0 {
		t.Errorf("of nothing: got %v, %v", list, err)
	}
}

func TestUpdateIsOneStep(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		s := open(t, srv, &s3compat.Options{Prefix: freshPrefix()})
		ctx, f := t.Context(), by(alice, 5)
		claim(t, s, f)
		put(t, s, f, "old", pattern(50_000))
		put(t, s, f, "gone", []byte("x"))
		before := version(t, s)
		failure := errors.New("half way")
		half := func(b *s3compat.Batch) error {
			err := errors.Join(b.Put(ctx, "new", bytes.NewReader(pattern(60_000)), nil), b.Delete("gone"), b.Copy("old", "copy"))
			if err != nil {
				t.Error(err)
			}
			return failure
		}
		wantErr(t, "failed update", s.Update(ctx, f, half), failure)
		err := s.Update(ctx, f, func(b *s3compat.Batch) error { return b.Copy("absent", "copy") })
		wantErr(t, "copy of nothing", err, fencedstore.ErrNotFound)
		panicked(t, func() {
			_ = s.Update(ctx, f, func(b *s3compat.Batch) error {
				_ = b.Put(ctx, "new", bytes.NewReader(pattern(60_000)), nil)
				panic("on purpose")
			})
		})
		_ = s.Update(ctx, f, func(b *s3compat.Batch) error { _ = b.Delete(""); return nil })
		if after := version(t, s); after != before {
			t.Errorf("updates that failed have changed the register from %s to %s", before, after)
		}
		if n := len(objects(t, srv, "")); n < 2 {
			t.Errorf("%d objects, want register and data at least", n)
		}
		var kept *s3compat.Batch
		err = s.Update(ctx, f, func(b *s3compat.Batch) error {
			kept = b
			return errors.Join(b.Clear(), b.Put(ctx, "a", strings.NewReader("1"), nil), b.Put(ctx, "b", bytes.NewReader(pattern(60_000)), nil), b.Copy("b", "c"), b.Delete("a"))
		})
		wantErr(t, "update", err, nil)
		list, err := s.List(ctx, resource, "")
		if err != nil || len(list) != 2 || list[0].Key != "b" || list[1].Key != "c" {
			t.Errorf("got %v, %v, want b and c", list, err)
		}
		wantValue(t, s, "c", pattern(60_000))
		if err := kept.Delete("b"); err == nil {
			t.Error("a batch that has ended takes changes")
		}
	})
}

func panicked(t *testing.T, fn func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("got no panic")
		}
	}()
	fn()
}

// A failed body fails the Put, and leaves nothing.
func TestBodyThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	s, p, srv := wired(t, &s3compat.Options{PartSize: s3compat.MinPartSize})
	claim(t, s, by(alice, 5))
	failure := errors.New("the body broke")
	for _, n := range []int{10, 100_000, 2*s3compat.MinPartSize + 1} {
		p.take()
		body := io.MultiReader(bytes.NewReader(pattern(n)), failing{failure})
		wantErr(t, "put", s.Put(t.Context(), by(alice, 5), "k", body, nil), failure)
		aborted := 0
		for _, r := range p.take() {
			if conditional(r) {
				t.Errorf("%d bytes: the register was written", n)
			}
			if r.method == http.MethodDelete && strings.Contains(r.query, "uploadId") {
				aborted++
			}
		}
		if large := n > s3compat.MinPartSize; large != (aborted == 1) {
			t.Errorf("%d bytes: %d uploads aborted", n, aborted)
		}
	}
	if left := objects(t, srv, "p/invoices/d/"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// The reader has the old register in hand when the data goes.
func TestReaderFollowsDataThatWasReplaced(t *testing.T) {
	t.Parallel()
	s, p, srv := wired(t, nil)
	writer := open(t, srv, &s3compat.Options{Prefix: "p", Grace: -1})
	f := by(alice, 5)
	claim(t, writer, f)
	put(t, writer, f, "k", pattern(50_000))
	p.next(func(r *request) bool { return r.method == http.MethodGet && strings.HasSuffix(r.path, "/register") }, stall)
	p.after(func() {
		put(t, writer, f, "k", pattern(50_001))
		collected(t, writer, f, s3compat.Collected{Objects: 1, Bytes: 50_000})
	})
	wantValue(t, s, "k", pattern(50_001))
}

func TestDataThatIsMissingOrChangedIsCorrupt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(resp *response){
		"missing":    func(resp *response) { resp.status, resp.body = 404, []byte("<Error><Code>NoSuchKey</Code></Error>") },
		"other byte": func(resp *response) { resp.body[100]++ },
		"other ETag": func(resp *response) { resp.header.Set("ETag", `"0123"`) },
		"shorter":    func(resp *response) { resp.body = resp.body[:1000]; resp.header.Set("Content-Length", "1000") },
		"longer":     func(resp *response) { resp.body = append(resp.body, 0); resp.header.Set("Content-Length", "50001") },
		"of another": func(resp *response) { resp.header.Set("X-Amz-Meta-Fence-Id", "4") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, _ := wired(t, nil)
			claim(t, s, by(alice, 5))
			put(t, s, by(alice, 5), "k", pattern(50_000))
			p.alter(func(r *request, resp *response) {
				if r.method == http.MethodGet && strings.Contains(r.path, "/d/") {
					change(resp)
				}
			})
			o, err := s.Get(t.Context(), resource, "k", nil)
			if err == nil {
				_, err = io.ReadAll(o.Body)
				_, again := o.Body.Read(make([]byte, 1))
				wantErr(t, "read again", again, s3compat.ErrCorrupt)
				_ = o.Body.Close()
			}
			wantErr(t, "get", err, s3compat.ErrCorrupt)
		})
	}
}

// A store that answers with another range than was asked for, in other words the
// wrong bytes of the right object.
func TestRangeThatIsAnotherOneIsCorrupt(t *testing.T) {
	t.Parallel()
	value := pattern(50_000)
	for name, change := range map[string]func(resp *response){
		"shifted": func(resp *response) {
			resp.body = bytes.Clone(value[101:201])
			resp.header.Set("Content-Range", "bytes 101-200/50000")
		},
		"of a shorter value": func(resp *response) { resp.header.Set("Content-Range", "bytes 100-199/200") },
		"all of it": func(resp *response) {
			resp.status, resp.body = http.StatusOK, bytes.Clone(value)
			resp.header.Del("Content-Range")
			resp.header.Set("Content-Length", "50000")
		},
		"cut": func(resp *response) { resp.body = resp.body[:50]; resp.header.Set("Content-Length", "50") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, _ := wired(t, nil)
			claim(t, s, by(alice, 5))
			put(t, s, by(alice, 5), "k", value)
			p.alter(func(r *request, resp *response) {
				if r.method == http.MethodGet && strings.Contains(r.path, "/d/") {
					change(resp)
				}
			})
			o, err := s.Get(t.Context(), resource, "k", &s3compat.GetOptions{Offset: 100, Length: 100})
			if err == nil {
				_, err = io.ReadAll(o.Body)
				_ = o.Body.Close()
			}
			wantErr(t, "get", err, s3compat.ErrCorrupt)
		})
	}
}

// Whatever a store answers, no other value than the one that was put comes out,
// and nobody panics.
func TestRegisterThatIsNotWhatWasWrittenIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(resp *response){
		"flipped bit":        func(resp *response) { resp.body[len(resp.body)-1] ^= 1 },
		"flipped checksum":   func(resp *response) { resp.body[len("fenced-register 1 sha256=")] ^= 1 },
		"cut":                func(resp *response) { resp.body = resp.body[:len(resp.body)/2]; resp.header.Del("Content-Length") },
		"empty":              func(resp *response) { resp.body = nil; resp.header.Del("Content-Length") },
		"another's":          func(resp *response) { resp.body = []byte("hello\nworld\n"); resp.header.Del("Content-Length") },
		"headers of another": func(resp *response) { resp.header.Set("X-Amz-Meta-Write-Id", "ANOTHER") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, srv := wired(t, nil)
			f := by(alice, 5)
			claim(t, s, f)
			put(t, s, f, "k", []byte("value"))
			p.alter(func(r *request, resp *response) {
				if r.method == http.MethodGet {
					change(resp)
				}
			})
			_, err := s.Get(t.Context(), resource, "k", nil)
			wantErr(t, "get", err, s3compat.ErrCorrupt)
			fresh := openAfter(t, p, srv)
			wantErr(t, "put", fresh.Put(t.Context(), f, "k", strings.NewReader("x"), nil), s3compat.ErrCorrupt)
			wantErr(t, "claim", fresh.Claim(t.Context(), by(bob, 6)), s3compat.ErrCorrupt)
			// A torn read is made again.
			left := 2
			p.alter(func(r *request, resp *response) {
				if r.method == http.MethodGet && left > 0 {
					left--
					change(resp)
				}
			})
			wantValue(t, s, "k", []byte("value"))
		})
	}
}

// openAfter opens a Store through a proxy that spares the probe.
func openAfter(t *testing.T, p *proxy, srv server) *s3compat.Store {
	t.Helper()
	p.mu.Lock()
	reply := p.reply
	p.reply = nil
	p.mu.Unlock()
	s := open(t, srv.via(p.URL), &s3compat.Options{Prefix: "p"})
	p.alter(reply)
	return s
}

func TestRegisterOfALaterReleaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	s, p, _ := wired(t, nil)
	claim(t, s, by(alice, 5))
	p.alter(func(r *request, resp *response) {
		if r.method == http.MethodGet {
			resp.body = []byte("fenced-register 3 something=new\nand so on\n")
			resp.header.Del("Content-Length")
		}
	})
	_, err := s.Get(t.Context(), resource, "k", nil)
	wantErr(t, "get", err, s3compat.ErrVersion)
	p.take()
	wantErr(t, "claim", s.Claim(t.Context(), by(bob, 6)), s3compat.ErrVersion)
	for _, r := range p.take() {
		if conditional(r) {
			t.Error("it was written over")
		}
	}
}

// A register that vanishes or goes back is not made anew by those who knew it.
func TestRegisterThatIsGoneOrOlderIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	s := open(t, srv, &s3compat.Options{Prefix: "p"})
	n := naive{t, srv.client(), srv, "p/invoices/"}
	f := by(alice, 5)
	claim(t, s, f)
	old, _ := n.get("register")
	put(t, s, f, "k", []byte("v"))
	n.delete("register")
	wantErr(t, "put", s.Put(t.Context(), f, "k", strings.NewReader("w"), nil), s3compat.ErrRegisterGone)
	wantErr(t, "claim", s.Claim(t.Context(), by(bob, 6)), s3compat.ErrRegisterGone)
	if left := objects(t, srv, "p/invoices/register"); len(left) != 0 {
		t.Error("the register was made anew")
	}
	n.mustPut("register", old, "5", "")
	wantErr(t, "put over an older one", s.Put(t.Context(), f, "k", strings.NewReader("w"), nil), s3compat.ErrRegisterGone)
	wantErr(t, "claim over an older one", s.Claim(t.Context(), by(bob, 6)), s3compat.ErrRegisterGone)
}

func TestErrorsSayWhere(t *testing.T) {
	t.Parallel()
	s, _, _ := wired(t, nil)
	f := by(alice, 5)
	claim(t, s, by(bob, 6))
	for op, err := range map[string]error{
		"claim":         s.Claim(t.Context(), f),
		"put":           s.Put(t.Context(), f, "k", strings.NewReader("v"), nil),
		"delete":        s.Delete(t.Context(), f, "k"),
		"copy":          s.Copy(t.Context(), f, "k", "l"),
		"update":        s.Update(t.Context(), f, func(*s3compat.Batch) error { return nil }),
		"gc":            second(s.GC(t.Context(), f)),
		"commit upload": s.CommitUpload(t.Context(), f, "k", "d/00000000000000000005/000000000001-A", nil),
	} {
		e, ok := errors.AsType[*s3compat.Error](err)
		if !ok || e.Op != op || e.Bucket != "tests" || e.Key != "p/invoices/register" || e.Fence != f {
			t.Errorf("%s: got %+v, want op, bucket, key and fence", op, e)
		}
		wantErr(t, op, err, fencedstore.ErrStale)
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, alice) || !strings.Contains(text, "p/invoices/register") {
			t.Errorf("%s: got %s", op, text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(ctx, resource, "k", nil)
	wantErr(t, "get", err, context.Canceled)
	_, err = s.Get(t.Context(), resource, "", nil)
	wantErr(t, "no key", err, s3compat.ErrInvalidKey)
	_, err = s.Get(t.Context(), "", "k", nil)
	wantErr(t, "no resource", err, fencedstore.ErrInvalidFence)
}

func second[T any](_ T, err error) error { return err }
