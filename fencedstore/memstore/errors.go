package memstore

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrInvalidKey says that a key is empty or longer than MaxKey. Nothing
	// happened. Facts: *InvalidKeyError.
	ErrInvalidKey = errors.New("memstore: invalid key")
	// ErrConflict says that a transaction read a key which another one of the
	// same holder changed before it ended. Nothing of it took effect and it may
	// be repeated. Facts: *ConflictError.
	ErrConflict = errors.New("memstore: transaction conflict")
	// ErrTxDone says that a transaction was used after its function returned.
	ErrTxDone = errors.New("memstore: transaction is over")
	// ErrNilContext says that a nil context was passed. Nothing happened.
	ErrNilContext = errors.New("memstore: nil context")
)

// InvalidKeyError is an [ErrInvalidKey].
type InvalidKeyError struct {
	// Length is the key's length in bytes.
	Length int
}

func (e *InvalidKeyError) Error() string {
	return fmt.Sprintf("memstore: key of %d bytes: 1 to %d are allowed", e.Length, MaxKey)
}

// Is makes errors.Is(e, ErrInvalidKey) true.
func (e *InvalidKeyError) Is(target error) bool { return target == ErrInvalidKey }

// ConflictError is an [ErrConflict].
type ConflictError struct {
	// Key was read by the transaction and changed by another one.
	Key string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("memstore: transaction conflict: %q was changed after it was read", e.Key)
}

// Is makes errors.Is(e, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// live returns nil while ctx is.
func live(ctx context.Context, op string) error {
	if ctx == nil {
		return ErrNilContext
	}
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, err):
		return fmt.Errorf("memstore: %s: %w", op, cause)
	}
	return fmt.Errorf("memstore: %s: %w: %w", op, err, cause)
}

func validateKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return &InvalidKeyError{Length: len(key)}
	}
	return nil
}
