package s3compat_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// openVia opens a Store through a proxy that was set up by harm.
func openVia(t *testing.T, harm func(p *proxy)) (*s3compat.Store, server, error) {
	t.Helper()
	srv := newFake(t)
	p := newProxy(t, srv.url)
	harm(p)
	s, err := s3compat.Open(t.Context(), srv.via(p.URL).client(), srv.bucket, nil)
	return s, srv, err
}

func always(f fault) func(p *proxy) {
	return func(p *proxy) {
		p.set(func(r *request) fault {
			if conditional(r) {
				return f
			}
			return pass
		})
	}
}

// acceptAbsent is a store that skips If-Match where there is nothing to match.
func acceptAbsent(p *proxy) {
	there := map[string]bool{}
	p.set(func(r *request) fault {
		if conditional(r) && !there[r.path] {
			there[r.path] = true
			return strip
		}
		return pass
	})
}

// stripOnly ignores one of the two conditions.
func stripOnly(name string) func(p *proxy) {
	return func(p *proxy) {
		p.set(func(r *request) fault {
			if r.header.Get(name) != "" && r.method == http.MethodPut {
				return strip
			}
			return pass
		})
	}
}

// cached is a store that goes on to show what it showed first.
func cached(p *proxy) {
	first := map[string]response{}
	p.alter(func(r *request, resp *response) {
		if r.method != http.MethodGet || resp.status != http.StatusOK {
			return
		}
		if old, ok := first[r.path]; ok {
			*resp = old
			return
		}
		first[r.path] = *resp
	})
}

// etags changes the ETags of answers.
func etags(change func(etag string) string) func(p *proxy) {
	return func(p *proxy) {
		p.alter(func(_ *request, resp *response) {
			if etag := resp.header.Get("ETag"); etag != "" {
				resp.header.Set("ETag", change(etag))
			}
		})
	}
}

// writesAnyway refuses what it should, and writes it nevertheless.
func writesAnyway(p *proxy) {
	created := false
	p.set(func(r *request) fault {
		switch {
		case created && conditional(r):
			return strip
		case r.header.Get("If-None-Match") != "":
			created = true
		}
		return pass
	})
	p.alter(func(r *request, resp *response) {
		if r.method == http.MethodPut && !conditional(r) {
			resp.status, resp.body = http.StatusPreconditionFailed, []byte("<Error><Code>PreconditionFailed</Code></Error>")
		}
	})
}

func TestOpenRefusesStoresThatCannotFence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		harm func(p *proxy)
		want error
	}{
		{"all conditions are ignored", always(strip), s3compat.ErrConditionsIgnored},
		{"If-Match is ignored", stripOnly("If-Match"), s3compat.ErrConditionsIgnored},
		{"If-None-Match is ignored", stripOnly("If-None-Match"), s3compat.ErrConditionsIgnored},
		{"If-Match of an absent key is accepted", acceptAbsent, s3compat.ErrConditionsIgnored},
		{"refused and written nevertheless", writesAnyway, s3compat.ErrStaleReads},
		{"501", always(say501), s3compat.ErrConditionsUnsupported},
		{"reads are stale", cached, s3compat.ErrStaleReads},
		{"ETags are weak", etags(func(e string) string { return "W/" + e }), s3compat.ErrConditionsUnsupported},
		{"ETags are missing", etags(func(string) string { return "" }), s3compat.ErrConditionsUnsupported},
		{"all ETags are equal", etags(func(string) string { return `"0"` }), s3compat.ErrConditionsUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, srv, err := openVia(t, c.harm)
			if s != nil {
				t.Error("got a Store")
			}
			wantErr(t, "open", err, c.want)
			for _, other := range []error{s3compat.ErrConditionsIgnored, s3compat.ErrConditionsUnsupported, s3compat.ErrStaleReads} {
				if !errors.Is(c.want, other) && errors.Is(err, other) {
					t.Errorf("%v is also %v", err, other)
				}
			}
			e, ok := errors.AsType[*s3compat.Error](err)
			if !ok || e.Bucket != srv.bucket || !strings.HasPrefix(e.Key, s3compat.DefaultPrefix+"/probe/") {
				t.Errorf("got %+v, want bucket and key", e)
			}
			if left := objects(t, srv, ""); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestOpenReturnsOtherErrorsAsTheyAre(t *testing.T) {
	t.Parallel()
	_, _, err := openVia(t, always(sayDenied))
	if err == nil || errors.Is(err, s3compat.ErrConditionsIgnored) || errors.Is(err, s3compat.ErrConditionsUnsupported) || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("denied: got %v, want that", err)
	}
	srv := newFake(t)
	_, err = s3compat.Open(t.Context(), srv.client(), "elsewhere", nil)
	if err == nil || !strings.Contains(err.Error(), "NoSuchBucket") {
		t.Errorf("no bucket: got %v, want that", err)
	}
	if _, err = s3compat.Open(t.Context(), srv.via("http://127.0.0.1:1").client(), srv.bucket, nil); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no server: got %v, want that", err)
	}
}

