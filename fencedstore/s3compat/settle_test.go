package s3compat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// patient is for tests whose proxy never keeps a request waiting.
var patient = &s3compat.Options{SettleTimeout: within}

// A reply that is lost, or that leaves open what happened, does not change the
// outcome, and the write is made once.
func TestLostAndAmbiguousRepliesAreSettled(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]fault{
		"reply lost":                       {doReset},
		"request lost":                     {sayReset},
		"500 with effect":                  {do500},
		"500 without effect":               {say500},
		"500 without effect, reply lost":   {say500, doReset},
		"request lost three times":         {sayReset, sayReset, sayReset},
		"409":                              {say409},
		"409 twice, then reply lost":       {say409, say409, doReset},
		"reply lost, then 409":             {doReset, say409},
		"reply lost, then 500":             {doReset, say500},
		"every reply lost for a while":     {doReset, doReset, doReset, doReset},
		"delivered after the caller is on": {late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, _ := wired(t, clone(patient))
			p.next(conditional, faults...)
			claim(t, s, by(alice, 5))
			p.next(conditional, faults...)
			put(t, s, by(alice, 5), "k", []byte("one"))
			before := version(t, s)
			p.deliver()
			if after := version(t, s); after != before {
				t.Errorf("what was late has changed the register from %s to %s", before, after)
			}
			wantValue(t, s, "k", []byte("one"))
			p.next(conditional, faults...)
			put(t, s, by(alice, 5), "k", []byte("two"))
			wantValue(t, s, "k", []byte("two"))
			p.next(conditional, faults...)
			claim(t, s, by(bob, 6))
			p.deliver()
			wantErr(t, "older put", s.Put(t.Context(), by(alice, 5), "k", strings.NewReader("three"), nil), fencedstore.ErrStale)
			wantValue(t, s, "k", []byte("two"))
		})
	}
}

// version is the sequence number and write of the register, in its own words.
func version(t *testing.T, s *s3compat.Store) string {
	t.Helper()
	r, err := s3compat.ReadRegister(t.Context(), s, resource)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(r.Seq, " ", r.Write)
}

// The SDK's own retries turn the effect of the first attempt into a refusal of
// the second. With them a write that succeeded is reported as refused.
func TestRetriesOfTheSDKHideTheOwnWrite(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	p := newProxy(t, srv.url)
	api := srv.via(p.URL).client()
	p.next(conditional, doReset)
	_, err := api.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &srv.bucket, Key: aws.String("lock"), Body: strings.NewReader("mine"), IfNoneMatch: aws.String("*"),
	})
	if err == nil || !strings.Contains(err.Error(), "PreconditionFailed") {
		t.Errorf("naive: got %v, want the 412 that its own first attempt has caused", err)
	}
	if n := len(p.take()); n != 2 {
		t.Errorf("naive: %d requests, want 2", n)
	}
	s := open(t, srv.via(p.URL), nil)
	p.take()
	p.next(conditional, doReset)
	claim(t, s, by(alice, 5))
	p.next(conditional, doReset)
	put(t, s, by(alice, 5), "k", []byte("mine"))
	p.set(nil)
	wantValue(t, s, "k", []byte("mine"))
}

// A single answer is taken as it is, however the client is configured.
func TestConditionalWritesAreSentOnceByTheSDK(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	p := newProxy(t, srv.url)
	stubborn := s3.New(srv.via(p.URL).client().Options(), func(o *s3.Options) { o.RetryMaxAttempts = 7 })
	s, err := s3compat.Open(t.Context(), stubborn, srv.bucket, &s3compat.Options{SettleTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	p.take()
	p.set(func(r *request) fault {
		if conditional(r) {
			return say500
		}
		return pass
	})
	wantErr(t, "claim", s.Claim(t.Context(), by(alice, 5)), fencedstore.ErrUnknownOutcome)
	var puts int
	for _, r := range p.take() {
		if r.method == http.MethodPut {
			puts++
		}
	}
	if puts > 1 {
		t.Errorf("%d writes within a millisecond, want at most 1", puts)
	}
}

// A negative look is not final: the request may still be on its way. What is on
// its way is dead only once the ETag that it names is gone.
func TestALookThatFindsNothingIsNotFinal(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	p := newProxy(t, srv.url)
	api := srv.via(p.URL).client()
	key := aws.String("naive")
	first, err := api.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &srv.bucket, Key: key, Body: strings.NewReader("old")})
	if err != nil {
		t.Fatal(err)
	}
	p.next(conditional, late)
	_, err = api.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &srv.bucket, Key: key, Body: strings.NewReader("ghost"), IfMatch: first.ETag,
	}, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	if err == nil {
		t.Fatal("got no error from a lost request")
	}
	if got := etagOf(t, srv, *key); got != *first.ETag {
		t.Fatalf("naive: ETag %s, want the old one: the write seems not to have happened", got)
	}
	p.deliver()
	if got := etagOf(t, srv, *key); got == *first.ETag {
		t.Error("naive: want the ghost to land after the look")
	}

	s := open(t, srv.via(p.URL), clone(patient))
	claim(t, s, by(alice, 5))
	p.next(conditional, late)
	put(t, s, by(alice, 5), "k", []byte("one"))
	before := version(t, s)
	if n := p.deliver(); n != 1 {
		t.Fatalf("%d requests were late, want 1", n)
	}
	if after := version(t, s); after != before {
		t.Errorf("the ghost has changed the register from %s to %s", before, after)
	}
}

