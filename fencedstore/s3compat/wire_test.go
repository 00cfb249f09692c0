package s3compat_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// wired is a Store on a fake behind a proxy that has seen nothing yet.
func wired(t *testing.T, opts *s3compat.Options) (*s3compat.Store, *proxy, server) {
	t.Helper()
	srv := newFake(t)
	p := newProxy(t, srv.url)
	if opts == nil {
		opts = new(s3compat.Options)
	}
	opts.Prefix = "p"
	s := open(t, srv.via(p.URL), opts)
	p.take()
	return s, p, srv
}

// line is a request as the tests below spell it; names of data are cut.
func line(r *request) string {
	path := strings.TrimPrefix(r.path, "/tests/p/")
	if i := strings.Index(path, "/d/"); i >= 0 {
		path = path[:i+2]
	}
	query := r.query
	if i := strings.Index(query, "uploadId="); i >= 0 {
		query = "uploadId"
	}
	condition := ""
	switch {
	case r.header.Get("If-None-Match") != "":
		condition = " If-None-Match: " + r.header.Get("If-None-Match")
	case r.header.Get("If-Match") != "":
		condition = " If-Match"
	}
	return strings.TrimSpace(fmt.Sprint(r.method, " ", path, " ", strings.TrimSuffix(strings.ReplaceAll(query, "x-id=", ""), "&"), condition))
}

func wantLines(t *testing.T, what string, p *proxy, want ...string) {
	t.Helper()
	seen := p.take()
	got := make([]string, len(seen))
	for i, r := range seen {
		got[i] = line(r)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRequestsOfEachOperation(t *testing.T) {
	t.Parallel()
	s, p, _ := wired(t, &s3compat.Options{PartSize: s3compat.MinPartSize})
	ctx, f := t.Context(), by(alice, 5)
	const read, swap = "GET invoices/register GetObject", "PUT invoices/register PutObject If-Match"

	claim(t, s, f)
	wantLines(t, "first claim", p, read, "PUT invoices/register PutObject If-None-Match: *")
	claim(t, s, f)
	wantLines(t, "claim", p, read, swap)

	for _, key := range []string{"a", "b", "a"} {
		put(t, s, f, key, []byte("small"))
		wantLines(t, "inline put", p, swap)
	}
	put(t, s, f, "object", pattern(100_000))
	wantLines(t, "object put", p, "PUT invoices/d PutObject", swap)
	put(t, s, f, "large", pattern(2*s3compat.MinPartSize+1))
	wantLines(t, "large put", p,
		"POST invoices/d uploads=", "PUT invoices/d uploadId", "PUT invoices/d uploadId", "PUT invoices/d uploadId",
		"POST invoices/d uploadId", "HEAD invoices/d", swap)

	wantValue(t, s, "a", []byte("small"))
	wantLines(t, "inline get", p, read)
	wantValue(t, s, "object", pattern(100_000))
	wantLines(t, "object get", p, read, "GET invoices/d GetObject")
	if _, err := s.Head(ctx, resource, "object"); err != nil {
		t.Error(err)
	}
	wantLines(t, "head", p, read)
	if _, err := s.List(ctx, resource, ""); err != nil {
		t.Error(err)
	}
	wantLines(t, "list", p, read)
	if err := s.Copy(ctx, f, "large", "copy"); err != nil {
		t.Error(err)
	}
	wantLines(t, "copy", p, swap)
	if err := s.Delete(ctx, f, "copy"); err != nil {
		t.Error(err)
	}
	wantLines(t, "delete", p, swap)
	err := s.Update(ctx, f, func(b *s3compat.Batch) error {
		for _, key := range []string{"x", "y", "z"} {
			if err := b.Put(ctx, key, strings.NewReader(key), nil); err != nil {
				return err
			}
		}
		return b.Delete("a")
	})
	if err != nil {
		t.Error(err)
	}
	wantLines(t, "update of four keys", p, swap)

	fresh := open(t, server{p.URL, "tests", "any", "any"}, &s3compat.Options{Prefix: "p"})
	p.take()
	put(t, fresh, f, "a", []byte("small"))
	wantLines(t, "inline put of another process", p, read, swap)
}

func TestConditionsOnTheWire(t *testing.T) {
	t.Parallel()
	s, p, srv := wired(t, nil)
	f := by(alice, 9007199254740993)
	claim(t, s, f)
	create := p.take()[1]
	if got := create.header.Values("If-None-Match"); fmt.Sprint(got) != "[*]" {
		t.Errorf("create: If-None-Match: got %q, want one *", got)
	}
	if got := create.header.Values("If-Match"); len(got) != 0 {
		t.Errorf("create: If-Match: got %q, want none", got)
	}
	etag := etagOf(t, srv, "p/invoices/register")
	put(t, s, f, "k", []byte("v"))
	swap := p.take()[0]
	if got := swap.header.Values("If-Match"); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", []string{etag}) {
		t.Errorf("swap: If-Match: got %q, want [%q]", got, etag)
	}
	if got := swap.header.Values("If-None-Match"); len(got) != 0 {
		t.Errorf("swap: If-None-Match: got %q, want none", got)
	}
	if got := swap.header.Get("X-Amz-Meta-Fence-Id"); got != "9007199254740993" {
		t.Errorf("fence in the metadata: got %q", got)
	}
	if got := swap.header.Get("X-Amz-Meta-Write-Id"); got == "" || !bytes.Contains(swap.body, []byte(`"write":"`+got+`"`)) {
		t.Errorf("write ID in the metadata: got %q, want that of the bytes", got)
	}
	for _, r := range []*request{create, swap} {
		if bytes.Contains(r.body, []byte(alice)) {
			t.Error("the holder is on the wire; only its hash should be")
		}
		for name := range r.header {
			if lower := strings.ToLower(name); strings.Contains(lower, "checksum") || strings.Contains(lower, "trailer") {
				t.Errorf("%s is sent to an endpoint that is not AWS's", name)
			}
		}
	}
}

func etagOf(t *testing.T, srv server, key string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, srv.url+"/"+srv.bucket+"/"+key, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.Header.Get("ETag")
}
