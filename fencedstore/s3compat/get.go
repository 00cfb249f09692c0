package s3compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fenced-go/fenced/fencedstore"
)

// Info describes a value.
type Info struct {
	// Key is its key in its resource.
	Key string
	// Size is its number of bytes.
	Size int64
	// SHA256 is its checksum, in hexadecimal. It is empty for a presigned
	// upload whose checksum was not given.
	SHA256 string
	// ContentType and Metadata are those of [PutOptions].
	ContentType string
	Metadata    map[string]string
	// FenceID is the tenure that wrote it.
	FenceID int64
	// Modified is when it was written, by that holder's clock.
	Modified time.Time
}

// Object is a value that is being read. It belongs to one goroutine, which
// closes Body.
type Object struct {
	Info
	// Body is the value, or the range that was asked for. It ends with an
	// [ErrCorrupt] instead of [io.EOF] when it has another length than it
	// should, or, read from the first byte to the last, another checksum. Of a
	// range of an object, position, size and ETag are checked, not the bytes.
	Body io.ReadCloser
}

// GetOptions choose a part of a value. A nil *GetOptions and the zero value
// mean all of it.
type GetOptions struct {
	// Offset is the first byte. One behind the last is an empty range, a
	// greater one an [ErrRange].
	Offset int64
	// Length is the number of bytes; a range ends with the value at the latest.
	// Zero means up to the end.
	Length int64
}

// Get reads a key of a resource, or returns [fencedstore.ErrNotFound]. It needs
// no fence: after its claim a holder reads what no older holder can change any
// more. A small value takes one request, a larger one two.
func (s *Store) Get(ctx context.Context, resource, key string, opts *GetOptions) (*Object, error) {
	if opts == nil {
		opts = new(GetOptions)
	}
	if opts.Offset < 0 || opts.Length < 0 {
		return nil, &OptionError{"GetOptions", "has a negative field"}
	}
	var gone error
	name := ""
	for range maxReads {
		en, err := s.find(ctx, resource, key)
		if err != nil {
			return nil, s.fail("get", s.registerKey(resource), fencedstore.Fence{}, err)
		}
		if gone != nil && en.Data == name {
			break // nobody replaced it: the data itself is missing
		}
		o, err := s.open(ctx, resource, key, en, opts)
		name = en.Data
		if err == nil || !isGone(err) {
			return o, s.fail("get", s.folder(resource)+name, fencedstore.Fence{}, err)
		}
		gone = err // replaced and collected since: look again
	}
	return nil, s.fail("get", s.folder(resource)+name, fencedstore.Fence{}, errors.Join(corrupt("the data is missing"), gone))
}

// find returns the entry of a key.
func (s *Store) find(ctx context.Context, resource, key string) (*entry, error) {
	if err := validateKey(key); err != nil {
		return nil, err
	}
	env, err := s.entries(ctx, resource)
	if err != nil {
		return nil, err
	}
	if en := env.Entries[key]; en != nil {
		return en, nil
	}
	return nil, fencedstore.ErrNotFound
}

// entries reads a register for a caller that needs no fence; without one there
// are no entries.
func (s *Store) entries(ctx context.Context, resource string) (*envelope, error) {
	if err := fencedstore.ValidateResource(resource); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, withCause(ctx, ctx.Err())
	}
	st, err := s.read(ctx, resource)
	if err == nil {
		st, err = s.load(ctx, resource, st)
	}
	if err != nil {
		return nil, withCause(ctx, err)
	}
	if st.env == nil {
		return new(envelope), nil
	}
	return st.env, nil
}

func (s *Store) open(ctx context.Context, resource, key string, en *entry, opts *GetOptions) (*Object, error) {
	if opts.Offset > en.Size {
		return nil, fmt.Errorf("%w: it begins at %d, the value has %d bytes", ErrRange, opts.Offset, en.Size)
	}
	n := en.Size - opts.Offset
	if opts.Length > 0 {
		n = min(n, opts.Length)
	}
	o := &Object{Info: en.info(key)}
	if en.inline() {
		o.Body = io.NopCloser(bytes.NewReader(bytes.Clone(en.value[opts.Offset : opts.Offset+n])))
		return o, nil
	}
	if n == 0 {
		o.Body = io.NopCloser(strings.NewReader(""))
		return o, nil
	}
	body, err := s.openData(ctx, s.folder(resource)+en.Data, en, opts.Offset, n)
	if err != nil {
		return nil, withCause(ctx, err)
	}
	sum := en.SHA256
	if n < en.Size {
		sum = ""
	}
	o.Body = newVerifier(body, n, sum)
	return o, nil
}

func (s *Store) openData(ctx context.Context, key string, en *entry, offset, n int64) (io.ReadCloser, error) {
	in := &s3.GetObjectInput{Bucket: &s.bucket, Key: &key}
	if n < en.Size {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+n-1))
	}
	out, err := s.api.GetObject(ctx, in, s.tune)
	if err != nil {
		return nil, err
	}
	fence, ranged := out.Metadata[metaFence], aws.ToString(out.ContentRange)
	etag, err := strong(out.ETag)
	switch {
	case err != nil, etag != en.ETag, fence != "" && fence != fmt.Sprint(dataFence(en.Data)):
		return nil, errors.Join(corrupt("the data is not what was written"), out.Body.Close())
	case in.Range != nil && ranged != fmt.Sprintf("bytes %d-%d/%d", offset, offset+n-1, en.Size):
		return nil, errors.Join(corrupt(fmt.Sprintf("another range of the data came back: %q", ranged)), out.Body.Close())
	}
	return out.Body, nil
}

func (en *entry) info(key string) Info {
	at, _ := time.Parse(time.RFC3339Nano, en.At)
	return Info{
		Key: key, Size: en.Size, SHA256: en.SHA256, ContentType: en.Type,
		Metadata: maps.Clone(en.Metadata), FenceID: en.Fence, Modified: at,
	}
}

// Head describes a key of a resource, or returns [fencedstore.ErrNotFound]. It
// takes one request.
func (s *Store) Head(ctx context.Context, resource, key string) (Info, error) {
	en, err := s.find(ctx, resource, key)
	if err != nil {
		return Info{}, s.fail("head", s.registerKey(resource), fencedstore.Fence{}, err)
	}
	return en.info(key), nil
}

// List describes the keys of a resource that begin with prefix, sorted, as of
// one moment. It takes one request.
func (s *Store) List(ctx context.Context, resource, prefix string) ([]Info, error) {
	env, err := s.entries(ctx, resource)
	if err != nil {
		return nil, s.fail("list", s.registerKey(resource), fencedstore.Fence{}, err)
	}
	var list []Info
	for _, key := range slices.Sorted(maps.Keys(env.Entries)) {
		if strings.HasPrefix(key, prefix) {
			list = append(list, env.Entries[key].info(key))
		}
	}
	return list, nil
}
