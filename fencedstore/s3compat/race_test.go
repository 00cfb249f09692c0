package s3compat_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// bothCreate is a store that lets both of two creators through.
func bothCreate(p *proxy) {
	p.set(func(r *request) fault {
		if conditional(r) && raced(r) {
			return strip
		}
		return pass
	})
}

// bothReplace lets all writers with If-Match through, as soon as the probe has
// let the last creators race.
func bothReplace(p *proxy) {
	began := false
	p.set(func(r *request) fault {
		began = began || raced(r) && strings.HasSuffix(r.path, "-2")
		if began && r.header.Get("If-Match") != "" {
			return strip
		}
		return pass
	})
}

// raced says that a request is about a key for which creators race.
func raced(r *request) bool { return strings.Contains(r.path, "-") }

func TestOpenRefusesStoresThatDoNotDecideRaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(p *proxy)
		says string
	}{
		"two creators": {bothCreate, "of two writers that create a key at once"},
		"two swaps":    {bothReplace, "of two writes with If-Match at once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, srv, err := openVia(t, c.harm)
			wantErr(t, "open", err, s3compat.ErrConditionsIgnored)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want it to say %s", err, c.says)
			}
			if left := objects(t, srv, ""); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A loser that hears of an error of the server instead is a loser.
func TestOpenAcceptsStoresWhoseLosersHearOfAnError(t *testing.T) {
	t.Parallel()
	s, _, err := openVia(t, func(p *proxy) {
		p.alter(func(r *request, resp *response) {
			if raced(r) && resp.status == http.StatusPreconditionFailed {
				resp.status, resp.body = http.StatusInternalServerError, []byte("<Error><Code>InternalError</Code></Error>")
				resp.header.Del("Content-Length")
			}
		})
	})
	wantErr(t, "open", err, nil)
	if report := s.Report().String(); !strings.Contains(report, "the loser heard 500 InternalError") {
		t.Errorf("got %s", report)
	}
}

// before is a server that does something to a request before it reads the body.
func before(t *testing.T, srv server, fn func(in *http.Request) (after func())) server {
	t.Helper()
	p := newProxy(t, srv.url)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		after := fn(in)
		defer after()
		p.ServeHTTP(w, in)
	}))
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	return srv.via(front.URL)
}

// slowWriter tells the two writers of the probe's last question apart, and has
// the fast one arrive second.
type slowWriter struct {
	swaps   atomic.Int64
	arrived chan struct{}
}

// otherSwaps is how many writes with If-Match the probe sends before.
const otherSwaps = 12

// is says that a request is the one that the probe sends in two halves.
func (*slowWriter) is(in *http.Request) bool {
	return in.Method == http.MethodPut && in.ContentLength > 100_000
}

// beats says that a request is the one that goes by it.
func (s *slowWriter) beats(in *http.Request) bool {
	if in.Method != http.MethodPut || in.Header.Get("If-Match") == "" || s.swaps.Add(1) <= otherSwaps {
		return false
	}
	<-s.arrived
	return true
}

func TestOpenRefusesAStoreThatComparesBeforeItHasTheBody(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	slow := &slowWriter{arrived: make(chan struct{})}
	early := before(t, srv, func(in *http.Request) func() {
		if slow.is(in) {
			key := strings.TrimPrefix(in.URL.Path, "/"+srv.bucket+"/")
			if in.Header.Get("If-Match") == etagOf(t, srv, key) {
				in.Header.Del("If-Match")
			}
			close(slow.arrived)
		} else {
			slow.beats(in)
		}
		return func() {}
	})
	_, err := s3compat.Open(t.Context(), early.client(), srv.bucket, nil)
	wantErr(t, "open", err, s3compat.ErrConditionsIgnored)
	if err == nil || !strings.Contains(err.Error(), "half-sent") {
		t.Errorf("got %v, want it to say half-sent", err)
	}
}

// A store that lets others wait for a slow body is slow, not unsafe.
func TestReportTellsOfAStoreThatWaitsForSlowWriters(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	slow, done := &slowWriter{arrived: make(chan struct{})}, make(chan struct{})
	waits := before(t, srv, func(in *http.Request) func() {
		if slow.is(in) {
			close(slow.arrived)
			return func() { close(done) }
		}
		if slow.beats(in) {
			<-done
		}
		return func() {}
	})
	s, err := s3compat.Open(t.Context(), waits.client(), srv.bucket, &s3compat.Options{AttemptTimeout: 3 * time.Second})
	wantErr(t, "open", err, nil)
	if s != nil && !strings.Contains(s.Report().String(), "others wait for a write that is half-sent") {
		t.Errorf("got %s", s.Report())
	}
}

// A store that refuses such a write at once has not been tried.
func TestReportTellsOfAStoreThatTakesNoSlowWrite(t *testing.T) {
	t.Parallel()
	s, _, err := openVia(t, func(p *proxy) {
		p.set(func(r *request) fault {
			if len(r.body) > 100_000 {
				return sayDenied
			}
			return pass
		})
	})
	wantErr(t, "open", err, nil)
	if s != nil && !strings.Contains(s.Report().String(), "it heard 403 AccessDenied") {
		t.Errorf("got %s", s.Report())
	}
}
