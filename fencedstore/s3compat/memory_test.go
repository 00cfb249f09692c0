package s3compat_test

import (
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
)

// stream is a body that is never in memory as a whole. It watches the heap.
type stream struct {
	left int64
	rnd  *rand.ChaCha8
	peak uint64
}

func newStream(n int64) *stream { return &stream{left: n, rnd: rand.NewChaCha8([32]byte{1})} }

func (s *stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	before := s.left >> 20
	p = p[:min(int64(len(p)), s.left)]
	n, err := s.rnd.Read(p)
	s.left -= int64(n)
	if s.left>>20 != before {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.peak = max(s.peak, m.HeapInuse)
	}
	return n, err
}

// It does not run beside others, whose memory it would count.
func TestLargeValueNeedsLittleMemory(t *testing.T) {
	const size, bound = 256 << 20, 64 << 20
	if testing.Short() {
		t.Skip("writes and reads 256 MiB")
	}
	one, _ := newGateways(t)
	s := open(t, one, nil)
	f := by(alice, 5)
	claim(t, s, f)
	body := newStream(size)
	if err := s.Put(t.Context(), f, "k", body, nil); err != nil {
		t.Fatal(err)
	}
	o, err := s.Get(t.Context(), resource, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.Body.Close() }()
	watch := &watcher{}
	if n, err := io.Copy(watch, o.Body); err != nil || n != size { // the reader checks the checksum
		t.Errorf("read %d bytes, %v, want %d", n, err, size)
	}
	t.Logf("peak of the heap: %d MiB writing, %d MiB reading", body.peak>>20, watch.peak>>20)
	if peak := max(body.peak, watch.peak); peak > bound {
		t.Errorf("peak of the heap: %d MiB, want at most %d", peak>>20, bound>>20)
	}
	if o.Size != size {
		t.Errorf("got size %d", o.Size)
	}
}

// watcher watches the heap while something is read.
type watcher struct {
	n    int64
	peak uint64
}

func (w *watcher) Write(p []byte) (int, error) {
	before := w.n >> 20
	w.n += int64(len(p))
	if w.n>>20 != before {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.peak = max(w.peak, m.HeapInuse)
	}
	return len(p), nil
}
