package s3compat_test

import (
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// The tests here run interleavings of two holders, A with fence 5 and B with
// fence 6. Each first against a simple design, to show that it lets A through
// after B took over, and then against a Store, which does not.

// bothServers runs a test on the fake and on a real server.
func bothServers(t *testing.T, test func(t *testing.T, srv server)) {
	t.Helper()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		test(t, newFake(t))
	})
	t.Run("gateway", func(t *testing.T) {
		t.Parallel()
		one, _ := newGateways(t)
		test(t, one)
	})
}

// naive is the SDK alone, as the simple designs use it.
type naive struct {
	t   *testing.T
	api *s3.Client
	srv server
	dir string
}

func newNaive(t *testing.T, srv server) naive {
	t.Helper()
	return naive{t, srv.client(), srv, freshPrefix() + "/"}
}

// againstNaive is bothServers for a test that begins with a simple design.
func againstNaive(t *testing.T, test func(t *testing.T, srv server, n naive)) {
	t.Helper()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		test(t, srv, newNaive(t, srv))
	})
}

// put writes a body with a fence in the metadata, over the version with etag,
// or where nothing is when etag is empty, and says whether it was accepted.
func (n naive) put(key, body, fence, etag string) (newETag string, accepted bool) {
	n.t.Helper()
	in := &s3.PutObjectInput{
		Bucket: &n.srv.bucket, Key: aws.String(n.dir + key), Body: strings.NewReader(body),
		Metadata: map[string]string{"fence-id": fence},
	}
	if etag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &etag
	}
	out, err := n.api.PutObject(n.t.Context(), in)
	if err != nil {
		return "", false
	}
	return *out.ETag, true
}

func (n naive) mustPut(key, body, fence, etag string) string {
	n.t.Helper()
	etag, ok := n.put(key, body, fence, etag)
	if !ok {
		n.t.Fatalf("put %s with fence %s was refused", key, fence)
	}
	return etag
}

func (n naive) get(key string) (body, fence string) {
	n.t.Helper()
	out, err := n.api.GetObject(n.t.Context(), &s3.GetObjectInput{Bucket: &n.srv.bucket, Key: aws.String(n.dir + key)})
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = out.Body.Close() }()
	b, err := io.ReadAll(out.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(b), out.Metadata["fence-id"]
}

// delete removes key.
func (n naive) delete(key string) {
	n.t.Helper()
	_, err := n.api.DeleteObject(n.t.Context(), &s3.DeleteObjectInput{Bucket: &n.srv.bucket, Key: aws.String(n.dir + key)})
	if err != nil {
		n.t.Fatal(err)
	}
}

// hole wants the last step of a simple design to let A through.
func hole(t *testing.T, accepted bool) {
	t.Helper()
	if !accepted {
		t.Error("the simple design refused the older holder: this server closes the hole, the test shows nothing")
	}
}

// pair opens two Stores on one server: processes A and B. A has claimed.
func pair(t *testing.T, srv server) (a, b *s3compat.Store) {
	t.Helper()
	opts := &s3compat.Options{Prefix: freshPrefix()}
	a, b = open(t, srv, opts), open(t, srv, opts)
	claim(t, a, by(alice, 5))
	return a, b
}

// takenOver is pair after A has put old under k, if it is not empty, and B has
// claimed.
func takenOver(t *testing.T, srv server, old string) (a, b *s3compat.Store) {
	t.Helper()
	a, b = pair(t, srv)
	if old != "" {
		put(t, a, by(alice, 5), "k", []byte(old))
		wantValue(t, a, "k", []byte(old))
	}
	claim(t, b, by(bob, 6))
	return a, b
}

// closed wants A's put to be refused, and key to hold want, or nothing when it
// is empty.
func closed(t *testing.T, a, b *s3compat.Store, key, want string) {
	t.Helper()
	wantErr(t, "A's put", a.Put(t.Context(), by(alice, 5), key, strings.NewReader("A"), nil), fencedstore.ErrStale)
	if want != "" {
		wantValue(t, b, key, []byte(want))
		return
	}
	_, err := b.Get(t.Context(), resource, key, nil)
	wantErr(t, "get", err, fencedstore.ErrNotFound)
}

// An ETag is a hash of the bytes: who writes equal bytes leaves it as it was.
func TestSuccessorThatWritesEqualBytes(t *testing.T) {
	t.Parallel()
	againstNaive(t, func(t *testing.T, srv server, n naive) {
		t.Helper()
		seen := n.mustPut("k", "idle", "5", "")
		n.mustPut("k", "idle", "6", seen)
		_, accepted := n.put("k", "A", "5", seen)
		hole(t, accepted)
		if body, fence := n.get("k"); body != "A" || fence != "5" {
			t.Errorf("naive: got %s of fence %s, want the lost update", body, fence)
		}
		a, b := takenOver(t, srv, "idle")
		put(t, b, by(bob, 6), "k", []byte("idle"))
		closed(t, a, b, "k", "idle")
	})
}

// A fence per key knows nothing of a successor that wrote other keys only.
func TestSuccessorThatHasNotWrittenTheKey(t *testing.T) {
	t.Parallel()
	againstNaive(t, func(t *testing.T, srv server, n naive) {
		t.Helper()
		seen := n.mustPut("k", "old", "5", "")
		n.mustPut("other", "B", "6", "")
		_, accepted := n.put("k", "A", "5", seen)
		hole(t, accepted)
		a, b := takenOver(t, srv, "old")
		closed(t, a, b, "k", "old")
	})
}

