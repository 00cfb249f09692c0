package s3compat

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// liar answers every request with the same status, headers and body.
type liar struct {
	status                     int
	etag, write, fence, ranged string
	body                       []byte
}

// RoundTrip implements [http.RoundTripper].
func (l *liar) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	h := http.Header{}
	for name, value := range map[string]string{
		"Etag": l.etag, "X-Amz-Meta-Write-Id": l.write, "X-Amz-Meta-Fence-Id": l.fence, "Content-Range": l.ranged,
	} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return &http.Response{
		StatusCode: l.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		ContentLength: int64(len(l.body)), Body: io.NopCloser(bytes.NewReader(l.body)), Request: req,
	}, nil
}

// Whatever a store answers: no panic, and no value that is not what the answer
// itself proves.
func FuzzReplies(f *testing.F) {
	e := sample()
	register := mustEncode(f, e)
	f.Add(uint16(200), `"e"`, e.Write, "1", "", register)
	f.Add(uint16(200), `W/"e"`, "", "", "", register)
	f.Add(uint16(200), `"e"`, "", "", "", mustEncode(f, spilled()))
	f.Add(uint16(206), `"x-3"`, "", "5", "bytes 1-2/1099511627776", []byte("ab"))
	f.Add(uint16(412), "", "", "", "", []byte("<Error><Code>PreconditionFailed</Code></Error>"))
	f.Add(uint16(409), "", "", "", "", []byte("<Error><Code>ConditionalRequestConflict</Code></Error>"))
	f.Add(uint16(200), "", "", "", "", []byte("<ListBucketResult><Contents><Key>k</Key></Contents></ListBucketResult>"))
	f.Add(uint16(404), "", "", "", "", []byte("<Error><Code>NoSuchKey</Code></Error>"))
	f.Add(uint16(500), "", "", "", "", []byte("<"))
	f.Fuzz(func(t *testing.T, status uint16, etag, write, fence, ranged string, body []byte) {
		if status < 100 || status > 999 {
			return
		}
		l := &liar{int(status), etag, write, fence, ranged, body}
		api := s3.New(s3.Options{
			BaseEndpoint: aws.String("http://127.0.0.1:1"), Region: "r", UsePathStyle: true, HTTPClient: &http.Client{Transport: l},
			Credentials: aws.AnonymousCredentials{}, Retryer: aws.NopRetryer{},
		})
		s, err := newStore(api, "b", &Options{SettleTimeout: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		newer := testFence
		newer.ID++
		_ = s.Claim(ctx, newer)
		_ = s.Put(ctx, testFence, "k", strings.NewReader("v"), nil)
		_ = s.Put(ctx, testFence, "k", bytes.NewReader(make([]byte, DefaultInlineLimit+1)), nil)
		_, _ = s.GC(ctx, testFence)
		checkRead(ctx, t, s, testFence.Resource, body)
	})
}

// checkRead wants what is read to be in the one body that there is.
func checkRead(ctx context.Context, t *testing.T, s *Store, resource string, body []byte) {
	t.Helper()
	list, err := s.List(ctx, resource, "")
	if err != nil {
		return
	}
	for _, info := range list {
		o, err := s.Get(ctx, resource, info.Key, &GetOptions{Length: 2})
		if err != nil {
			continue
		}
		got, err := io.ReadAll(o.Body)
		_ = o.Body.Close()
		if err == nil && !bytes.Contains(body, got) {
			t.Fatalf("%q: read %q, which nobody sent", info.Key, got)
		}
	}
}
