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
)

const bucket = "tests"

// Two holders that differ.
const (
	alice = "a11ce00000000000000000000000a11c"
	bob   = "b0b0000000000000000000000000b0b0"
)

const resource = "invoices"

func by(holder string, id int64) fencedstore.Fence {
	return fencedstore.Fence{Resource: resource, ID: id, Holder: holder}
}

// newClient is a client as users make it, for an endpoint that is not AWS's.
func newClient(endpoint string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       "us-east-1",
		UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "fenced", SecretAccessKey: "fencedsecret"}, nil
		}),
	})
}

// newFake starts an S3 server in this process, with an empty bucket.
func newFake(tb testing.TB) (endpoint string) {
	tb.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		tb.Fatal(err)
	}
	quiet := gofakes3.WithLogger(gofakes3.StdLog(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(gofakes3.New(backend, quiet).Server())
	tb.Cleanup(srv.Close)
	return srv.URL
}

// open opens a Store at an endpoint.
func open(tb testing.TB, endpoint string, opts *s3compat.Options) *s3compat.Store {
	tb.Helper()
	s, err := s3compat.Open(tb.Context(), newClient(endpoint), bucket, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// within is how long a test waits for what should come at once.
const within = 20 * time.Second

// freshPrefix keeps the tests on one server apart.
func freshPrefix() string { return "t-" + rand.Text() }