// One transient conflict is no reason to refuse a store.
func TestOpenAsksAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	_, _, err := openVia(t, func(p *proxy) { p.next(conditional, say409, say409) })
	wantErr(t, "open", err, nil)
}

// unquotedOnly matches an ETag only when it comes without quotes.
func unquotedOnly(p *proxy) {
	p.set(func(r *request) fault {
		etag := r.header.Get("If-Match")
		switch {
		case etag == "":
			return pass
		case strings.HasPrefix(etag, `"`):
			r.header.Set("If-Match", `"never"`)
		default:
			r.header.Set("If-Match", `"`+etag+`"`)
		}
		return pass
	})
}

func TestReportTellsWhatWasFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		harm     func(p *proxy)
		unquoted bool
	}{
		{"plain", func(*proxy) {}, false},
		{"ETags come without quotes", etags(func(e string) string { return strings.Trim(e, `"`) }), false},
		{"ETags are matched without quotes", unquotedOnly, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, _, err := openVia(t, c.harm)
			if err != nil {
				t.Fatal(err)
			}
			r := s.Report()
			if r.Unquoted != c.unquoted || r.UniqueETag || r.Versioned || !r.PlainChecksums || len(r.Checks) != 9 || r.Requests > 45 {
				t.Errorf("got %+v", r)
			}
			for _, check := range r.Checks {
				if !check.OK || !strings.Contains(r.String(), check.Name) {
					t.Errorf("check %+v is not ok, or not in %s", check, r)
				}
			}
			claim(t, s, by(alice, 5))
			put(t, s, by(alice, 5), "k", []byte("v"))
			wantValue(t, s, "k", []byte("v"))
		})
	}
}

// What a real server with signatures and two front ends answers; for a server
// that was given by URL, what is to be known about it.
func TestRealServersAreTrusted(t *testing.T) {
	t.Parallel()
	one, two := newGateways(t)
	for _, srv := range []server{one, two} {
		t.Log(open(t, srv, nil).Report())
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	for name, o := range map[string]s3compat.Options{
		"Prefix":         {Prefix: "/p"},
		"InlineLimit":    {InlineLimit: 1 << 20},
		"PartSize":       {PartSize: s3compat.MinPartSize - 1},
		"AttemptTimeout": {AttemptTimeout: -1},
		"SettleTimeout":  {SettleTimeout: 1},
	} {
		_, err := s3compat.Open(t.Context(), srv.client(), srv.bucket, &o)
		if got, ok := errors.AsType[*s3compat.OptionError](err); !ok || got.Name != name {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := s3compat.Open(t.Context(), nil, srv.bucket, nil); err == nil {
		t.Error("no api: got no error")
	}
	if _, err := s3compat.Open(t.Context(), srv.client(), "", nil); err == nil {
		t.Error("no bucket: got no error")
	}
}
