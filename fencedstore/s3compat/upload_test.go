package s3compat_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

func completes(r *request) bool {
	return r.method == http.MethodPost && strings.Contains(r.query, "uploadId=")
}

// heads counts the questions about objects among requests.
func heads(seen []*request) int {
	n := 0
	for _, r := range seen {
		if r.method == http.MethodHead {
			n++
		}
	}
	return n
}

// The reply to the end of an upload is trusted once it has told the ETag that
// the object then had: from then on only the register is written besides.
func TestLargeValueTakesOneRequestMoreThanItsData(t *testing.T) {
	t.Parallel()
	one, _ := newGateways(t)
	p := newProxy(t, one.url)
	s := open(t, one.via(p.URL), &s3compat.Options{Prefix: freshPrefix(), PartSize: s3compat.MinPartSize})
	claim(t, s, by(alice, 5))
	for i, c := range []struct{ requests, heads int }{{6, 1}, {5, 0}, {5, 0}} {
		p.take()
		value := pattern(s3compat.MinPartSize + 1 + i)
		put(t, s, by(alice, 5), "k", value)
		if seen := p.take(); len(seen) != c.requests || heads(seen) != c.heads {
			t.Errorf("put %d: %d requests, %d HEADs, want begin, two parts, end and register, and %d HEADs", i, len(seen), heads(seen), c.heads)
		}
		wantValue(t, s, "k", value)
	}
}

// Without a reply the object itself is asked.
func TestLargeValueWhoseLastReplyIsLost(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		p := newProxy(t, srv.url)
		s := open(t, srv.via(p.URL), &s3compat.Options{Prefix: freshPrefix(), PartSize: s3compat.MinPartSize})
		claim(t, s, by(alice, 5))
		for i, f := range []fault{pass, doReset, do500, pass} {
			p.next(completes, f)
			value := pattern(s3compat.MinPartSize + i)
			put(t, s, by(alice, 5), "k", value)
			wantValue(t, s, "k", value)
		}
	})
}

// A store that tells another ETag than its objects have, or none, is asked each
// time. The fake tells a wrong one by itself.
func TestLargeValueOfAStoreThatTellsWrongETags(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"wrong":   "",
		"missing": "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>",
		"weak":    `<CompleteMultipartUploadResult><ETag>W/"1"</ETag></CompleteMultipartUploadResult>`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, _ := wired(t, &s3compat.Options{PartSize: s3compat.MinPartSize})
			claim(t, s, by(alice, 5))
			p.alter(func(r *request, resp *response) {
				if completes(r) && reply != "" {
					resp.body = []byte(reply)
					resp.header.Del("Content-Length")
				}
			})
			for i := range 2 {
				p.take()
				put(t, s, by(alice, 5), "k", pattern(s3compat.MinPartSize+1+i))
				if got := heads(p.take()); got != 1 {
					t.Errorf("put %d: %d HEADs, want 1", i, got)
				}
				wantValue(t, s, "k", pattern(s3compat.MinPartSize+1+i))
			}
		})
	}
}
