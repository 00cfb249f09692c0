package s3compat_test

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

func collected(t *testing.T, s *s3compat.Store, f fencedstore.Fence, want s3compat.Collected) {
	t.Helper()
	got, err := s.GC(t.Context(), f)
	if err != nil || got != want {
		t.Errorf("gc: got %+v, %v, want %+v", got, err, want)
	}
}

func TestGarbageIsCollectedAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		opts := &s3compat.Options{Prefix: freshPrefix(), PartSize: s3compat.MinPartSize}
		s := open(t, srv, opts)
		a, b := by(alice, 5), by(bob, 6)
		data := opts.Prefix + "/invoices/d/"
		claim(t, s, a)
		put(t, s, a, "kept", pattern(20_000))
		put(t, s, a, "replaced", pattern(20_001))
		put(t, s, a, "replaced", pattern(20_002))
		if err := s.Copy(t.Context(), a, "replaced", "copy"); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), a, "replaced"); err != nil { // the copy still refers to it
			t.Fatal(err)
		}
		orphan(t, srv, data+"00000000000000000005/000000000003-ORPHAN")
		orphan(t, srv, data+"00000000000000000006/000000000003-SUCCESSOR")
		orphan(t, srv, data+"not-ours")
		begin(t, srv, data+"00000000000000000005/000000000004-HALF")
		begin(t, srv, data+"00000000000000000006/000000000004-HALF")

		collected(t, s, a, s3compat.Collected{Waiting: 1}) // of its own tenure only what was dropped
		claim(t, s, b)
		collected(t, s, b, s3compat.Collected{Waiting: 3})
		wantErr(t, "older gc", second(s.GC(t.Context(), a)), fencedstore.ErrStale)

		s3compat.SetNow(s, func() time.Time { return time.Now().Add(2 * time.Hour) })
		collected(t, s, b, s3compat.Collected{Objects: 2, Bytes: 20_001 + 6, Uploads: 1})
		collected(t, s, b, s3compat.Collected{})
		wantValue(t, s, "kept", pattern(20_000))
		wantValue(t, s, "copy", pattern(20_002))
		if left := objects(t, srv, data); len(left) != 4 {
			t.Errorf("left: %v, want two values, one of the own tenure, one that is not ours", left)
		}
		if r, err := s3compat.ReadRegister(t.Context(), s, resource); err != nil || r.Dropped != 0 {
			t.Errorf("the register still lists %d dropped objects, %v", r.Dropped, err)
		}
	})
}

// orphan puts what a holder has uploaded and never committed.
func orphan(t *testing.T, srv server, key string) {
	t.Helper()
	_, err := srv.client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: &srv.bucket, Key: &key, Body: strings.NewReader("orphan")})
	if err != nil {
		t.Fatal(err)
	}
}

// begin begins an upload that nobody completes.
func begin(t *testing.T, srv server, key string) {
	t.Helper()
	_, err := srv.client().CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &srv.bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
}

// What a GC has removed before it failed is not missed by the next one.
func TestGCThatWasInterruptedGoesOn(t *testing.T) {
	t.Parallel()
	s, p, srv := wired(t, &s3compat.Options{Grace: -1})
	f := by(alice, 5)
	claim(t, s, f)
	for n := range 3 {
		put(t, s, f, "k", pattern(20_000+n))
	}
	deletes := 0
	p.set(func(r *request) fault {
		if r.method == http.MethodDelete {
			deletes++
			if deletes > 1 {
				return sayDenied
			}
		}
		return pass
	})
	got, err := s.GC(t.Context(), f)
	if err == nil || got.Objects != 1 {
		t.Errorf("got %+v, %v, want one object and an error", got, err)
	}
	p.set(nil)
	got, err = s.GC(t.Context(), f)
	if err != nil || got.Objects != 1 {
		t.Errorf("got %+v, %v, want the other object", got, err)
	}
	if left := objects(t, srv, "p/invoices/d/"); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	wantValue(t, s, "k", pattern(20_002))
}

// A collector takes away what an older holder is still uploading, and the
// register, which bars that holder, stays for ever.
func TestGCNeverOpensTheDoorToAStalledWriter(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	p := newProxy(t, srv.url)
	opts := &s3compat.Options{Prefix: "p", Grace: -1}
	a, b := open(t, srv.via(p.URL), opts), open(t, srv, opts)
	claim(t, a, by(alice, 5))
	p.next(isData, stall)
	p.after(func() {
		s3compat.SetNow(b, func() time.Time { return time.Now().Add(time.Hour) })
		claim(t, b, by(bob, 6))
		for range 3 {
			put(t, b, by(bob, 6), "k", pattern(20_000))
			if err := b.Delete(t.Context(), by(bob, 6), "k"); err != nil {
				t.Error(err)
			}
		}
		got, err := b.GC(t.Context(), by(bob, 6))
		if err != nil || got.Objects != 4 {
			t.Errorf("gc: got %+v, %v, want four objects", got, err)
		}
	})
	err := a.Put(t.Context(), by(alice, 5), "k", bytes.NewReader(pattern(20_000)), nil)
	wantErr(t, "stalled put", err, fencedstore.ErrStale)
	_, err = b.Get(t.Context(), resource, "k", nil)
	wantErr(t, "get", err, fencedstore.ErrNotFound)
}

// Entries have a bound, and what exceeds it is refused before anything is sent.
func TestEntriesBeyondTheBoundAreRefusedBeforeTheyAreSent(t *testing.T) {
	t.Parallel()
	s, p, _ := wired(t, nil)
	f := by(alice, 5)
	claim(t, s, f)
	p.take()
	err := s.Update(t.Context(), f, func(b *s3compat.Batch) error {
		opts := &s3compat.PutOptions{Metadata: map[string]string{"m": strings.Repeat("x", 2000)}}
		for i := range s3compat.MaxManifest / 2000 {
			if err := b.Put(t.Context(), strconv.Itoa(i), strings.NewReader(""), opts); err != nil {
				return err
			}
		}
		return nil
	})
	wantErr(t, "update", err, s3compat.ErrTooLarge)
	wantLines(t, "update", p)
	put(t, s, f, "k", []byte("v"))
	wantLines(t, "put after it", p, "PUT invoices/register PutObject If-Match")
}
