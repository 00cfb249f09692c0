package s3compat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fenced-go/fenced/fencedstore"
)

// manifest is an object with the entries of a register that they do not fit.
// Like data it is written once, under a name of its own, and means nothing
// until the register refers to it.
type manifest struct {
	Data   string `json:"data"` // name below the resource's folder
	Size   int64  `json:"size,string"`
	SHA256 string `json:"sha256"` // hex
	ETag   string `json:"etag"`   // without quotes
}

// loaded says that the entries are known.
func (e *envelope) loaded() bool { return e == nil || e.Manifest == nil || e.Entries != nil }

// packed are entries with the offsets of the inline values, and these values.
func packed(entries map[string]*entry) (out map[string]*entry, payload []byte) {
	out = make(map[string]*entry, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		en := *entries[key]
		if en.inline() {
			at := int64(len(payload))
			en.Offset = &at
			payload = append(payload, en.value...)
		}
		out[key] = &en
	}
	return out, payload
}

// encodeManifest returns the bytes of a manifest: a line of JSON, and the inline
// values.
func encodeManifest(entries map[string]*entry) ([]byte, error) {
	out, payload := packed(entries)
	b, err := jsonLine(out)
	if err != nil {
		return nil, err
	}
	if n := len(b) + len(payload); n > MaxManifest {
		return nil, fmt.Errorf("%w: the entries would have %d bytes, at most %d are allowed", ErrTooLarge, n, MaxManifest)
	}
	return append(b, payload...), nil
}

// decode reads what m refers to.
func (m *manifest) decode(b []byte, fence int64) (map[string]*entry, error) {
	if sum := sha256.Sum256(b); int64(len(b)) != m.Size || hex.EncodeToString(sum[:]) != m.SHA256 {
		return nil, corrupt("the entries are not what was written")
	}
	line, payload, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return nil, corrupt("the entries have no first line")
	}
	entries := map[string]*entry{}
	if err := json.Unmarshal(line, &entries); err != nil || entries == nil {
		return nil, corrupt("the entries are not JSON of entries")
	}
	return entries, checkEntries(entries, fence, payload)
}

func (e *envelope) checkSpilled(payload []byte) error {
	m := e.Manifest
	switch df := dataFence(m.Data); {
	case df == 0 || df > e.Fence || m.Size < 0 || m.Size > MaxManifest:
		return corrupt("its manifest has a wrong name or size")
	case e.Entries != nil || len(payload) != 0:
		return corrupt("it has entries beside its manifest")
	}
	return nil
}

// spill encodes next. Entries that do not fit the register are uploaded first:
// staged is the name then.
func (s *Store) spill(ctx context.Context, f fencedstore.Fence, next *envelope) (body []byte, staged []string, err error) {
	body, err = next.encode()
	if !errors.Is(err, ErrTooLarge) || next.Manifest != nil {
		return body, nil, err
	}
	b, err := encodeManifest(next.Entries)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(b)
	m := &manifest{Data: dataName(f.ID, next.Seq), Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
	staged = []string{m.Data}
	u := &upload{s: s, key: s.folder(f.Resource) + m.Data, opts: new(PutOptions), meta: map[string]string{
		metaFence: strconv.FormatInt(f.ID, 10),
	}}
	if m.ETag, err = u.single(ctx, b); err != nil {
		return nil, staged, err
	}
	next.Manifest = m
	body, err = next.encode()
	return body, staged, err
}

// load fills in the entries of a register that has them elsewhere. When they are
// gone, they were replaced and collected since, and the register is read again.
func (s *Store) load(ctx context.Context, resource string, st state) (state, error) {
	var err error
	gone := ""
	for i := range maxReads {
		if st.env.loaded() {
			return st, nil
		}
		if err := s.pause(ctx, i); err != nil {
			return state{}, err
		}
		if st.env.Manifest.Data == gone {
			return state{}, corrupt("the entries are missing") // nobody replaced them
		}
		var full *envelope
		if full, err = s.loadOnce(ctx, resource, st.env); err == nil {
			return state{env: full, etag: st.etag}, nil
		}
		switch {
		case isGone(err):
			gone = st.env.Manifest.Data
			if st, err = s.read(ctx, resource); err != nil {
				return state{}, err
			}
		case !passing(err):
			return state{}, err
		}
	}
	return state{}, err
}

func (s *Store) loadOnce(ctx context.Context, resource string, e *envelope) (*envelope, error) {
	m := e.Manifest
	out, err := s.api.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.bucket, Key: aws.String(s.folder(resource) + m.Data),
	}, s.tune, once)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(out.Body, m.Size+1))
	if err != nil {
		return nil, err
	}
	full := *e
	if full.Entries, err = m.decode(b, e.Fence); err != nil {
		return nil, err
	}
	return &full, nil
}
