package s3compat

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// Store fences objects in one bucket. It remembers the registers that it has
// claimed or written, which saves a request each, and is safe for concurrent
// use by several goroutines. Writes to one resource take turns.
type Store struct {
	api     API
	bucket  string
	opts    Options
	report  *Report
	now     func() time.Time
	foreign atomic.Bool // an endpoint that is not AWS's own was called
	// toldETags says that an answer to CompleteMultipartUpload has told the
	// ETag that the object then had.
	toldETags atomic.Bool

	mu       sync.Mutex
	sessions map[string]*session
}

var _ fencedstore.Claimer = (*Store)(nil)

// Open returns a Store on a bucket that exists, after it has found out with a
// scratch object that the store can be trusted with conditional writes: what
// it found is in [Store.Report]. Some forty requests are sent. It fails
// with [ErrConditionsIgnored], [ErrConditionsUnsupported] or [ErrStaleReads]
// when nothing could be fenced, and with an *[OptionError] for a bad argument.
//
// Open a Store once per process, not per call. api stays the caller's.
func Open(ctx context.Context, api API, bucket string, opts *Options) (*Store, error) {
	s, err := newStore(api, bucket, opts)
	if err != nil {
		return nil, err
	}
	if err := s.probe(ctx); err != nil {
		return nil, s.fail("open", s.report.Key, fencedstore.Fence{}, withCause(ctx, err))
	}
	return s, nil
}

func newStore(api API, bucket string, opts *Options) (*Store, error) {
	if missing(api) {
		return nil, &OptionError{"api", "is nil"}
	}
	if bucket == "" {
		return nil, &OptionError{"bucket", "is empty"}
	}
	full, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Store{
		api: api, bucket: bucket, opts: full, now: time.Now,
		report: &Report{Bucket: bucket}, sessions: map[string]*session{},
	}, nil
}

func missing(api API) bool {
	if api == nil {
		return true
	}
	v := reflect.ValueOf(api)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Report is what [Open] found out about the store.
func (s *Store) Report() Report { return *s.report }
