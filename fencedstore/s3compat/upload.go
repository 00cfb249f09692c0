package s3compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// maxParts is how many parts S3 allows.
const maxParts = 10_000

// upload puts a value under a new name, in one request when it fits a part.
// The SDK may repeat these requests: the name is used once, so that all of
// them write the same bytes.
func (b *Batch) upload(ctx context.Context, en *entry, first []byte, src *source, opts *PutOptions) error {
	size := b.partSize(opts)
	buf := partBuffer(first)
	if err := src.fill(buf, size); err != nil {
		return err
	}
	en.Data = dataName(b.f.ID, b.env.Seq)
	b.staged = append(b.staged, en.Data)
	u := &upload{s: b.s, key: b.s.folder(b.f.Resource) + en.Data, opts: opts, meta: map[string]string{
		metaFence: strconv.FormatInt(b.f.ID, 10),
	}}
	var err error
	if int64(buf.Len()) < size {
		en.ETag, err = u.single(ctx, buf.Bytes())
	} else {
		en.ETag, err = u.multipart(ctx, buf, src, size)
	}
	if err == nil {
		partBuffers.Put(buf) // after an error the transport may still read it
	}
	return err
}

// partBuffers holds buffers as large as the parts that they were used for.
var partBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// partBuffer is a buffer that begins with first.
func partBuffer(first []byte) *bytes.Buffer {
	buf := partBuffers.Get().(*bytes.Buffer) //nolint:errcheck,forcetypeassert // New makes no other
	buf.Reset()
	buf.Write(first)
	return buf
}

// partSize is Options.PartSize, or more when the size is known and needs it.
func (b *Batch) partSize(opts *PutOptions) int64 {
	return max(int64(b.s.opts.PartSize), (opts.Size+maxParts-1)/maxParts)
}

// upload is one object on its way.
type upload struct {
	s    *Store
	key  string
	opts *PutOptions
	meta map[string]string
	id   *string
}

func (u *upload) contentType() *string {
	if u.opts.ContentType == "" {
		return nil
	}
	return &u.opts.ContentType
}

func (u *upload) single(ctx context.Context, body []byte) (string, error) {
	out, err := u.s.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &u.s.bucket, Key: &u.key, Body: bytes.NewReader(body), ContentType: u.contentType(), Metadata: u.meta,
	}, u.s.tune)
	if err != nil {
		return "", err
	}
	return strong(out.ETag)
}

func (u *upload) create(ctx context.Context) error {
	out, err := u.s.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &u.s.bucket, Key: &u.key, ContentType: u.contentType(), Metadata: u.meta,
	}, u.s.tune)
	if err != nil {
		return err
	}
	u.id = out.UploadId
	return nil
}

func (u *upload) multipart(ctx context.Context, buf *bytes.Buffer, src *source, size int64) (etag string, err error) {
	if err := u.create(ctx); err != nil {
		return "", err
	}
	if etag, err = u.parts(ctx, buf, src, size); err != nil {
		u.abort(ctx)
	}
	return etag, err
}

// parts sends what buf holds and then the rest of src, one part at a time, and
// completes the upload.
func (u *upload) parts(ctx context.Context, buf *bytes.Buffer, src *source, size int64) (string, error) {
	var sent []types.CompletedPart
	for buf.Len() > 0 {
		if len(sent) == maxParts {
			return "", fmt.Errorf("%w: more than %d parts of %d bytes; say PutOptions.Size or raise Options.PartSize", ErrTooLarge, maxParts, size)
		}
		number := aws.Int32(int32(len(sent) + 1)) //nolint:gosec // at most maxParts
		out, err := u.s.api.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &u.s.bucket, Key: &u.key, UploadId: u.id, PartNumber: number, Body: bytes.NewReader(buf.Bytes()),
		}, u.s.tune)
		if err != nil {
			return "", err
		}
		sent = append(sent, types.CompletedPart{ETag: out.ETag, PartNumber: number})
		buf.Reset()
		if err := src.fill(buf, size); err != nil {
			return "", err
		}
	}
	return u.complete(ctx, sent, src.size)
}

// complete ends the upload. Its reply may be lost, and a repetition then says
// that there is no such upload, so that the object itself is asked. It is also
// asked after the first upload of a Store, to learn whether the store's reply
// tells the ETag that readers will see: some get it wrong. Where it does, a
// reply is enough from then on.
func (u *upload) complete(ctx context.Context, sent []types.CompletedPart, size int64) (string, error) {
	out, err := u.s.api.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &u.s.bucket, Key: &u.key, UploadId: u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: sent},
	}, u.s.tune)
	told := ""
	if err == nil {
		told, _ = strong(out.ETag)
	}
	if told != "" && u.s.toldETags.Load() {
		return told, nil
	}
	head, headErr := u.s.head(ctx, u.key)
	switch {
	case headErr == nil && head.size == size:
		if told == head.etag {
			u.s.toldETags.Store(true)
		}
		return head.etag, nil
	case headErr == nil:
		return "", errors.Join(corrupt(fmt.Sprintf("%d bytes were uploaded, %d are there", size, head.size)), err)
	}
	return "", errors.Join(err, headErr)
}

// abort frees the parts of an upload that failed. Should it fail too, GC finds
// them.
func (u *upload) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWithin)
	defer cancel()
	_, _ = u.s.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &u.s.bucket, Key: &u.key, UploadId: u.id,
	}, u.s.tune)
}

// headed is what is known of a data object.
type headed struct {
	size        int64
	etag        string
	contentType string
	modified    time.Time
}

func (s *Store) head(ctx context.Context, key string) (headed, error) {
	out, err := s.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &key}, s.tune)
	if err != nil {
		return headed{}, err
	}
	etag, err := strong(out.ETag)
	if out.ContentLength == nil {
		err = errors.Join(err, errors.New("s3compat: an object has no length"))
	}
	return headed{
		size: aws.ToInt64(out.ContentLength), etag: etag,
		contentType: aws.ToString(out.ContentType), modified: aws.ToTime(out.LastModified),
	}, err
}

func (s *Store) deleteObject(ctx context.Context, key string) error {
	_, err := s.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key}, s.tune)
	if isGone(err) {
		return nil
	}
	return err
}
