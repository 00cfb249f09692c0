package s3compat

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// prober asks a store whether it keeps conditions, with a scratch object of its
// own. Whether it does cannot be told from its name: versions, bucket settings
// and operations differ.
type prober struct {
	s      *Store
	ctx    context.Context //nolint:containedctx // lives as long as the call to probe
	key    string
	stored []byte // what the object must hold
	etag   string // and its ETag

	requests *atomic.Int64
}

// probe fills in the report, and fails closed.
func (s *Store) probe(ctx context.Context) error {
	p := &prober{s: s, ctx: ctx, key: s.opts.Prefix + "/probe/" + rand.Text(), requests: new(atomic.Int64)}
	s.report.Key = p.key
	err := p.run()
	p.remove() //nolint:contextcheck // it has the one of p
	s.report.PlainChecksums = s.foreign.Load()
	s.report.Requests = int(p.requests.Load())
	return err
}

// remove deletes the scratch object. One that is left is harmless: no name is
// used twice.
func (p *prober) remove() {
	p.requests.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), cleanUpWithin)
	defer cancel()
	_ = p.s.deleteObject(ctx, p.key)
}

func (p *prober) run() error {
	for _, step := range []struct {
		name string
		ask  func() (detail string, err error)
	}{
		{"a write with If-Match to an absent key is refused", p.matchAbsent},
		{"a write with If-None-Match: * creates", p.create},
		{"a second one is refused", p.createAgain},
		{"a write with If-Match and another ETag is refused", p.matchWrong},
		{"a write with If-Match and the current ETag is accepted", p.matchRight},
		{"a write with If-Match and the previous ETag is refused", p.matchStale},
		{"of two writers that create a key at once, one does", p.createRace},
		{"of two writes with If-Match at once, one is accepted", p.matchRace},
		{"a write that is half-sent while another one is accepted is refused", p.halfSent},
	} {
		detail, err := step.ask()
		if err != nil {
			detail = err.Error()
		}
		p.s.report.Checks = append(p.s.report.Checks, Check{Name: step.name, OK: err == nil, Detail: detail})
		if err != nil {
			return fmt.Errorf("%w (expected: %s)", err, step.name)
		}
	}
	return nil
}

// put writes fresh bytes under a condition. The answer is final: the SDK does
// not repeat it, but a store that asks to try again is asked again.
func (p *prober) put(etag string, body []byte) (string, error) {
	var err error
	for i := range maxReads {
		if err := p.s.pause(p.ctx, i); err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(p.ctx, p.s.opts.AttemptTimeout)
		p.requests.Add(1)
		var got string
		got, err = p.s.putIf(ctx, &s3.PutObjectInput{
			Bucket: &p.s.bucket, Key: &p.key, Body: bytes.NewReader(body), Metadata: map[string]string{metaFence: "1"},
		}, etag)
		cancel()
		if classify(err) != again {
			return got, err
		}
	}
	return "", err
}

func fresh() []byte { return []byte("fenced probe " + rand.Text() + "\n") }

// wrote records an accepted write and reads it back.
func (p *prober) wrote(body []byte, etag string) (string, error) {
	p.stored, p.etag = body, etag
	return "ETag " + etag, p.intact()
}

// intact wants the object to be what was written last.
func (p *prober) intact() error {
	p.requests.Add(1)
	ctx, cancel := context.WithTimeout(p.ctx, p.s.opts.AttemptTimeout)
	defer cancel()
	out, err := p.s.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &p.s.bucket, Key: &p.key}, p.s.tune)
	if p.stored == nil && isAbsent(err) {
		return nil
	}
	if isAbsent(err) {
		return fmt.Errorf("%w: an object is not there", ErrStaleReads)
	}
	if err != nil {
		return err
	}
	defer func() { _ = out.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(out.Body, 1<<10))
	if err != nil {
		return err
	}
	p.s.report.Versioned = p.s.report.Versioned || aws.ToString(out.VersionId) != "" && aws.ToString(out.VersionId) != "null"
	etag, err := strong(out.ETag)
	switch {
	case err != nil:
		return err
	case p.stored == nil:
		return fmt.Errorf("%w: it refused, and wrote", ErrConditionsIgnored)
	case !bytes.Equal(got, p.stored):
		return fmt.Errorf("%w: other bytes came back than were written", ErrStaleReads)
	case etag != p.etag:
		return fmt.Errorf("%w: ETag %s came back, %s was written", ErrStaleReads, etag, p.etag)
	case out.Metadata[metaFence] != "1":
		return fmt.Errorf("%w: metadata did not come back", ErrStaleReads)
	}
	return nil
}

// wantRefused sends a write that must be refused and leave no trace.
func (p *prober) wantRefused(etag string) (string, error) {
	_, err := p.put(etag, fresh())
	status, code := statusOf(err)
	detail := strings.TrimSpace(fmt.Sprint(status, " ", code))
	switch {
	case err == nil:
		return "", fmt.Errorf("%w: it was accepted", ErrConditionsIgnored)
	case classify(err) == lost:
		return detail, p.intact()
	}
	return "", p.unclear(err)
}

// unclear is the error of an answer that is neither yes nor no.
func (p *prober) unclear(err error) error {
	switch status, code := statusOf(err); {
	case status == http.StatusNotImplemented, status == http.StatusBadRequest, code == "NotImplemented":
		return errors.Join(ErrConditionsUnsupported, err)
	}
	return err
}

func (p *prober) matchAbsent() (string, error) {
	return p.wantRefused(strings.Repeat("0123456789abcdef", 2))
}

func (p *prober) create() (string, error) {
	body := fresh()
	etag, err := p.put("", body)
	if classify(err) == lost {
		return "", fmt.Errorf("%w: a new key was refused: %w", ErrConditionsUnsupported, err)
	}
	if err != nil {
		return "", p.unclear(err)
	}
	return p.wrote(body, etag)
}

func (p *prober) createAgain() (string, error) { return p.wantRefused("") }

func (p *prober) matchWrong() (string, error) { return p.matchAbsent() }

// matchRight also learns how the store wants an ETag to be written.
func (p *prober) matchRight() (string, error) {
	body := fresh()
	etag, err := p.put(p.etag, body)
	if classify(err) == lost {
		p.s.report.Unquoted = true
		etag, err = p.put(p.etag, body)
	}
	if classify(err) == lost {
		return "", fmt.Errorf("%w: If-Match never matches: %w", ErrConditionsUnsupported, err)
	}
	if err != nil {
		return "", p.unclear(err)
	}
	before := p.etag
	detail, err := p.wrote(body, etag)
	if err != nil || etag == before {
		return "", errors.Join(err, changed(etag, before))
	}
	return detail, p.equalBytes()
}

func changed(etag, before string) error {
	if etag == before {
		return fmt.Errorf("%w: other bytes have the same ETag", ErrConditionsUnsupported)
	}
	return nil
}

// equalBytes finds out whether equal bytes have equal ETags.
func (p *prober) equalBytes() error {
	again, err := p.put(p.etag, p.stored)
	if err != nil {
		return p.unclear(err)
	}
	p.s.report.UniqueETag = again != p.etag
	p.etag = again
	return nil
}

func (p *prober) matchStale() (string, error) {
	previous, body := p.etag, fresh()
	etag, err := p.put(previous, body)
	if err != nil {
		return "", p.unclear(err)
	}
	if _, err := p.wrote(body, etag); err != nil {
		return "", err
	}
	return p.wantRefused(previous)
}
