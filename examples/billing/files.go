package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// objectsPrefix begins every key of the example in the bucket.
const objectsPrefix = "billing-example"

// files are where statements are kept, one for each account.
type files interface {
	write(ctx context.Context, account int64, text string) error
	read(ctx context.Context, account int64) (string, error)
	bucket() string
}

// openFiles opens the bucket at http://key:secret@host:port/bucket.
func openFiles(ctx context.Context, addr string, unsafe bool) (files, error) {
	u, err := url.Parse(addr)
	if err != nil {
		return nil, unusable("-s3: %w", withoutURL(err))
	}
	secret, _ := u.User.Password()
	bucket := strings.Trim(u.Path, "/")
	if u.Host == "" || secret == "" || bucket == "" {
		return nil, unusable("-s3: want http://accesskey:secretkey@host:port/bucket")
	}
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(u.Scheme + "://" + u.Host), Region: "us-east-1", UsePathStyle: true,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: u.User.Username(), SecretAccessKey: secret}, nil
		}),
	})
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	store, err := s3compat.Open(ctx, client, bucket, &s3compat.Options{Prefix: objectsPrefix})
	if err != nil {
		return nil, unusable("S3 at %s: %w", u.Host, err)
	}
	if unsafe {
		return plainFiles{client, bucket}, nil
	}
	return fencedFiles{store}, nil
}

// fencedFiles are written by the newest fence only, which they find in the
// context.
type fencedFiles struct{ store *s3compat.Store }

func (f fencedFiles) bucket() string { return f.store.Report().Bucket }

func (f fencedFiles) write(ctx context.Context, account int64, text string) error {
	fence, err := fencedstore.FromContext(ctx)
	if err != nil {
		return err
	}
	csv := &s3compat.PutOptions{ContentType: "text/csv"}
	return f.store.Put(ctx, fence, statementKey(account), strings.NewReader(text), csv)
}

func (f fencedFiles) read(ctx context.Context, account int64) (string, error) {
	o, err := f.store.Get(ctx, nightly.Resource(night), statementKey(account), nil)
	if err != nil {
		return "", err
	}
	return readAll(o.Body)
}

// plainFiles are objects as any program writes them: the last writer wins.
type plainFiles struct {
	api *s3.Client
	in  string
}

func (f plainFiles) bucket() string { return f.in }

func (f plainFiles) key(account int64) *string {
	return aws.String(objectsPrefix + "/plain/" + statementKey(account))
}

func (f plainFiles) write(ctx context.Context, account int64, text string) error {
	_, err := f.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &f.in, Key: f.key(account), Body: strings.NewReader(text), ContentType: aws.String("text/csv"),
	})
	return err
}

func (f plainFiles) read(ctx context.Context, account int64) (string, error) {
	out, err := f.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &f.in, Key: f.key(account)})
	if err != nil {
		return "", err
	}
	return readAll(out.Body)
}

func readAll(body io.ReadCloser) (string, error) {
	b, err := io.ReadAll(body)
	return string(b), errors.Join(err, body.Close())
}