// A claim alone bars what an older holder has on its way, also what that holder
// has given up on.
func TestAClaimMakesTheFateOfAnUnknownWriteFinal(t *testing.T) {
	t.Parallel()
	for name, landsFirst := range map[string]bool{"it landed": true, "it has not landed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newFake(t)
			p := newProxy(t, srv.url)
			a := open(t, srv.via(p.URL), &s3compat.Options{SettleTimeout: 100 * time.Millisecond})
			b := open(t, srv, nil)
			claim(t, a, by(alice, 5))
			deaf := false
			p.set(func(r *request) fault {
				switch {
				case deaf:
					return sayReset
				case conditional(r):
					deaf = true
					return late
				}
				return pass
			})
			err := a.Put(t.Context(), by(alice, 5), "k", strings.NewReader("one"), nil)
			wantErr(t, "put without an answer", err, fencedstore.ErrUnknownOutcome)
			p.set(nil)
			want := fencedstore.ErrNotFound
			if landsFirst {
				p.deliver()
				want = nil
			}
			claim(t, b, by(bob, 6))
			_, err = b.Get(t.Context(), resource, "k", nil)
			if !errors.Is(err, want) {
				t.Errorf("after the claim: got %v, want %v", err, want)
			}
			before := version(t, b)
			p.deliver()
			if after := version(t, b); after != before {
				t.Errorf("the older holder's write landed after the claim: %s became %s", before, after)
			}
			wantErr(t, "repeated put", a.Put(t.Context(), by(alice, 5), "k", strings.NewReader("one"), nil), fencedstore.ErrStale)
		})
	}
}

// The own write landed, its reply was lost, and others have written since: a
// write ID in the metadata is gone then, the history in the bytes is not.
func TestHistoryTellsOfAWriteThatWasWrittenOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		others int
		want   error
	}{
		{"at once", 1, nil},
		{"at the end of the history", s3compat.MaxHistory, nil},
		{"behind the end of the history", s3compat.MaxHistory + 1, fencedstore.ErrUnknownOutcome},
	} {
		for _, landed := range []bool{true, false} {
			t.Run(fmt.Sprint(c.name, ", landed ", landed), func(t *testing.T) {
				t.Parallel()
				srv := newFake(t)
				p := newProxy(t, srv.url)
				a, other := open(t, srv.via(p.URL), clone(patient)), open(t, srv, nil)
				claim(t, a, by(alice, 5))
				p.next(conditional, doResetThen(landed))
				others := c.others
				if !landed {
					others++ // so that as many came after where ours would be
				}
				overwritten := make(chan struct{})
				p.after(func() {
					for range others {
						put(t, other, by(alice, 5), "other", []byte("x"))
					}
					close(overwritten)
				})
				err := a.Put(t.Context(), by(alice, 5), "k", strings.NewReader("one"), nil)
				<-overwritten
				wantErr(t, "put", err, c.want)
				if err == nil {
					wantValue(t, a, "k", []byte("one"))
				}
			})
		}
	}
}

// A writer whose view of the register is older than the history is refused once
// and then goes on; it is not in doubt.
func TestIdleWriterIsNotInDoubt(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	a, other := open(t, srv, nil), open(t, srv, nil)
	claim(t, a, by(alice, 5))
	busy := func() {
		for range s3compat.MaxHistory + 10 {
			put(t, other, by(alice, 5), "other", []byte("x"))
		}
	}
	busy()
	put(t, a, by(alice, 5), "k", []byte("one"))
	wantValue(t, other, "k", []byte("one"))
	busy()
	claim(t, other, by(bob, 6))
	wantErr(t, "put", a.Put(t.Context(), by(alice, 5), "k", strings.NewReader("two"), nil), fencedstore.ErrStale)
}

func doResetThen(landed bool) fault {
	if landed {
		return doReset
	}
	return sayReset
}

// The reply is lost and a newer holder claims before the loser looks.
func TestWriteThatLandedBeforeANewerClaimIsReportedAsDone(t *testing.T) {
	t.Parallel()
	for name, landed := range map[string]bool{"it landed": true, "it was lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newFake(t)
			p := newProxy(t, srv.url)
			a, b := open(t, srv.via(p.URL), clone(patient)), open(t, srv, nil)
			claim(t, a, by(alice, 5))
			p.next(conditional, doResetThen(landed))
			p.after(func() { claim(t, b, by(bob, 6)) })
			err := a.Put(t.Context(), by(alice, 5), "k", strings.NewReader("one"), nil)
			if landed {
				wantErr(t, "put", err, nil)
				wantValue(t, b, "k", []byte("one"))
			} else {
				wantErr(t, "put", err, fencedstore.ErrStale)
				_, err = b.Get(t.Context(), resource, "k", nil)
				wantErr(t, "get", err, fencedstore.ErrNotFound)
			}
			wantErr(t, "next put", a.Put(t.Context(), by(alice, 5), "k", strings.NewReader("two"), nil), fencedstore.ErrStale)
		})
	}
}

