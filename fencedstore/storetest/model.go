package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/fenced-go/fenced/fencedstore"
)

func modelCases() []Case {
	return []Case{
		{
			"any-sequence",
			"Any sequence of calls is answered as the contract says.",
			anySequence,
		},
	}
}

// model is the contract in a few lines, for one caller at a time.
type model struct {
	newest map[string]fencedstore.Fence // by resource
	values map[string]string
}

// claim returns the answer that the contract gives.
func (m *model) claim(f fencedstore.Fence) error {
	newest := m.newest[f.Resource]
	switch {
	case f.ID < newest.ID:
		return &fencedstore.StaleError{Fence: f, Newest: newest.ID}
	case f.ID == newest.ID && f != newest:
		return &fencedstore.FenceReusedError{Fence: f}
	}
	m.newest[f.Resource] = f
	return nil
}

func (m *model) write(f fencedstore.Fence, key string, value []byte) error {
	newest := m.newest[f.Resource]
	switch {
	case f.ID > newest.ID:
		return &fencedstore.NotClaimedError{Fence: f, Newest: newest.ID}
	case f != newest:
		return m.claim(f) // refused for the same reason
	case value == nil:
		delete(m.values, key)
	default:
		m.values[key] = string(value)
	}
	return nil
}

// agrees compares an answer with the model's.
func agrees(what string, got, want error) error {
	switch want := want.(type) { //nolint:errorlint // the model's own error, never wrapped
	case *fencedstore.StaleError:
		return isStale(what, got, want.Fence, want.Newest)
	case *fencedstore.FenceReusedError:
		return isReused(what, got, want.Fence)
	case *fencedstore.NotClaimedError:
		return isNotClaimed(what, got, want.Fence, want.Newest)
	}
	return accepted(what, got)
}

func anySequence(ctx context.Context, e Env) error {
	const seeds, steps = 12, 60
	for seed := range uint64(seeds) {
		s := e.New()
		handles := []fencedstore.Store{s, second(e, s)}
		m := &model{map[string]fencedstore.Fence{}, map[string]string{}}
		rnd := rand.New(rand.NewPCG(seed, 0))
		for step := range steps {
			if err := m.step(ctx, handles[rnd.IntN(2)], rnd); err != nil {
				return fmt.Errorf("seed %d, step %d: %w", seed, step, err)
			}
		}
	}
	return nil
}

// step makes one random call and compares.
func (m *model) step(ctx context.Context, s fencedstore.Store, rnd *rand.Rand) error {
	pick := func(names ...string) string { return names[rnd.IntN(len(names))] }
	f := on(pick("east", "west"), 1+rnd.Int64N(5), pick(alice, bob))
	k := pick("k", "l")
	var err error
	switch rnd.IntN(5) {
	case 0:
		err = agrees(fmt.Sprintf("claim %v", f), s.Claim(ctx, f), m.claim(f))
	case 1:
		err = agrees(fmt.Sprintf("delete %q, %v", k, f), s.Write(ctx, f, k, nil), m.write(f, k, nil))
	default:
		if rnd.IntN(2) == 0 { // what the newest holder would do
			f = m.newest[f.Resource]
		}
		if f.ID == 0 {
			return nil
		}
		value := fmt.Append(nil, rnd.Uint32())
		err = agrees(fmt.Sprintf("write %q, %v", k, f), s.Write(ctx, f, k, value), m.write(f, k, value))
	}
	if err != nil {
		return err
	}
	if want, ok := m.values[k]; ok {
		return holds(ctx, s, k, want)
	}
	return absent(ctx, s, k)
}
