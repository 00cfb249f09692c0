package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// Two holders that differ.
const (
	alice = "a11ce00000000000000000000000a11c"
	bob   = "b0b0000000000000000000000000b0b0"
)

const (
	resource = "invoices"
	key      = "balance"
)

// by returns a fence on the resource that most cases use.
func by(holder string, id int64) fencedstore.Fence {
	return fencedstore.Fence{Resource: resource, ID: id, Holder: holder}
}

func on(resource string, id int64, holder string) fencedstore.Fence {
	return fencedstore.Fence{Resource: resource, ID: id, Holder: holder}
}

// first returns the first error. Its arguments are the steps of a case, made
// in order.
func first(steps ...error) error {
	for _, err := range steps {
		if err != nil {
			return err
		}
	}
	return nil
}

func accepted(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: got %w, want it accepted", what, err)
	}
	return nil
}

var classes = []error{
	fencedstore.ErrStale, fencedstore.ErrFenceReused, fencedstore.ErrNotClaimed, fencedstore.ErrNoFence,
	fencedstore.ErrInvalidFence, fencedstore.ErrUnknownOutcome, fencedstore.ErrNotFound,
}

// refused wants err to answer to class and to no other.
func refused(what string, err, class error) error {
	if !errors.Is(err, class) {
		return fmt.Errorf("%s: got %w, want %q", what, orAccepted(err), class.Error())
	}
	for _, other := range classes {
		if !errors.Is(class, other) && errors.Is(err, other) {
			return fmt.Errorf("%s: %w answers to %q as well as to %q", what, err, other.Error(), class.Error())
		}
	}
	return nil
}

var errAccepted = errors.New("it accepted")

func orAccepted(err error) error {
	if err == nil {
		return errAccepted
	}
	return err
}

// holds wants s to have value under key.
func holds(ctx context.Context, s fencedstore.Store, key, value string) error {
	got, err := s.Read(ctx, key)
	if err != nil {
		return fmt.Errorf("read %q: got %w, want a value of %d bytes", key, err, len(value))
	}
	if !bytes.Equal(got, []byte(value)) {
		return fmt.Errorf("read %q: got %.40q (%d bytes), want %.40q (%d bytes)", key, got, len(got), value, len(value))
	}
	return nil
}

// absent wants s to have no value under key.
func absent(ctx context.Context, s fencedstore.Store, key string) error {
	got, err := s.Read(ctx, key)
	if err == nil {
		return fmt.Errorf("read %q: got %.40q, want no value", key, got)
	}
	return refused(fmt.Sprintf("read %q", key), err, fencedstore.ErrNotFound)
}

// second returns another handle on the state of s where there is one.
func second(e Env, s fencedstore.Store) fencedstore.Store {
	if other, ok := e.Reopen(s); ok {
		return other
	}
	return s
}

// rounds calls round until it fails: 20 times, then on for half a second, 200
// times at most.
func rounds(round func(i int) error) error {
	end := time.Now().Add(500 * time.Millisecond)
	for i := 0; i < 20 || i < 200 && time.Now().Before(end); i++ {
		if err := round(i); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

// together calls all fns at once and returns what each returned.
func together(fns ...func() error) []error {
	errs := make([]error, len(fns))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, fn := range fns {
		wg.Go(func() {
			<-start
			errs[i] = fn()
		})
	}
	close(start)
	wg.Wait()
	return errs
}
