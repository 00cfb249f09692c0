package s3compat

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenced-go/fenced/fencedstore"
)

// The classes of error that this package adds to those of package fencedstore.
var (
	// ErrConditionsIgnored says that the store accepts conditional writes and
	// ignores their conditions. Nothing can be fenced on it.
	ErrConditionsIgnored = errors.New("s3compat: the store ignores the conditions of writes")
	// ErrConditionsUnsupported says that the store refuses conditional writes,
	// or that their conditions never match.
	ErrConditionsUnsupported = errors.New("s3compat: the store does not support conditional writes")
	// ErrStaleReads says that a read did not show what was written before.
	ErrStaleReads = errors.New("s3compat: the store does not show what was written")
	// ErrRegisterGone says that a register is gone, or older than it was: the
	// store lost data, or somebody deleted it. This Store does not make it
	// anew, since that would let every older holder in.
	ErrRegisterGone = errors.New("s3compat: the register is gone or went back")
	// ErrCorrupt says that what was read is not what was written.
	ErrCorrupt = errors.New("s3compat: corrupt")
	// ErrVersion says that a register was written by a later release in a
	// format that this one cannot read. Facts: *VersionError.
	ErrVersion = errors.New("s3compat: the register's format is newer")
	// ErrTooLarge says that a value has too many parts, or that the entries of
	// a resource would take more than MaxManifest.
	ErrTooLarge = errors.New("s3compat: too large")
	// ErrContended says that a claim or a commit lost to other writers too
	// often. It had no effect.
	ErrContended = errors.New("s3compat: other writers came first too often")
	// ErrInvalidKey says that a key is malformed. Facts: *KeyError.
	ErrInvalidKey = errors.New("s3compat: invalid key")
	// ErrRange says that a range begins behind the end of the value.
	ErrRange = errors.New("s3compat: the range lies outside the value")
)

// Error says where something failed. Every error of a [Store] that is not
// about an argument is one; [errors.Is] and [errors.As] find what is behind it.
type Error struct {
	// Op is what was asked for: "claim", "put", "get", …
	Op string
	// Bucket and Key name the object, which is the register or the data.
	Bucket, Key string
	// Fence is what it was asked with; zero for what needs none.
	Fence fencedstore.Fence
	// Err is what went wrong.
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("s3compat: %s, bucket %q, key %q: %v", e.Op, e.Bucket, e.Key, e.Err)
}

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }

// KeyError is an [ErrInvalidKey].
type KeyError struct {
	// Reason completes the sentence that "the key" begins.
	Reason string
}

func (e *KeyError) Error() string { return "s3compat: the key " + e.Reason }

// Is makes errors.Is(e, ErrInvalidKey) true.
func (e *KeyError) Is(target error) bool { return target == ErrInvalidKey }

// VersionError is an [ErrVersion].
type VersionError struct {
	// Version is the one that was found.
	Version int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("s3compat: the register has format version %d, the greatest known is %d", e.Version, formatVersion)
}

// Is makes errors.Is(e, ErrVersion) true.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

func corrupt(why string) error { return fmt.Errorf("%w: %s", ErrCorrupt, why) }

// fail says where err happened; a resource's name is in the key.
func (s *Store) fail(op, key string, f fencedstore.Fence, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Bucket: s.bucket, Key: key, Fence: f, Err: err}
}

// withCause adds why ctx ended, when it did and err does not say so.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, cause)
}
