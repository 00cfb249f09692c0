package memstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"github.com/fenced-go/fenced/fencedstore"
)

// MaxKey is the length of the longest key, in bytes.
const MaxKey = 1024

// Store is a handle on values in memory. Handles on one state behave like
// connections of several processes to one server.
type Store struct{ st *state }

var _ fencedstore.Store = (*Store)(nil)

// state is what the handles share.
type state struct {
	mu     sync.RWMutex
	marks  map[string]mark
	values map[string]*value
}

// mark is a resource's high-water mark. It keeps no secret: a reader of the
// store cannot write as the holder.
type mark struct {
	id     int64
	holder [sha256.Size]byte
}

// value is never changed once it is stored, so that a pointer to it says
// whether a key still holds what was read.
type value struct{ bytes []byte }

// New returns a handle on a new, empty state.
func New() *Store {
	return &Store{&state{marks: map[string]mark{}, values: map[string]*value{}}}
}

// Handle returns another handle on the same state.
func (s *Store) Handle() *Store { return &Store{s.st} }

func markOf(f fencedstore.Fence) mark {
	return mark{f.ID, sha256.Sum256([]byte(f.Holder))}
}

// Claim implements [fencedstore.Claimer]. It does not wait for transactions
// of older fences; they can no longer commit once it has returned.
func (s *Store) Claim(ctx context.Context, f fencedstore.Fence) error {
	if err := ready(ctx, "claim", f); err != nil {
		return err
	}
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	return s.st.claim(f)
}

func (st *state) claim(f fencedstore.Fence) error {
	newest, claim := st.marks[f.Resource], markOf(f)
	switch {
	case claim.id < newest.id:
		return &fencedstore.StaleError{Fence: f, Newest: newest.id}
	case claim.id == newest.id && claim != newest:
		return &fencedstore.FenceReusedError{Fence: f}
	}
	st.marks[f.Resource] = claim
	return nil
}

// guard returns nil when f is its resource's newest claim. It never raises the
// mark.
func (st *state) guard(f fencedstore.Fence) error {
	newest, shown := st.marks[f.Resource], markOf(f)
	switch {
	case shown.id < newest.id:
		return &fencedstore.StaleError{Fence: f, Newest: newest.id}
	case shown.id > newest.id:
		return &fencedstore.NotClaimedError{Fence: f, Newest: newest.id}
	case shown != newest:
		return &fencedstore.FenceReusedError{Fence: f}
	}
	return nil
}

// Write implements [fencedstore.Store]. It copies val. A key that is empty or
// longer than MaxKey is an [ErrInvalidKey].
func (s *Store) Write(ctx context.Context, f fencedstore.Fence, key string, val []byte) error {
	if err := ready(ctx, "write", f); err != nil {
		return err
	}
	if err := validateKey(key); err != nil {
		return err
	}
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	if err := s.st.guard(f); err != nil {
		return err
	}
	s.st.set(key, val)
	return nil
}

func (st *state) set(key string, val []byte) {
	if val == nil {
		delete(st.values, key)
		return
	}
	st.values[key] = &value{bytes.Clone(val)}
}

// Read implements [fencedstore.Store]. The caller may change what it returns.
func (s *Store) Read(ctx context.Context, key string) ([]byte, error) {
	if err := live(ctx, "read"); err != nil {
		return nil, err
	}
	if err := validateKey(key); err != nil {
		return nil, err
	}
	s.st.mu.RLock()
	defer s.st.mu.RUnlock()
	return s.st.values[key].get()
}

func (v *value) get() ([]byte, error) {
	if v == nil {
		return nil, fencedstore.ErrNotFound
	}
	return bytes.Clone(v.bytes), nil
}

// Keys returns all keys that begin with prefix, sorted, as of one moment.
func (s *Store) Keys(prefix string) []string {
	s.st.mu.RLock()
	defer s.st.mu.RUnlock()
	var keys []string
	for key := range s.st.values {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// ready refuses what has to be refused before any effect.
func ready(ctx context.Context, op string, f fencedstore.Fence) error {
	if err := live(ctx, op); err != nil {
		return err
	}
	return f.Validate()
}
