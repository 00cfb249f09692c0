package s3compat

import (
	"errors"
	"net"
	"net/http"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// answer is what the reply to a conditional write allows to conclude.
type answer int

const (
	done      answer = iota // it took effect
	lost                    // it did not: the condition did not hold
	again                   // it did not, and may be sent again as it is
	refused                 // it did not, and will not
	ambiguous               // it may have, or may still
)

// classify reads the reply to one attempt at a conditional write.
func classify(err error) answer {
	if err == nil {
		return done
	}
	status, code := statusOf(err)
	switch {
	case status == http.StatusPreconditionFailed:
		return lost
	case status == http.StatusNotFound:
		if code == "NoSuchBucket" {
			return refused
		}
		return lost
	case status == http.StatusConflict:
		if conflicts[code] {
			return again
		}
		return refused
	case status == http.StatusTooManyRequests:
		return again
	case status == http.StatusRequestTimeout, code == "RequestTimeout":
		return ambiguous
	case status == http.StatusNotImplemented:
		return refused
	case 400 <= status && status < 500:
		return refused
	case status != 0:
		return ambiguous
	case unsent(err):
		if retryable(err) {
			return again
		}
		return refused
	}
	return ambiguous
}

// conflicts are the codes of a 409 that says "another conditional operation
// was at work", after which nothing has happened and the same may be tried
// again. Other 409s are about the bucket.
var conflicts = map[string]bool{
	"ConditionalRequestConflict": true,
	"OperationAborted":           true,
	"ConcurrentModification":     true,
}

func statusOf(err error) (status int, code string) {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
	}
	if resp, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && resp.Response != nil {
		status = resp.HTTPStatusCode()
	}
	return status, code
}

// retryable says that what was not sent failed for want of a connection.
func retryable(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// unsent says that err comes from before the request was sent.
func unsent(err error) bool {
	if retryable(err) {
		return true
	}
	if _, ok := errors.AsType[*v4.SigningError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*smithy.SerializationError](err); ok {
		return true
	}
	_, ok := errors.AsType[*smithy.InvalidParamsError](err)
	return ok
}

// isAbsent says that an object does not exist, as opposed to its bucket.
func isAbsent(err error) bool {
	status, code := statusOf(err)
	return status == http.StatusNotFound && code != "NoSuchBucket"
}

// unsupported turns a refusal of the condition itself into ours.
func unsupported(err error) error {
	if status, code := statusOf(err); status == http.StatusNotImplemented || code == "NotImplemented" {
		return errors.Join(ErrConditionsUnsupported, err)
	}
	return err
}
