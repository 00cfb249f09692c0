package s3compat_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// send uploads as somebody without credentials does.
func send(t *testing.T, u s3compat.Upload, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), u.Method, u.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = u.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestPresignedUploadIsVisibleOnlyWhenCommitted(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		opts := &s3compat.Options{Prefix: freshPrefix(), Presigner: s3.NewPresignClient(srv.client())}
		s, ctx, f := open(t, srv, opts), t.Context(), by(alice, 5)
		presign := func() s3compat.Upload {
			t.Helper()
			u, err := s.PresignPut(ctx, f, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return u
		}
		_, err := s.PresignPut(ctx, f, time.Minute)
		wantErr(t, "presign before any claim", err, fencedstore.ErrNotClaimed)
		claim(t, s, f)
		value := pattern(30_000)
		sum := sha256.Sum256(value)
		described := &s3compat.UploadOptions{ContentType: "text/csv", SHA256: hex.EncodeToString(sum[:])}
		u := presign()
		wantErr(t, "commit before the upload", s.CommitUpload(ctx, f, "k", u.Name, described), fencedstore.ErrNotFound)
		if got := send(t, u, value); got != http.StatusOK {
			t.Fatalf("upload: %d", got)
		}
		_, err = s.Get(ctx, resource, "k", nil)
		wantErr(t, "get before the commit", err, fencedstore.ErrNotFound)
		if err := s.CommitUpload(ctx, f, "k", u.Name, described); err != nil {
			t.Fatal(err)
		}
		if o := wantValue(t, s, "k", value); o.ContentType != "text/csv" || o.SHA256 != described.SHA256 {
			t.Errorf("got %+v", o.Info)
		}
		if got := send(t, u, pattern(30_000)); got != http.StatusPreconditionFailed {
			t.Errorf("a second upload: got %d, want 412", got)
		}
		if err := s.Delete(ctx, f, "k"); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "commit of what was dropped", s.CommitUpload(ctx, f, "k", u.Name, nil), fencedstore.ErrNotFound)

		late := presign()
		if got := send(t, late, value); got != http.StatusOK {
			t.Fatalf("upload: %d", got)
		}
		claim(t, s, by(bob, 6))
		wantErr(t, "commit after a take-over", s.CommitUpload(ctx, f, "k", late.Name, nil), fencedstore.ErrStale)
		if _, ok := s.CommitUpload(ctx, by(bob, 6), "k", late.Name, nil).(*s3compat.Error); !ok { //nolint:errorlint // an *Error around an *OptionError
			t.Error("the successor adopted what an older holder let upload")
		}
		_, err = s.Get(ctx, resource, "k", nil)
		wantErr(t, "get", err, fencedstore.ErrNotFound)
	})
}

func TestPresigningNeedsAPresigner(t *testing.T) {
	t.Parallel()
	s := open(t, newFake(t), nil)
	claim(t, s, by(alice, 5))
	_, err := s.PresignPut(t.Context(), by(alice, 5), time.Minute)
	wantErr(t, "presign", err, s3compat.ErrNoPresigner)
}
