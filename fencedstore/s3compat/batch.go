package s3compat

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// errBatchDone is what a Batch says outside its Update.
var errBatchDone = errors.New("s3compat: the batch has ended")

// Batch collects the changes of one [Store.Update]. It belongs to one
// goroutine and to the function that it was given to.
type Batch struct {
	s       *Store
	f       fencedstore.Fence
	env     *envelope // as it was when the batch began
	room    int64     // for inline values
	changes []change
	staged  []string // names of data that was uploaded
	err     error    // a misuse: the batch cannot be committed
	done    bool
}

// Update changes several keys of a resource in one step: when fn returns nil,
// all changes it made to b become visible at once; when it returns an error or
// panics, none does. fn runs once. The fence is checked before fn runs and, what
// counts, in the step itself.
//
// Errors are those of [fencedstore.Store] Write, with an *[Error] around them.
// When another writer of the same tenure changes the resource meanwhile, the
// changes are applied on top of it.
func (s *Store) Update(ctx context.Context, f fencedstore.Fence, fn func(b *Batch) error) error {
	return s.update(ctx, "update", f, fn)
}

func (s *Store) update(ctx context.Context, op string, f fencedstore.Fence, fn func(b *Batch) error) error {
	if err := begun(ctx, f); err != nil {
		return s.failed(op, f, err)
	}
	st, err := s.peek(ctx, f)
	if err != nil {
		return s.failed(op, f, withCause(ctx, err))
	}
	b := &Batch{s: s, f: f, env: st.env, room: inlineTotal - st.env.inlineSize()}
	settled := true // nothing was sent that would refer to what is staged
	defer func() {
		b.done = true
		if settled {
			s.discard(ctx, f.Resource, b.staged)
		}
	}()
	if err := errors.Join(fn(b), b.err); err != nil {
		return s.failed(op, f, err)
	}
	err = s.commit(ctx, op, f, b.changes)
	settled = err != nil && !errors.Is(err, fencedstore.ErrUnknownOutcome)
	return s.failed(op, f, err)
}

// usable refuses a misuse now and, should fn ignore it, at the end.
func (b *Batch) usable(keys ...string) error {
	if b.done {
		return errBatchDone
	}
	for _, key := range keys {
		if err := validateKey(key); err != nil {
			b.err = err
			return err
		}
	}
	return nil
}

// Put sets key to what body holds, read to its end now. Large values are
// uploaded now and become visible with the batch. Errors of body are returned
// as they are.
func (b *Batch) Put(ctx context.Context, key string, body io.Reader, opts *PutOptions) error {
	if err := b.usable(key); err != nil {
		return err
	}
	en, err := b.stage(ctx, body, opts)
	if err != nil {
		b.err = err
		return err
	}
	b.changes = append(b.changes, func(next *envelope) error {
		entry := *en
		entry.At = next.At
		next.set(key, &entry)
		return nil
	})
	return nil
}

// Delete removes key, also when it is absent.
func (b *Batch) Delete(key string) error {
	if err := b.usable(key); err != nil {
		return err
	}
	b.changes = append(b.changes, func(next *envelope) error {
		next.set(key, nil)
		return nil
	})
	return nil
}

// Clear removes every key, those that the batch has put before included.
func (b *Batch) Clear() error {
	if err := b.usable(); err != nil {
		return err
	}
	b.changes = append(b.changes, func(next *envelope) error {
		for key := range next.Entries {
			next.set(key, nil)
		}
		return nil
	})
	return nil
}

// Copy sets the key to to what the key from holds when the batch is committed,
// of the same resource. No data is moved. When from is absent then, the whole
// batch fails with [fencedstore.ErrNotFound].
func (b *Batch) Copy(from, to string) error {
	if err := b.usable(from, to); err != nil {
		return err
	}
	b.changes = append(b.changes, func(next *envelope) error {
		source := next.Entries[from]
		if source == nil {
			return fencedstore.ErrNotFound
		}
		en := *source
		en.Fence, en.At = b.f.ID, next.At
		next.set(to, &en)
		return nil
	})
	return nil
}

// cleanUpWithin bounds the removal of what has failed.
const cleanUpWithin = 10 * time.Second

// discard deletes data that certainly became invisible garbage. What it cannot
// delete is left to GC.
func (s *Store) discard(ctx context.Context, resource string, names []string) {
	if len(names) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWithin)
	defer cancel()
	for _, name := range names {
		_ = s.deleteObject(ctx, s.folder(resource)+name)
	}
}
