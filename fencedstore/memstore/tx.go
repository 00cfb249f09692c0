package memstore

import (
	"bytes"
	"context"

	"github.com/fenced-go/fenced/fencedstore"
)

// Tx is one guarded transaction, valid while the function given to
// [Store.InTx] runs. It belongs to one goroutine.
type Tx struct {
	st *state
	// fence is a pointer so that printing a Tx shows no holder.
	fence  *fencedstore.Fence
	reads  map[string]*value
	writes map[string][]byte
	err    error // a misuse: the transaction cannot commit
	done   bool
}

// InTx runs fn as one transaction under the guard of f. When fn returns nil,
// all its writes take effect in one step; when it returns an error or panics,
// none does.
//
// The fence is checked at the start, at every read and at the end, with the
// errors of [fencedstore.Store] Write. A claim of a newer fence does not wait
// for the transaction to end: from that moment on it can no longer commit. Nor
// can it once ctx is done. fn may run beside other transactions of the same
// holder; one that read what another has changed since is an [ErrConflict].
func (s *Store) InTx(ctx context.Context, f fencedstore.Fence, fn func(tx *Tx) error) error {
	if err := ready(ctx, "transaction", f); err != nil {
		return err
	}
	tx := &Tx{st: s.st, fence: &f, reads: map[string]*value{}, writes: map[string][]byte{}}
	defer func() { tx.done = true }()
	if err := tx.begin(); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.commit(ctx)
}

func (tx *Tx) begin() error {
	tx.st.mu.RLock()
	defer tx.st.mu.RUnlock()
	return tx.st.guard(*tx.fence)
}

// Read returns the value of key as this transaction left it, or
// [fencedstore.ErrNotFound]. Once a newer fence has been claimed it is a
// *[fencedstore.StaleError]: a transaction never sees its successor's data.
func (tx *Tx) Read(key string) ([]byte, error) {
	if err := tx.usable(key); err != nil {
		return nil, err
	}
	if val, ok := tx.writes[key]; ok {
		if val == nil {
			return nil, fencedstore.ErrNotFound
		}
		return bytes.Clone(val), nil
	}
	tx.st.mu.RLock()
	defer tx.st.mu.RUnlock()
	if err := tx.st.guard(*tx.fence); err != nil {
		return nil, err
	}
	if _, again := tx.reads[key]; !again {
		tx.reads[key] = tx.st.values[key]
	}
	return tx.st.values[key].get()
}

// Write sets key to val, or deletes it when val is nil, at the end of the
// transaction. It copies val.
func (tx *Tx) Write(key string, val []byte) error {
	if err := tx.usable(key); err != nil {
		return err
	}
	tx.writes[key] = bytes.Clone(val)
	return nil
}

// usable refuses a misuse now and, should fn ignore it, at the end.
func (tx *Tx) usable(key string) error {
	if tx.done {
		return ErrTxDone
	}
	if err := validateKey(key); err != nil {
		tx.err = err
		return err
	}
	return nil
}

func (tx *Tx) commit(ctx context.Context) error {
	if tx.err != nil {
		return tx.err
	}
	tx.st.mu.Lock()
	defer tx.st.mu.Unlock()
	if err := live(ctx, "commit"); err != nil {
		return err
	}
	if err := tx.st.guard(*tx.fence); err != nil {
		return err
	}
	for key, seen := range tx.reads {
		if tx.st.values[key] != seen {
			return &ConflictError{Key: key}
		}
	}
	for key, val := range tx.writes {
		tx.st.set(key, val)
	}
	return nil
}
