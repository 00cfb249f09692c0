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

func (v *values) at(tb testing.TB, srv server) *values {
	tb.Helper()
	return &values{Store: open(tb, srv, &v.opts), owner: v.owner, opts: v.opts}
}

// harness makes stores at the front ends of one server.
func harness(opts s3compat.Options, servers ...server) storetest.Harness {
	return storetest.Harness{
		New: func(tb testing.TB) fencedstore.Store {
			tb.Helper()
			mine := opts
			mine.Prefix = freshPrefix()
			return (&values{owner: new(sync.Map), opts: mine}).at(tb, servers[0])
		},
		Reopen: func(tb testing.TB, s fencedstore.Store) fencedstore.Store {
			tb.Helper()
			v := s.(*values) //nolint:errcheck,forcetypeassert // New made it
			return v.at(tb, servers[len(servers)-1])
		},
		LoseReply: func(tb testing.TB, s fencedstore.Store) fencedstore.Store {
			tb.Helper()
			v := s.(*values) //nolint:errcheck,forcetypeassert // New made it
			short := v.opts
			short.SettleTimeout = 300 * time.Millisecond
			p := newProxy(tb, servers[0].url)
			return &values{Store: open(tb, servers[0].via(p.URL), &short), owner: v.owner, p: p, opts: v.opts, lossy: true}
		},
	}
}

// Nothing is inline, so that every value takes the way of a large one.
func TestConformanceOnAFakeWithEveryValueAsAnObject(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness(s3compat.Options{InlineLimit: -1}, newFake(t)))
}

// The second handle of each case goes through the second gateway, where there is
// one.
func TestConformanceOnARealServer(t *testing.T) {
	t.Parallel()
	one, two := newGateways(t)
	storetest.Run(t, harness(s3compat.Options{}, one, two))
}
