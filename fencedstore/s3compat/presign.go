package s3compat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fenced-go/fenced/fencedstore"
)

// ErrNoPresigner says that [Options] have no Presigner.
var ErrNoPresigner = errors.New("s3compat: no presigner in the options")

// Upload is a permission for somebody without credentials to upload one value.
// What is uploaded is visible to nobody until [Store.CommitUpload].
type Upload struct {
	// Method, URL and Header are the request to send, with the value as its
	// body. Every header has to be sent as it is. It works once: the object
	// cannot be written over.
	Method, URL string
	Header      http.Header
	// Name is what CommitUpload has to be given.
	Name string
}

// PresignPut makes an [Upload] to f's resource that may be begun within expires.
// The fence is checked at the store first. Nothing is kept: an upload that is
// never committed is garbage of f's tenure.
func (s *Store) PresignPut(ctx context.Context, f fencedstore.Fence, expires time.Duration) (Upload, error) {
	const op = "presign"
	if err := begun(ctx, f); err != nil {
		return Upload{}, s.failed(op, f, err)
	}
	if s.opts.Presigner == nil {
		return Upload{}, s.failed(op, f, ErrNoPresigner)
	}
	if expires < time.Second {
		return Upload{}, &OptionError{"expires", fmt.Sprintf("is %v, less than a second", expires)}
	}
	st, err := s.peek(ctx, f)
	if err != nil {
		return Upload{}, s.failed(op, f, withCause(ctx, err))
	}
	name := dataName(f.ID, st.env.Seq)
	req, err := s.presign(ctx, f, name, expires)
	if err != nil {
		return Upload{}, s.failed(op, f, err)
	}
	header := req.SignedHeader.Clone()
	header.Del("Host")
	return Upload{Method: req.Method, URL: req.URL, Header: header, Name: name}, nil
}

func (s *Store) presign(ctx context.Context, f fencedstore.Fence, name string, expires time.Duration) (*v4.PresignedHTTPRequest, error) {
	return s.opts.Presigner.PresignPutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: aws.String(s.folder(f.Resource) + name), IfNoneMatch: aws.String("*"),
		Metadata: map[string]string{metaFence: strconv.FormatInt(f.ID, 10)},
	}, func(o *s3.PresignOptions) {
		o.Expires = expires
		o.ClientOptions = append(o.ClientOptions, s.tune)
	})
}

// UploadOptions describe an uploaded value. A nil *UploadOptions and the zero
// value mean the defaults.
type UploadOptions struct {
	// ContentType and Metadata are those of [PutOptions].
	ContentType string
	Metadata    map[string]string
	// SHA256 is the checksum that the value must have, in hexadecimal; readers
	// verify it. Empty means not known: readers verify size and ETag.
	SHA256 string
}

// CommitUpload sets a key of f's resource to what was uploaded under name. The
// name must come from [Store.PresignPut] with the same fence ID; a successor
// cannot adopt what an older holder let upload. When nothing was uploaded, or
// its key has been put anew or deleted since, it is a [fencedstore.ErrNotFound].
// Other errors are those of [Store.Update].
func (s *Store) CommitUpload(ctx context.Context, f fencedstore.Fence, key, name string, opts *UploadOptions) error {
	const op = "commit upload"
	if opts == nil {
		opts = new(UploadOptions)
	}
	if err := (&PutOptions{ContentType: opts.ContentType, Metadata: opts.Metadata}).validate(); err != nil {
		return err
	}
	if err := validateKey(key); err != nil {
		return s.failed(op, f, err)
	}
	return s.update(ctx, op, f, func(b *Batch) error {
		if dataFence(name) != f.ID {
			return &OptionError{"name", "is not an upload of this fence"}
		}
		if b.env.hasDropped(name) {
			return fencedstore.ErrNotFound
		}
		head, err := s.head(ctx, s.folder(f.Resource)+name)
		if isGone(err) {
			return fencedstore.ErrNotFound
		}
		if err != nil {
			return withCause(ctx, err)
		}
		en := &entry{
			Fence: f.ID, Size: head.size, SHA256: opts.SHA256, Type: opts.ContentType,
			Metadata: maps.Clone(opts.Metadata), Data: name, ETag: head.etag,
		}
		b.changes = append(b.changes, func(next *envelope) error {
			if next.hasDropped(name) {
				return fencedstore.ErrNotFound // GC may be at it
			}
			committed := *en
			committed.At = next.At
			next.set(key, &committed)
			return nil
		})
		return nil
	})
}
