package s3compat_test

import (
	"context"
	"crypto/rand"
	"io"
	"log"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
	"github.com/fenced-go/fenced/internal/testenv"
)

// Two holders that differ.
const (
	alice = "a11ce00000000000000000000000a11c"
	bob   = "b0b0000000000000000000000000b0b0"
)

const resource = "invoices"

func by(holder string, id int64) fencedstore.Fence {
	return fencedstore.Fence{Resource: resource, ID: id, Holder: holder}
}

// server is where tests find a bucket.
type server struct{ url, bucket, access, secret string }

// via is the same server through a proxy of the test's own.
func (srv server) via(url string) server {
	srv.url = url
	return srv
}

// client is an SDK client as users make it, for an endpoint that is not AWS's.
func (srv server) client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(srv.url),
		Region:       "us-east-1",
		UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: srv.access, SecretAccessKey: srv.secret}, nil
		}),
	})
}

// newFake starts an S3 server in this process, with an empty bucket.
func newFake(tb testing.TB) server {
	tb.Helper()
	const bucket = "tests"
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		tb.Fatal(err)
	}
	quiet := gofakes3.WithLogger(gofakes3.StdLog(log.New(io.Discard, "", 0)))
	srv := httptest.NewUnstartedServer(gofakes3.New(backend, quiet).Server())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	tb.Cleanup(srv.Close)
	return server{srv.URL, bucket, "any", "any"}
}

// newGateways starts a real server with two front ends to one store. A server
// that was given by URL has one, and is both.
func newGateways(tb testing.TB) (one, two server) {
	tb.Helper()
	a := testenv.NewS3(tb)
	one = server{a.DirectURL(), a.Bucket, a.AccessKey, a.SecretKey}
	if a.Given() {
		return one, one
	}
	return one, one.via(a.Gateway(tb).DirectURL())
}

// open opens a Store on a server.
func open(tb testing.TB, srv server, opts *s3compat.Options) *s3compat.Store {
	tb.Helper()
	s, err := s3compat.Open(tb.Context(), srv.client(), srv.bucket, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// within is how long a test waits for what should come at once.
const within = 20 * time.Second

// freshPrefix keeps the tests on one server apart.
func freshPrefix() string { return "t-" + rand.Text() }
