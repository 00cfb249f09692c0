package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fenced-go/fenced/bench/internal/rounds"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
	"github.com/fenced-go/fenced/internal/testenv"
)

// registerSize is about what a register with one small value and a full history
// has.
const registerSize = 2700

// bucket is the variants on one server.
type bucket struct {
	name     string
	api      *s3.Client
	store    *s3compat.Store
	requests atomic.Int64

	value, register []byte
	fence, claimed  fencedstore.Fence
	etag            *string
	writes          int
}

// RoundTrip implements [http.RoundTripper] and counts.
func (b *bucket) RoundTrip(req *http.Request) (*http.Response, error) {
	b.requests.Add(1)
	return http.DefaultTransport.RoundTrip(req)
}

func newBucket(ctx context.Context, server *testenv.S3) (*bucket, error) {
	b := &bucket{
		name: server.Bucket, value: bytes.Repeat([]byte("v"), 100), register: bytes.Repeat([]byte("r"), registerSize),
		fence: fence("bench"), claimed: fence("claims"),
	}
	b.api = s3.New(s3.Options{
		BaseEndpoint: aws.String(server.DirectURL()), Region: "us-east-1", UsePathStyle: true,
		HTTPClient:                 &http.Client{Transport: b},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey}, nil
		}),
	})
	var err error
	// Data that is no longer referred to would fill the disk: collect it at once.
	if b.store, err = s3compat.Open(ctx, b.api, b.name, &s3compat.Options{Grace: -1}); err != nil {
		return nil, err
	}
	if err := b.store.Claim(ctx, b.fence); err != nil {
		return nil, err
	}
	return b, errors.Join(b.put(ctx, 0), b.fencedPut(ctx, 0), b.create(ctx))
}

// fence is newer than every one that was made before.
func fence(resource string) fencedstore.Fence {
	return fencedstore.Fence{Resource: resource, ID: time.Now().UnixMicro(), Holder: fencedstore.NewHolder()}
}

func (b *bucket) put(ctx context.Context, _ int) error {
	_, err := b.api.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.name, Key: aws.String("bare"), Body: bytes.NewReader(b.value)})
	return err
}

func (b *bucket) get(ctx context.Context, _ int) error {
	out, err := b.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: aws.String("bare")})
	if err != nil {
		return err
	}
	return drain(out.Body)
}

func drain(body io.ReadCloser) error {
	_, err := io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

func (b *bucket) create(ctx context.Context) error {
	out, err := b.api.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.name, Key: aws.String("cas"), Body: bytes.NewReader(b.register)})
	if err == nil {
		b.etag = out.ETag
	}
	return err
}

func (b *bucket) cas(ctx context.Context, _ int) error {
	b.writes++
	copy(b.register, fmt.Sprint(b.writes))
	out, err := b.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: aws.String("cas"), Body: bytes.NewReader(b.register), IfMatch: b.etag,
	})
	if err == nil {
		b.etag = out.ETag
	}
	return err
}

func (b *bucket) fencedPut(ctx context.Context, _ int) error {
	return b.store.Put(ctx, b.fence, "k", bytes.NewReader(b.value), nil)
}

func (b *bucket) fencedGet(ctx context.Context, _ int) error {
	o, err := b.store.Get(ctx, b.fence.Resource, "k", nil)
	if err != nil {
		return err
	}
	return drain(o.Body)
}

func (b *bucket) claim(ctx context.Context, _ int) error {
	b.claimed.ID++
	return b.store.Claim(ctx, b.claimed)
}

func (b *bucket) small() []rounds.Variant {
	return []rounds.Variant{
		{Name: "cas", Do: b.cas},
		{Name: "put", Do: b.put},
		{Name: "fenced_put", Do: b.fencedPut},
		{Name: "claim", Do: b.claim},
		{Name: "get", Do: b.get},
		{Name: "fenced_get", Do: b.fencedGet},
	}
}

func (b *bucket) large(size int) []rounds.Variant {
	value := bytes.Repeat([]byte("v"), size)
	return []rounds.Variant{
		{Name: "put", Do: func(ctx context.Context, _ int) error {
			_, err := b.api.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.name, Key: aws.String("large"), Body: bytes.NewReader(value)})
			return err
		}},
		{Name: "multipart", Do: func(ctx context.Context, _ int) error { return b.multipart(ctx, value) }},
		{Name: "fenced_put", Do: func(ctx context.Context, _ int) error {
			return b.store.Put(ctx, b.fence, "large", bytes.NewReader(value), nil)
		}},
	}
}

// multipart is an upload in parts as the SDK's calls make it.
func (b *bucket) multipart(ctx context.Context, value []byte) error {
	key := aws.String("multipart")
	begun, err := b.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &b.name, Key: key})
	if err != nil {
		return err
	}
	var parts []types.CompletedPart
	for part := range slices.Chunk(value, s3compat.DefaultPartSize) {
		number := aws.Int32(int32(len(parts) + 1))
		out, err := b.api.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &b.name, Key: key, UploadId: begun.UploadId, PartNumber: number, Body: bytes.NewReader(part),
		})
		if err != nil {
			return err
		}
		parts = append(parts, types.CompletedPart{ETag: out.ETag, PartNumber: number})
	}
	_, err = b.api.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &b.name, Key: key, UploadId: begun.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return err
}

// count reports how many requests an operation takes, and collects what large
// ones have left.
func (b *bucket) count(ctx context.Context, p *rounds.Program, suffix string, goals map[string]float64, variants []rounds.Variant) error {
	for _, v := range variants {
		goal, ok := goals[v.Name]
		if !ok {
			continue
		}
		before := b.requests.Load()
		if err := v.Do(ctx, 0); err != nil {
			return err
		}
		n := float64(b.requests.Load() - before)
		p.Report.AtMost(v.Name+suffix+"_requests", rounds.Spread{Low: n, Mid: n, High: n}, goal)
	}
	_, err := b.store.GC(ctx, b.fence)
	return err
}