// No touch reaches a key that does not exist yet.
func TestKeyThatNobodyHasSeen(t *testing.T) {
	t.Parallel()
	againstNaive(t, func(t *testing.T, srv server, n naive) {
		t.Helper()
		n.mustPut("k", "B", "6", "")
		_, accepted := n.put("new", "A", "5", "")
		hole(t, accepted)
		a, b := takenOver(t, srv, "")
		closed(t, a, b, "new", "")
	})
}

// Absence has no memory: a key that was made and deleted is as absent as one
// that never was.
func TestKeyThatTheSuccessorHasDeleted(t *testing.T) {
	t.Parallel()
	againstNaive(t, func(t *testing.T, srv server, n naive) {
		t.Helper()
		n.mustPut("k", "B", "6", "")
		n.delete("k")
		_, accepted := n.put("k", "A", "5", "")
		hole(t, accepted)
		a, b := takenOver(t, srv, "")
		put(t, b, by(bob, 6), "k", []byte("B"))
		if err := b.Delete(t.Context(), by(bob, 6), "k"); err != nil {
			t.Fatal(err)
		}
		closed(t, a, b, "k", "")
	})
}

// A fence object that is checked before each write is a check of its own: the
// successor comes between the two.
func TestFenceObjectCheckedBeforeTheWrite(t *testing.T) {
	t.Parallel()
	againstNaive(t, func(t *testing.T, srv server, n naive) {
		t.Helper()
		fence := n.mustPut(".fence", "5", "5", "")
		seen := n.mustPut("k", "old", "5", "")
		if body, _ := n.get(".fence"); body != "5" {
			t.Fatalf("A's check: got fence %s, want 5", body)
		}
		n.mustPut(".fence", "6", "6", fence)
		_, accepted := n.put("k", "A", "5", seen)
		hole(t, accepted)
		a, b := takenOver(t, srv, "old")
		closed(t, a, b, "k", "old")
	})
}

// Touching the metadata of every key on take-over moves no ETag.
func TestTouchOfTheMetadata(t *testing.T) {
	t.Parallel()
	againstNaive(t, func(t *testing.T, srv server, n naive) {
		t.Helper()
		seen := n.mustPut("k", "old", "5", "")
		_, err := n.api.CopyObject(t.Context(), &s3.CopyObjectInput{
			Bucket: &srv.bucket, Key: aws.String(n.dir + "k"), CopySource: aws.String(srv.bucket + "/" + n.dir + "k"),
			MetadataDirective: "REPLACE", Metadata: map[string]string{"fence-id": "6"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, fence := n.get("k"); fence != "6" {
			t.Fatalf("naive: the touch did not land: fence %s", fence)
		}
		_, accepted := n.put("k", "A", "5", seen)
		hole(t, accepted)
		a, b := takenOver(t, srv, "old")
		closed(t, a, b, "k", "old")
	})
}

// Writing the bytes anew with the fence inside does bar A, but only for keys
// that B knows.
func TestTouchOfTheBytes(t *testing.T) {
	t.Parallel()
	againstNaive(t, func(t *testing.T, srv server, n naive) {
		t.Helper()
		seen := n.mustPut("k", "5: old", "5", "")
		n.mustPut("k", "6: old", "6", seen)
		if _, accepted := n.put("k", "5: A", "5", seen); accepted {
			t.Error("a changed ETag was matched")
		}
		_, accepted := n.put("new", "5: A", "5", "")
		hole(t, accepted)
		a, b := takenOver(t, srv, "old")
		closed(t, a, b, "k", "old")
		closed(t, a, b, "new", "")
	})
}

// The claim writes the register before B reads anything, so that what A has in
// flight, conditioned on the version before, is refused when it arrives.
func TestWriteInFlightDuringAClaim(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		p := newProxy(t, srv.url)
		a, b := pair(t, srv.via(p.URL))
		put(t, a, by(alice, 5), "k", []byte("old"))
		inFlight(t, p, func() {
			claim(t, b, by(bob, 6))
			wantValue(t, b, "k", []byte("old"))
		})
		wantErr(t, "A's put", a.Put(t.Context(), by(alice, 5), "k", strings.NewReader("A"), nil), fencedstore.ErrStale)
		wantValue(t, b, "k", []byte("old"))
	})
}

// Large data of A arrives after the take-over: nobody sees it, and its commit is
// refused.
func TestUploadInFlightDuringAClaim(t *testing.T) {
	t.Parallel()
	bothServers(t, func(t *testing.T, srv server) {
		t.Helper()
		p := newProxy(t, srv.url)
		a, b := pair(t, srv.via(p.URL))
		put(t, a, by(alice, 5), "k", pattern(100_000))
		p.next(isData, stall)
		p.after(func() {
			claim(t, b, by(bob, 6))
			wantValue(t, b, "k", pattern(100_000))
			put(t, b, by(bob, 6), "k", pattern(100_001))
		})
		wantErr(t, "A's put", a.Put(t.Context(), by(alice, 5), "k", strings.NewReader(strings.Repeat("A", 100_000)), nil), fencedstore.ErrStale)
		wantValue(t, b, "k", pattern(100_001))
	})
}

// inFlight holds back the next conditional write until fn is done.
func inFlight(t *testing.T, p *proxy, fn func()) {
	t.Helper()
	p.next(conditional, hold)
	p.after(fn)
}
