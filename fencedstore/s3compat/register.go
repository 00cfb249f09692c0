package s3compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// state is a register as it was read or written.
type state struct {
	env  *envelope // nil: there is none
	etag string    // without quotes
}

// seq is the version, 0 when there is no register.
func (st state) seq() int64 {
	if st.env == nil {
		return 0
	}
	return st.env.Seq
}

// maxReads bounds the reads of a register that fail or contradict each other.
// With their pauses they take about a second.
const maxReads = 8

// read gets the register of a resource. It reads again after a failure that may
// pass, and when what it got is torn or older than what this Store has seen of
// it. The pauses of the SDK's own retries are far longer.
func (s *Store) read(ctx context.Context, resource string) (state, error) {
	sess := s.session(resource)
	floor := sess.seen.Load()
	var err error
	for i := range maxReads {
		if err := s.pause(ctx, i); err != nil {
			return state{}, err
		}
		var st state
		if st, err = s.readOnce(ctx, resource); err == nil && st.seq() < floor {
			err = fmt.Errorf("%w: version %d was seen, now it has %d", ErrRegisterGone, floor, st.seq())
		}
		switch {
		case err == nil:
			sess.saw(st.seq())
			return st, nil
		case !passing(err):
			return state{}, err
		}
	}
	return state{}, err
}

// passing says that a read that failed with err may succeed a moment later.
func passing(err error) bool {
	switch {
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrRegisterGone):
		return true
	case errors.Is(err, ErrVersion), errors.Is(err, ErrConditionsUnsupported):
		return false
	}
	c := classify(err)
	return c == again || c == ambiguous
}

func (s *Store) readOnce(ctx context.Context, resource string) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.AttemptTimeout)
	defer cancel()
	out, err := s.api.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.bucket, Key: aws.String(s.registerKey(resource)),
	}, s.tune, once)
	if isAbsent(err) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	defer func() { _ = out.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(out.Body, MaxRegister+1))
	if err != nil {
		return state{}, err
	}
	env, err := decode(b)
	if err != nil {
		return state{}, err
	}
	etag, err := strong(out.ETag)
	if err != nil {
		return state{}, err
	}
	switch written := out.Metadata[metaWrite]; {
	case env.Resource != escape(resource):
		return state{}, corrupt("it belongs to another resource")
	case written != "" && written != env.Write:
		return state{}, corrupt("its headers are those of another version")
	}
	return state{env: env, etag: etag}, nil
}

// metaFence and metaWrite are metadata that mirror what the bytes say, for
// people and to detect torn reads. The bytes decide.
const (
	metaFence = "fence-id"
	metaWrite = "write-id"
)

// put sends one conditional write of a register: over base, or where nothing
// is. It is sent once: a repetition by the SDK would be refused by the effect
// of the first and hide it.
func (s *Store) put(ctx context.Context, key string, base state, env *envelope, body []byte) (etag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.AttemptTimeout)
	defer cancel()
	in := &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(body),
		ContentType: aws.String("application/octet-stream"),
		Metadata:    map[string]string{metaFence: strconv.FormatInt(env.Fence, 10), metaWrite: env.Write},
	}
	return s.putIf(ctx, in, base.etag)
}

// putIf writes an object over the version with etag, or where nothing is when
// etag is empty.
func (s *Store) putIf(ctx context.Context, in *s3.PutObjectInput, etag string) (string, error) {
	if etag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(s.quote(etag))
	}
	out, err := s.api.PutObject(ctx, in, s.tune, once)
	if err != nil {
		return "", err
	}
	return strong(out.ETag)
}

// once turns the SDK's retries off for a call.
func once(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

// tune turns off, for a call to an endpoint that is not AWS's own, the
// checksums that many of them do not understand.
func (s *Store) tune(o *s3.Options) {
	if !foreign(o.BaseEndpoint) {
		return
	}
	s.foreign.Store(true)
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
}

func foreign(endpoint *string) bool {
	if endpoint == nil {
		return false
	}
	u, err := url.Parse(*endpoint)
	if err != nil {
		return true
	}
	host := u.Hostname()
	return !strings.HasSuffix(host, ".amazonaws.com") && !strings.HasSuffix(host, ".amazonaws.com.cn")
}

// strong returns an ETag without its quotes, and refuses one that cannot be
// compared: weak or absent.
func strong(etag *string) (string, error) {
	bare := strings.Trim(aws.ToString(etag), `"`)
	if bare == "" || strings.HasPrefix(bare, "W/") {
		return "", fmt.Errorf("%w: an object has no strong ETag", ErrConditionsUnsupported)
	}
	return bare, nil
}

// quote writes an ETag the way the store wants it back.
func (s *Store) quote(etag string) string {
	if s.report.Unquoted {
		return etag
	}
	return `"` + etag + `"`
}

// isGone says that a data object is not there.
func isGone(err error) bool {
	status, _ := statusOf(err)
	return status == http.StatusNotFound
}
