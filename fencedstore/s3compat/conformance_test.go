package s3compat_test

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
	"github.com/fenced-go/fenced/fencedstore/storetest"
)

// values drives a Store through the small interface of the contract. There a
// key has one value, whichever resource wrote it; here each resource has keys
// of its own, so it remembers who wrote a key last, as a caller of Get knows.
type values struct {
	*s3compat.Store
	owner *sync.Map // key to resource
	p     *proxy
	opts  s3compat.Options
	lossy bool
}

func (v *values) Claim(ctx context.Context, f fencedstore.Fence) error {
	ctx, healed := v.lose(ctx)
	defer healed()
	return v.Store.Claim(ctx, f)
}

func (v *values) Write(ctx context.Context, f fencedstore.Fence, key string, value []byte) error {
	ctx, healed := v.lose(ctx)
	defer healed()
	var err error
	if value == nil {
		err = v.Delete(ctx, f, key)
	} else {
		err = v.Put(ctx, f, key, bytes.NewReader(value), nil)
	}
	if err == nil {
		v.owner.Store(key, f.Resource)
	}
	return err
}

func (v *values) Read(ctx context.Context, key string) ([]byte, error) {
	owner, ok := v.owner.Load(key)
	if !ok {
		owner = resource
	}
	o, err := v.Get(ctx, owner.(string), key, nil) //nolint:errcheck,forcetypeassert // only strings are stored
	if err != nil {
		return nil, err
	}
	defer func() { _ = o.Body.Close() }()
	return io.ReadAll(o.Body)
}

// lose lets the next call of a lossy handle take effect and hear of nothing
// afterwards, until its time to settle is over.
func (v *values) lose(ctx context.Context) (context.Context, func()) {
	if !v.lossy {
		return ctx, func() {}
	}
	v.lossy = false
	deaf := false
	v.p.set(func(r *request) fault {
		if deaf {
			return sayReset
		}
		if conditional(r) {
			deaf = true
			return doReset
		}
		return pass
	})
	return ctx, func() { v.p.set(nil) }
}

func (v *values) at(tb testing.TB, endpoint string, opts s3compat.Options) *values {
	tb.Helper()
	p := newProxy(tb, endpoint)
	return &values{Store: open(tb, p.URL, &opts), owner: v.owner, p: p, opts: v.opts}
}

// harness makes stores that take turns with the endpoints of one server.
func harness(endpoints []string, opts s3compat.Options) storetest.Harness {
	return storetest.Harness{
		New: func(tb testing.TB) fencedstore.Store {
			tb.Helper()
			mine := opts
			mine.Prefix = freshPrefix()
			return (&values{owner: new(sync.Map), opts: mine}).at(tb, endpoints[0], mine)
		},
		Reopen: func(tb testing.TB, s fencedstore.Store) fencedstore.Store {
			tb.Helper()
			v := s.(*values) //nolint:errcheck,forcetypeassert // New made it
			return v.at(tb, endpoints[len(endpoints)-1], v.opts)
		},
		LoseReply: func(tb testing.TB, s fencedstore.Store) fencedstore.Store {
			tb.Helper()
			v := s.(*values) //nolint:errcheck,forcetypeassert // New made it
			short := v.opts
			short.SettleTimeout = 300 * time.Millisecond
			handle := v.at(tb, endpoints[0], short)
			handle.lossy = true
			return handle
		},
		Parallel: true,
	}
}

func TestConformanceOnAFake(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness([]string{newFake(t)}, s3compat.Options{}))
}

// Nothing is inline, so that every value takes the way of a large one.
func TestConformanceWithEveryValueAsAnObject(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness([]string{newFake(t)}, s3compat.Options{InlineLimit: -1}))
}
