package s3compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// raceRounds is how often the probe lets two writers meet. It finds a store that
// does not decide between them, and only by luck one that fails to once in a
// while.
const raceRounds = 3

// createRace has two writers create one key at once, several times.
func (p *prober) createRace() (detail string, err error) {
	for i := range raceRounds {
		q := &prober{s: p.s, ctx: p.ctx, key: fmt.Sprint(p.key, "-", i), requests: p.requests}
		detail, err = q.duel("")
		q.remove()
		if err != nil {
			return "", err
		}
	}
	return detail, nil
}

// matchRace has two writers replace one version at once, several times.
func (p *prober) matchRace() (detail string, err error) {
	for range raceRounds {
		if detail, err = p.duel(p.etag); err != nil {
			return "", err
		}
	}
	return detail, nil
}

// duel sends two writes under one condition, of which one has to win. What the
// loser hears does not matter: some stores answer 500.
func (p *prober) duel(etag string) (string, error) {
	var bodies [2][]byte
	var etags [2]string
	var errs [2]error
	var wg sync.WaitGroup
	for i := range bodies {
		bodies[i] = fresh()
		wg.Go(func() { etags[i], errs[i] = p.put(etag, bodies[i]) })
	}
	wg.Wait()
	switch {
	case errs[0] == nil && errs[1] == nil:
		return "", fmt.Errorf("%w: both of two writes at once were accepted", ErrConditionsIgnored)
	case errs[0] != nil && errs[1] != nil:
		return "", fmt.Errorf("neither of two writes at once was accepted: %w", p.unclear(errors.Join(errs[:]...)))
	}
	winner := 0
	if errs[0] != nil {
		winner = 1
	}
	_, err := p.wrote(bodies[winner], etags[winner])
	return fmt.Sprintf("%d rounds, the loser heard %s", raceRounds, heard(errs[1-winner])), err
}

// halfSent begins a write, has another one replace the version that it names,
// and sends the rest: a store that compares when a write begins would accept it.
func (p *prober) halfSent() (string, error) {
	ctx, cancel := context.WithTimeout(p.ctx, 2*p.s.opts.AttemptTimeout)
	defer cancel()
	slow := newSlowBody(ctx)
	answered := make(chan error, 1)
	go func() {
		_, err := p.putSlow(ctx, slow)
		answered <- err
	}()
	select {
	case <-slow.half:
	case err := <-answered:
		return "not tried, the store does not take such a write: " + heard(err), nil
	case <-ctx.Done():
		return "", withCause(p.ctx, ctx.Err())
	}
	if err := p.intact(); err != nil { // and so the first half has time to arrive
		return "", err
	}
	body, began := fresh(), time.Now()
	etag, err := p.put(p.etag, body)
	waited := time.Since(began)
	slow.release()
	slowErr := <-answered
	switch {
	case err == nil && slowErr == nil:
		return "", fmt.Errorf("%w: a write that began before another one and ended after it was accepted", ErrConditionsIgnored)
	case err == nil:
		_, err = p.wrote(body, etag)
		return "it heard " + heard(slowErr), err
	case slowErr == nil && classify(err) == ambiguous:
		return fmt.Sprintf("others wait for a write that is half-sent: no answer within %v", waited.Round(time.Millisecond)), nil
	}
	return "", p.unclear(err)
}

// putSlow sends a body as it comes. A signature over it would have to read all
// of it first.
func (p *prober) putSlow(ctx context.Context, body *slowBody) (string, error) {
	p.requests.Add(1)
	out, err := p.s.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &p.s.bucket, Key: &p.key, Body: body, ContentLength: aws.Int64(slowSize), IfMatch: aws.String(p.s.quote(p.etag)),
	}, p.s.tune, once, func(o *s3.Options) {
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
	})
	if err != nil {
		return "", err
	}
	return strong(out.ETag)
}

// slowSize is more than what is buffered on the way to the store's front end.
const slowSize = 256 << 10

// slowBody is a body whose second half comes when it is released.
type slowBody struct {
	*bytes.Reader

	half    chan struct{} // closed when the first half was read
	halfway sync.Once
	rest    chan struct{}   // closed when the second may be
	ctx     context.Context //nolint:containedctx // lives as long as the request
}

func newSlowBody(ctx context.Context) *slowBody {
	return &slowBody{
		Reader: bytes.NewReader(bytes.Repeat([]byte("slow"), slowSize/4)),
		half:   make(chan struct{}), rest: make(chan struct{}), ctx: ctx,
	}
}

func (b *slowBody) release() { close(b.rest) }

// Read implements [io.Reader].
func (b *slowBody) Read(buf []byte) (int, error) {
	left := b.Len() - slowSize/2
	if left > 0 {
		return b.Reader.Read(buf[:min(len(buf), left)])
	}
	b.halfway.Do(func() { close(b.half) })
	select {
	case <-b.rest:
		return b.Reader.Read(buf)
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

// WriteTo hides the one of [bytes.Reader], which would not wait.
func (b *slowBody) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{b})
}

// heard is an answer in a few words.
func heard(err error) string {
	if err == nil {
		return "200"
	}
	if status, code := statusOf(err); status != 0 {
		return fmt.Sprint(status, " ", code)
	}
	return "no answer"
}
