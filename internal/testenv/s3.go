package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// S3 is an S3 server with one bucket, behind a [Proxy].
type S3 struct {
	Proxy *Proxy
	// Bucket exists. It is empty when the server was started here; on a given
	// server other tests use it too, so that a test takes a prefix of its own.
	Bucket string
	// AccessKey and SecretKey are the credentials, the region is us-east-1 and
	// buckets are addressed by path.
	AccessKey, SecretKey string

	srv Server
	dir string // what a second gateway shares; empty for a given server
}

// s3Provider is a [Provider] that has S3 servers as well.
type s3Provider interface {
	s3() (*S3, error)
}

// NewS3 starts a server for one test and stops it when the test ends.
func NewS3(tb testing.TB) *S3 {
	tb.Helper()
	var s *S3
	startFirst(tb, "s3", func(p Provider) (Server, error) { return s3Of(p, &s) })
	return s.until(tb)
}

// StartS3 is [NewS3] for programs that are not tests, as [StartRedis] is. The
// caller ends the server with [S3.Stop].
func StartS3() (*S3, error) {
	var s *S3
	srv, err := first(func(p Provider) (Server, error) { return s3Of(p, &s) })
	if err != nil {
		return nil, fmt.Errorf("testenv: s3: %w; %s", err, remedy("s3"))
	}
	if s.Proxy, err = open(srv, s.probe); err != nil {
		return nil, fmt.Errorf("testenv: s3: %w", err)
	}
	return s, nil
}

// Stop ends a server from [StartS3] for good, and its proxy.
func (s *S3) Stop() error { return errors.Join(s.Proxy.Close(), s.srv.Stop()) }

// s3Of asks a provider for a server.
func s3Of(p Provider, s **S3) (Server, error) {
	sp, ok := p.(s3Provider)
	if !ok {
		return nil, fmt.Errorf("%w: it has no S3 server", ErrUnavailable)
	}
	var err error
	if *s, err = sp.s3(); err != nil {
		return nil, err
	}
	return (*s).srv, nil
}

// Given says that the server was given by URL: it has no second gateway.
func (s *S3) Given() bool { return s.dir == "" }

// Gateway starts another gateway to the data of s: two servers, one store.
func (s *S3) Gateway(tb testing.TB) *S3 {
	tb.Helper()
	if s.Given() {
		Missing(tb, "s3", "with a second gateway: "+errNotOurs.Error())
	}
	other, err := startGateway(s.dir)
	if err != nil {
		tb.Fatalf("testenv: s3: %v", err)
	}
	return other.until(tb)
}

// until waits for the server, and leaves it to the test's end.
func (s *S3) until(tb testing.TB) *S3 {
	tb.Helper()
	tb.Cleanup(func() { stopServer(tb, "s3", s.srv) })
	if err := waitReady(s.srv, s.probe); err != nil {
		tb.Fatalf("testenv: s3: %v", err)
	}
	s.Proxy = proxyFor(tb, s.srv)
	return s
}

// probe wants any answer of a server that speaks HTTP.
func (s *S3) probe() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, s.DirectURL(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// URL is the endpoint through the proxy; it stays the same over restarts.
func (s *S3) URL() string { return "http://" + s.Proxy.Addr() }

// DirectURL is the endpoint itself.
func (s *S3) DirectURL() string { return "http://" + s.srv.Addr() }

// Pause stops the server as SIGSTOP does: connections stay, nothing answers.
func (s *S3) Pause(tb testing.TB) {
	tb.Helper()
	harm(tb, "s3", "pause", s.srv.Pause)
}

// Resume ends a pause.
func (s *S3) Resume(tb testing.TB) {
	tb.Helper()
	harm(tb, "s3", "resume", s.srv.Resume)
}

// Kill is kill -9 of the server.
func (s *S3) Kill(tb testing.TB) {
	tb.Helper()
	harm(tb, "s3", "kill", s.srv.Kill)
}

// Start starts a killed server again, on the same address and data.
func (s *S3) Start(tb testing.TB) {
	tb.Helper()
	harm(tb, "s3", "start", s.srv.Start)
	if err := waitReady(s.srv, s.probe); err != nil {
		tb.Fatalf("testenv: s3: %v", err)
	}
}

// s3 hands out the server of FENCED_TEST_S3_URL.
func (foreign) s3() (*S3, error) {
	const knob = "FENCED_TEST_S3_URL"
	u, err := knobURL(knob, "80", nil)
	if err != nil {
		return nil, err
	}
	return givenS3(knob, u)
}

func givenS3(knob string, u *url.URL) (*S3, error) {
	secret, _ := u.User.Password()
	bucket := strings.Trim(u.Path, "/")
	if u.Scheme != "http" || secret == "" || bucket == "" || strings.Contains(bucket, "/") {
		return nil, fmt.Errorf("%s: want http://accesskey:secretkey@host:port/bucket", knob)
	}
	s := &S3{
		Bucket: bucket, AccessKey: u.User.Username(), SecretKey: secret,
		srv: &given{addr: u.Host, stop: func() error { return nil }},
	}
	if err := s.probe(); err != nil {
		return nil, fmt.Errorf("%s: %w", knob, err)
	}
	return s, nil
}
