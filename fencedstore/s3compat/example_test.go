package s3compat_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// exampleStore is a Store on a server in this process.
func exampleStore() (*s3compat.Store, func()) {
	backend := s3mem.New()
	if err := backend.CreateBucket("statements"); err != nil {
		log.Fatal(err)
	}
	srv := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(srv.URL), Region: "us-east-1", UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"}, nil
		}),
	})
	store, err := s3compat.Open(context.Background(), client, "statements", nil)
	if err != nil {
		log.Fatal(err)
	}
	return store, srv.Close
}

func Example() {
	store, stop := exampleStore()
	defer stop()
	ctx := context.Background()
	older := fencedstore.Fence{Resource: "billing/2026-12", ID: 41, Holder: fencedstore.NewHolder()}
	newer := fencedstore.Fence{Resource: "billing/2026-12", ID: 42, Holder: fencedstore.NewHolder()}

	fmt.Println("claim 41:", store.Claim(ctx, older))
	fmt.Println("put by 41:", store.Put(ctx, older, "total.txt", strings.NewReader("100"), nil))
	fmt.Println("claim 42:", store.Claim(ctx, newer))
	err := store.Put(ctx, older, "total.txt", strings.NewReader("90"), nil)
	if stale, ok := errors.AsType[*fencedstore.StaleError](err); ok {
		fmt.Println("put by 41:", stale)
	}
	o, err := store.Get(ctx, "billing/2026-12", "total.txt", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = o.Body.Close() }()
	_, _ = io.Copy(os.Stdout, o.Body)
	// Output:
	// claim 41: <nil>
	// put by 41: <nil>
	// claim 42: <nil>
	// put by 41: fencedstore: fence 41 on "billing/2026-12" is stale: 42 was claimed
	// 100
}

func ExampleStore_Update() {
	store, stop := exampleStore()
	defer stop()
	ctx := context.Background()
	f := fencedstore.Fence{Resource: "billing/2026-12", ID: 42, Holder: fencedstore.NewHolder()}
	if err := store.Claim(ctx, f); err != nil {
		log.Fatal(err)
	}
	err := store.Update(ctx, f, func(b *s3compat.Batch) error {
		return errors.Join(
			b.Put(ctx, "december/ada.csv", strings.NewReader("70"), nil),
			b.Put(ctx, "december/bob.csv", strings.NewReader("30"), nil),
			b.Delete("december/draft.csv"),
		)
	})
	if err != nil {
		log.Fatal(err)
	}
	list, err := store.List(ctx, "billing/2026-12", "december/")
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range list {
		fmt.Println(info.Key, info.Size, info.FenceID)
	}
	// Output:
	// december/ada.csv 2 42
	// december/bob.csv 2 42
}

func ExampleOpen() {
	store, stop := exampleStore()
	defer stop()
	for _, check := range store.Report().Checks {
		fmt.Println(check.OK, check.Name)
	}
	// Output:
	// true a write with If-Match to an absent key is refused
	// true a write with If-None-Match: * creates
	// true a second one is refused
	// true a write with If-Match and another ETag is refused
	// true a write with If-Match and the current ETag is accepted
	// true a write with If-Match and the previous ETag is refused
	// true of two writers that create a key at once, one does
	// true of two writes with If-Match at once, one is accepted
	// true a write that is half-sent while another one is accepted is refused
}