// Nothing is removed while the outcome is unknown: the write may land yet.
func TestNothingIsCleanedUpOnAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s, p, srv := wired(t, &s3compat.Options{SettleTimeout: 50 * time.Millisecond})
	value := pattern(100_000)
	claim(t, s, by(alice, 5))
	p.set(func(r *request) fault {
		if conditional(r) {
			return late
		}
		return pass
	})
	err := s.Put(t.Context(), by(alice, 5), "k", bytes.NewReader(value), nil)
	wantErr(t, "put", err, fencedstore.ErrUnknownOutcome)
	for _, r := range p.take() {
		if r.method == http.MethodDelete {
			t.Errorf("%s was deleted", r.path)
		}
	}
	p.set(nil)
	p.deliver()
	wantValue(t, open(t, srv, &s3compat.Options{Prefix: "p"}), "k", value)
}

// What was uploaded for a commit that certainly failed is removed at once.
func TestUploadsOfARefusedCommitAreRemoved(t *testing.T) {
	t.Parallel()
	s, p, srv := wired(t, nil)
	b := open(t, srv, &s3compat.Options{Prefix: "p"})
	claim(t, s, by(alice, 5))
	p.next(isData, stall)
	p.after(func() { claim(t, b, by(bob, 6)) }) // between upload and commit
	err := s.Put(t.Context(), by(alice, 5), "k", bytes.NewReader(pattern(100_000)), nil)
	wantErr(t, "put", err, fencedstore.ErrStale)
	if left := objects(t, srv, "p/invoices/d/"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func isData(r *request) bool { return r.method == http.MethodPut && strings.Contains(r.path, "/d/") }

// objects lists what a server holds.
func objects(t *testing.T, srv server, prefix string) []string {
	t.Helper()
	out, err := srv.client().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &srv.bucket, Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range out.Contents {
		keys = append(keys, *o.Key)
	}
	return keys
}

// Answers that will not change are returned, and say that nothing happened.
func TestRefusalsOfTheStoreAreReturnedAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		f    fault
		want error
	}{
		{"501", say501, s3compat.ErrConditionsUnsupported},
		{"403", sayDenied, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, p, _ := wired(t, nil)
			claim(t, s, by(alice, 5))
			p.take()
			p.next(conditional, c.f)
			err := s.Put(t.Context(), by(alice, 5), "k", strings.NewReader("v"), nil)
			if err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if n := len(p.take()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
			// A refusal after an open attempt says nothing about that one.
			p.next(conditional, sayReset, c.f)
			err = s.Put(t.Context(), by(alice, 5), "k", strings.NewReader("v"), nil)
			wantErr(t, "refused after an open attempt", err, fencedstore.ErrUnknownOutcome)
		})
	}
}

// A conflict that does not end is not a verdict about the fence, and known to
// have had no effect.
func TestConflictsWithoutEndAreNotAVerdict(t *testing.T) {
	t.Parallel()
	s, p, _ := wired(t, &s3compat.Options{SettleTimeout: 100 * time.Millisecond})
	claim(t, s, by(alice, 5))
	p.set(func(r *request) fault {
		if conditional(r) {
			return say409
		}
		return pass
	})
	err := s.Put(t.Context(), by(alice, 5), "k", strings.NewReader("v"), nil)
	for _, class := range []error{fencedstore.ErrStale, fencedstore.ErrUnknownOutcome, fencedstore.ErrNotClaimed} {
		if err == nil || errors.Is(err, class) {
			t.Errorf("got %v, want an error that is not %v", err, class)
		}
	}
	if n := len(p.take()); n < 2 {
		t.Errorf("%d requests, want repetitions", n)
	}
}

func TestAContextThatEndsMeanwhileLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	s, p, _ := wired(t, nil)
	claim(t, s, by(alice, 5))
	cause := errors.New("the night is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	p.set(func(r *request) fault {
		if conditional(r) {
			cancel(cause)
			return sayReset
		}
		return pass
	})
	err := s.Put(ctx, by(alice, 5), "k", strings.NewReader("v"), nil)
	wantErr(t, "put", err, fencedstore.ErrUnknownOutcome)
	wantErr(t, "put", err, context.Canceled)
	wantErr(t, "put", err, cause)
}

// Fault injection must not be what makes these tests pass: the proxy itself
// changes nothing.
func TestTheProxyPassesWhatItShould(t *testing.T) {
	t.Parallel()
	s, p, srv := wired(t, nil)
	claim(t, s, by(alice, 5))
	put(t, s, by(alice, 5), "k", pattern(1000))
	wantValue(t, open(t, srv, &s3compat.Options{Prefix: "p"}), "k", pattern(1000))
	for _, r := range p.take() {
		if r.status == 0 {
			t.Errorf("%s %s did not reach the server", r.method, r.path)
		}
	}
}

func clone(o *s3compat.Options) *s3compat.Options { c := *o; return &c }
