package s3compat_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fault is what becomes of one request.
type fault int

const (
	pass      fault = iota
	strip           // executed without its If-* headers
	say501          // not executed, 501
	say409          // not executed, 409 ConditionalRequestConflict
	say500          // not executed, 500
	do500           // executed, 500
	doReset         // executed, the connection is reset
	sayReset        // not executed, the connection is reset
	sayDenied       // not executed, 403
	late            // the connection is reset, executed by deliver
	hold            // executed once what after has asked for is done
	stall           // executed, answered once what after has asked for is done
)

// request is what came in, for tests that look at the wire.
type request struct {
	method, path, query string
	header              http.Header
	body                []byte
	status              int // of the store's own answer, 0 when there was none
}

// proxy stands before an S3 server and does to a request what its rule says.
type proxy struct {
	URL      string
	upstream string

	mu      sync.Mutex
	rule    func(r *request) fault
	then    func()
	reply   func(r *request, resp *response)
	seen    []*request
	waiting []func()
}

// response is an answer of the store on its way back.
type response struct {
	status int
	header http.Header
	body   []byte
}

func newProxy(tb testing.TB, upstream string) *proxy {
	tb.Helper()
	p := &proxy{upstream: upstream}
	srv := httptest.NewServer(p)
	tb.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	p.URL = srv.URL
	return p
}

// set changes the rule; nil passes everything.
func (p *proxy) set(rule func(r *request) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// alter lets fn change the answers of the store; nil leaves them.
func (p *proxy) alter(fn func(r *request, resp *response)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply = fn
}

// next lets the first of the following requests for which is says true suffer
// the faults, one each, and passes the others.
func (p *proxy) next(is func(r *request) bool, faults ...fault) {
	p.set(func(r *request) fault {
		if len(faults) == 0 || !is(r) {
			return pass
		}
		f := faults[0]
		faults = faults[1:]
		return f
	})
}

// after lets fn run once: before the next request that is on hold is executed,
// or when the next one that is reset or stalled has been dealt with and its
// caller has not heard of it yet.
func (p *proxy) after(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.then = fn
}

// meanwhile runs what after has asked for.
func (p *proxy) meanwhile() {
	p.mu.Lock()
	then := p.then
	p.then = nil
	p.mu.Unlock()
	if then != nil {
		then()
	}
}

// take returns the requests since the last call.
func (p *proxy) take() []*request {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	p.seen = nil
	return seen
}

// deliver executes what was late, in order, and says how many.
func (p *proxy) deliver() int {
	p.mu.Lock()
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, send := range waiting {
		send()
	}
	return len(waiting)
}

func (p *proxy) note(r *request) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r)
	if p.rule == nil {
		return pass
	}
	return p.rule(r)
}

// ServeHTTP implements [http.Handler].
func (p *proxy) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r := &request{method: in.Method, path: in.URL.Path, query: in.URL.RawQuery, header: in.Header.Clone(), body: body}
	host, uri := in.Host, in.URL.RequestURI()
	ctx := context.WithoutCancel(in.Context())
	switch p.note(r) {
	case pass:
		p.forward(ctx, w, r, host, uri)
	case strip:
		for name := range in.Header {
			if strings.HasPrefix(name, "If-") {
				r.header.Del(name)
			}
		}
		p.forward(ctx, w, r, host, uri)
	case say501:
		answer(w, http.StatusNotImplemented, "NotImplemented")
	case say409:
		answer(w, http.StatusConflict, "ConditionalRequestConflict")
	case say500:
		answer(w, http.StatusInternalServerError, "InternalError")
	case sayDenied:
		answer(w, http.StatusForbidden, "AccessDenied")
	case do500:
		p.forward(ctx, httptest.NewRecorder(), r, host, uri)
		answer(w, http.StatusInternalServerError, "InternalError")
	case doReset:
		p.forward(ctx, httptest.NewRecorder(), r, host, uri)
		p.meanwhile()
		panic(http.ErrAbortHandler)
	case hold:
		p.meanwhile()
		p.forward(ctx, w, r, host, uri)
	case stall:
		done := httptest.NewRecorder()
		p.forward(ctx, done, r, host, uri)
		p.meanwhile()
		maps.Copy(w.Header(), done.Header())
		w.WriteHeader(done.Code)
		_, _ = w.Write(done.Body.Bytes())
	case sayReset:
		p.meanwhile()
		panic(http.ErrAbortHandler)
	case late:
		p.mu.Lock()
		p.waiting = append(p.waiting, func() { p.forward(ctx, httptest.NewRecorder(), r, host, uri) })
		p.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
}

func answer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>injected</Message></Error>", code)
}

// forward executes a request, whoever waits for its answer.
func (p *proxy) forward(ctx context.Context, w http.ResponseWriter, r *request, host, uri string) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := http.NewRequestWithContext(ctx, r.method, p.upstream+uri, bytes.NewReader(r.body))
	if err != nil {
		panic(err)
	}
	out.Header, out.Host = r.header.Clone(), host
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	back := &response{resp.StatusCode, resp.Header, body}
	p.mu.Lock()
	r.status = resp.StatusCode
	if p.reply != nil {
		p.reply(r, back)
	}
	p.mu.Unlock()
	maps.Copy(w.Header(), back.header)
	w.WriteHeader(back.status)
	_, _ = w.Write(back.body)
}

// conditional says that a request is a conditional write.
func conditional(r *request) bool {
	return r.method == http.MethodPut && (r.header.Get("If-Match") != "" || r.header.Get("If-None-Match") != "")
}
