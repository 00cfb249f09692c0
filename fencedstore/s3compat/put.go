package s3compat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"unicode/utf8"

	"github.com/fenced-go/fenced/fencedstore"
)

// PutOptions describe a value. A nil *PutOptions and the zero value mean the
// defaults.
type PutOptions struct {
	// ContentType is the media type, printable ASCII. It is empty by default.
	ContentType string
	// Metadata is kept with the value: UTF-8, at most 2 KiB in all.
	Metadata map[string]string
	// Size is the number of bytes of the body, when it is known: it makes room
	// for values of more than 10 000 parts of Options.PartSize. The body is
	// read to its end whatever Size says. Zero means not known.
	Size int64
}

const maxMetadata = 2 << 10

func (o *PutOptions) validate() error {
	for i := range len(o.ContentType) {
		if c := o.ContentType[i]; c < ' ' || c > '~' {
			return &OptionError{"ContentType", "is not printable ASCII"}
		}
	}
	size := len(o.ContentType)
	for k, v := range o.Metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return &OptionError{"Metadata", "is not UTF-8"}
		}
		size += len(k) + len(v)
	}
	switch {
	case size > maxMetadata:
		return &OptionError{"Metadata", fmt.Sprintf("has %d bytes, at most %d are allowed", size, maxMetadata)}
	case o.Size < 0:
		return &OptionError{"Size", "is negative"}
	}
	return nil
}

// Put sets a key of f's resource to what body holds, which may be of any size:
// a small value is written into the register, a larger one goes to an object of
// its own, in parts when it is large, and becomes visible with the register.
// Both obey the same rules. A Put needs about Options.PartSize of memory. Besides
// the requests that the data takes anyway it sends one, for the register.
//
// Errors are those of [Store.Update]. After a refusal nothing has changed, and
// what was uploaded is removed. After a [fencedstore.ErrUnknownOutcome] nothing
// is removed.
func (s *Store) Put(ctx context.Context, f fencedstore.Fence, key string, body io.Reader, opts *PutOptions) error {
	return s.update(ctx, "put", f, func(b *Batch) error { return b.Put(ctx, key, body, opts) })
}

// Delete removes a key of f's resource, also when it is absent. The register
// stays, with the fence, so that no older holder can bring the key back.
func (s *Store) Delete(ctx context.Context, f fencedstore.Fence, key string) error {
	return s.update(ctx, "delete", f, func(b *Batch) error { return b.Delete(key) })
}

// Copy sets the key to to what the key from holds, both of f's resource. No
// data is moved. From another resource, copy with [Store.Get] and [Store.Put].
func (s *Store) Copy(ctx context.Context, f fencedstore.Fence, from, to string) error {
	return s.update(ctx, "copy", f, func(b *Batch) error { return b.Copy(from, to) })
}

// stage reads body to its end and makes an entry of it, uploading what does not
// belong into the register.
func (b *Batch) stage(ctx context.Context, body io.Reader, opts *PutOptions) (*entry, error) {
	if opts == nil {
		opts = new(PutOptions)
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	en := &entry{Fence: b.f.ID, Type: opts.ContentType, Metadata: maps.Clone(opts.Metadata)}
	limit := min(int64(b.s.opts.InlineLimit), b.room)
	src := &source{r: body, sum: sha256.New()}
	first, err := src.take(limit + 1)
	if err != nil {
		return nil, err
	}
	if int64(len(first)) <= limit {
		en.value = first
		b.room -= src.size
	} else if err := b.upload(ctx, en, first, src, opts); err != nil {
		return nil, err
	}
	en.Size, en.SHA256 = src.size, hex.EncodeToString(src.sum.Sum(nil))
	return en, nil
}

// source reads a body piece by piece, and counts and hashes what it reads.
type source struct {
	r    io.Reader
	sum  hash.Hash
	size int64
	end  bool
}

// take reads the next n bytes, or fewer at the end of the body.
func (src *source) take(n int64) ([]byte, error) {
	var buf bytes.Buffer
	err := src.fill(&buf, n)
	return buf.Bytes(), err
}

// fill reads into buf until it holds n bytes, or the body ends.
func (src *source) fill(buf *bytes.Buffer, n int64) error {
	missing := n - int64(buf.Len())
	if src.end || missing <= 0 {
		return nil
	}
	got, err := io.CopyN(io.MultiWriter(buf, src.sum), src.r, missing)
	src.size += got
	if errors.Is(err, io.EOF) {
		src.end = true
		return nil
	}
	return err
}
