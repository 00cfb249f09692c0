package ledger

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

// values are keyed, and change in transactions.
type values interface {
	inTx(ctx context.Context, fn func(tx) error) error
	Keys(prefix string) []string // sorted; not for use inside a transaction
}

type tx interface {
	Read(key string) ([]byte, error)
	Write(key string, value []byte) error
}

// guarded are values that only the newest fence may use.
type guarded struct{ *memstore.Store }

func (g guarded) inTx(ctx context.Context, fn func(tx) error) error {
	f, err := fencedstore.FromContext(ctx)
	if err != nil {
		return err
	}
	return g.InTx(ctx, f, func(t *memstore.Tx) error { return fn(t) })
}

// plain are values that anybody may change, one transaction after the other.
type plain struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (p *plain) inTx(_ context.Context, fn func(tx) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := plainTx{p.m, map[string][]byte{}}
	if err := fn(t); err != nil {
		return err
	}
	maps.Copy(p.m, t.writes)
	return nil
}

// Keys implements values.
func (p *plain) Keys(prefix string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []string
	for key := range p.m {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

type plainTx struct{ before, writes map[string][]byte }

func (t plainTx) Read(key string) ([]byte, error) {
	value, ok := t.writes[key]
	if !ok {
		value, ok = t.before[key]
	}
	if !ok {
		return nil, fencedstore.ErrNotFound
	}
	return value, nil
}

func (t plainTx) Write(key string, value []byte) error {
	t.writes[key] = bytes.Clone(value)
	return nil
}
